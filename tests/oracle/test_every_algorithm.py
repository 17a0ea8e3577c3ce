"""Every algorithm, once, on real data through a server: its answer equals that of the same command in a separate
container.
"""

import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.model import Role
from gdal_mcp.toolboxes.gdal.datasets.operations import FILE_OPERATIONS
from tests.data.make import make_data
from tests.e2e.mcp.talk import Person, Place, Talk, talking
from tests.oracle.container import STAGING, Oracle
from tests.traps.texts import features, point

pytestmark = [pytest.mark.nightly, pytest.mark.engine]

RUNS = tomllib.loads((Path(__file__).parents[1] / "data" / "runs.toml").read_text())
PREPARE = RUNS.pop("data")["prepare"]
MADE = {name: run for name, run in RUNS.items() if "absent" not in run}
COMPARED = {name: run for name, run in MADE.items() if "alone" not in run}
RAMP = "0 0 0 0 255\n500 0 255 0 255\n800 255 255 255 255\n"


def points() -> str:
    """A cloud of points with values, no three of them on a line."""
    rows = (((n % 5, n // 5 + 0.1 * n), {"value": n * n % 17}) for n in range(25))
    return features((point(*where), values) for where, values in rows)


@pytest.fixture(scope="module")
def place(grounds: Path, oracle: Oracle) -> Place:
    created = Place.made(grounds / "every")
    folder = oracle.folder("every-data")
    make_data(oracle, created.workspace)
    shutil.copytree(created.workspace, folder, dirs_exist_ok=True)
    (folder / "ramp.txt").write_text(RAMP)
    (folder / "table.csv").write_text("lon,lat,value\n2,48,1\n3,49,2\n")
    (folder / "points.geojson").write_text(points())
    (folder / "listed" / "inner").mkdir(parents=True)
    (folder / "listed" / "ramp.txt").write_text(RAMP)
    (folder / "listed" / "inner" / "table.csv").write_text("a,b\n1,2\n")
    for command in PREPARE:
        oracle.must("sh", "-c", f"cd {folder} && {command}")
    shutil.copytree(folder, created.workspace, dirs_exist_ok=True)
    for run in RUNS.values():
        for line in run.get("setup", ()):
            old, new = (created.path(name) for name in line.split(" -> "))
            (shutil.copytree if old.is_dir() else shutil.copy)(old, new)
    return created


@pytest.fixture(scope="module")
def replies(place: Place, oracle: Oracle, grounds: Path) -> Iterator[dict[str, Any]]:
    """Answers of one server to every call, with the command that ran; several run at a time.

    Files that a call updates in place are copied for the oracle first.
    """
    before = oracle.folder("every-before")
    shutil.copytree(place.workspace, before, dirs_exist_ok=True)
    command = place.command("--approval", "never", "--no-preview")  # with the limits of calls
    with talking(command, grounds / "every.log", person=Person()) as talk:
        calls = {name: _started(talk, name, run) for name, run in MADE.items()}
        results = {name: call.result(timeout=300) for name, call in calls.items()}
        yield {
            name: (result, None if result.is_error else talk.record(result.structured_content)["argv"])
            for name, result in results.items()
        }


def _started(talk: Talk, name: str, run: dict[str, Any]) -> Any:
    tool = "gdal_read" if run.get("reads") else "gdal_write"
    return talk.start(tool, algorithm=name, arguments=run["arguments"])


def test_every_algorithm_has_a_run_or_a_reason() -> None:
    # aliases of other algorithms
    ours = {path for path in packaged().algorithms if path not in ("convert", "info")}
    assert set(RUNS) == ours
    for name, run in RUNS.items():
        assert ("reads" in run) + ("makes" in run) + ("absent" in run) == 1, name


def test_it_runs(replies: dict[str, Any], subtests: pytest.Subtests) -> None:
    for name in MADE:
        with subtests.test(name=name):
            reply, _ = replies[name]
            assert not reply.is_error, reply.structured_content


def test_what_it_prints_is_the_same(replies, oracle, subtests):
    for name in [name for name, run in COMPARED.items() if run.get("reads")]:
        with subtests.test(name=name):
            reply, argv = replies[name]
            content = reply.structured_content
            # where our containers store the statistics of read-only data; progress goes through the protocol
            printed = oracle.must("env", "GDAL_PAM_PROXY_DIR=/tmp", *argv)
            printed = re.sub(r"^0\.\.\.[0-9.]*100 - done\.\n", "", printed)
            untrusted = content.get("untrusted", {})
            if name == "mdim info":
                # of arrays and dimensions, parts that the facts contain are left out; each CRS appears once
                assert untrusted["report"].pop("crs")
                assert untrusted["report"]["arrays"]
                assert within(untrusted["report"], json.loads(printed))
            elif name == "raster info":
                assert untrusted["report"] == with_full_statistics(json.loads(printed))
            elif "report" in untrusted:
                assert untrusted["report"] == json.loads(printed)
            else:
                assert untrusted.get("text", "") == printed


def with_full_statistics(report: dict[str, Any]) -> dict[str, Any]:
    """The report with the full mean and deviation of each band from its metadata; GDAL prints three decimals."""
    for band in report["bands"]:
        for name in ("mean", "stdDev"):
            band[name] = float(band["metadata"][""][f"STATISTICS_{name.upper()}"])
    return report


def within(part: Any, whole: Any) -> bool:
    """True if all of a JSON value is at the same position in another value, which may have more keys."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and within(value, whole[key]) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(map(within, part, whole))
    return part == whole


def test_what_it_makes_is_the_same(replies, oracle, place, subtests):
    for name in [name for name, run in COMPARED.items() if "makes" in run]:
        with subtests.test(name=name):
            (reply, argv), run = replies[name], COMPARED[name]
            content = reply.structured_content
            if name in FILE_OPERATIONS:
                _check_operation(run, place, oracle)
                continue
            into = oracle.folder(f"every-{name.replace(' ', '-')}")
            for line in run.get("setup", ()):
                new = line.split(" -> ")[1]
                old = oracle.out / "every-before" / new
                (shutil.copytree if old.is_dir() else shutil.copy)(old, into / new)
            oracle.must(*(word.replace(STAGING, str(into)) for word in argv))
            target = Path(content["outputs"][0]["path"])
            assert _content(run["makes"], oracle, target) == _content(
                run["makes"], oracle, into / target.name
            )


def _check_operation(run: dict[str, Any], place: Place, oracle: Oracle) -> None:
    """Asserts that files were moved, removed or copied in the workspace itself."""
    arguments = run["arguments"]
    taken = [line.split(" -> ")[1] for line in run.get("setup", ())]
    assert not any(place.path(name).exists() for name in taken)
    if "destination" not in arguments:
        return
    target = place.path(arguments["destination"])
    source = place.path("dem.tif" if taken else arguments["source"])
    assert _content(run["makes"], oracle, target) == _content(run["makes"], oracle, source)


def _content(kind: str, oracle: Oracle, path: Path) -> Any:
    """The comparable content of an output."""
    if kind == "raster":
        facts = oracle.raster(path)
        return {key: value for key, value in facts.items() if key not in ("description", "files")}
    if kind == "vector":
        layers = oracle.vector(path)["layers"]
        assert layers
        return [{key: value for key, value in layer.items() if key != "metadata"} for layer in layers]
    if kind == "multidim":
        return json.loads(oracle.must("gdal", "mdim", "info", "--detailed", f"--input={path}")) | {"name": ""}
    if kind == "tree":
        names = sorted(str(entry.relative_to(path)) for entry in path.rglob("*"))
        assert names
        return names
    assert path.stat().st_size > 0
    return oracle.must("gdal", "vsi", "sozip", "list", f"--input={path}").replace(str(path), path.name)


def test_reading_and_writing_match_the_catalogue() -> None:
    writing = {Role.OUTPUT, Role.UPDATE}
    for name, run in MADE.items():
        arguments = packaged().algorithms[name].long_names
        used = {arguments[argument].role for argument in run["arguments"] if argument in arguments}
        if name not in FILE_OPERATIONS and "pipeline" not in name:
            assert bool(used & writing) == ("makes" in run), name
