"""The commands in the section Verify of the reviewer's page, run as written."""

import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gdal_mcp.runtime.image import Image
from tests.e2e.cli.conftest import SECONDS, Desk
from tests.e2e.mcp.talk import environment

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[3]
PIP = (sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check")


def commands() -> list[str]:
    """The indented lines of the section, without comments."""
    section = (ROOT / "docs/reviewer.md").read_text().partition("\n## Verify\n")[2].partition("\n## ")[0]
    lines = [line.strip() for line in re.findall(r"^    (.*)$", section, re.MULTILINE)]
    return [line for line in lines if not line.startswith("#")]


def run(words: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    options = {"cwd": folder, "env": environment() | variables, "timeout": SECONDS}
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)


def as_here(command: str, workspace: Path, checkpoint: str = "") -> list[str]:
    """The command for the tests' interpreter and workspace; packages are resolved but not changed."""
    text = command.replace("~/maps", str(workspace)).replace("SEQ:HASH", checkpoint)
    program, *words = shlex.split(text.partition(" > ")[0])
    if program == "pip":
        return [*PIP, *words, "--dry-run"]
    modules = {"gdal-mcp": ("-m", "gdal_mcp"), "cyclonedx-py": ("-m", "cyclonedx_py"), "python": ()}
    return [sys.executable, *modules[program], *words]


@pytest.fixture(scope="module")
def outputs(desk: Desk, image: Image) -> dict[str, str]:
    """Each command of the page with its output. None of them fails."""
    assert desk.call("info", {"path": "dem.tif"}).code == 0
    checkpoint = desk.run("audit", "verify").checkpoint
    state = {"GDAL_MCP_STATE_DIR": str(desk.state), "GDAL_MCP_IMAGE": image.reference}
    printed = {}
    for command in commands():
        done = run(as_here(command, desk.workspace, checkpoint), ROOT, **state)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        printed[command] = done.stdout
    return printed


@pytest.fixture(scope="module")
def listed() -> str:
    """The output of the page's command for a scanner."""
    (command,) = [line for line in commands() if line.startswith("cyclonedx-py ")]
    return run(as_here(command, ROOT), ROOT).stdout


@pytest.mark.nightly
@pytest.mark.claim("supply.verify-runs", "supply.sbom")
def test_what_the_page_says_to_verify_with_runs(outputs: dict[str, str], listed: str, image: Image):
    assert {command.split()[0] for command in outputs} == {"pip", "gdal-mcp", "python", "cyclonedx-py"}
    assert image.digest in outputs["gdal-mcp doctor --workspace ~/maps"]
    assert "::test_" in outputs["python -m docs.promises network.no-interface"]
    assert [text for command, text in outputs.items() if command.startswith("cyclonedx-py ")] == [listed]


@pytest.mark.claim("supply.sbom")
def test_what_is_installed_is_listed(listed: str):
    parts = {
        (canonicalize_name(component["name"]), component["version"])
        for component in json.loads(listed)["components"]
    }
    needed = [Requirement(text) for text in distribution("gdal-sandbox-mcp").requires or ()]
    names = [canonicalize_name(requirement.name) for requirement in needed if requirement.marker is None]
    assert {(name, distribution(name).version) for name in names} <= parts


def wheel(folder: Path, text: str) -> Path:
    path = folder / "sample-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("sample.py", text)
        for name, content in {
            "METADATA": "Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n",
            "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "RECORD": "",
        }.items():
            archive.writestr(f"sample-1.0.dist-info/{name}", content)
    return path


def required(command: str, lock: Path, wheels: Path, target: Path) -> int:
    """The exit code of the page's command for another lock, with only the wheels of a folder."""
    words = [*shlex.split(re.sub(r" -r \S+", "", command))[1:], "-r", str(lock)]
    offline = ["--no-index", "--find-links", str(wheels), "--target", str(target)]
    return run([*PIP, *words, *offline], wheels, PIP_CACHE_DIR=os.devnull).returncode


@pytest.mark.claim("supply.verify-runs")
def test_hashes_are_required_and_changed_wheel_is_refused(tmp_path: Path):
    (command,) = [line for line in commands() if line.startswith("pip ")]
    path = wheel(tmp_path, "true = 1\n")
    hashed = run([*PIP, "hash", str(path)], tmp_path).stdout.split("--hash=")[1].strip()
    lock = tmp_path / "lock.txt"
    lock.write_text(f"sample==1.0 --hash={hashed}\n")
    assert required(command, lock, tmp_path, tmp_path / "good") == 0
    assert (tmp_path / "good/sample.py").exists()
    wheel(tmp_path, "true = 0\n")
    assert required(command, lock, tmp_path, tmp_path / "changed") != 0
    assert not (tmp_path / "changed/sample.py").exists()
    lock.write_text("sample==1.0\n")
    assert required(command, lock, tmp_path, tmp_path / "unhashed") != 0
