"""The private attributes of libraries in use: the files that use them, and upper bounds on the libraries' versions."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
# the library, and the files that use its undocumented attributes
USES = {
    "mcp": (
        "gdal_mcp/server/mcp/http.py",
        "gdal_mcp/server/mcp/server.py",
        "gdal_mcp/server/mcp/subscriptions.py",
    ),
    "uvicorn": ("gdal_mcp/server/http/serving.py",),
}
PRIVATE = re.compile(r"self\._manager\._\w+|ctx\.session\._\w+|server_state|\.transport\.|\.cycle\b")


@pytest.mark.parametrize("library", USES)
def test_only_the_tested_minor_release_is_installed(library: str):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = next(
        requirement for text in project["dependencies"] if (requirement := Requirement(text)).name == library
    )
    major, minor = map(int, version(library).split(".")[:2])
    assert declared.specifier.contains(version(library))
    assert not declared.specifier.contains(f"{major}.{minor + 1}.0")
    assert not declared.specifier.contains(f"{major + 1}.0.0")


def test_no_other_file_of_the_server_uses_them():
    files = (ROOT / "gdal_mcp" / "server").rglob("*.py")
    using = {
        str(path.relative_to(ROOT)) for path in files if PRIVATE.search(path.read_text(encoding="utf-8"))
    }
    assert using == {path for paths in USES.values() for path in paths}
