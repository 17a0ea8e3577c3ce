"""Compares the predictions of a classifier, named by the operator, before and after. OpenCV runs the model."""

import time

import cv2
import numpy as np

from gdal_mcp.toolboxes.augment.inside import rasters

SIDE = 224  # pixels; the input of the models known as MobileNet
# mean and standard deviation of ImageNet's bands, in RGB
MEAN, SPREAD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
TOP = 5
RISKS = ((0.8, "low"), (0.5, "medium"), (0.0, "high"))  # lowest consistency for each risk


def compared(path, classes, before, after):
    """Class numbers and confidences before and after. Does not raise; `failed` says why a model could not run."""
    started = time.perf_counter()
    try:
        model = cv2.dnn.readNetFromONNX(path)
        shares = [predicted(model, raster) for raster in (before, after)]
    except (cv2.error, ValueError) as error:
        return {"failed": str(error)[:300]}
    labels = {}
    if classes is not None:
        with open(classes, encoding="utf-8", errors="replace") as file:
            labels = dict(enumerate(file.read().splitlines()))
    old, new = (
        [
            {"index": n, "class": labels.get(n, str(n)), "confidence": float(distribution[n])}
            for n in np.argsort(-distribution, kind="stable")[:TOP].tolist()
        ]
        for distribution in shares
    )
    overlap = float(np.minimum(*shares).sum())  # the overlap of the two distributions
    return {
        "label_changed": old[0]["index"] != new[0]["index"],
        "confidence_delta": new[0]["confidence"] - old[0]["confidence"],
        "original_prediction": old,
        "augmented_prediction": new,
        "consistency_score": min(1.0, max(0.0, overlap)),
        "risk_level": next(word for least, word in RISKS if overlap >= least),
        "processing_time": time.perf_counter() - started,
    }


def predicted(model, raster):
    pixels = cv2.resize(rasters.shown(raster), (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
    pixels = np.repeat(pixels[:, :, None], 3, 2) if pixels.ndim == 2 else pixels
    model.setInput(((pixels.astype(np.float32) / 255 - MEAN) / SPREAD).transpose(2, 0, 1)[None].copy())
    values = model.forward().astype(np.float64).ravel()
    if not values.size or not np.isfinite(values).all():
        raise ValueError("the model answers with numbers that are no shares of classes")
    if values.min() < 0 or abs(values.sum() - 1) > 1e-3:  # the values are not normalized yet
        values = np.exp(values - values.max())
    return values / values.sum()
