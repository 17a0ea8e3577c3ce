"""The effect of writing on existing files: replaced files can be restored, half a file is never visible, updates stay
updates.
"""

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.cli.calls import undo_call
from gdal_mcp.records.audit_verification import verify
from gdal_mcp.server.app import running
from tests.e2e.mcp.talk import ERAS, Person, Place, Talk, inside, settings_for, talking
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

ZONES = ("zones.gpkg", "zones.shp", "zones.dbf", "zones.shx", "zones.prj")
DATA = ("dem.tif", "rgb.tif", "west.tif", "east.tif", "classes.tif", *ZONES)


@pytest.fixture(scope="module")
def writer(own: Place, grounds: Path) -> Iterator[Talk]:
    with talking(
        own.command("--approval", "never", "--no-preview"), grounds / "writing.log", person=Person()
    ) as talk:
        yield talk


def undo(place: Place, result: dict[str, Any]) -> dict[str, Any]:
    """The output of the program's `undo`, while the server keeps running in a separate process."""
    output = io.StringIO()
    with running(settings_for(place.command())) as app, contextlib.redirect_stdout(output):
        assert undo_call(app, result["receipt"]["call_id"]) == 0
    return json.loads(output.getvalue())


def copy(place: Place, source: str, target: str) -> bytes:
    data = place.path(source).read_bytes()
    place.path(target).write_bytes(data)
    return data


def files(place: Place) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.workspace.iterdir() if path.is_file()}


@pytest.mark.claim("outputs.undo")
def test_what_is_replaced_comes_back_byte_for_byte(writer: Talk, own: Place):
    before = copy(own, "dem.tif", "replaced.tif")
    aux = own.path("replaced.tif.aux.xml")
    aux.write_text("<PAMDataset/>")
    result = writer.done("gdal_translate", src_dataset="rgb.tif", dst_dataset="replaced.tif")
    assert own.path("replaced.tif").read_bytes() != before
    assert not aux.exists()  # it described the old file
    assert [row["path"] for row in result["replaced"]] == [str(own.path("replaced.tif"))]
    report = undo(own, result)
    assert own.path("replaced.tif").read_bytes() == before
    assert aux.read_text() == "<PAMDataset/>"
    assert set(report["restored"]) == {str(own.path("replaced.tif")), str(aux)}


@pytest.mark.claim("outputs.inputs-kept")
def test_overwrite_false_leaves_what_is_there(writer: Talk, own: Place):
    before = copy(own, "dem.tif", "kept.tif")
    for tool, more in (("convert", {}), ("reproject", {"dst_crs": "EPSG:4326"})):
        error = writer.failed(tool, input="rgb.tif", output="kept.tif", overwrite=False, **more)
        assert (error["code"], error["stage"]) == ("INVALID_ARGUMENT", "resolve")
    assert own.path("kept.tif").read_bytes() == before


@pytest.mark.claim("outputs.inputs-kept")
def test_no_input_is_written_over(writer: Talk, own: Place):
    before = files(own)
    for tool, arguments in (
        ("convert", {"input": "dem.tif", "output": "./dem.tif"}),
        ("convert", {"input": "zones.shp", "output": "zones.dbf"}),
        ("gdal_translate", {"src_dataset": "dem.tif", "dst_dataset": "dem.tif"}),
        (
            "gdalwarp",
            {"src_datasets": ["dem.tif", "rgb.tif"], "t_srs": "EPSG:4326", "dst_dataset": "dem.tif"},
        ),
        ("gdal_merge", {"src_datasets": ["west.tif", "east.tif"], "dst_dataset": "east.tif"}),
        ("gdalbuildvrt", {"src_datasets": ["west.tif"], "dst_vrt": "west.tif"}),
    ):
        assert writer.failed(tool, **arguments)["code"] == "INVALID_ARGUMENT", (tool, arguments)
    assert files(own) == before


def test_gdalwarp_updates_existing_output_unless_overwriting(writer: Talk, own: Place, oracle: Oracle):
    def warp(*sources: str, overwrite: bool) -> dict[str, Any]:
        arguments = {"src_datasets": list(sources), "t_srs": "EPSG:4326", "dst_dataset": "into.tif"}
        return writer.done("gdalwarp", **arguments, overwrite=overwrite)

    warp("west.tif", "east.tif", overwrite=False)
    mosaic = own.path("into.tif").read_bytes()
    result = warp("east.tif", overwrite=False)
    assert oracle.raster(own.path("into.tif"))["size"] == [20, 10]  # the window of both is unchanged
    assert [row["path"] for row in result["replaced"]] == [str(own.path("into.tif"))]
    undo(own, result)
    assert own.path("into.tif").read_bytes() == mosaic
    warp("east.tif", overwrite=True)
    assert oracle.raster(own.path("into.tif"))["size"] == [10, 10]


def test_gdal_merge_pastes_into_what_is_there(writer: Talk, own: Place, oracle: Oracle):
    oracle_made = oracle.folder("merge") / "both.tif"
    window = ("-projwin", "10", "46", "12", "45")
    oracle.must("gdal_translate", "-q", str(own.path("west.tif")), str(oracle_made), *window)
    own.path("both.tif").write_bytes(oracle_made.read_bytes())
    result = writer.done("gdal_merge", src_datasets=["east.tif"], dst_dataset="both.tif")
    oracle.must("gdal_merge", "-q", "-o", str(oracle_made), str(own.path("east.tif")))
    assert oracle.checksums(own.path("both.tif")) == oracle.checksums(oracle_made)
    undo(own, result)


