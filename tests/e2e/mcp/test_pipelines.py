"""Pipelines through a real server: one container, several outputs or none, and one question for all of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.mcp.talk import Person, Place, Talk, inside
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

DATA = ("dem.tif", "zones.gpkg")


@pytest.fixture(scope="module")
def asking(own: Place) -> Iterator[Talk]:
    own.path("sub").mkdir()
    with inside(own.command(), person=Person()) as talk:
        yield talk


@pytest.fixture
def talker(asking: Talk) -> Talk:
    asking.person.action = "accept"
    asking.person.asked.clear()
    return asking


def names(result: dict[str, Any]) -> list[str]:
    return [Path(row["path"]).name for row in result["outputs"]]


def test_one_run_publishes_the_outputs_of_all_branches(talker: Talk, own: Place, oracle: Oracle):
    text = (
        "read dem.tif ! tee [ slope ! write slope.tif ] [ write sub/copy.tif ] ! hillshade ! write shade.tif"
    )
    result = talker.done("pipeline", steps=text)
    assert names(result) == ["shade.tif", "slope.tif", "copy.tif"]
    assert "files" not in result  # each output is a single file
    assert oracle.checksums(own.path("sub/copy.tif")) == oracle.checksums(own.path("dem.tif"))
    assert len(talker.person.asked) == 1


def test_step_reads_from_a_nested_pipeline(talker: Talk, own: Place, oracle: Oracle):
    talker.done("pipeline", steps="read dem.tif ! hillshade ! write shaded.tif")
    for number, overlay in enumerate(
        (
            "shaded.tif",
            {"steps": [{"step": "read", "arguments": {"input": "dem.tif"}}, {"step": "hillshade"}]},
        )
    ):
        blended = {"step": "blend", "arguments": {"operator": "multiply", "overlay": overlay}}
        read, write = ({"step": name, "arguments": {key: value}} for name, key, value in (
            ("read", "input", "dem.tif"), ("write", "output", f"blended-{number}.tif")))  # fmt: skip
        talker.done("pipeline", steps=[read, {"step": "hillshade"}, blended, write])
    assert oracle.checksums(own.path("blended-0.tif")) == oracle.checksums(own.path("blended-1.tif"))
    talker.done("pipeline", steps="mosaic [ read dem.tif ! slope ] [ read dem.tif ! slope ] ! write two.tif")
    stats = "read dem.tif ! zonal-stats --stat=mean --zones [ read zones.gpkg ! buffer --distance=10 ] ! write stats.csv"
    result = talker.done("pipeline", steps=stats)
    assert result["outputs"][0]["description"]["layers"][0]["features"] > 0


def test_when_one_branch_fails_none_is_published(talker: Talk, own: Place):
    text = "read dem.tif ! tee [ write none-a.tif ] [ select --band=9 ! write sub/none-b.tif ] ! write none-c.tif"
    assert talker.failed("pipeline", steps=text)["stage"] == "run"
    assert not list(own.workspace.rglob("none-*"))
    assert own.staged == []


def test_question_names_every_output_and_replacement(talker: Talk, own: Place):
    old = own.path("sub/old.tif")
    old.write_bytes(own.path("dem.tif").read_bytes())
    text = "read dem.tif ! tee [ write sub/old.tif --overwrite ] ! hillshade ! write asked.tif"
    talker.person.action = "decline"
    error = talker.failed("pipeline", steps=text)
    assert (error["code"], error["stage"]) == ("DENIED", "approval")
    [question] = talker.person.asked
    for path in (own.path("asked.tif"), old):
        assert str(path) in question
    assert not own.path("asked.tif").exists()
    assert old.read_bytes() == own.path("dem.tif").read_bytes()
    talker.person.action = "accept"
    assert [Path(row["path"]) for row in talker.done("pipeline", steps=text)["replaced"]] == [old]


def test_ambiguous_step_follows_the_kind_of_data(talker: Talk, own: Place, oracle: Oracle):
    """`reproject` is a step for rasters and a step for vectors, and the file decides which one runs."""
    calls = [
        talker.start("pipeline", steps="read dem.tif ! reproject --output-crs=EPSG:4326 ! write degrees.tif"),
        talker.start(
            "pipeline", steps="read zones.gpkg ! reproject --output-crs=EPSG:4326 ! write degrees.gpkg"
        ),
    ]
    for call in calls:
        assert not call.result(timeout=120).is_error
    assert 'ID["EPSG",4326]' in oracle.raster(own.path("degrees.tif"))["coordinateSystem"]["wkt"]
    assert oracle.counts(own.path("degrees.gpkg")) == [2]
