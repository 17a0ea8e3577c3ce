"""What clients get of every tool is what was reviewed: a change of a schema or a text is a change of these files."""

import difflib
import json
from pathlib import Path

import pytest

from tests.boxes import known_tools
from tests.snapshots.__main__ import FOLDER, texts, write

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
    for name in NOW:
        assert reviewed(name) == NOW[name], f"{HOW}\n{difference(reviewed(name), NOW[name])}"


def test_there_is_a_file_for_every_toolset_and_no_other():
    assert {path.name for path in FOLDER.glob("*.json")} == set(NOW), HOW


def test_every_tool_is_in_them():
    found = [tool["name"] for text in NOW.values() for tool in json.loads(text)]
    assert set(found) == set(known_tools())


@pytest.mark.parametrize("change", ["text", "missing tool", "extra tool", "missing file", "extra file"])
def test_writing_finds_and_mends_every_difference(tmp_path: Path, change: str):
    assert write(tmp_path) == sorted(NOW)
    core = json.loads(NOW["core.json"])
    core = {
        "text": [{**core[0], "description": "x"}, *core[1:]],
        "missing tool": core[1:],
        "extra tool": [*core, {"name": "invented"}],
    }.get(change, core)
    (tmp_path / "core.json").write_text(json.dumps(core))
    if change == "missing file":
        (tmp_path / "core.json").unlink()
    if change == "extra file":
        (tmp_path / "core.json").write_text(NOW["core.json"], encoding="utf-8")
        (tmp_path / "retired.json").write_text("[]")
    assert write(tmp_path) == ["retired.json" if change == "extra file" else "core.json"]
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.json")} == NOW
