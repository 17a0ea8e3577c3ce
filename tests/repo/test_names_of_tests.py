"""The name of a test states one behaviour in a few words, so that a list of results can be read."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
MOST_WORDS = 10  # eight or so; two more are left for a name that needs them


def names() -> Iterator[tuple[str, str]]:
    """Each module below tests/ with the name of each test in it."""
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield path.relative_to(TESTS).as_posix(), node.name.removeprefix("test_")


def test_no_name_has_more_than_ten_words():
    tests = list(names())
    assert ("repo/test_names_of_tests.py", "no_name_has_more_than_ten_words") in tests
    assert [f"{path}: {name}" for path, name in tests if len(name.split("_")) > MOST_WORDS] == []
