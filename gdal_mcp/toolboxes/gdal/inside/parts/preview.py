"""Draws a PNG picture of a dataset, within limits of pixels, bytes and data to read."""

from osgeo import gdal

from gdal_mcp.toolboxes.gdal.inside.parts.datasets import CLASSIC, has_pixels
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import part, print_json, quiet

MAX_BYTES = 1 << 20
SMALLEST = 32  # pixels; below that there is nothing to see
TRIES = 6
NAME = "preview.png"
QUICK, THOROUGH = 1, 6  # levels of zlib; the first takes a quarter of the time for a sixth more bytes
DEFAULTS = {
    "pixels": 512,
    "bands": None,
    "color": "auto",
    "seconds": 10.0,
    "features": 50_000,
    "block": None,
    "stretch": None,
}
# for an output whose picture was not requested; this many features take a twentieth of a second
UNASKED = {"seconds": 2.0, "features": 2_000}


def attach_preview(job, report):
    """Attaches a picture of the first output that can be drawn. Best effort: a failure is ignored."""
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
    """Attaches the picture, or those of a block of tiles, and prints an object that describes what they show."""
    asked = DEFAULTS | job["preview"]
    if asked["block"] is not None:
        return attach_tiles(job["inputs"][0], asked, report)
    made = picture(job["inputs"][0], asked)
    if made is None:
        raise RuntimeError("there are no bands and no geometries that GDAL could show")
    data, shown = made
    report.attach(NAME, data)
    print_json(shown)
    return True


def attach_tiles(path, asked, report):
    images, shown = part("tiles").draw(opened(path), asked)
    for number, image in enumerate(images):
        report.attach(f"figure-{number:02}", png(image, QUICK))
    print_json(shown)
    return True


def opened(path):
    """The dataset to draw; None if GDAL opens nothing."""
    dataset = gdal.OpenEx(path, CLASSIC)
    if dataset is not None and not (dataset.RasterCount or dataset.GetLayerCount()):
        # a container without own pixels: its first subdataset. A name that is stored in a file could lead
        # anywhere; the driver's own name for a part of this file holds its path
        inner = next(iter(dataset.GetSubDatasets() or ()), ("",))[0]
        dataset = gdal.OpenEx(inner, gdal.OF_RASTER) if f'"{path}"' in inner else None
    return dataset


def picture(path, asked):
    """PNG bytes and a description, None if there is nothing to show. Smaller than requested if it would have too many bytes."""
    dataset = opened(path)
    if dataset is None:
        return None
    if has_pixels(dataset):
        from gdal_mcp.toolboxes.gdal.inside.parts import preview_raster as painter
    else:
        from gdal_mcp.toolboxes.gdal.inside.parts import preview_vector as painter
    pixels = asked["pixels"]
    for _ in range(TRIES):
        made = painter.paint(dataset, {**asked, "pixels": pixels})
        if made is None:
            return None
        image, shown = made
        size = [image.RasterXSize, image.RasterYSize]
        data = png(image, QUICK)
        if len(data) > MAX_BYTES:
            data = png(image, THOROUGH)
        if len(data) <= MAX_BYTES:
            return data, {**shown, "size": size, "bytes": len(data)}
        pixels = max(SMALLEST, int(max(size) * 0.9 * (MAX_BYTES / len(data)) ** 0.5))
    return None


def png(image, level):
    """The PNG bytes of a dataset of grey, grey and alpha, RGB or RGBA bands. It was made here, so it has no metadata."""
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
