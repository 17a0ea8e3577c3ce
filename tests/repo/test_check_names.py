"""The names in the code of checks exist in the catalogue: a check of a name that GDAL lacks would silently do
nothing.
"""

import ast
import itertools
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module, resources
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

from gdal_mcp.toolboxes.gdal import preflight
from gdal_mcp.toolboxes.gdal.answers.words import drivers
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.preflight import checks
from gdal_mcp.tools.classic import CLASSIC

KINDS = "raster|vector|mdim|dataset|driver|vsi"
ALGORITHM = re.compile(rf"(?:{KINDS})(?: [a-z][a-z-]*)+")
# methods of a call, and names of mappings, whose keys are arguments of algorithms
ASKS = {"text", "flag", "texts", "numbers", "box"}
MAPPINGS = {"given", "arguments"}
SETS_OF_DRIVERS = {"_TILES", "_TABLES", "PICTURES", "_LOSSY", "_WRITES_IN", "_NO_SCALE", "_SHEETS", "_PHOTOS"}
OPTIONS = {"option", "switched_on"}
# steps of pipelines that are not algorithms themselves, and options that only builds with other libraries have
STEPS = {f"{kind} {step}" for kind in ("raster", "vector") for step in ("read", "write")}
OF_SOME_BUILDS = {"JXL_LOSSLESS", "REVERSIBLE", "WEBP_LOSSLESS"}
OF_CLASSIC = {"separate"}  # which gdalbuildvrt and gdal_merge alone have


def modules() -> Iterator[Any]:
    for package in (preflight, checks):
        for module in iter_modules(package.__path__):
            yield import_module(f"{package.__name__}.{module.name}")


def trees() -> Iterator[tuple[str, ast.AST]]:
    for module in modules():
        yield module.__name__, ast.parse(Path(module.__file__).read_text(encoding="utf-8"))


def strings(value: Any) -> Iterator[str]:
    """All texts within the constants of a module."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from strings(key)
            yield from strings(inner)
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from strings(inner)


def constants() -> Iterator[tuple[str, str, str]]:
    for module in modules():
        for name, value in vars(module).items():
            if name.isupper() or (name.startswith("_") and name[1:].isupper()):
                yield from ((module.__name__, name, text) for text in strings(value))


def calls(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Each call of a method with a text: its object, its name and the text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            of = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
            if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                yield of, node.func.attr, node.args[0].value


def test_algorithms_that_checks_name_exist() -> None:
    known = {*packaged().algorithms} | STEPS
    written = [
        (where, node.value)
        for where, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    named = [*written, *((where, text) for where, _, text in constants())]
    used = {(where, text) for where, text in named if ALGORITHM.fullmatch(text)}
    assert len(used) > 80
    assert {use for use in used if use[1] not in known} == set()


def test_arguments_that_checks_read_exist() -> None:
    known = {
        argument.name for algorithm in packaged().algorithms.values() for argument in algorithm.arguments
    }
    names = {
        text
        for _, tree in trees()
        for of, name, text in calls(tree)
        if (of == "call" and name in ASKS) or (of in MAPPINGS and name == "get")
    }
    assert len(names) > 30
    assert names - known <= OF_CLASSIC


def test_options_that_checks_read_exist() -> None:
    known = {
        option.name.upper()
        for driver in packaged().drivers
        for options in driver.options.values()
        for option in options
    }
    names = {
        text for _, tree in trees() for of, name, text in calls(tree) if of == "call" and name in OPTIONS
    }
    assert len(names) > 8
    assert names - known <= OF_SOME_BUILDS


def test_drivers_that_checks_name_exist() -> None:
    names = {
        text for _, name, text in constants() if name in SETS_OF_DRIVERS and not text.startswith("EPSG:")
    }
    assert len(names) > 10
    assert names - drivers() == set()


def test_tools_and_arguments_that_prompts_name_exist() -> None:
    text = (
        resources.files("gdal_mcp.toolboxes.gdal.discovery")
        .joinpath("data/prompts.toml")
        .read_text(encoding="utf-8")
    )
    quoted = set(
        itertools.chain(
            *(re.findall(r"`([^`]+)`", prompt["text"]) for prompt in tomllib.loads(text)["prompt"])
        )
    )
    algorithms, classic = packaged().algorithms, {tool.name for tool in CLASSIC}
    arguments = {argument.name for algorithm in algorithms.values() for argument in algorithm.arguments}
    tools = {
        "info",
        "convert",
        "reproject",
        "vector_reproject",
        "preview",
        "list_workspace",
        "formats",
        "validate_call",
    }
    tools |= {
        "gdal_read",
        "gdal_write",
        "gdal_describe",
        "gdal_search",
        "untrusted",
        "output_format",
        "dst_crs",
    }
    assert {name for name in quoted if name not in {*algorithms, *classic, *arguments, *tools}} == set()


@pytest.mark.parametrize("path", ["raster reproject"])
def test_proposed_prompt_accepts_its_proposed_argument(path: str) -> None:
    assert "like" in {argument.name for argument in packaged().algorithms[path].arguments}
