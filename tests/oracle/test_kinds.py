"""GDAL's computations on rasters of every kind give the same in calls as in a GDAL without any of our settings."""

import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.mcp.talk import Person, Place, Talk, talking
from tests.oracle.container import Oracle
from tests.oracle.kinds import ALL, FEW, PROGRAM, Kind, listed

pytestmark = pytest.mark.engine

TOLERANCE = 1e-9  # relative difference: sums in another order differ in the last digits
AT_ONCE = 6  # simultaneous calls; each has a container
REST = tuple(kind for kind in ALL if kind not in FEW)
INFO = {"stats": True, "min-max": True, "checksum": True, "hist": True}
ZONES = """{"type": "FeatureCollection", "crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32631"}}, "features": [
{"type": "Feature", "properties": {"n": 1}, "geometry": {"type": "Polygon", "coordinates":
[[[500000, 4999700], [500300, 4999700], [500300, 5000000], [500000, 5000000], [500000, 4999700]]]}}]}"""
# percentages of the minimum and maximum of the input
RAMP = "nv 0 0 0\n0% 0 0 255\n50% 0 255 0\n100% 255 0 0\n"


@pytest.fixture(scope="module")
def place(grounds: Path, oracle: Oracle) -> Place:
    created = Place.made(grounds / "kinds")
    folder = oracle.folder("kinds")
    oracle.python(PROGRAM, str(folder), listed(FEW))
    (folder / "zones.geojson").write_text(ZONES)
    (folder / "ramp.txt").write_text(RAMP)
    for kind in ("Int16", "Float32"):  # two halves of a mosaic, whose statistics GDAL takes from the sources
        full, halves = folder / f"{kind}-tiles-odd-nothing.tif", []
        for number, left in enumerate((0, 150)):
            halves.append(folder / f"{kind}-{number}.tif")
            window = ["-srcwin", f"{left}", "0", f"{(150, 151)[number]}", "203", "-a_nodata", "0"]
            oracle.must("gdal_translate", "-q", *window, str(full), str(halves[-1]))
    shutil.copytree(folder, created.workspace, dirs_exist_ok=True)
    return created


@pytest.fixture(scope="module")
def talk(place: Place, grounds: Path) -> Iterator[Talk]:
    """A server with the default limits of calls."""
    with talking(
        place.command("--approval", "never", "--no-preview"), grounds / "kinds.log", person=Person()
    ) as connected:
        yield connected


def same(ours: Any, theirs: Any) -> bool:
    """True if equal except for digits that GDAL's report rounds, including numbers in texts of metadata."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    try:
        rounded = 0.51 * 10 ** -len(f"{theirs}".partition(".")[2]) if "e" not in f"{theirs}" else 0.0
        return math.isclose(
            float(ours),
            float(theirs),
            rel_tol=TOLERANCE,
            abs_tol=max(1e-12, rounded if "." in f"{theirs}" else 0.0),
        )
    except (TypeError, ValueError):
        return bool(ours == theirs)


def reported_bands(oracle: Oracle, path: Path) -> list[dict[str, Any]]:
    """Every number that GDAL reports for the bands: statistics, extremes, histogram, checksum, also of masks and
    overviews.
    """
    words = ("gdal", "raster", "info", "--format=json", *(f"--{name}" for name in INFO))
    # the workspace is read-only for it, as for our containers, which store statistics in another folder
    return list(json.loads(oracle.must("env", "GDAL_PAM_ENABLED=NO", *words, str(path)))["bands"])


def stored_bands(oracle: Oracle, path: Path) -> list[dict[str, Any]]:
    """The stored content of a file's bands: checksums of pixels and overviews, and stored statistics."""
    words = ("gdal", "raster", "info", "--checksum", "--format=json")
    return list(json.loads(oracle.must(*words, str(path)))["bands"])


