"""Cheap checks of a raster that was written."""

from gdal_mcp.gdal.inside.parts.datasets import has_other_georeferencing
from gdal_mcp.gdal.inside.parts.extents import crs_checks


def raster_checks(dataset, facts, rows):
    seen = [row for row, band in zip(rows, facts["bands"], strict=False) if band["color"] != "Alpha"]
    if seen and all(seen):
        sampled = {} if all(row["exact"] for row in seen) else {"sampled": True}
        if any(row.get("unreadable") for row in seen):
            yield {"code": "pixels_unreadable"}
        elif all(row.get("empty") for row in seen):
            yield {"code": "all_nodata", **sampled}
        elif all(row.get("empty") or row["min"] == row["max"] for row in seen) and facts["size"] != [1, 1]:
            yield {"code": "constant", **sampled}
    yield from crs_checks(facts, dataset.GetSpatialRef())
    if facts["extent"] is None and not has_other_georeferencing(dataset):
        yield {"code": "has_no_georeferencing"}
