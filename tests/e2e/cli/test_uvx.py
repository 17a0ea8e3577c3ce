"""The first command of README, with a wheel of this tree in place of the release: from an empty system to an answered
call.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gdal_mcp.runtime.image import Image
from tests.e2e.mcp.talk import Person, talking
from tests.wheel import build_wheel

pytestmark = [pytest.mark.nightly, pytest.mark.engine]
ROOT = Path(__file__).parents[3]
_NOT_OURS = ("PYTHONPATH", "VIRTUAL_ENV", "XDG_")  # variables that a new user's shell does not have


@pytest.fixture
def shell(tmp_path: Path, image: Image) -> Mapping[str, str]:
    """The environment of a user who has only uv and a container engine, with the wheel published."""
    (tmp_path / "home").mkdir()
    build_wheel(tmp_path / "dist")
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith((*_NOT_OURS, "GDAL_MCP_"))
    }
    return {
        **variables,
        "HOME": str(tmp_path / "home"),
        # for uvx, which is installed next to the tests' Python
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "UV_FIND_LINKS": str(tmp_path / "dist"),
        "GDAL_MCP_IMAGE": image.reference,
    }


def test_readme_command_leads_to_an_answered_call(tmp_path: Path, shell: Mapping[str, str]) -> None:
    maps = tmp_path / "home/maps"
    maps.mkdir()
    (maps / "towns.csv").write_text("name,people\nUlm,3\nBonn,4\n")
    [line] = re.findall(r"^    (uvx .* && uvx .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    # --yes, because a test has no terminal
    done = subprocess.run(
        ["sh", "-c", f"{line} --yes"], env=shell, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    shown = subprocess.run(
        ["uvx", "gdal-sandbox-mcp"], env=shell, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    # the commands that the program prints can be typed as they are, without `gdal-mcp` on the PATH
    [checks] = re.findall(r"^  (\S.* doctor .*)$", shown.stderr, re.MULTILINE)
    assert checks.startswith("uvx ")
    assert subprocess.run(["sh", "-c", checks], env=shell, cwd=tmp_path, check=False).returncode == 0
    settings = json.loads((tmp_path / "home/.config/Claude/claude_desktop_config.json").read_text())
    entry = settings["mcpServers"]["gdal"]
    with talking([entry["command"], *entry["args"]], tmp_path / "log", person=Person(), env=shell) as talk:
        assert "people" in json.dumps(talk.done("info", path="towns.csv"))
