"""What a model sees before and after a call: pictures, lists, descriptions, formats, CRSs, and valid next steps."""

import base64
import struct

import mcp_types as t
import pytest

from tests.e2e.mcp.hostile_files import HIDDEN
from tests.e2e.mcp.talk import Person, Place, Talk, inside

pytestmark = pytest.mark.engine

DATA = ("dem.tif", "zones.gpkg", "places.geojson")


def picture(result: t.CallToolResult) -> tuple[int, int, bytes]:
    """Width, height and bytes of the only picture in a result."""
    [image] = [part for part in result.content if isinstance(part, t.ImageContent)]
    assert image.mime_type == "image/png"
    data = base64.b64decode(image.data)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    return width, height, data


def test_write_returns_its_picture_and_written_facts(unasked: Talk, own: Place):
    result = unasked.call("reproject", input="dem.tif", output="degrees.tif", dst_crs="EPSG:4326")
    width, height, _ = picture(result)
    assert max(width, height) <= 512
    [row] = result.structured_content["outputs"]
    described = row["description"]
    assert row["path"] == str(own.path("degrees.tif"))
    assert described["driver"] == "GTiff"
    assert described["crs"]["code"] == "EPSG:4326"
    west, south, east, north = described["extent"]  # in degrees already, so `wgs84` would repeat it
    assert -180 < west < east < 0 < south < north < 90  # zone 11 north is in the west
    vector = unasked.call("vector_reproject", input="zones.gpkg", output="zones-degrees.gpkg", **{"output-crs": "EPSG:4326"})  # fmt: skip
    picture(vector)
    [layer] = vector.structured_content["outputs"][0]["description"]["layers"]
    assert (layer["features"], layer["geometry"]) == (2, "Polygon")


def test_the_picture_is_a_setting(own: Place):
    with inside(own.command("--approval", "never", "--no-preview"), person=Person()) as plain:
        result = plain.call("convert", input="dem.tif", output="no-picture.tif")
        assert not result.is_error
        assert not [part for part in result.content if isinstance(part, t.ImageContent)]


def test_next_steps_are_calls_that_would_be_taken(unasked: Talk):
    """Each step is passed to validate_call unchanged."""
    results = [
        unasked.done("gdal_write", algorithm="vector filter", arguments={"input": "zones.gpkg", "output": "next.gpkg", "where": "value > 1000"}),
        unasked.done("convert", input="dem.tif", output="next.tif"),
    ]  # fmt: skip
    steps = [step for result in results for step in result.get("next", [])]
    assert steps
    assert all(step["reason"] for step in steps)
    for step in steps:
        planned = unasked.done("validate_call", tool=step["tool"], arguments=step["arguments"])
        assert planned["valid"], (step, planned)


@pytest.mark.claim("content.names-shown")
def test_misleading_name_is_displayed_unambiguously(unasked: Talk, own: Place):
    own.path(f"hid{HIDDEN}den.tif").write_bytes(own.path("dem.tif").read_bytes())
    [row] = unasked.done("list_workspace", pattern="*den.tif")["entries"]
    assert row["path"].isascii()
    assert "\\u202e" in row["path"]
