"""Clients get the reviewed definition of every tool: a change of a schema or a text is a change of these files."""

import difflib
import json

from gdal_mcp.toolboxes.augment.tool import tools
from tests.boxes import known_tools
from tests.snapshots.__main__ import FOLDER, texts

HOW = (
    "What clients get of the tools is not what was reviewed. Run `make snapshots`, read the difference with "
    "`git diff tests/snapshots`, and commit it if all of it is meant."
)
NOW = texts()


def difference(old: str, new: str) -> str:
    """The first changed lines; a changed description is one line."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "reviewed", "now", lineterm="", n=2)
    return "\n".join(list(lines)[:60])


def reviewed(name: str) -> str:
    path = FOLDER / name
    return path.read_text(encoding="utf-8") if path.exists() else "[]\n"


def test_the_tools_are_those_that_were_reviewed():
    assert {path.name for path in FOLDER.glob("*.json")} == set(NOW), HOW
    for name in NOW:
        assert reviewed(name) == NOW[name], f"{HOW}\n{difference(reviewed(name), NOW[name])}"


def test_every_tool_is_in_them():
    names = [tool["name"] for text in NOW.values() for tool in json.loads(text)]
    assert set(names) == {*known_tools(), "run_python", *(tool.name for tool in tools())}
