"""The tools that tell what there is, over the wire: formats, CRSs, search and description, against the image itself."""

import json

import pytest

from tests.mcp.talk import Place, Talk
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

DRIVERS = """
import json
from osgeo import gdal
found = {}
for number in range(gdal.GetDriverCount()):
    driver = gdal.GetDriver(number)
    found[driver.ShortName] = driver.GetMetadata()
print(json.dumps({name: sorted(key for key in ("DCAP_RASTER", "DCAP_VECTOR", "DCAP_CREATE", "DCAP_CREATECOPY") if data.get(key) == "YES") for name, data in found.items()}))
"""


def test_a_format_that_is_listed_is_in_the_image(modern: Talk, oracle: Oracle):
    present = json.loads(oracle.python(DRIVERS))
    for kind, mark in (("raster", "DCAP_RASTER"), ("vector", "DCAP_VECTOR")):
        rows = modern.done("formats", kind=kind)["formats"]
        names = {row[0] for row in rows}
        assert {"raster": {"GTiff", "COG", "PNG", "VRT"}, "vector": {"GPKG", "GeoJSON", "FlatGeobuf"}}[
            kind
        ] <= names
        assert all(mark in present[name] for name in names & set(present))
        assert not names & {"PostgreSQL", "MySQL", "PostGISRaster", "WMS", "CSW"}


def test_a_crs_is_found_by_what_people_call_it(modern: Talk, subtests: pytest.Subtests):
    for query, code in (
        ("utm 33 north", "EPSG:32633"),
        ("web mercator", "EPSG:3857"),
        ("4326", "EPSG:4326"),
        ("EPSG:2056", "EPSG:2056"),
        ("wgs 84", "EPSG:4326"),
    ):
        with subtests.test(query=query, code=code):
            matches = modern.done("find_crs", query=query)["matches"]
            assert code in [row["code"] for row in matches[:3]], matches[:3]


def test_what_is_found_can_be_described_and_run(modern: Talk, place: Place):
    hits = modern.done("gdal_search", query="shade the mountains")["hits"]
    [path] = [hit for hit in hits[:3] if "hillshade" in str(hit)][:1]
    described = modern.done("gdal_describe", algorithm="raster hillshade")
    assert "zfactor" in str(described)
    assert path
    for number, example in enumerate(described["examples"]):
        arguments = {**example["arguments"], "input": "dem.tif", "output": f"example-{number}.tif"}
        again = {"algorithm": "raster hillshade", "arguments": arguments}
        assert modern.done("validate_call", tool="gdal_write", arguments=again)["valid"]
