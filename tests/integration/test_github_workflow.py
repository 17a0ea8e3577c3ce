"""The example GitHub workflow, run step by step on its own repository, with this checkout instead of the package
index.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.integration.actions import Job
from tests.integration.workflow_kit import EXAMPLES, environment
from tests.wheel import build_wheel

pytestmark = [pytest.mark.engine, pytest.mark.nightly]

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / "examples" / "github" / "workflows.yml"
# workflows whose parameters all have defaults and that need no other toolbox
CHECKED = ("addresses_by_district", "flood_depth", "terrain_for_web")


def checkout(job: Job, _inputs: Mapping[str, Any]) -> None:
    """A repository as the example expects it: workflows and their data."""
    (job.workspace / "workflows").mkdir()
    for name in CHECKED:
        shutil.copy(EXAMPLES / f"{name}.yaml", job.workspace / "workflows")
    subprocess.run([sys.executable, EXAMPLES / "make_data.py", job.workspace / "sample"], check=True)


def setup_python(job: Job, inputs: Mapping[str, Any]) -> None:
    """A Python first in PATH that uses the packages of this environment, so that pip finds the dependencies
    installed.
    """
    assert inputs["python-version"]
    folder = job.home / "python"
    venv.create(folder, with_pip=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    job.env["PATH"] = f"{folder / 'bin'}{os.pathsep}{job.env['PATH']}"


def upload_artifact(job: Job, inputs: Mapping[str, Any]) -> None:
    target = job.home / "artifacts" / inputs["name"]
    if not (job.workspace / inputs["path"]).exists():  # a warning annotation of Actions
        return
    shutil.copytree(job.workspace / inputs["path"], target)
    job.artifacts[inputs["name"]] = target


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Uses a package index with one wheel, of this checkout, in place of another installation of it."""
    build_wheel(tmp_path / "index")
    for name in ("repository", "home"):
        (tmp_path / name).mkdir()
    tmp_path.chmod(0o755)
    index = {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "index"),
        "PIP_NO_DEPS": "1",
        "PIP_FORCE_REINSTALL": "1",
    }
    passed = environment()
    uses = {
        "actions/checkout": checkout,
        "actions/setup-python": setup_python,
        "actions/upload-artifact": upload_artifact,
    }
    return Job(tmp_path / "repository", tmp_path / "home", {**passed, **index}, uses)


def cases(report: Path, kind: str = "") -> list[str]:
    testcases = ET.parse(report).iter("testcase")
    return [
        str(testcase.get("name")) for testcase in testcases if not kind or testcase.find(kind) is not None
    ]


def test_action_checks_workflows_runs_one_and_uploads_reports(job: Job):
    assert job.run(WORKFLOW, "check"), job.log
    reports = job.artifacts["reports"]
    assert {path.stem for path in reports.iterdir()} == {*CHECKED, "run"}
    assert cases(reports / "addresses_by_district.xml") == ["points", "sums"]
    assert [cases(report, "failure") for report in reports.iterdir()] == [[]] * 4
    assert {"relief.tif", "contours.geojson", "tiles"} <= {
        path.name for path in (job.workspace / "sample").iterdir()
    }


def test_wrong_workflow_fails_job_and_runs_nothing(job: Job):
    def checkout_wrong(job: Job, inputs: Mapping[str, Any]) -> None:
        checkout(job, inputs)
        file = job.workspace / "workflows" / "flood_depth.yaml"
        file.write_text(file.read_text().replace("include_field: [parcel", "include_field: [plot"))

    job.uses = {**job.uses, "actions/checkout": checkout_wrong}
    assert not job.run(WORKFLOW, "check")
    assert [code for _, code, _ in job.log] == [0, 0, 4]
    assert cases(job.artifacts["reports"] / "flood_depth.xml", "failure") == ["by_parcel"]
    assert not (job.workspace / "sample" / "relief.tif").exists()
