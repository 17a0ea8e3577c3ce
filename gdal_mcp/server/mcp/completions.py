"""Completions of prompt arguments and of resource templates.

Invariants:
* paths come only from inside the workspaces, one folder at a time, and no link is followed;
* there are at most MOST values of bounded length; values that are not one visible line are left out;
* an unknown prompt, template or argument has no values.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

import mcp_types as t

from gdal_mcp.toolboxes.base import Prompt, filter_by_prefix
from gdal_mcp.toolboxes.untrusted import shown_text
from sandbox.browse import EntryKind, opened
from sandbox.errors import PathRefused
from sandbox.workspace import Workspaces

MOST: Final = 100  # values; the limit of the protocol
MAX_VALUE: Final = 1024  # characters that the user typed
_MAX_EXAMINED: Final = 5000  # names that are examined in one folder


def complete(
    ref: t.PromptReference | t.ResourceTemplateReference,
    argument: t.CompletionArgument,
    workspaces: Workspaces,
    prompts: Mapping[str, Prompt],
    outputs: Callable[[], Iterable[str]] = tuple,
) -> t.CompleteResult:
    """Values that begin with the typed text; codes and names may also contain it elsewhere.

    `outputs` are the paths of outputs that may be read as resources.
    """
    typed = argument.value
    candidates: Iterable[str] = ()
    if len(typed) > MAX_VALUE or shown_text(typed) != typed:
        pass
    elif isinstance(ref, t.PromptReference):
        prompt = prompts.get(ref.name)
        value = (
            next((prompt_value for prompt_value in prompt.values if prompt_value.name == argument.name), None)
            if prompt
            else None
        )
        if value is not None:
            candidates = workspace_paths(workspaces, typed) if value.is_path else value.propose(typed)
    elif ref.uri.startswith("file://") and argument.name == "path":  # the templates are in resources.py
        candidates = filter_by_prefix(outputs(), typed)
    longest = 4 * MAX_VALUE
    visible = (text for text in candidates if len(text) <= longest and shown_text(text, longest) == text)
    values = list(islice(visible, MOST + 1))
    more = len(values) > MOST
    total = None if more else len(values)
    return t.CompleteResult(completion=t.Completion(values=values[:MOST], total=total, has_more=more))


def workspace_paths(workspaces: Workspaces, typed: str) -> Iterator[str]:
    """Files and folders that begin with the typed path, spelled as it is typed; folders end in a slash."""
    folder, slash, prefix = typed.rpartition("/")
    try:
        located = workspaces.input(f"{folder}{slash}" if folder or slash else ".")
        if not located.is_folder:
            return
        with opened(workspaces, located, limit=_MAX_EXAMINED) as there:
            for name, kind in there.names.items():
                if kind in (EntryKind.FILE, EntryKind.FOLDER) and name.startswith(prefix):
                    yield f"{folder}{slash}{name}" + ("/" if kind is EntryKind.FOLDER else "")
    except PathRefused:
        return
    if not typed:
        yield from (f"{workspace.root}/" for workspace in workspaces.items[1:])
