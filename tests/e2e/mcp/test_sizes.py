"""Answers are short for a model: bytes of structured content as compact JSON, with the default settings."""

import json
from typing import Any

import pytest

from tests.e2e.mcp.talk import Place, Talk
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

LAYERS = """
import sys
from osgeo import gdal, ogr, osr
gdal.UseExceptions()
crs = osr.SpatialReference()
crs.ImportFromEPSG(25833)
fields = "id name district street_number updated population area_m2 comment".split()
kinds = [ogr.OFTInteger64, ogr.OFTString, ogr.OFTString, ogr.OFTInteger, ogr.OFTDateTime, ogr.OFTInteger, ogr.OFTReal, ogr.OFTString]
for count in (2, 7):
    made = ogr.GetDriverByName("GPKG").CreateDataSource(f"{sys.argv[1]}/layers{count}.gpkg")
    for number in range(count):
        layer = made.CreateLayer(f"layer_of_the_city_{number}", crs, ogr.wkbMultiPolygon)
        for name, kind in zip(fields, kinds):
            layer.CreateField(ogr.FieldDefn(name, kind))
        for place in range(3):
            feature = ogr.Feature(layer.GetLayerDefn())
            x, y = 391234.5678 + number / 3 + place, 5819876.54321 + place / 7
            circle = ogr.CreateGeometryFromWkt(f"POINT ({x} {y})").Buffer(100, 500)
            feature.SetGeometry(ogr.ForceToMultiPolygon(circle))
            layer.CreateFeature(feature)
"""


def size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def test_answers_fit_a_model(modern: Talk, place: Place, oracle: Oracle):
    folder = oracle.folder("sizes")
    oracle.python(LAYERS, str(folder))
    for path in folder.iterdir():
        place.path(path.name).write_bytes(path.read_bytes())
    for most, tool, arguments in [
        (1800, "info", {"path": "dem.tif"}),
        (1800, "vector_info", {"input": "layers2.gpkg"}),
        (6000, "vector_info", {"input": "layers7.gpkg"}),
        (4000, "vector_info", {"input": "layers2.gpkg", "features": True}),
        (1500, "convert", {"input": "dem.tif", "output": "sizes-a.tif", "output_format": "COG"}),
        (1500, "reproject", {"input": "dem.tif", "output": "sizes-b.tif", "dst_crs": "EPSG:3857", "resampling": "cubic"}),
        (1500, "gdal_write", {"algorithm": "raster hillshade", "arguments": {"input": "dem.tif", "output": "sizes-c.tif"}}),
    ]:  # fmt: skip
        assert size(modern.done(tool, **arguments)) <= most, (tool, arguments)


def test_an_error_fits_a_model(modern: Talk, place: Place):
    place.path("no-raster.txt").write_text("nothing that GDAL knows " * 50)
    for tool, arguments in [
        ("info", {"path": "den.tif"}),
        ("info", {"path": "no-raster.txt"}),
        ("info", {"pth": "dem.tif"}),
        ("gdal_read", {"algorithm": "raster nfo", "arguments": {}}),
        ("convert", {"input": "dem.tif", "output": "x.tif", "creation_options": {"COMPRES": "LZW"}}),
        ("gdal_write", {"algorithm": "raster calc", "arguments": {"input": ["dem.tif"], "output": "x.tif", "calc": ["Y+"]}}),
    ]:  # fmt: skip
        result = modern.call(tool, **arguments)
        assert result.is_error
        assert size(result.structured_content) <= 700, (tool, arguments, result.structured_content)
