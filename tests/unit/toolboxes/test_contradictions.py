"""Only a difference from the prediction that affects later steps is noticed."""

import math
from dataclasses import replace
from typing import Any

import pytest

from gdal_mcp.toolboxes.gdal.preflight.contradictions import contradictions
from gdal_mcp.toolboxes.gdal.preflight.facts import DatasetFacts, LayerSchema

RASTER = DatasetFacts(
    "GTiff", "raster", width=10, height=10, bands=1, data_type="Float32", nodata=-9999.0, crs="EPSG:32633", has_crs=True
)  # fmt: skip
LAYER = DatasetFacts(
    "GPKG",
    "vector",
    features=3,
    fields=2,
    geometry="Polygon",
    schema=LayerSchema("plots", ("id", "owner"), ("geom",), is_predicted=True),
    crs="EPSG:32633",
    has_crs=True,
)


@pytest.mark.parametrize(
    ("predicted", "changes", "name"),
    [
        (RASTER, {"crs": "EPSG:3857"}, "CRS"),
        (RASTER, {"crs": None, "has_crs": False}, "CRS"),
        (RASTER, {"bands": 2}, "number of bands"),
        (RASTER, {"data_type": "Byte"}, "data type"),
        (RASTER, {"nodata": 0.0}, "nodata value"),
        (RASTER, {"nodata": None}, "nodata value"),
        (RASTER, {"kind": "vector"}, "kind"),
        (LAYER, {"crs": "EPSG:3857"}, "CRS"),
        (LAYER, {"geometry": "Multi Line String"}, "geometry type"),
        (LAYER, {"geometry": "None"}, "geometry type"),
        (LAYER, {"fields": 3}, "number of fields"),
        (LAYER, {"features": 0}, "number of features"),
        (replace(LAYER, geometry="3D Polygon"), {"geometry": "Multi Polygon"}, "coordinates"),
        (replace(LAYER, geometry="3D Point"), {"geometry": "3D Measured Point"}, "coordinates"),
    ],
)
def test_a_difference_that_matters_is_found(predicted: DatasetFacts, changes: dict[str, Any], name: str):
    assert [*contradictions(predicted, replace(predicted, **changes))] == [name]


@pytest.mark.parametrize(
    ("predicted", "changes"),
    [
        (RASTER, {}),
        (RASTER, {"width": 11}),
        (RASTER, {"data_type": ""}),
        (replace(RASTER, data_type="UInt8"), {"data_type": "Byte"}),
        (replace(RASTER, bands_estimated=True), {"bands": 4}),
        (replace(RASTER, driver="PNG"), {"data_type": "Byte", "nodata": None}),
        (replace(RASTER, nodata=math.nan), {}),
        (replace(RASTER, nodata=-3.4028235e38), {"nodata": -3.4028234663852886e38}),
        (replace(RASTER, nodata=None), {"nodata": 0.0}),
        (replace(RASTER, crs=None, has_crs=None), {"crs": "EPSG:4326", "has_crs": True}),
        (LAYER, {"geometry": "3D Multi Polygon"}),
        (LAYER, {"geometry": "Unknown (any)"}),
        (replace(LAYER, geometry="3D Polygon"), {"geometry": "3D Multi Polygon"}),
        (replace(LAYER, geometry="3D Polygon"), {"geometry": "Unknown (any)"}),
        (replace(LAYER, geometry="Measured Point", driver="GeoJSON"), {"geometry": "Point"}),
        (LAYER, {"features": 1}),
        (replace(LAYER, schema=None, fields=0), {"fields": 7}),
        (replace(LAYER, features=None), {"features": 0}),
    ],
)
def test_equal_or_uncertain_facts_are_no_contradiction(predicted: DatasetFacts, changes: dict[str, Any]):
    assert contradictions(predicted, replace(predicted, **changes)) == {}
