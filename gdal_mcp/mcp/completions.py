"""Completions of prompt arguments and of resource templates.

Invariants:
* paths are told only from inside the workspaces, one folder at a time, and no link is followed to tell them;
* at most MOST values of bounded length; what is not one visible line is left out;
* a question about something unknown has no values.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import mcp_types as t

from gdal_mcp.gdal.datasets.browse import Kind, opened
from gdal_mcp.gdal.discovery.values import KINDS, beginning, statistics
from gdal_mcp.mcp.prompts import PromptValue, prompts
from gdal_mcp.untrusted import shown_text
from sandbox.errors import PathRefused
from sandbox.workspace import Workspaces

MOST: Final = 100  # the protocol's own bound
MAX_VALUE: Final = 1024  # characters of what was typed
_LOOKED_AT: Final = 5000  # names of one folder


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
        return beginning(value.choices, typed)
    if value.kind == "words":
        return _last_word(typed, statistics())
    if value.kind == "number":
        numbers = (str(number) for number in range(value.minimum, value.maximum + 1))
        return (number for number in numbers if number.startswith(typed))
    return KINDS[value.kind].propose(typed) if value.kind in KINDS else ()


def _of_template(uri: str, argument: str, typed: str, sources: Sources) -> Iterable[str]:
    """For the templates of gdal_mcp/mcp/resources.py."""
    if uri.startswith("file://") and argument == "path":
        return beginning(sources.outputs(), typed)
    if uri.startswith("gdal://calls/") and argument == "id":
        return beginning(sources.calls(), typed)
    return ()


def workspace_paths(workspaces: Workspaces, typed: str) -> Iterator[str]:
    """Files and folders in the folder that is typed so far, in the way it is typed; folders end in a slash."""
    folder, slash, begun = typed.rpartition("/")
    try:
        located = workspaces.input(f"{folder}{slash}" if folder or slash else ".")
        if not located.is_folder:
            return
        with opened(workspaces, located, limit=_LOOKED_AT) as there:
            for name, kind in there.names.items():
                if kind in (Kind.FILE, Kind.FOLDER) and name.startswith(begun):
                    yield f"{folder}{slash}{name}" + ("/" if kind is Kind.FOLDER else "")
    except PathRefused:
        return
    if not typed:
        yield from (f"{one.root}/" for one in workspaces.items[1:])


def _last_word(typed: str, known: Sequence[str]) -> Iterator[str]:
    """Completes the last name of a list with commas; names that are there already are not proposed again."""
    before, comma, begun = typed.rpartition(",")
    there = {word.strip() for word in before.split(",")}
    fresh = (word for word in known if word not in there)
    return (f"{before}{comma}{word}" for word in beginning(fresh, begun.strip()))
