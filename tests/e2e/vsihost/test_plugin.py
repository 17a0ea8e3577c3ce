"""GDAL reads the same through its host as from a file, with few questions; and a failed read fails the job."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandbox.outcome import Exited, HostReadFailed
from sandbox.questions import Answer, Op, Question, Status
from tests.e2e.vsihost.kit import Folder
from tests.oracle.container import Oracle

pytestmark = [pytest.mark.engine]

BOX = "--bbox=450000,3740000,452000,3742000"
# commands for each file, as words of the `gdal` program; {} is the file
READS = {
    "a cog's facts": ("raster", "info", "--format=json", "{}/a.tif"),
    "a cog's pixels": ("raster", "info", "--checksum", "--stats", "--format=json", "{}/a.tif"),
    "a window": ("raster", "pipeline", "read", "{}/a.tif", "!", "clip", BOX, "!", "info", "--checksum", "--format=json"),
    "a tiff with a world file": ("raster", "info", "--checksum", "--format=json", "{}/beside.tif"),
    "flatgeobuf": ("vector", "pipeline", "read", "{}/b.fgb", "!", "filter", BOX, "!", "info", "--features", "--format=json"),
    "geopackage": ("vector", "pipeline", "read", "{}/b.gpkg", "!", "filter", BOX, "!", "info", "--features", "--format=json"),
    "an archive": ("vector", "info", "--format=json", "/vsizip/{{{}/c.zip}}/inner/b.fgb"),
    "zarr": ("raster", "info", "--checksum", "--format=json", "{}/d.zarr"),
    "a virtual raster": ("raster", "info", "--checksum", "--format=json", "{}/e.vrt"),
}  # fmt: skip


def comparable(text: str, root: str) -> Any:
    """GDAL's output without names that depend on the file's place."""
    value = json.loads(text.replace(root, "/there"))
    return {key: part for key, part in value.items() if key not in ("files", "description", "metadata")}


@pytest.mark.claim("content.questions-strict")
def test_every_format_reads_as_from_a_file(ask, folder: Folder, oracle: Oracle, data: Path, subtests):
    for name, words in READS.items():
        with subtests.test(name):
            folder.asked.clear()
            there = ask(*(word.format("/vsihost/1") for word in words))
            assert there.outcome == Exited(0), there.stderr.decode()
            here = oracle.must("gdal", *(word.format(data) for word in words))
            assert comparable(there.stdout.decode(), "/vsihost/1") == comparable(here, str(data))
            questions = [(question.name, question.ranges) for question in folder.reads]
            assert len(questions) == len(set(questions))  # no question is sent twice


def test_facts_take_one_look_and_a_window_little(ask, folder: Folder, data: Path):
    ask(*(word.format("/vsihost/1") for word in READS["a cog's facts"]))
    assert folder.reads == []
    assert [question.op for question in folder.asked if question.name == "1/a.tif"] == [Op.LOOK]
    ask(*(word.format("/vsihost/1") for word in READS["a window"]))
    assert 0 < folder.bytes_read < (data / "a.tif").stat().st_size / 8
    assert len(folder.reads) <= 3


def test_scattered_reading_soon_reads_the_whole_file(ask, folder: Folder, data: Path):
    ask("vector", "info", "--features", "--format=json", "/vsihost/1/b.gpkg")
    assert len(folder.reads) < 10
    assert folder.bytes_read <= (data / "b.gpkg").stat().st_size


def test_data_exceeding_the_cache_is_read_again_correctly(
    ask, folder: Folder, template, oracle: Oracle, data: Path
):
    """The cache has almost no room for blocks."""
    small = replace(template.limits, memory_bytes=256 << 20)
    words = READS["a cog's pixels"]
    result = ask(*(word.format("/vsihost/1") for word in words), limits=small)
    assert result.outcome == Exited(0), result.stderr.decode()
    assert comparable(result.stdout.decode(), "/vsihost/1") == comparable(
        oracle.must("gdal", *(word.format(data) for word in words)), str(data)
    )


def failing(after: int, name: str = "") -> Any:
    """The host fails to read, from this number of reads of a file on."""
    count = 0

    def spoil(question: Question) -> Answer | None:
        nonlocal count
        if question.op is Op.LIST or name not in question.name:
            return None
        count += 1
        return Answer(Status.EIO) if count > after else None

    return spoil


@pytest.mark.claim("remote.failed-read-fails-the-call")
def test_failed_read_fails_the_job_despite_gdal(ask, data: Path, subtests):
    """GDAL reads an unreadable chunk of a Zarr as zeros, and its call succeeds."""
    for name, after in (
        ("a cog's facts", 0), ("a cog's pixels", 1), ("a cog's pixels", 3), ("a window", 1),
        ("flatgeobuf", 2), ("geopackage", 2), ("an archive", 1), ("zarr", 6),
    ):  # fmt: skip
        with subtests.test(name, after=after):
            spoilt = Folder(data, spoil=failing(after))
            result = ask(*(word.format("/vsihost/1") for word in READS[name]), answerer=spoilt)
            assert result.outcome == HostReadFailed()
            assert len([question for question in spoilt.asked if question.op is not Op.LIST]) <= after + 8


def test_truncated_answer_fails_the_job(ask, data: Path):
    def spoil(question: Question) -> Answer | None:
        return Answer(Status.OK, b"short") if question.op is Op.READ else None

    result = ask(
        *(word.format("/vsihost/1") for word in READS["a cog's pixels"]), answerer=Folder(data, spoil=spoil)
    )
    assert result.outcome == Exited(1)


def test_nothing_is_written_or_taken_away_there(ask, folder: Folder, data: Path):
    before = sorted(path.name for path in data.iterdir())
    for words in (
        ("raster", "convert", "/vsihost/1/a.tif", "/vsihost/1/new.tif"),
        ("raster", "edit", "--metadata=a=b", "/vsihost/1/a.tif"),
        ("vsi", "delete", "/vsihost/1/a.tif"),
        ("vsi", "copy", "/vsihost/1/a.tif", "/vsihost/1/b.tif"),
    ):
        assert ask(*words).outcome == Exited(1), words
    assert sorted(path.name for path in data.iterdir()) == before


@pytest.mark.claim("remote.only-what-was-named")
def test_data_naming_other_places_reaches_none_of_them(ask, folder: Folder, data: Path, subtests):
    names = ("other-alias", "climbing", "curl", "s3", "url", "file", "proc")
    for name in (f"{kind}.{ending}" for kind in names for ending in ("vrt", "gdalg.json")):
        with subtests.test(name):
            folder.asked.clear()
            result = ask("raster", "info", "--checksum", "--format=json", f"/vsihost/1/hostile-{name}")
            assert result.outcome == Exited(1)
            beyond = [
                question.name
                for question in folder.asked
                if not question.name.startswith("1/hostile-") and question.name != "1"
            ]
            assert all(folder.answer(Question(1, Op.LOOK, path)).status is Status.ENOENT for path in beyond)
