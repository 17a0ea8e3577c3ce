"""`augment_image` and `augment_dataset`: one image, its steps, their effects, and a folder with all results."""

import base64
import hashlib
import json
import os
import time
from datetime import UTC, datetime
from importlib.metadata import version

import cv2
from osgeo import gdal

from gdal_mcp.toolboxes.augment.inside import classifying, measuring, moving, rasters, sentences, vectors

LARGEST = 10 << 20  # bytes of an image for `augment_image`
FORMATS = {"PNG": "png", "JPEG": "jpg", "WEBP": "webp"}
VERSIONS = ("albumentations", "numpy", "opencv-python-headless")
OVERLAP = 0.4, 0.78  # the progress when the steps begin, and when they have ended


def run(job, report):
    started, folder = time.perf_counter(), job["outputs"][0]["path"]
    report.progress(0.1, "parsing: Parsing natural language prompt")
    os.mkdir(folder)
    raster, data, kind = source(job)
    digest = hashlib.sha256(data).hexdigest() if data else None
    config = configuration(job, raster, digest)
    scene = moving.Scene(raster)
    labels = vectors.Layer(job["labels"], raster.crs).within(raster) if job["labels"] else None
    if labels is not None:
        scene.points = labels.points
    if job["mask"]:
        mask = rasters.RasterReader(job["mask"]).read()
        if mask.size != raster.size:
            raise rasters.Unreadable("the mask has not as many pixels as the image")
        scene.masks = [rasters.marked(mask)]
    before = rasters.Raster(**vars(raster))
    report.progress(0.2, f"parsing: {len(job['steps'])} transforms found")
    rows, applied, skipped = steps(job, scene, config["seed"], report)
    report.progress(0.8, "verification: Running vision analysis", at_once=True)
    name, picture, small = results(job, scene, kind, folder)
    if data:
        save(folder, f"original.{kind}", data)
    if job["mask"]:
        result_mask = rasters.Raster(
            **{**vars(mask), "pixels": moving.layered(scene.masks[0]), "invalid": None}
        )
        result_mask.place, result_mask.crs = scene.raster.place, scene.raster.crs
        rasters.write(result_mask, f"{folder}/mask.tif")
    if labels is not None:
        labels.write(f"{folder}/labels.{job['labels_format']}", scene)
    text = json.dumps(config, indent=1, sort_keys=True)
    answer = {
        "applied": applied, "skipped": skipped, "size": before.size, "became": scene.raster.size, "seed": config["seed"],
        "config": hashlib.sha256(text.encode()).hexdigest(), "georeference": georeference(before, scene.raster),
        "measured": rows, "reduced": small, "result": name, "labels": labels.written if labels else None,
        "classified": classifying.compared(job["classifier"], job["classes"], before, scene.raster) if job["classifier"] else None,
    }  # fmt: skip
    answer["verified_in"] = sum(row["seconds"] for row in rows)
    answer["seconds"] = time.perf_counter() - started
    write_reports(folder, job, answer, text)
    report.attach("result", picture)
    if job["options"]["enable_vision_verification"] and not job["whole"]:
        attach_pictures(report, before, scene.raster)
    report.progress(1.0, "complete")
    return answer


def configuration(job, raster, digest):
    """Everything that decides the result, so that the same result can be made again."""
    # the seed of the call, or one from the image and the prompt, so that the same call gives the same bytes
    fixed = hashlib.sha256(f"{digest}\n{job['prompt']}".encode()).hexdigest()
    return {
        **{key: job[key] for key in ("tool", "prompt", "steps", "options")},
        "seed": int(fixed[:8], 16) if job["seed"] is None else job["seed"],
        "input": {"sha256": digest, "range": raster.range},
        "versions": versions(),
    }


def attach_pictures(report, before, after):
    """Attaches small pictures of the image before and after, for the client's own model."""
    for name, raster in (("before", before), ("after", after)):
        small = moving.layered(measuring.small(rasters.shown(raster)))
        report.attach(name, rasters.encoded(small, None, "JPEG"))


