"""The handler in the container that calls have: with its words, its settings, its limits and its user."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.gdal.answers.described import described
from gdal_mcp.gdal.environment import environment
from gdal_mcp.gdal.worker_source import gdal_command
from sandbox.outcome import Exited, SandboxResult
from sandbox.outputs.staging import Staging
from sandbox.program import delivered
from sandbox.runner import Job, Runner
from sandbox.template import STAGING_TARGET
from sandbox.waiting import Cancellation
from tests.conftest import MIB, SMALL, TemplateMaker
from tests.integration.worker_kit import EMPTY

pytestmark = pytest.mark.engine

LIMITS = replace(SMALL, memory_bytes=512 * MIB, scratch_bytes=64 * MIB)
GRID = "ncols 40\nnrows 20\nxllcorner 500000\nyllcorner 5000000\ncellsize 30\nNODATA_value -9999\n"
Work = Callable[..., SandboxResult]


@pytest.fixture
def work(
    runner: Runner, make_template: TemplateMaker, cancel: Cancellation, workspace: Path, staging: Staging
) -> Work:
    grid = workspace / "grid.asc"
    rows = (" ".join(str(x * y) for x in range(40)) for y in range(20))
    grid.write_text(GRID + "\n".join(rows) + "\n", encoding="ascii")
    grid.chmod(0o644)

    def one(**job: Any) -> SandboxResult:
        template = make_template(
            "",
            limits=LIMITS,
            workspace=workspace,
            staging=staging.path,
            environment=dict(environment(LIMITS)),
        )
        sent = delivered(gdal_command())
        template = replace(template, command=sent.command, program=sent.program)
        return runner.run(Job("call-0001", template, {**EMPTY, "preview_pixels": 0, **job}, staging), cancel)

    return one


def test_a_write_is_described_and_shown(work: Work, workspace: Path):
    source, output = str(workspace / "grid.asc"), str(STAGING_TARGET / "a.tif")
    words = ["raster", "convert", source, output, "--creation-option=COMPRESS=LZW"]
    done = work(program="gdal", options=words, sources=[source], outputs=[{"path": output, "kind": "dataset"}], preview_pixels=64)  # fmt: skip
    assert done.outcome == Exited(0)
    (told,) = described(done.final or {}, 1)
    assert (told.facts["driver"], told.facts["size"], told.facts["compression"]) == ("GTiff", [40, 20], "LZW")
    assert told.facts["bands"][0]["max"] == 39 * 19
    assert [row["code"] for row in told.checks] == ["crs_missing"]
    assert done.attachments["preview.png"].startswith(b"\x89PNG")


def test_a_preview_and_a_validation_run_where_nothing_can_be_written(work: Work, workspace: Path):
    source = str(workspace / "grid.asc")
    shown = work(program="preview", inputs=[source], preview={"color": "hillshade"})
    assert shown.outcome == Exited(0)
    assert json.loads(shown.stdout)["color"] == "hillshade"
    assert shown.attachments["preview.png"].startswith(b"\x89PNG")
    output = str(STAGING_TARGET / "a.tif")
    work(program="gdal", options=["raster", "convert", source, output], outputs=[])
    checked = work(program="gdal", options=["driver", "cog", "validate", output])
    assert checked.outcome == Exited(0)
    assert (checked.final or {})["return_code"] == 0  # so small that it needs no tiles
    assert output.encode() in checked.stdout


def test_a_crs_is_found_without_any_data(work: Work):
    done = work(program="find_crs", query="utm 33 north", limit=1)
    assert [row["code"] for row in json.loads(done.stdout)] == ["EPSG:32633"]
