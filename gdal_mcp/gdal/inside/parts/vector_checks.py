"""Cheap checks of layers that were written."""

from gdal_mcp.gdal.inside.parts.extents import crs_checks


def layer_checks(dataset, rows):
    if rows and all(row["features"] == 0 for row in rows):
        yield {"code": "zero_features"}
        return
    for number, row in enumerate(rows[:20]):
        if row["features"] == 0:
            yield {"code": "empty_layer", "layer": number}
        for check in crs_checks(row, dataset.GetLayer(number).GetSpatialRef()):
            yield {**check, "layer": number}
