"""`validate_call`: the call then does what it says, and only a look at the inputs runs for it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.mcp.attack_files import started_calls
from tests.e2e.mcp.talk import Person, Place, Talk, inside

pytestmark = pytest.mark.engine

DATA = ("dem.tif", "rgb.tif", "zones.shp", "zones.dbf", "zones.shx", "zones.prj")


@pytest.fixture(scope="module")
def talker(own: Place) -> Iterator[Talk]:
    with inside(own.command(), person=Person()) as talk:
        talk.person.asked.clear()
        yield talk


def plan(talk: Talk, tool: str, /, **arguments: Any) -> dict[str, Any]:
    return talk.done("validate_call", tool=tool, arguments=arguments)


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "info": ("info", {"path": "dem.tif"}),
    "shapefile": ("vector_info", {"input": "zones.shp"}),
    "convert": ("convert", {"input": "dem.tif", "output": "planned.tif", "creation_options": {"COMPRESS": "LZW"}}),
    "reproject": ("reproject", {"input": "dem.tif", "output": "planned-degrees.tif", "dst_crs": "EPSG:4326"}),
    "clip": ("raster_clip", {"input": "rgb.tif", "output": "planned-clip.tif", "bbox": [2.5, 48, 3, 48.5]}),
    "vector": ("vector_convert", {"input": "zones.shp", "output": "planned.gpkg"}),
    "algorithm": ("gdal_write", {"algorithm": "raster hillshade", "arguments": {"input": "dem.tif", "output": "planned-shade.tif"}}),
    "reading": ("gdal_read", {"algorithm": "raster pixel-info", "arguments": {"input": "dem.tif", "position": [3, 4]}}),
    "pipeline": ("pipeline", {"steps": "read dem.tif ! tee [ write planned-copy.tif ] ! slope ! write planned-slope.tif"}),
    "classic": ("gdal_rasterize", {"src_vector": "zones.shp", "burn_value": 1, "width": 9, "height": 9, "extent": [440000, 3748200, 442400, 3751200]}),
}  # fmt: skip


def unnamed(argv: list[str]) -> list[str]:
    """The answer without the names that the server generates for each call."""
    return [word for word in argv if not word.startswith("/staging/")]


def looks(own: Place) -> int:
    """The number of containers that have described inputs; no other container has run."""
    tools = [event["tool"] for event in own.audited if event["type"] == "call.started" and "object" in event]
    assert set(tools) <= {"validate_call"}
    return len(tools)


def test_validated_plan_then_runs_examining_each_input_once(talker: Talk, own: Place):
    plans = {key: plan(talker, tool, **arguments) for key, (tool, arguments) in CALLS.items()}
    looked = looks(own)
    assert 3 <= looked <= len(CALLS)
    for tool, arguments in CALLS.values():
        plan(talker, tool, **arguments)
    assert looks(own) == looked
    assert not list(own.workspace.glob("planned*"))
    assert talker.person.asked == []
    under_way = {key: talker.start(tool, **arguments) for key, (tool, arguments) in CALLS.items()}
    for key, call in under_way.items():
        done = call.result(timeout=120).structured_content
        planned = plans[key]
        assert unnamed(planned["argv"]) == unnamed(talker.record(done)["argv"]), key
        outputs = [row["path"] for row in done.get("outputs", [])]
        if key != "classic":
            assert planned.get("outputs", []) == outputs, key
        assert planned["effect"] == ("create" if outputs else "read")
        assert planned["needs_approval"] is bool(outputs)
        assert planned["valid"] is planned["container"] is True


def test_what_would_be_replaced_is_named(talker: Talk, own: Place):
    own.path("there.tif").write_bytes(own.path("dem.tif").read_bytes())
    own.path("there.tif.aux.xml").write_text("<PAMDataset/>")
    planned = plan(talker, "convert", input="rgb.tif", output="there.tif", overwrite=True)
    assert set(planned["replaces"]) == {str(own.path("there.tif")), str(own.path("there.tif.aux.xml"))}
    assert planned["effect"] == "replace"
    taken = plan(talker, "gdal_write", algorithm="dataset delete", arguments={"filename": ["there.tif"]})
    assert (taken["effect"], taken["needs_approval"]) == ("destroy", True)
    assert str(own.path("there.tif")) in taken["removes"]
    moved = plan(talker, "gdal_write", algorithm="vsi move", arguments={"source": "there.tif", "destination": "gone.tif"})  # fmt: skip
    assert moved["moves"] == [{"from": str(own.path("there.tif")), "to": str(own.path("gone.tif"))}]
    assert own.path("there.tif").is_file()


@pytest.mark.claim("resources.certain-excess-refused")
def test_output_too_large_for_undescribed_input_is_refused(own: Place):
    """Before a person is asked; without approval, the call's own container reports it before it works."""
    calls = (("resize", {"size": ["200000%", "200000%"]}), ("reproject", {"output-crs": "EPSG:4326", "resolution": [1e-07, 1e-07]}))  # fmt: skip
    for mode, stage in (("never", "run"), ("writes", "validate")):
        with inside(own.command("--approval", mode), person=Person()) as talk:
            for name, arguments in calls:
                own.path(f"{mode}-{name}.tif").write_bytes(own.path("dem.tif").read_bytes())
                full_arguments = {"input": f"{mode}-{name}.tif", "output": "big.tif", **arguments}
                error = talk.failed("gdal_write", algorithm=f"raster {name}", arguments=full_arguments)
                assert (error["code"], error["stage"]) == ("DISK_LIMIT", stage)
                assert "at least" in error["message"]  # reported by the estimate, before a limit was reached
                assert not own.path("big.tif").exists()
            assert talk.person.asked == []


