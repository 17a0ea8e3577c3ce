"""Measures the effect of a step on an image without a model, and whether it is the intended effect."""

import cv2
import numpy as np

from gdal_mcp.toolboxes.augment.inside import rasters

SIDE = 512  # pixels: larger images are measured on a smaller copy
TURNS = {
    "the same": lambda image: image,
    "a quarter turn": lambda image: np.rot90(image, 1),
    "a half turn": lambda image: np.rot90(image, 2),
    "three quarter turns": lambda image: np.rot90(image, 3),
    "a horizontal flip": np.fliplr,
    "a vertical flip": np.flipud,
    "a transposition": lambda image: image.swapaxes(0, 1),
    "a transposition over the other diagonal": lambda image: np.rot90(image, 2).swapaxes(0, 1),
}
FEATURES, ENOUGH = 800, 12  # points to search for, and the number that has to fit a rotation of the image
LEAST = 0.002  # the least visible change, as a share of the range of values
# the purpose of a step by category: the number that it changes, and the minimal change
AIMS = {
    "blur": ("sharpness", -0.02),
    "sharpness": ("sharpness", 0.02),
    "noise": ("noise", LEAST),
    "brightness": ("changed", LEAST),
    "contrast": ("changed", LEAST),
}


def measured(category, before, after):
    """Measures the change from one raster to the next; `agrees` is None if that cannot be measured."""
    small_before, small_after = (small(rasters.shown(raster)) for raster in (before, after))
    old, new = grey(small_before), grey(small_after)
    measures = {
        "brightness": float(new.mean() - old.mean()),
        "contrast": float(new.std() / max(old.std(), 1e-6) - 1),
        "sharpness": float(np.log(max(edges(new), 1e-9) / max(edges(old), 1e-9))),
        "noise": noise(new) - noise(old),
        "histogram": histogram(old, new),
    }
    if before.size == after.size:
        # compares the values themselves, because each picture is stretched separately
        pair = [raster.pixels.astype(np.float32) for raster in (before, after)]
        span = max(before.range[1] - before.range[0], 1e-9)
        if pair[0].shape == pair[1].shape:
            with np.errstate(over="ignore", invalid="ignore"):
                changed = float(np.abs(pair[0] - pair[1]).mean(dtype=np.float64) / span)
            if np.isfinite(changed):  # it is not if a value is NaN, or about as large as its type allows
                measures["changed"] = changed
        measures["ssim"] = ssim(old, new)
    measures["found"], measures["angle"] = "", None
    if category == "geometric":
        measures["found"] = turned(old, new)
        measures["angle"] = angle(small_before, small_after) if not measures["found"] else None
        measures["agrees"] = bool(measures["found"] or measures["angle"] is not None) or None
        if before.size == after.size and not measures.get("changed", 1.0):
            measures["agrees"] = False
    else:
        aim, least = AIMS.get(category, ("changed", 0.0))
        value = measures.get(aim)
        measures["agrees"] = None if value is None else value <= least if least < 0 else value > least
    return {name: round(value, 5) if isinstance(value, float) else value for name, value in measures.items()}


def small(pixels):
    share = SIDE / max(pixels.shape[:2])
    if share >= 1:
        return pixels
    height, width = (max(1, round(side * share)) for side in pixels.shape[:2])
    return cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)


def grey(pixels):
    """The image in grey, as values from 0 to 1 in rows and columns."""
    flat = pixels.astype(np.float32) / 255
    return np.ascontiguousarray(flat.mean(2) if flat.ndim == 3 else flat)


def edges(image):
    return float(cv2.Laplacian(image, cv2.CV_32F).var())


def noise(image):
    """The standard deviation of noise, by the second differences that neither a plane nor an edge has (Immerkaer 1996)."""
    kernel = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32)
    inner = np.abs(cv2.filter2D(image, cv2.CV_32F, kernel)[1:-1, 1:-1])
    return float(inner.mean() * np.sqrt(np.pi / 2) / 6) if inner.size else 0.0


def histogram(old, new):
    """The average distance by which values were moved: the earth mover's distance of two histograms, 0 to 1."""
    shares = [np.histogram(image, 64, (0, 1))[0] / image.size for image in (old, new)]
    return float(np.abs(np.cumsum(shares[0] - shares[1])).sum() / 64)


def ssim(old, new):
    """Structural similarity (Wang 2004), with its Gaussian window of 11 pixels."""
    blur = lambda image: cv2.GaussianBlur(image, (11, 11), 1.5)  # noqa: E731 - the formula reads better so
    first, second = 0.01**2, 0.03**2
    means = blur(old), blur(new)
    variances = blur(old * old) - means[0] ** 2, blur(new * new) - means[1] ** 2
    both = blur(old * new) - means[0] * means[1]
    above = (2 * means[0] * means[1] + first) * (2 * both + second)
    return float((above / ((means[0] ** 2 + means[1] ** 2 + first) * (sum(variances) + second))).mean())


def turned(old, new):
    """The flip or quarter turn that turns the old image into the new one; empty if none does."""
    for name, turn in TURNS.items():
        expected = turn(old)
        # a tolerance, because both may be smaller copies
        if expected.shape == new.shape and float(np.abs(expected - new).mean()) < 1e-3:
            return name
    return ""


def angle(first, other):
    """The rotation of an image in degrees, with the library's sign; None without enough matching points."""
    if 1 in (*first.shape[:2], *other.shape[:2]):  # OpenCV would halve a single row or column to nothing
        return None
    finder = cv2.ORB_create(FEATURES)
    (places, words), (to, moved) = (finder.detectAndCompute((grey(image) * 255).astype(np.uint8), None) for image in (first, other))  # fmt: skip
    if words is None or moved is None or min(len(places), len(to)) < ENOUGH:
        return None
    pairs = cv2.BFMatcher(cv2.NORM_HAMMING, crossCheck=True).match(words, moved)
    if len(pairs) < ENOUGH:
        return None
    sources = np.float32([places[pair.queryIdx].pt for pair in pairs])
    targets = np.float32([to[pair.trainIdx].pt for pair in pairs])
    cv2.setRNGSeed(0)
    matrix, fits = cv2.estimateAffinePartial2D(sources, targets, ransacReprojThreshold=2.0)
    if matrix is None or int(fits.sum()) < ENOUGH:
        return None
    return float(-np.degrees(np.arctan2(matrix[1, 0], matrix[0, 0])))
