"""What a server tells a model before the first call."""

import re
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.cli.parsers import build_parser
from gdal_mcp.policy.identity import local
from gdal_mcp.server.app import running
from gdal_mcp.server.mcp.server import build
from gdal_mcp.settings import load_settings


def commands_in_instructions(tmp_path: Path, who: Any = None, **settings: Any) -> list[list[str]]:
    """The words of each command of the program in a server's instructions, without the program itself."""
    (tmp_path / "maps").mkdir(exist_ok=True)
    with running(
        load_settings(workspaces=[tmp_path / "maps"], state_dir=tmp_path / "state", **settings)
    ) as app:
        text = build(app, who).instructions or ""
    return [words.split() for words in re.findall(r"`[^`]*gdal-mcp (undo[^`]*)`", text)]


def test_a_model_learns_the_command_that_undoes_a_call(tmp_path: Path):
    [words] = commands_in_instructions(tmp_path)
    assert build_parser().parse_args(words).call_id


@pytest.mark.parametrize(
    ("who", "settings"),
    [(None, {"undo_calls": 0}), (None, {"read_only": True}), (lambda _context: local("ann"), {})],
)
def test_undo_is_not_offered_where_it_does_not_work(tmp_path: Path, who: Any, settings: dict[str, Any]):
    assert commands_in_instructions(tmp_path, who, **settings) == []
