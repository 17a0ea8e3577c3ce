"""Draws a block of tiles of a raster in Web Mercator at once, as one picture for each tile."""

from osgeo import gdal

from gdal_mcp.toolboxes.gdal.inside.parts import preview_raster
from gdal_mcp.toolboxes.gdal.inside.parts.datasets import has_pixels

PIXELS = 256  # pixels per side of a tile
WORLD = 20037508.342789244  # metres from the middle of Web Mercator to each of its edges
LOOK = ("color", "bands", "stretch")


def draw(dataset, request):
    """The tiles row by row, each as a small image, and a description of their colours and stretch.

    Colours and stretch are those of `request`, or else those of a picture of the whole raster, so that tiles match.
    """
    if dataset is None or not has_pixels(dataset):
        raise RuntimeError("only rasters have tiles")
    look = {key: request[key] for key in LOOK}
    if look["stretch"] is None:
        _, shown = preview_raster.paint(dataset, {**request, "pixels": PIXELS, "block": None})
        look = {key: shown[key] for key in LOOK}
    *_, count = request["block"]
    there = warped(dataset, request["block"], mixes=look["color"] != "palette")
    image, _ = preview_raster.paint(there, {**request, **look, "pixels": PIXELS * count})
    places = [(PIXELS * column, PIXELS * row) for row in range(count) for column in range(count)]
    windows = [[*place, PIXELS, PIXELS] for place in places]
    return [gdal.Translate("", image, format="MEM", srcWin=window) for window in windows], {
        "kind": "raster",
        **look,
    }


def warped(dataset, block, *, mixes):
    """The raster on the grid of a block of tiles, with alpha as the last band.

    `block` has the zoom, the column and row of the first tile from the north-west, and the number of tiles per side.
    GDAL reads the matching overview. Raises RuntimeError for a raster without a position.
    """
    zoom, column, row, count = block
    side = 2 * WORLD / (1 << zoom)
    west, north = column * side - WORLD, WORLD - row * side
    raster = gdal.Warp(
        "",
        dataset,
        format="VRT",
        dstSRS="EPSG:3857",
        outputBounds=(west, north - side * count, west + side * count, north),
        width=PIXELS * count,
        height=PIXELS * count,
        resampleAlg="bilinear" if mixes else "near",
        dstAlpha=True,
    )
    if raster is None:
        raise RuntimeError("the raster has no position that GDAL could transform to Web Mercator")
    return raster
