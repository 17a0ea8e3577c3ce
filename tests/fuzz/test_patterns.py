"""No text keeps the processor busy: every regular expression of the project, and every check of a text, on texts that
grow.

A slow regular expression stops the whole server, because Python's holds the interpreter during a match.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import gdal_mcp
import sandbox
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.plain import PLAIN
from gdal_mcp.toolboxes.gdal.datasets.names import table
from tests.fuzz.kit import SEED, TIMES
from tests.fuzz.matching import Maker
from tests.quick import quick

pytestmark = pytest.mark.claim("args.no-text-hangs-the-server")
ELSEWHERE = ("gdal_mcp.testing", "sandbox.worker", "sandbox.escape.probe")


def modules() -> Iterator[ModuleType]:
    """All modules that run on the host; a module that runs in a container has a deadline there."""
    for package in (gdal_mcp, sandbox):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            in_container = ".inside." in module.name or module.name.startswith(ELSEWHERE)
            if not in_container and not module.name.endswith(("__main__", "capture_program")):
                yield importlib.import_module(module.name)


def patterns_in(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from patterns_in(part)
    elif isinstance(value, dict):
        yield from patterns_in(list(value.values()))


def patterns() -> dict[str, re.Pattern[str]]:
    """Every regular expression by its place."""
    named = {
        f"{module.__name__}.{name}": pattern
        for module in modules()
        for name, value in vars(module).items()
        for pattern in patterns_in(value)
    }
    named |= {f"plain {name}": re.compile(rule.pattern) for name, rule in PLAIN.items()}
    for start, grammars in table().grammars.items():
        named |= {f"name {start} {number}": grammar.pattern for number, grammar in enumerate(grammars)}
    shapes = {rule.shape.pattern for rule in packaged().option_rules.values() if rule.shape} - {None, ""}
    named |= {f"option {text}": re.compile(text, re.IGNORECASE) for text in shapes}
    once = {(pattern.pattern, pattern.flags): name for name, pattern in named.items()}
    return {name: named[name] for name in sorted(once.values())}


def is_searched(name: str) -> bool:
    """True if it is searched for anywhere in a text, as far as its module shows."""
    if not name.startswith(("gdal_mcp.", "sandbox.")):
        return False
    module, _, variable = name.rpartition(".")
    source = inspect.getsource(importlib.import_module(module)).replace(f"{variable}: Final", "")
    return re.search(rf"\b{variable}\b(?! = )(?!\.(fullmatch|match)\()", source) is not None


PATTERNS = patterns()
SEARCHED = {name for name in PATTERNS if is_searched(name)}


def test_no_regular_expression_is_slow_on_near_matches():
    for name, pattern in PATTERNS.items():
        looks = (pattern.fullmatch, pattern.match, pattern.search)[: 3 if name in SEARCHED else 2]
        for number in range(12 * TIMES):
            text = Maker(pattern, f"{SEED} {name} {number}").text()
            sample = text.encode() if isinstance(pattern.pattern, bytes) else text
            with quick(why=f"{name}, seed {SEED}, number {number}: {text[:200]!r}"):
                for look in looks:
                    look(sample)
