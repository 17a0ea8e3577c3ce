"""Regular expressions mean the same in every supported Python.

Before 3.11.5 (Debian 12 has 3.11.2), a possessive or atomic group around anything that backtracks matches text that
it should not: https://github.com/python/cpython/issues/106052.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{[0-9,]+\})\+|\(\?>")


def patterns(source: str) -> Iterator[str]:
    """The literal texts in the first argument of calls to `re`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") and node.args:
            for part in ast.walk(node.args[0]):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def possessive_groups(source: str) -> list[str]:
    return [text for text in patterns(source) if POSSESSIVE_GROUP.search(text)]


def test_no_group_is_possessive():
    files = [*(ROOT / "gdal_mcp").rglob("*.py"), *(ROOT / "sandbox").rglob("*.py")]
    assert {path: groups for path in files if (groups := possessive_groups(path.read_text("utf-8")))} == {}


@pytest.mark.parametrize("pattern", ["(?:a|b)*+", "(?:a){2,}+", "(?>a+)b", "(a?)++"])
def test_a_possessive_group_is_found(pattern: str):
    assert possessive_groups(f"re.compile({pattern!r})") == [pattern]


def test_a_single_possessive_character_is_not_a_group():
    assert possessive_groups(r"re.match('[^)]*+a++', text); re.match(r'\(a\)++', text)") == []