def source(job):
    """The image, its kind, and its bytes if it is a single file that is stored beside the result."""
    if job["image"] is not None:
        data = base64.b64decode(job["image"])
    elif job["whole"]:
        return rasters.RasterReader(job["path"]).read(), None, "tif"
    else:
        data = contents(job["path"])
    kind = next((kind for mark, kind in rasters.SIGNATURES.items() if data.startswith(mark)), None)
    if kind == "tif":
        gdal.FileFromMemBuffer("/vsimem/original.tif", data)
        return rasters.RasterReader("/vsimem/original.tif", drivers=rasters.DRIVERS).read(), data, kind
    if kind is None:
        raise rasters.Unreadable("it is neither PNG, JPEG, WEBP nor TIFF")
    return rasters.decoded(data), data, kind


def contents(path):
    status = gdal.VSIStatL(path)
    if status is None or status.size > LARGEST:
        raise rasters.Unreadable("it has more than 10 MiB; augment_dataset and make_chips take large rasters")
    file = gdal.VSIFOpenL(path, "rb")
    try:
        return bytes(gdal.VSIFReadL(1, status.size, file))
    finally:
        gdal.VSIFCloseL(file)


def versions():
    return {"gdal": gdal.VersionInfo("RELEASE_NAME"), **{name: version(name) for name in VERSIONS}}


def steps(job, scene, seed, report):
    rows, total, (start, end) = [], len(job["steps"]), OVERLAP

    def tell(number):  # the first message of each stage is always sent, however short the stage is
        share = start + (end - start) * number / total
        message = f"processing: Applying transform {min(number + 1, total)} of {total}"
        report.progress(share, message, at_once=not number)

    def watch(row, before, after):
        number = row["step"]
        tell(number + 1)
        if job["options"]["enable_vision_verification"]:
            started = time.perf_counter()
            measures = measuring.measured(job["steps"][number]["category"], before, after)
            rows.append({"step": number, **measures, "seconds": time.perf_counter() - started})

    transforms = [moving.transform(step) for step in job["steps"]]
    tell(0)
    applied, skipped = moving.run(job["steps"], transforms, scene, seed, watch)
    return rows, applied, skipped


def results(job, scene, kind, folder):
    """Writes the result. Returns its name, the picture for the answer, and whether the picture is smaller than the result."""
    raster, options = scene.raster, job["options"]
    form, quality = options["output_format"], options["quality"]
    plain = raster.pixels.shape[2] in (1, 3) and raster.pixels.dtype.str[1:] in (("u1", "u2") if form == "PNG" else ("u1",))  # fmt: skip
    pixels = raster.pixels if plain else rasters.shown(raster)
    alpha = raster.alpha if plain or raster.alpha is None or raster.alpha.dtype == "u1" else None
    picture = rasters.encoded(pixels, alpha, form, quality)
    if kind == "tif":
        name = "result.tif"
        rasters.write(raster, f"{folder}/{name}")
    else:
        name = f"result.{FORMATS[form]}"
        save(folder, name, picture)
    small = False
    while len(picture) > job["most_bytes"]:
        small = True
        half = [max(1, side // 2) for side in (pixels.shape[1], pixels.shape[0])]
        pixels = moving.layered(cv2.resize(pixels, half, interpolation=cv2.INTER_AREA))
        alpha = None if alpha is None else cv2.resize(alpha, half, interpolation=cv2.INTER_AREA)
        picture = rasters.encoded(pixels, alpha, form, quality)
    return name, picture, small


def georeference(before, after):
    if before.place is None:
        return "none"
    return "lost" if after.place is None else "kept" if after.place == before.place else "exact"


def write_reports(folder, job, answer, config):
    names = [step["name"] for step in job["steps"]]
    lines = [f"- {sentences.describe_step(names[row['step']], row)}" for row in answer["measured"]]
    report = "\n".join(["# What changed", "", sentences.summarize_steps(answer["measured"]), "", *lines, ""])
    save(folder, "visual_verification.md", report.encode())
    save(folder, "config.json", config.encode())
    timed = {"session_id": os.path.basename(folder), "timestamp": datetime.now(UTC).isoformat(), "prompt": job["prompt"]}  # fmt: skip
    named = [{"name": names[row["step"]], **row} for row in (*answer["applied"], *answer["skipped"])]
    meta = {**answer, **timed, "steps": named, "versions": versions()}
    save(folder, "metadata.json", json.dumps(meta, indent=1).encode())
    classified = answer["classified"] or {"error_code": "MODEL_UNAVAILABLE"}
    save(folder, "classification_report.json", json.dumps(classified, indent=1).encode())


def save(folder, name, data):
    with open(f"{folder}/{name}", "wb") as file:
        file.write(data)