def reports(talk: Talk, names: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Reports of calls about the bands of these files, several calls at a time."""
    bands: dict[str, list[dict[str, Any]]] = {}
    for start in range(0, len(names), AT_ONCE):
        batch = names[start : start + AT_ONCE]
        calls = [
            talk.start(
                "gdal_read",
                algorithm="raster info",
                arguments={"input": name, "output-format": "json", **INFO},
            )
            for name in batch
        ]
        for name, call in zip(batch, calls, strict=True):
            reply = call.result(timeout=120)
            assert not reply.is_error, reply.structured_content
            bands[name] = reply.structured_content["untrusted"]["report"]["bands"]
    return bands


def compare_info(
    talk: Talk,
    place: Place,
    oracle: Oracle,
    names: list[str],
    subtests: pytest.Subtests,
) -> None:
    for name, bands in reports(talk, names).items():
        with subtests.test(name=name):
            assert same(bands, reported_bands(oracle, place.workspace / name))


def test_statistics_histograms_and_checksums(talk, place, oracle, subtests):
    compare_info(talk, place, oracle, [f"{kind.name}.tif" for kind in FEW], subtests)


def draw(kinds: tuple[Kind, ...], place: Place, oracle: Oracle) -> None:
    """Makes rasters of these kinds in the workspace."""
    folder = oracle.folder("drawn")
    oracle.python(PROGRAM, str(folder), listed(kinds))
    for path in folder.iterdir():
        shutil.copy(path, place.workspace)


@pytest.mark.timeout(1800)
@pytest.mark.nightly
def test_statistics_histograms_and_checksums_of_every_kind(talk, place, oracle, subtests):
    draw(REST, place, oracle)
    compare_info(talk, place, oracle, [f"{kind.name}.tif" for kind in REST], subtests)


# by name: the call, and the equivalent program without any of our settings; {i} is the input, {o} the output
WRITES = {
    "raster edit": ({"stats": True}, "cp {i} {o} && gdal raster edit --stats {o}"),
    "raster convert": (
        {"output-format": "COG", "creation-option": ["STATISTICS=YES"]},
        "gdal raster convert -q --format COG --co STATISTICS=YES {i} {o}",
    ),
    "raster overview add": (
        {"levels": [2, 4], "resampling": "average"},
        "cp {i} {o} && gdal raster overview add -q --levels 2,4 -r average {o}",
    ),
    "raster reproject": (
        {"output-crs": "EPSG:3035", "resampling": "bilinear"},
        "gdal raster reproject -q --output-crs EPSG:3035 -r bilinear {i} {o}",
    ),
    "raster resize": (
        {"size": "50%,50%", "resampling": "average"},
        "gdal raster resize -q --size 50%,50% -r average {i} {o}",
    ),
    "raster scale": (
        {"output-data-type": "UInt8", "output-min": 0, "output-max": 255},
        "gdal raster scale -q --output-data-type UInt8 --dst-min 0 --dst-max 255 {i} {o}",
    ),
    "raster color-map": (
        {"color-map": "ramp.txt"},
        "gdal raster color-map -q --color-map {f}/ramp.txt {i} {o}",
    ),
    "raster slope": ({}, "gdal raster slope -q {i} {o}"),
    "raster hillshade": (
        {"variant": "multidirectional"},
        "gdal raster hillshade -q --variant multidirectional {i} {o}",
    ),
    "raster neighbors": (
        {"method": ["stddev"], "kernel": ["equal"], "size": 5},
        "gdal raster neighbors -q --method stddev --kernel equal --size 5 {i} {o}",
    ),
    "raster sieve": ({"size-threshold": 4}, "gdal raster sieve -q -s 4 {i} {o}"),
    "raster proximity": (
        {"target-values": [7, 70], "distance-units": "geo"},
        "gdal raster proximity -q --target-values 7,70 --distance-units geo {i} {o}",
    ),
    "raster fill-nodata": (
        {"max-distance": 60, "smoothing-iterations": 2},
        "gdal raster fill-nodata -q -d 60 -s 2 {i} {o}",
    ),
    "raster calc": ({"calc": ["X * 2"]}, "gdal raster calc -q --calc 'X * 2' --input X={i} {o}"),
}
HOLES = {"raster fill-nodata", "raster neighbors"}  # for rasters with nodata
IN_PLACE = {"raster edit": "dataset", "raster overview add": "input"}
WRITTEN = tuple(
    Kind(data_type, "tiles", "odd", "nothing")
    for data_type in ("UInt8", "Int16", "Int32", "Float32", "Float64")
)
WITH_HOLES = tuple(replace(kind, hidden="nodata") for kind in WRITTEN)
QUICK = {"raster edit", "raster convert", "raster overview add", "raster color-map"}


def compare_written(
    talk: Talk, place: Place, oracle: Oracle, algorithm: str, kind: Kind, subtests: pytest.Subtests
) -> None:
    arguments, command = WRITES[algorithm]
    source, output = f"{kind.name}.tif", f"{algorithm.replace(' ', '-')}-{kind.type}.tif"
    if algorithm in IN_PLACE:
        shutil.copy(place.path(source), place.path(output))
        call_arguments = {IN_PLACE[algorithm]: output, **arguments}
    else:
        place.path(output).unlink(missing_ok=True)  # in the shorter test
        name = [f"X={source}"] if algorithm == "raster calc" else source
        call_arguments = {"input": name, "output": output, **arguments}
    with subtests.test(name=f"{algorithm} {kind.name}"):
        talk.done("gdal_write", algorithm=algorithm, arguments=call_arguments)
        into = oracle.folder(f"{algorithm.replace(' ', '-')}-{kind.type}") / output
        words = command.format(i=place.path(source), o=into, f=place.workspace)
        oracle.must("env", "GDAL_PAM_ENABLED=NO", "sh", "-c", words)
        assert same(stored_bands(oracle, place.path(output)), stored_bands(oracle, into))


def test_what_is_written(talk, place, oracle, subtests):
    for algorithm in sorted(QUICK):
        compare_written(talk, place, oracle, algorithm, WRITTEN[1], subtests)
    compare_written(talk, place, oracle, "raster edit", WRITTEN[3], subtests)
    compare_written(talk, place, oracle, "raster convert", WRITTEN[3], subtests)


@pytest.mark.nightly
def test_what_is_written_of_every_kind(talk, place, oracle, subtests):
    draw(WITH_HOLES, place, oracle)
    for algorithm in WRITES:
        for kind in WITH_HOLES if algorithm in HOLES else WRITTEN:
            compare_written(talk, place, oracle, algorithm, kind, subtests)


# algorithms that write features, which are compared as text
VECTORS = {
    "contour": ("geojson", {"interval": 25}, ["--interval=25"]),
    "zonal-stats": (
        "csv",
        {"zones": "zones.geojson", "stat": ["variance", "stdev", "mode"]},
        [
            "--zones={f}/zones.geojson",
            *(f"--stat={statistic}" for statistic in ("variance", "stdev", "mode")),
        ],
    ),
}


@pytest.mark.nightly
def test_features_of_rasters_of_every_type(talk, place, oracle, subtests):
    kinds = tuple(Kind(kind.type, "one-strip", "small", "nodata") for kind in WRITTEN)
    draw(kinds, place, oracle)
    for algorithm, (ending, extra, options) in VECTORS.items():
        for kind in kinds:
            source, name = f"{kind.name}.tif", f"{algorithm}-{kind.type}.{ending}"
            with subtests.test(name=name):
                arguments = {"input": source, "output": name, **extra}
                talk.done("gdal_write", algorithm=f"raster {algorithm}", arguments=arguments)
                into = oracle.folder(name) / name
                words = [option.format(f=place.workspace) for option in options]
                oracle.must("gdal", "raster", algorithm, "-q", *words, str(place.path(source)), str(into))
                assert place.path(name).read_text() == into.read_text()


def test_a_mosaic_has_the_statistics_of_its_sources(talk, place, oracle, subtests):
    """GDAL takes them from the sources, each with the code for its type."""
    statistics = ["STATISTICS=YES"]
    for kind in ("Int16", "Float32"):
        mosaic, output = f"{kind}.vrt", f"{kind}-mosaic.tif"
        sources = [f"{kind}-0.tif", f"{kind}-1.tif"]
        talk.done("gdal_write", algorithm="raster mosaic", arguments={"input": sources, "output": mosaic})
        arguments = {"input": mosaic, "output": output, "output-format": "COG", "creation-option": statistics}
        with subtests.test(name=kind):
            talk.done("gdal_write", algorithm="raster convert", arguments=arguments)
            into = oracle.folder(f"mosaic-{kind}") / output
            words = ("gdal", "raster", "convert", "-q", "--format=COG", "--co=STATISTICS=YES")
            oracle.must(*words, str(place.path(mosaic)), str(into))
            assert same(stored_bands(oracle, place.path(output)), stored_bands(oracle, into))


def test_zones_of_every_type(talk, place, oracle, subtests):
    for kind in WRITTEN[1::2]:
        arguments = {
            "zones": "zones.geojson",
            "output": f"zones-{kind.type}.csv",
            "stat": ["count", "mean", "min", "max"],
        }
        with subtests.test(name=kind.type):
            talk.done(
                "gdal_write",
                algorithm="raster zonal-stats",
                arguments={"input": f"{kind.name}.tif", **arguments},
            )
            into = oracle.folder(f"zones-{kind.type}") / "zones.csv"
            words = ["--stat=count", "--stat=mean", "--stat=min", "--stat=max"]
            zones, source = place.path("zones.geojson"), place.path(f"{kind.name}.tif")
            oracle.must(
                "gdal", "raster", "zonal-stats", "-q", *words, f"--zones={zones}", str(source), str(into)
            )
            assert place.path(f"zones-{kind.type}.csv").read_text() == into.read_text()


def test_receipt_names_settings_that_can_change_answers(talk, place):
    """The settings of the call: of the container, or as the worker changed them for it."""
    source = f"{WRITTEN[1].name}.tif"
    read = talk.done("gdal_read", algorithm="raster info", arguments={"input": source, "stats": True})
    written = talk.done(
        "gdal_write", algorithm="raster slope", arguments={"input": source, "output": "named.tif"}
    )
    fast, cache = "GDAL_STATS_USE_FLOAT32_OPTIM", {"GDAL_CACHEMAX": "256"}
    assert talk.record(read)["receipt"]["settings"] == {"GDAL_NUM_THREADS": "1", fast: "YES", **cache}
    assert talk.record(written)["receipt"]["settings"] == {"GDAL_NUM_THREADS": "2", fast: "NO", **cache}
