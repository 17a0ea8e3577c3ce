"""The protocol's own Inspector lists every tool of the default set, and calls each."""

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.tools.listing import core
from tests.e2e.conformance.node import Programs
from tests.e2e.mcp.talk import Place, environment

pytestmark = [pytest.mark.nightly, pytest.mark.engine]

CALLS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("calls.toml").read_text())
ERAS = ("legacy", "modern")
# each call starts a server and a Node: `make conformance` makes all calls in both eras, `make test-all` every second
# call in one
ALL = os.environ.get("CONFORMANCE") == "all"
CALLED = [
    (era, tool) for number, tool in enumerate(CALLS) for era in (ERAS if ALL else (ERAS[number % len(ERAS)],))
]
SECONDS = 300  # limit of waiting, far longer than any call takes


def inspect(
    pinned: Programs, place: Place, home: Path, era: str, *extra: str
) -> "subprocess.CompletedProcess[str]":
    options = ("--protocol-era", era, "--format", "json", "--connect-timeout", str(SECONDS * 1000), *extra)
    words = (*options, "--", *place.command("--approval", "never"))
    return pinned.inspector(*words, cwd=home, env={**environment(), "HOME": str(home)}, seconds=SECONDS)


@pytest.mark.parametrize("era", ERAS)
def test_every_tool_is_listed_with_valid_schemas(pinned, place, home, era):
    ended = inspect(pinned, place, home, era, "--method", "tools/list", "--strict")
    assert ended.returncode == 0, ended.stderr[-3000:]
    listed = [tool["name"] for tool in json.loads(ended.stdout)["result"]["tools"]]
    assert listed == [tool.name for tool in core(packaged())]
    assert set(listed) == set(CALLS)


def test_every_tool_is_called(pinned, make_place, place, home, subtests):
    for era, tool in CALLED:
        with subtests.test(era=era, tool=tool):
            own = make_place("dem.tif", "float.tif", "rgb.tif", "classes.tif", "zones.gpkg")
            arguments = json.dumps(CALLS[tool])
            words = ("--method", "tools/call", "--tool-name", tool, "--tool-args-json", arguments)
            ended = inspect(pinned, own, home, era, *words)
            assert ended.returncode == 0, ended.stderr[-3000:]
            result = json.loads(ended.stdout)["result"]
            assert result["structuredContent"]
            assert not result.get("isError")
            output = CALLS[tool].get("output")
            assert output is None or own.path(output).is_file()


def test_a_call_that_fails_is_seen_to_fail(pinned: Programs, place: Place, home: Path):
    words = ("--method", "tools/call", "--tool-name", "info", "--tool-args-json", '{"path": "absent.tif"}')
    assert inspect(pinned, place, home, "modern", *words).returncode == 5
