"""GDAL's prompts in `data/prompts.toml`, and the values of their arguments. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final

from gdal_mcp.toolboxes.base import Prompt, PromptValue, filter_by_prefix
from gdal_mcp.toolboxes.gdal.catalogue.crs import check_crs
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.formats import output_format
from gdal_mcp.toolboxes.gdal.catalogue.model import Catalogue
from gdal_mcp.toolboxes.gdal.discovery import read

_UTM_ZONES: Final = range(1, 61)
_WORDS: Final = re.compile(r"[A-Za-z0-9_]{1,40}(\s*,\s*[A-Za-z0-9_]{1,40}){0,31}")
# a function that checks a value and returns it for the prompt, and one that completes the typed text
_Kind = tuple[Callable[[str], str], Callable[[str], Iterable[str]]]


def prompts(catalogue: Catalogue) -> Mapping[str, Prompt]:
    data = read("prompts.toml")
    all_prompts = [
        Prompt(
            entry["name"],
            entry["title"],
            entry["description"],
            f"{str(data['preamble']).strip()}\n\n{entry['text'].strip()}",
            tuple(_value(catalogue, value) for value in entry["argument"]),
        )
        for entry in data["prompt"]
    ]
    return MappingProxyType({prompt.name: prompt for prompt in all_prompts})


def _value(catalogue: Catalogue, argument: Mapping[str, Any]) -> PromptValue:
    choices = ", ".join(argument.get("choices", ()))
    default = argument.get("default", "")
    description = f"{argument['description']}." + (f" One of {choices}." if choices else "")
    description += f" Default: {default}." if default else ""
    required, is_path = argument.get("required", False), argument["kind"] == "path"
    check, propose = _kind(catalogue, argument)
    return PromptValue(argument["name"], description, required, default, is_path, check, propose)


def _kind(catalogue: Catalogue, argument: Mapping[str, Any]) -> _Kind:
    match argument["kind"]:
        case "path":
            return str, lambda _typed: ()  # checked by the tool that receives it
        case "crs":
            return check_crs, crs_codes
        case "driver":
            writable = (driver.name for driver in catalogue.drivers if driver.writes(None))
            known = tuple(name for name in writable if name.lower() not in catalogue.unwritten)
            return lambda text: output_format(catalogue, text, None), partial(filter_by_prefix, known)
        case "resampling":
            return _one_of(("auto", *choices(catalogue, "resampling")))
        case "choice":
            return _one_of(tuple(argument["choices"]))
        case "number":
            return _number(argument["minimum"], argument["maximum"])
    assert argument["kind"] == "words"
    return _words, partial(_last_word, choices(catalogue, "stat"))


def _one_of(known: tuple[str, ...]) -> _Kind:
    def check(text: str) -> str:
        match = next((choice for choice in known if choice.lower() == text.lower()), None)
        if match is None:
            raise ArgumentRefused(f"it is one of {', '.join(known)}")
        return match

    return check, partial(filter_by_prefix, known)


def _number(lowest: int, highest: int) -> _Kind:
    def check(text: str) -> str:
        if not re.fullmatch(r"[0-9]{1,6}", text) or not lowest <= int(text) <= highest:
            raise ArgumentRefused(f"it is a whole number from {lowest} to {highest}")
        return str(int(text))

    return check, partial(filter_by_prefix, tuple(map(str, range(lowest, highest + 1))))


def _words(text: str) -> str:
    if not _WORDS.fullmatch(text):
        raise ArgumentRefused("it is a comma-separated list of names made of letters, digits and underscores")
    return ",".join(word.strip() for word in text.split(","))


def _last_word(known: tuple[str, ...], typed: str) -> Iterator[str]:
    """Completes the last name of a comma-separated list; names already in the list are not proposed again."""
    before, comma, unfinished = typed.rpartition(",")
    there = {word.strip() for word in before.split(",")}
    fresh = (word for word in known if word not in there)
    return (f"{before}{comma}{word}" for word in filter_by_prefix(fresh, unfinished.strip()))


def crs_codes(typed: str) -> Iterator[str]:
    """CRS codes that begin with the typed text, then those whose names contain every typed word.

    The authority of a code may be omitted.
    """
    plain = typed.strip().lower()
    table = _crs_table()
    first = [
        code for code in table if code.lower().startswith(plain) or code.partition(":")[2].startswith(plain)
    ]
    yield from first
    if plain:
        words = plain.split()
        named = (code for code, name in table.items() if all(word in name for word in words))
        yield from (code for code in named if code not in first)


@cache
def _crs_table() -> Mapping[str, str]:
    """CRS code -> name in lower case, most common first."""
    table = {code: name.lower() for code, name in read("crs.toml")["codes"].items()}
    north = {f"EPSG:{32600 + zone}": f"wgs 84 utm zone {zone}n {zone} north" for zone in _UTM_ZONES}
    south = {f"EPSG:{32700 + zone}": f"wgs 84 utm zone {zone}s {zone} south" for zone in _UTM_ZONES}
    return MappingProxyType({**table, **north, **south})


def choices(catalogue: Catalogue, name: str) -> tuple[str, ...]:
    """All choices of the arguments with this name, in order of first appearance."""
    arguments = (argument for algorithm in catalogue.algorithms.values() for argument in algorithm.arguments)
    return tuple(
        dict.fromkeys(
            choice for argument in arguments if argument.name == name for choice in argument.choices
        )
    )