def test_unknown_crs_and_extension_are_refused_before_asking(
    own: Place,
):
    calls = {
        "crs": ("reproject", {"input": "dem.tif", "output": "x.tif", "dst_crs": "EPSG:99999"}),
        "source": ("reproject", {"input": "dem.tif", "output": "x.tif", "dst_crs": "EPSG:4326", "src_crs": "EPSG:99999"}),
        "layer": ("vector_reproject", {"input": "zones.shp", "output": "x.gpkg", "dst_crs": "EPSG:99999"}),
        "step": ("pipeline", {"steps": "read dem.tif ! reproject --output-crs EPSG:99999 ! write x.tif"}),
        "format": ("convert", {"input": "dem.tif", "output": "a.xyzzy"}),
        "written": ("pipeline", {"steps": "read dem.tif ! write a.xyzzy"}),
    }  # fmt: skip
    with inside(own.command(), person=Person()) as talk:
        for name, (tool, arguments) in calls.items():
            assert talk.failed(tool, **arguments)["code"] == "INVALID_ARGUMENT", name
            planned = talk.call("validate_call", tool=tool, arguments=arguments).structured_content
            assert "error" in planned or planned["valid"] is False, name
        assert talk.person.asked == []
        # a code that PROJ knows, and an output in another format than its extension says
        for options in ({"dst_crs": "EPSG:3857"}, {"dst_crs": "ESRI:102001"}):
            assert plan(talk, "reproject", input="dem.tif", output="x.tif", **options)["valid"] is True
        assert (
            plan(talk, "convert", input="dem.tif", output="a.xyzzy", output_format="GTiff")["valid"] is True
        )
        assert plan(talk, "convert", input="dem.tif", output="plain")["valid"] is True


def test_validation_refuses_in_the_words_of_the_call(talker: Talk, own: Place):
    before, shade = started_calls(own), {"input": "dem.tif", "output": "x.tif"}
    for tool, arguments in (
        ("info", {"path": "absent.tif"}),
        ("info", {"path": "../x.tif"}),
        ("info", {}),
        ("gdal_write", {"algorithm": "raster nothing", "arguments": {}}),
        ("gdal_read", {"algorithm": "raster hillshade", "arguments": shade}),
    ):
        error, real = plan_refused(talker, tool, arguments), talker.failed(tool, **arguments)
        assert {**error, "call_id": ""} == {**real, "call_id": ""}
    plan_refused(talker, "no_such_tool", {})
    plan_refused(talker, "validate_call", {"tool": "info", "arguments": {"path": "dem.tif"}})
    assert started_calls(own) == before


def plan_refused(talker: Talk, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return talker.failed("validate_call", tool=tool, arguments=arguments)
