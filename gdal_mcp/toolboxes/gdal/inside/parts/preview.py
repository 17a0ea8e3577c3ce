"""Draws a PNG picture of a dataset, within limits of pixels, bytes and data to read."""

from osgeo import gdal

from gdal_mcp.toolboxes.gdal.inside.parts.datasets import CLASSIC, has_pixels
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import part, print_json, quiet

MAX_BYTES = 1 << 20
SMALLEST = 32  # pixels; a smaller picture shows nothing
TRIES = 6
NAME = "preview.png"
QUICK, THOROUGH = 1, 6  # zlib levels; level 1 takes a quarter of the time and produces a sixth more bytes
DEFAULTS = {
    "pixels": 512,
    "bands": None,
    "color": "auto",
    "seconds": 10.0,
    "features": 50_000,
    "block": None,
    "stretch": None,
}
# limits for an output whose picture was not requested; drawing so many features takes a twentieth of a second
UNASKED = {"seconds": 2.0, "features": 2_000}


def attach_preview(job, report):
    """Attaches a picture of the first output that can be drawn. Best effort: a failure is ignored."""
    request = {**DEFAULTS, "pixels": job["preview_pixels"]} | UNASKED
    for output in job["outputs"]:
        if output["kind"] != "dataset":
            continue
        with quiet():
            try:
                result = picture(output["path"], request)
            except (RuntimeError, ValueError, TypeError, ArithmeticError, AttributeError):
                continue
        if result is not None:
            report.attach(NAME, result[0])
            return


def run_preview(job, report):
    """Attaches the picture, or the pictures of a block of tiles, and prints a description of them as an object."""
    request = DEFAULTS | job["preview"]
    if request["block"] is not None:
        return attach_tiles(job["inputs"][0], request, report)
    result = picture(job["inputs"][0], request)
    if result is None:
        raise RuntimeError("there are no bands and no geometries that GDAL could show")
    data, shown = result
    report.attach(NAME, data)
    print_json(shown)
    return True


def attach_tiles(path, request, report):
    images, shown = part("tiles").draw(opened(path), request)
    for number, image in enumerate(images):
        report.attach(f"figure-{number:02}", png(image, QUICK))
    print_json(shown)
    return True


def opened(path):
    """The dataset to draw; None if GDAL cannot open it."""
    dataset = gdal.OpenEx(path, CLASSIC)
    if dataset is not None and not (dataset.RasterCount or dataset.GetLayerCount()):
        # a dataset without its own pixels: open its first subdataset. A name that is stored in a file could refer to
        # any path; the name that the driver makes for a part of this file contains this file's path
        inner = next(iter(dataset.GetSubDatasets() or ()), ("",))[0]
        dataset = gdal.OpenEx(inner, gdal.OF_RASTER) if f'"{path}"' in inner else None
    return dataset


def picture(path, request):
    """PNG bytes and a description; None if there is nothing to show.

    The picture is smaller than requested if its PNG would exceed MAX_BYTES.
    """
    dataset = opened(path)
    if dataset is None:
        return None
    if has_pixels(dataset):
        from gdal_mcp.toolboxes.gdal.inside.parts import preview_raster as painter
    else:
        from gdal_mcp.toolboxes.gdal.inside.parts import preview_vector as painter
    pixels = request["pixels"]
    for _ in range(TRIES):
        result = painter.paint(dataset, {**request, "pixels": pixels})
        if result is None:
            return None
        image, shown = result
        size = [image.RasterXSize, image.RasterYSize]
        data = png(image, QUICK)
        if len(data) > MAX_BYTES:
            data = png(image, THOROUGH)
        if len(data) <= MAX_BYTES:
            return data, {**shown, "size": size, "bytes": len(data)}
        pixels = max(SMALLEST, int(max(size) * 0.9 * (MAX_BYTES / len(data)) ** 0.5))
    return None


def png(image, level):
    """The PNG bytes of a dataset with grey, grey and alpha, RGB or RGBA bands.

    The dataset was created here, so it has no metadata.
    """
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
