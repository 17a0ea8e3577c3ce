"""Cheap checks of what was written. Each row is a code, and numbers that say where; the host has the words."""

import filecmp
import itertools
import os

from gdal_mcp.gdal.inside.parts.datasets import opened
from gdal_mcp.gdal.inside.parts.extents import apart, wgs84_box
from gdal_mcp.gdal.inside.parts.raster_checks import (
    kept_checks,
    overview_checks,
    raster_checks,
    sampled_checks,
)
from gdal_mcp.gdal.inside.parts.reporting import quiet
from gdal_mcp.gdal.inside.parts.vector_checks import layer_checks

SAME_BYTES = 64 << 20
SAME_PIXELS = 4 << 20  # of all bands together
RASTER_KEYS = "size band_count block_size overviews compression crs extent gcps rotated".split()
BAND_KEYS = ("type", "nodata", "color")


def of_output(path, dataset, facts, rows, origin):
    """Of an open output; `rows` are of its pixels."""
    if dataset.RasterCount:
        yield from raster_checks(dataset, facts, rows, [] if origin.updates else origin.sources)
        if "pixels" in origin.expected:
            yield from kept_checks(facts, [one for one in origin.sources if one[0] != path])
        if origin.updates:
            yield from overview_checks(dataset)
    if "layers" in facts:
        yield from layer_checks(dataset, facts["layers"], origin)
        if any(source and "bands" in source["facts"] for _, source in origin.sources):
            yield from sampled_checks(dataset)
    # against what the command read: nothing changed, or the output lies elsewhere
    boxes = []
    for number, (name, source) in enumerate(origin.sources):
        if source is None:
            continue
        about = dataset, facts, name, source["facts"]
        if number in origin.compared and (same_bytes(path, name) or same_content(*about)):
            yield {"code": "identical_to_input", "input": number}
        boxes += [box for one in source["boxes"] if (box := wgs84_box(*one))]
    own = [box for one in (facts, *facts.get("layers", ())) if (box := one.get("wgs84"))]
    told = own and boxes and "elsewhere" not in origin.expected
    if told and all(apart(*pair) for pair in itertools.product(own, boxes)):
        yield {"code": "no_overlap"}


def same_bytes(one, other):
    if not (os.path.isfile(one) and os.path.isfile(other)):
        return False
    sizes = os.path.getsize(one), os.path.getsize(other)
    return sizes[0] == sizes[1] <= SAME_BYTES and filecmp.cmp(one, other, shallow=False)


def same_content(dataset, facts, name, found):
    """Also true of another raster whose structure, values and metadata are all the same."""
    if not dataset.RasterCount or facts["driver"] != found["driver"]:
        return False
    bands = [[[band[key] for key in BAND_KEYS] for band in one.get("bands", ())] for one in (facts, found)]
    alike = bands[0] == bands[1] and all(facts.get(key) == found.get(key) for key in RASTER_KEYS)
    if dataset.RasterXSize * dataset.RasterYSize * dataset.RasterCount > SAME_PIXELS or not alike:
        return False
    with quiet() as aside:
        source = opened(name, aside)
        if source is None:
            return False
        return dataset.GetMetadata() == source.GetMetadata() and all(
            same_band(dataset.GetRasterBand(i + 1), source.GetRasterBand(i + 1))
            for i in range(dataset.RasterCount)
        )


def same_band(one, other):
    def about(band):
        table = band.GetColorTable()
        colors = [table.GetColorEntry(i) for i in range(table.GetCount())] if table else None
        return band.GetDescription(), band.GetMaskFlags(), band.GetScale(), band.GetOffset(), colors

    return about(one) == about(other) and one.Checksum() == other.Checksum()
