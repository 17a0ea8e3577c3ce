"""Completions of prompt arguments and of resource templates.

Invariants:
* paths are told only from inside the workspaces, one folder at a time, and no link is followed to tell them;
* at most MOST values of bounded length; what is not one visible line is left out;
* a question about something unknown has no values.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from types import MappingProxyType
from typing import Final

import mcp_types as t

from gdal_mcp.gdal.catalogue.load import packaged
from gdal_mcp.gdal.datasets.browse import Kind, TreeTooLarge, walk
from gdal_mcp.gdal.discovery.tables import read
from gdal_mcp.mcp.prompts import PromptValue, prompts, resampling_names
from gdal_mcp.untrusted import shown_text
from sandbox.errors import PathRefused
from sandbox.workspace import Workspaces

MOST: Final = 100  # the protocol's own bound
MAX_VALUE: Final = 1024  # characters of what was typed
_LOOKED_AT: Final = 5000  # names of one folder
_UTM_ZONES: Final = range(1, 61)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where values come from. Each part is asked at the time of the question."""

    workspaces: Workspaces
    outputs: Callable[[], Iterable[str]] = tuple  # paths of outputs that may be read as resources
    calls: Callable[[], Iterable[str]] = tuple  # identifiers of calls, the newest first


def complete(
    ref: t.PromptReference | t.ResourceTemplateReference,
    argument: t.CompletionArgument,
    _context: t.CompletionContext | None,
    sources: Sources,
) -> t.CompleteResult:
    """Values that begin as typed, or for codes and names also hold it."""
    typed = argument.value
    if len(typed) > MAX_VALUE or shown_text(typed) != typed:
        return _result([])
    if isinstance(ref, t.PromptReference):
        return _result(_of_prompt(ref.name, argument.name, typed, sources))
    return _result(_of_template(ref.uri, argument.name, typed, sources))


def _result(found: Iterable[str]) -> t.CompleteResult:
    values = list(islice((one for one in found if _tellable(one)), MOST + 1))
    more = len(values) > MOST
    total = None if more else len(values)
    return t.CompleteResult(completion=t.Completion(values=values[:MOST], total=total, has_more=more))


def _tellable(value: str) -> bool:
    return len(value) <= 4 * MAX_VALUE and shown_text(value, 4 * MAX_VALUE) == value


def _of_prompt(name: str, argument: str, typed: str, sources: Sources) -> Iterable[str]:
    prompt = prompts().get(name)
    known = prompt.values if prompt is not None else ()
    value = next((one for one in known if one.name == argument), None)
    return values_of(value, typed, sources) if value is not None else ()


def values_of(value: PromptValue, typed: str, sources: Sources) -> Iterable[str]:
    """The values of one kind of argument."""
    if value.kind == "path":
        return workspace_paths(sources.workspaces, typed)
    if value.kind == "choice":
        return _beginning(value.choices, typed)
    if value.kind == "words":
        return _last_word(typed, statistics())
    if value.kind == "number":
        numbers = (str(number) for number in range(value.minimum, value.maximum + 1))
        return (number for number in numbers if number.startswith(typed))
    return KINDS.get(value.kind, _nothing)(typed)


def _of_template(uri: str, argument: str, typed: str, sources: Sources) -> Iterable[str]:
    """For the templates of gdal_mcp/mcp/resources.py."""
    if uri.startswith("file://") and argument == "path":
        return _beginning(sources.outputs(), typed)
    if uri.startswith("gdal://calls/") and argument == "id":
        return _beginning(sources.calls(), typed)
    return ()


def workspace_paths(workspaces: Workspaces, typed: str) -> Iterator[str]:
    """Files and folders in the folder that is typed so far, in the way it is typed; folders end in a slash."""
    folder, slash, begun = typed.rpartition("/")
    try:
        located = workspaces.input(f"{folder}{slash}" if folder or slash else ".")
        if not located.is_folder:
            return
        for found in walk(workspaces, located, depth=1, limit=_LOOKED_AT):
            if found.kind in (Kind.FILE, Kind.FOLDER) and found.name.startswith(begun):
                yield f"{folder}{slash}{found.name}" + ("/" if found.kind is Kind.FOLDER else "")
    except TreeTooLarge:
        pass  # what came before it was told
    except PathRefused:
        return
    if not typed:
        yield from (f"{one.root}/" for one in workspaces.items[1:])


def crs_codes(typed: str) -> Iterator[str]:
    """Codes that begin as typed, with or without the authority; then those whose names hold every typed word."""
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


def drivers(typed: str) -> Iterable[str]:
    """Formats that can be written."""
    writable = (one.name for one in packaged().drivers if one.writes(None))
    return _beginning((name for name in writable if name.lower() not in packaged().unwritten), typed)


def resampling(typed: str) -> Iterable[str]:
    """The names of resampling methods that any algorithm takes, and the word that leaves the choice open."""
    return _beginning(("auto", *resampling_names()), typed)


def algorithms(typed: str) -> Iterable[str]:
    """Command paths, however their words are joined."""
    plain = typed.replace("_", " ")
    return _beginning(packaged().algorithms, plain)


def statistics() -> tuple[str, ...]:
    """What zonal statistics can compute."""
    return _choices("stat")


def _nothing(_typed: str) -> Iterable[str]:
    return ()


KINDS: Final[Mapping[str, Callable[[str], Iterable[str]]]] = MappingProxyType(
    {"crs": crs_codes, "driver": drivers, "resampling": resampling, "algorithm": algorithms}
)


def _beginning(values: Iterable[str], typed: str) -> Iterator[str]:
    plain = typed.lower()
    return (value for value in values if value.lower().startswith(plain))


def _last_word(typed: str, known: Sequence[str]) -> Iterator[str]:
    """Completes the last name of a list with commas; names that are there already are not proposed again."""
    before, comma, begun = typed.rpartition(",")
    there = {word.strip() for word in before.split(",")}
    fresh = (word for word in known if word not in there)
    return map(partial(_joined, f"{before}{comma}"), _beginning(fresh, begun.strip()))


def _joined(before: str, word: str) -> str:
    return f"{before}{word}"


@lru_cache(maxsize=8)
def _choices(name: str) -> tuple[str, ...]:
    """All choices of the arguments of one name, in the order of the first that lists them."""
    found = (
        choice
        for algorithm in packaged().algorithms.values()
        for argument in algorithm.arguments
        if argument.name == name
        for choice in argument.choices
    )
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=1)
def _crs_table() -> Mapping[str, str]:
    """Codes with their names in lower case, the most common first."""
    table = {code: name.lower() for code, name in read("crs.toml")["codes"].items()}
    north = {f"EPSG:{32600 + zone}": f"wgs 84 utm zone {zone}n {zone} north" for zone in _UTM_ZONES}
    south = {f"EPSG:{32700 + zone}": f"wgs 84 utm zone {zone}s {zone} south" for zone in _UTM_ZONES}
    return MappingProxyType({**table, **north, **south})
