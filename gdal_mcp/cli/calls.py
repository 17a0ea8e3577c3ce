"""`gdal-mcp call`, `undo` and `tools`."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from gdal_mcp.approvals.model import Terminal
from gdal_mcp.calls.pipeline import Reply, Request
from gdal_mcp.cli.exits import Exit, exit_of
from gdal_mcp.cli.finding import leave_link
from gdal_mcp.cli.streams import out, out_either, out_json, say, show_status
from gdal_mcp.invoked import typed
from gdal_mcp.records.audit_record import time_text
from gdal_mcp.server.app import App, local_user
from gdal_mcp.server.operations.undoing import undo, undoable
from gdal_mcp.server.toolboxes import toolboxes
from gdal_mcp.settings import Settings, SettingsError
from gdal_mcp.toolboxes.base import spelling
from gdal_mcp.toolboxes.untrusted import shown_text


def with_tool(settings: Settings, name: str) -> tuple[Settings, str]:
    """The tool's name, and the settings with that tool listed: tools of single algorithms are listed only on request."""
    known = {spelling(name): name for name in toolboxes(settings).tools}
    tool = known.get(spelling(name), name)
    listed = tool in toolboxes(settings).surface(settings).callable or tool not in known.values()
    return settings if listed else settings.model_copy(update={"tools": (*settings.tools, tool)}), tool


def call_once(
    app: App, tool: str, arguments: Mapping[str, Any], *, assume_yes: bool, save: Path | None = None
) -> Exit:
    """Prints the structured result, or the error as clients get it. The picture is written to the new file `save`."""
    if save is not None and os.path.lexists(save):
        raise SettingsError(f"--save {save}: the file exists; choose another name")
    leave_link(app.settings)
    reply = make_call(app, tool, arguments, "gdal-mcp call", assume_yes=assume_yes)
    out_json(reply.result)
    question = reply.error.confirmation if reply.error is not None else None
    if question and "terminal" in question["ways"]:
        say(f"approve the call with `{question['command']}` and run it again; in a script, add --yes.")
    if save is not None and reply.error is None:
        return _save(save, reply)
    return exit_of(reply.error)


def make_call(app: App, tool: str, arguments: Mapping[str, Any], client: str, *, assume_yes: bool) -> Reply:
    """The reply to a call of this machine's user. Its progress is shown in the terminal."""
    user = local_user()
    request = Request(
        tool,
        arguments,
        user,
        client,
        Terminal(user.id, assume_yes),
        on_progress=lambda fraction, message: show_status(f"{fraction:4.0%} {message}"),
    )
    try:
        reply: Reply = anyio.run(partial(app.pipeline.call, request))
    finally:
        show_status()
    return reply


def _save(path: Path, reply: Reply) -> Exit:
    pictures = (
        [picture for picture in (reply.done.preview, *reply.done.figures) if picture] if reply.done else []
    )
    if not pictures:
        say(f"the result has no picture, so {path} was not written")
        return Exit.FAILED
    try:
        with path.open("xb") as file:
            file.write(pictures[0])
    except OSError as error:
        say(f"{path} cannot be written: {error.strerror or error}")
        return Exit.FAILED
    return Exit.DONE


def undo_call(app: App, call_id: str) -> Exit:
    """Undoes a publication in its workspace. Raises StagingFailed, PathMissing."""
    out_json(undo(app, call_id, local_user().id))
    return Exit.DONE


def show_undoable(app: App, *, as_json: bool) -> Exit:
    """Prints calls that can be undone, newest first, and for each the later calls that must be undone first."""
    rows, lines = [], []
    for entry in undoable(app):
        call = entry.call
        about = {"call": call.id, "tool": call.tool, "started": time_text(call.started)}
        rows.append({**about, "paths": list(entry.paths), "after": list(entry.later)})
        paths = ", ".join(shown_text(path, 120) for path in entry.paths[:3])
        more = f" and {len(entry.paths) - 3} more" if len(entry.paths) > 3 else ""
        lines.append(f"{call.id}  {time_text(call.started)}  {call.tool}  {paths}{more}")
        lines += [f"{'':18}only after: {typed(f'gdal-mcp undo {later}')}" for later in entry.later]
    if rows or as_json:
        out_either(rows, "\n".join(lines), as_json=as_json)
    else:
        say("no call can be undone in these workspaces.")
    return Exit.DONE


def list_tools(settings: Settings, *, every: bool, as_json: bool) -> Exit:
    """Prints a line for each listed tool, or their schemas. Raises CatalogueBroken."""
    chosen = settings.model_copy(update={"toolsets": ("all",)}) if every else settings
    tools = toolboxes(chosen).surface(chosen).listed
    if as_json:
        rows = [
            {
                "name": tool.name,
                "title": tool.title,
                "description": tool.description,
                "inputSchema": tool.input_schema,
                "outputSchema": tool.listed_schema,
                "writes": tool.writes,
            }
            for tool in tools
        ]
        out_json(rows)
        return Exit.DONE
    width = max((len(tool.name) for tool in tools), default=0)
    for tool in tools:
        first = tool.description.split(". ")[0].rstrip(".")
        out(f"{tool.name:<{width}}  {'writes' if tool.writes else 'reads '}  {first}.")
    return Exit.DONE
