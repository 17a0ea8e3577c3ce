"""A PNG picture of a dataset, bounded in pixels, bytes and in what is read for it."""

from osgeo import gdal

from gdal_mcp.gdal.inside.parts.datasets import CLASSIC
from gdal_mcp.gdal.inside.parts.reporting import print_json, quiet

MOST_BYTES = 1 << 20
SMALLEST = 32  # pixels; below that there is nothing to see
TRIES = 6
NAME = "preview.png"
QUICK, THOROUGH = 1, 6  # levels of zlib; the first takes a quarter of the time for a sixth more bytes
DEFAULTS = {"pixels": 512, "bands": None, "color": "auto", "seconds": 10.0, "features": 50_000}
UNASKED_FEATURES = 2_000  # a twentieth of a second
UNASKED_SECONDS = 2.0  # for reading what is drawn of an output that nobody asked to see
UNASKED = {"seconds": UNASKED_SECONDS, "features": UNASKED_FEATURES}


def attach_preview(job, report):
    """Of the first output that can be shown. Best effort: one that fails is left out, and fails nothing else."""
    asked = {**DEFAULTS, "pixels": job["preview_pixels"]} | UNASKED
    for output in job["outputs"]:
        if output["kind"] != "dataset":
            continue
        with quiet():
            try:
                made = picture(output["path"], asked)
            except (RuntimeError, ValueError, TypeError, ArithmeticError, AttributeError):
                continue
        if made is not None:
            report.attach(NAME, made[0])
            return


def run_preview(job, report):
    """Attaches the picture and prints an object that says what it shows."""
    made = picture(job["inputs"][0], DEFAULTS | job["preview"])
    if made is None:
        with quiet():
            known = gdal.IdentifyDriverEx(job["inputs"][0]) is not None
        raise RuntimeError(NOTHING if known else UNKNOWN)
    data, shown = made
    report.attach(NAME, data)
    print_json(shown)
    return True


NOTHING = "there are no bands and no geometries to show"
UNKNOWN = "this is no dataset that GDAL can open"


def picture(path, asked):
    """PNG bytes and what they show, or None where there is nothing to show. Smaller than asked where bytes demand it."""
    dataset = shown_dataset(path)
    if dataset is None:
        return None
    if dataset.RasterCount:
        from gdal_mcp.gdal.inside.parts import preview_raster as painter
    else:
        from gdal_mcp.gdal.inside.parts import preview_vector as painter
    pixels, made = asked["pixels"], None
    for _ in range(TRIES):
        made = painter.paint(dataset, {**asked, "pixels": pixels})
        if made is None:
            return None
        image, shown = made
        data = png(image, QUICK)
        if len(data) > MOST_BYTES:
            data = png(image, THOROUGH)
        if len(data) <= MOST_BYTES:
            return data, {**shown, "size": [image.RasterXSize, image.RasterYSize], "bytes": len(data)}
        pixels = max(
            SMALLEST, int(max(image.RasterXSize, image.RasterYSize) * 0.9 * (MOST_BYTES / len(data)) ** 0.5)
        )
    return None


def shown_dataset(path):
    """The dataset, or the first subdataset of a container that shows nothing by itself."""
    dataset = gdal.OpenEx(path, CLASSIC)
    if dataset is None or dataset.RasterCount or dataset.GetLayerCount():
        return dataset
    inner = next(iter(dataset.GetSubDatasets() or ()), ("",))[0]
    # a name that stands in a file could lead anywhere; the driver's own name for a part of this file holds its path
    return gdal.OpenEx(inner, gdal.OF_RASTER) if f'"{path}"' in inner else None


def png(image, level):
    """The bytes of a dataset of grey, grey and alpha, RGB or RGBA bands. It was made here: no metadata goes along."""
    name = "/vsimem/preview.png"
    written = gdal.GetDriverByName("PNG").CreateCopy(name, image, options=[f"ZLEVEL={level}"])
    if written is None:
        raise RuntimeError("the PNG could not be written")
    written.Close()
    file = gdal.VSIFOpenL(name, "rb")
    try:
        return bytes(gdal.VSIFReadL(1, gdal.VSIStatL(name).size, file))
    finally:
        gdal.VSIFCloseL(file)
        gdal.Unlink(name)
        gdal.Unlink(f"{name}.aux.xml")
