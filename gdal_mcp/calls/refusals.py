"""Errors of calls that are refused or do not finish. Pure."""

from pydantic import ValidationError

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.toolboxes.base import last_words, nearest_tool, spelling
from gdal_mcp.toolboxes.surface import Surface


def ended_by(who: str) -> ToolError:
    """The error of a cancelled call. `who` cancelled it; if empty, its own client did."""
    return ToolError(Code.CANCELLED, Stage.RUN, f"{who or 'the client'} cancelled the call.")


def denied(reason: str) -> ToolError:
    return ToolError(
        Code.DENIED,
        Stage.POLICY,
        f"the server's policy denies it: {reason}.",
        "Ask the person who runs the server; `gdal-mcp policy check` explains the decision.",
    )


def no_such_tool(name: str, surface: Surface) -> ToolError:
    hint = (
        tool_hint(name, surface) or f"The tools are: {', '.join(tool.name for tool in surface.listed[:40])}."
    )
    return ToolError(Code.NOT_FOUND, Stage.LOOKUP, "there is no such tool.", hint)


def tool_hint(name: str, surface: Surface) -> str:
    """A hint for an unknown name: the tool or operation that it may mean, else the search tool; "" without either."""
    boxes = {box.name: box for box in surface.toolboxes.values()}.values()
    owners = {path: box for box in boxes for path in box.operations if surface.permits(path)}
    paths = {spelling(path): path for path in owners}
    known = {spelling(tool): tool for tool in surface.callable}
    known |= last_words(owners) | paths
    known |= {tool: tool for tool in surface.callable}
    near = paths.get(spelling(name)) or nearest_tool(name, known)
    if not near:
        search = next((box.search for box in boxes if box.search in surface.callable), "")
        return f"`{search}` finds a tool by what it does." if search else ""
    if near in surface.callable:
        return f"Did you mean `{near}`?"
    return f"`{near}` is not a separate tool here. {owners[near].operation_hint}".rstrip()


def missing_scope(scope: str) -> ToolError:
    return ToolError(
        Code.DENIED,
        Stage.POLICY,
        f"your access does not cover it: {scope} is missing.",
        "Use a token with that scope, or ask the person who runs the server for one.",
    )


def reads_only() -> ToolError:
    return ToolError(
        Code.DENIED,
        Stage.POLICY,
        "you may only read here, and the call would write.",
        "Ask the person who runs the server; it was started with --read-only, or its policy says so.",
    )


def invalid(error: ValidationError) -> ToolError:
    rows = [
        f"{'.'.join(str(part) for part in row['loc']) or 'arguments'}: {row['msg']}"
        for row in error.errors(include_url=False)[:5]
    ]
    return ToolError(
        Code.INVALID_ARGUMENT,
        Stage.VALIDATE,
        "the arguments do not fit the tool's input schema.",
        "Correct the named arguments and call again.",
        {"problems": [row[:300] for row in rows]},
    )


def failed(call_id: str, *, published: bool = False) -> ToolError:
    """The error for a bug of the server, without its text. `published` is True if outputs were published before it."""
    advice = f" What it published stands; `gdal-mcp undo {call_id}` takes it back." if published else ""
    return ToolError(
        Code.INTERNAL, Stage.RUN, "the server failed.", f"The server's log names call {call_id}.{advice}"
    )
