"""Text from files never reaches a client of a server in lockdown."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.e2e.mcp.hostile_files import ANSI, HIDDEN
from tests.e2e.mcp.talk import Person, Place, Talk, inside
from tests.oracle.container import Oracle

pytestmark = [pytest.mark.engine, pytest.mark.claim("content.lockdown")]

MARK = "ZQXJ"  # in every text of the files, and nowhere else
LONG = 40_000

PROGRAM = r"""
import sys
import numpy as np
from osgeo import gdal, ogr, osr
gdal.UseExceptions()
out, mark, hidden, ansi, long = sys.argv[1] + "/", sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])
crs = osr.SpatialReference()
crs.ImportFromEPSG(32611)
named = osr.SpatialReference()
named.ImportFromWkt(crs.ExportToWkt().replace("WGS 84 / UTM zone 11N", mark + "crs").replace('AUTHORITY["EPSG","32611"]', ""))
one = gdal.GetDriverByName("GTiff").Create(out + "text.tif", 20, 20, 1, gdal.GDT_Byte)
one.SetGeoTransform((440000, 60, 0, 3751000, 0, -60))
one.SetSpatialRef(named)
one.SetMetadata({mark + "key": mark + ansi + hidden, "LONG": mark * (long // len(mark)), "UNIT": mark})
band = one.GetRasterBand(1)
band.SetDescription(mark + "band" + hidden)
band.SetUnitType(mark + "unit")
band.SetCategoryNames([mark + "class", "b"])
band.WriteArray(np.arange(400, dtype="uint8").reshape(20, 20) % 5)
one = None
made = ogr.GetDriverByName("GPKG").CreateDataSource(out + "text.gpkg")
layer = made.CreateLayer(mark + "layer" + hidden, named, ogr.wkbPoint)
layer.CreateField(ogr.FieldDefn(mark + "field" + hidden, ogr.OFTString))
for number in range(3):
    feature = ogr.Feature(layer.GetLayerDefn())
    feature[0] = mark + "value" + ansi + hidden
    feature.SetGeometry(ogr.CreateGeometryFromWkt("POINT (440000 3750000)"))
    layer.CreateFeature(feature)
made = None
with open(out + "broken.vrt", "w") as file:
    file.write('<VRTDataset rasterXSize="2" rasterYSize="2"><VRTRasterBand dataType="%sType" band="1" subClass="%sClass"/></VRTDataset>' % (mark, mark))
with open(out + "broken.geojson", "w") as file:
    file.write('{"type": "FeatureCollection", "features": [{"type": "Feature", "%sgeometry": %s}]' % (mark, mark))
with open(out + "missing.vrt", "w") as file:
    file.write('<VRTDataset rasterXSize="2" rasterYSize="2"><VRTRasterBand dataType="Byte" band="1"><SimpleSource><SourceFilename relativeToVRT="1">%sgone.tif</SourceFilename></SimpleSource></VRTRasterBand></VRTDataset>' % mark)
"""

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("info", {"path": "text.tif"}),
    ("info", {"path": "text.tif", "format": "text"}),
    ("info", {"path": "text.gpkg"}),
    ("gdalinfo", {"dataset": "text.tif", "json": True, "stats": True}),
    ("gdalinfo", {"dataset": "text.tif"}),
    ("vector_info", {"input": "text.gpkg", "features": True}),
    ("gdal_read", {"algorithm": "vector export-schema", "arguments": {"input": "text.gpkg"}}),
    ("gdal_read", {"algorithm": "raster pixel-info", "arguments": {"input": "text.tif", "position": [1, 1]}}),
    ("gdal_read", {"algorithm": "raster compare", "arguments": {"input": "text.tif", "reference": "missing.vrt"}}),
    ("gdal_read", {"algorithm": "pipeline", "arguments": {"pipeline": "read text.tif ! info"}}),
    ("gdal_read", {"algorithm": "dataset identify", "arguments": {"filename": ["text.tif", "broken.vrt"], "detailed": True}}),
    ("info", {"path": "broken.vrt"}),
    ("info", {"path": "broken.geojson"}),
    ("info", {"path": "missing.vrt"}),
    ("convert", {"input": "text.tif", "output": "out.tif", "overwrite": True}),
    ("convert", {"input": "text.tif", "output": "out.png", "overwrite": True}),
    ("convert", {"input": "missing.vrt", "output": "never.tif"}),
    ("vector_convert", {"input": "text.gpkg", "output": "out.geojson", "overwrite": True}),
    ("vector_convert", {"input": "broken.geojson", "output": "never.gpkg"}),
    ("gdal_write", {"algorithm": "vector select", "arguments": {"input": "text.gpkg", "output": "none.gpkg", "fields": ["absent"]}}),
    ("gdal_polygonize", {"src_dataset": "text.tif", "dst_vector": "classes.geojson"}),
    ("gdal2xyz", {"dataset": "text.tif", "dst_csv": "points.csv"}),
    ("pipeline", {"steps": "read text.tif ! polygonize ! write out.gpkg --overwrite"}),
    ("validate_call", {"tool": "info", "arguments": {"path": "text.tif"}}),
    ("validate_call", {"tool": "info", "arguments": {"path": "text.gpkg"}}),
    ("validate_call", {"tool": "info", "arguments": {"path": "broken.vrt"}}),
    ("validate_call", {"tool": "convert", "arguments": {"input": "text.tif", "output": "x.tif"}}),
    ("list_workspace", {}),
]  # fmt: skip


@pytest.fixture(scope="module")
def own(grounds: Path, oracle: Oracle) -> Place:
    lockdown_place = Place.made(grounds / "lockdown")
    folder = oracle.folder("lockdown")
    oracle.python(PROGRAM, str(folder), MARK, HIDDEN, ANSI, str(LONG))
    for path in folder.iterdir():
        lockdown_place.path(path.name).write_bytes(path.read_bytes())
    return lockdown_place


@pytest.fixture(scope="module")
def locked(own: Place) -> Iterator[Talk]:
    with inside(own.command("--approval", "never", "--lockdown"), person=Person()) as talk:
        yield talk


def resources(talk: Talk, call_id: str) -> Iterator[str]:
    """The contents of all resources of a call."""
    for what in ("", "/provenance", "/result"):
        try:
            contents = talk.ask("read_resource", f"gdal://calls/{call_id}{what}").contents
        except MCPError as error:
            yield str(error.error)
            continue
        yield "".join(part.text for part in contents if hasattr(part, "text"))


def answers(talk: Talk) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Every call's name, structured result, and complete reply as text with its resources, without pictures."""
    under_way = [(f"{tool} {arguments}", talk.start(tool, **arguments)) for tool, arguments in CALLS]
    for name, call in under_way:
        result = call.result(timeout=120)
        structured = result.structured_content
        call_id = structured.get("receipt", structured.get("error", {})).get("call_id")
        texts = [part.model_dump_json() for part in result.content if part.type != "image"]
        records = list(resources(talk, call_id)) if call_id else []
        yield name, structured, json.dumps([structured, texts, records], ensure_ascii=False)


def test_no_file_text_reaches_a_client_in_lockdown(locked: Talk):
    for name, structured, text in answers(locked):
        assert MARK not in text, name
        assert "untrusted" not in structured, name
        assert "untrusted" not in structured.get("error", {}), name
    for page in (locked.ask("list_resources"), locked.ask("list_tools"), locked.ask("list_prompts")):
        assert MARK not in page.model_dump_json()


def test_lockdown_has_no_pictures(locked: Talk):
    with pytest.raises(MCPError):
        locked.call("preview", path="text.tif")
    result = locked.call("convert", input="text.tif", output="unseen.tif", overwrite=True)
    assert not result.is_error
    assert not [part for part in result.content if part.type == "image"]


def test_facts_are_still_told_in_lockdown(locked: Talk):
    assert locked.done("info", path="text.tif")["size"] == [20, 20]
    converted = locked.done("convert", input="text.tif", output="facts.tif")
    assert converted["outputs"][0]["description"]["size"] == [20, 20]
    error = locked.failed("info", path="broken.vrt")
    assert (error["code"], error["stage"]) == ("GDAL_ERROR", "run")