def test_gdal_polygonize_appends_to_what_is_there(writer: Talk, own: Place, oracle: Oracle):
    for expected in (4, 8):
        result = writer.done("gdal_polygonize", src_dataset="classes.tif", dst_vector="grown.gpkg")
        assert oracle.counts(own.path("grown.gpkg")) == [expected]
    undo(own, result)
    assert oracle.counts(own.path("grown.gpkg")) == [4]


@pytest.mark.claim("outputs.inputs-kept")
def test_output_companion_does_not_replace_a_foreign_file(writer: Talk, own: Place):
    own.path("strange.img").write_bytes(b"somebody's notes")
    error = writer.failed("convert", input="classes.tif", output="strange.xml", output_format="PDS4")
    assert error["code"] == "OUTPUT_REJECTED"
    assert own.path("strange.img").read_bytes() == b"somebody's notes"
    assert not own.path("strange.xml").exists()
    own.path("strange.img").unlink()
    result = writer.done("convert", input="classes.tif", output="strange.xml", output_format="PDS4")
    assert {"strange.xml", "strange.img"} <= {Path(row["path"]).name for row in result["files"]}


def test_gdal_rasterize_makes_anew_what_is_there(writer: Talk, own: Place, oracle: Oracle):
    before = copy(own, "dem.tif", "burnt.tif")
    result = writer.done("gdal_rasterize", src_vector="zones.gpkg", burn_value=1, width=8, height=8,
                         extent=[440000, 3748200, 442400, 3751200], dst_raster="burnt.tif")  # fmt: skip
    assert oracle.raster(own.path("burnt.tif"))["size"] == [8, 8]
    undo(own, result)
    assert own.path("burnt.tif").read_bytes() == before


def test_simultaneous_writers_never_make_a_torn_file(writer: Talk, own: Place, oracle: Oracle):
    sources = ["dem.tif", "rgb.tif", "west.tif", "classes.tif"]
    calls = [
        writer.start("gdal_translate", src_dataset=source, dst_dataset="raced.tif") for source in sources
    ]
    results = [call.result(timeout=120) for call in calls]
    won = [source for source, result in zip(sources, results, strict=True) if not result.is_error]
    assert won
    lost = {result.structured_content["error"]["code"] for result in results if result.is_error}
    assert lost <= {"OUTPUT_REJECTED", "DISK_LIMIT"}
    assert oracle.checksums(own.path("raced.tif")) in [oracle.checksums(own.path(source)) for source in won]


@pytest.mark.claim("staging.removed")
def test_staging_is_empty_and_audit_valid_after_writing(writer: Talk, own: Place):
    options = {"dst_dataset": "x.png", "output_format": "PNG", "bands": ["9"]}
    writer.failed("gdal_translate", src_dataset="rgb.tif", **options)
    assert own.staged == []
    assert not own.path("x.png").exists()
    assert verify(own.state / "audit.jsonl").ok
    finished = [event for event in own.audited if event["type"] == "call.finished"]
    started = [event for event in own.audited if event["type"] == "call.started"]
    assert {event["call"] for event in started} <= {event["call"] for event in finished}
    published = [row for event in finished for row in event.get("outputs", ())]
    assert all(len(row["sha256"]) == 64 for row in published)


@pytest.mark.claim("outputs.read-only-workspaces")
def test_read_only_workspace_is_read_and_never_written(make_place: Callable[..., Place], own: Place):
    place, other = make_place("rgb.tif"), make_place("dem.tif")
    before = sorted(path.name for path in other.workspace.iterdir())
    command = place.command("--workspace-ro", str(other.workspace), "--approval", "never")
    with inside(command, era=ERAS[0]) as talk:
        source = str(other.path("dem.tif"))
        assert talk.done("gdalinfo", dataset=source, stats=True, json=True)["report"]["size"] == [60, 50]
        written = talk.done("gdal_translate", src_dataset=source)
        assert written["output_uri"].startswith(place.workspace.as_uri())
        there = {"src_dataset": "rgb.tif", "dst_dataset": str(other.path("x.tif"))}
        assert talk.failed("gdal_translate", **there)["code"] == "PATH_NOT_ALLOWED"
    assert sorted(path.name for path in other.workspace.iterdir()) == before


@pytest.mark.nightly
def test_oddly_named_workspaces_use_their_own_staging(grounds, place, oracle):
    first, second = Place.made(grounds / "sp ace, é:'\"x"), Place.made(grounds / "other $(id)")
    first.path("rgb.tif").write_bytes(place.path("rgb.tif").read_bytes())
    second.path("deep/er").mkdir(parents=True)
    target = second.path("deep/er/o.tif")
    command = first.command("--workspace", str(second.workspace), "--approval", "never")
    with inside(command, person=Person()) as talk:
        talk.done("gdal_translate", src_dataset="rgb.tif", dst_dataset=str(target))
        result = talk.done("gdalbuildvrt", src_datasets=[target.as_uri()], dst_vrt="o.vrt")
        assert talk.ask("read_resource", result["vrt_uri"]).contents
    written, mosaic, source = map(oracle.checksums, (target, first.path("o.vrt"), first.path("rgb.tif")))
    assert written == mosaic == source
    assert first.staged == second.staged == []
