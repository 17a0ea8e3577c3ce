"""Errors of calls that are refused or do not finish. Pure."""

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from pydantic import ValidationError

from gdal_mcp.calls.context import Admitted
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.surface import Surface
from gdal_mcp.toolbox import Call


def ended_by(who: str) -> ToolError:
    """The call was cancelled; without a name, by its own client."""
    return ToolError(Code.CANCELLED, Stage.RUN, f"{who or 'the client'} cancelled the call.")


def denied(reason: str) -> ToolError:
    return ToolError(
        Code.DENIED,
        Stage.POLICY,
        f"the server's policy denies it: {reason}.",
        "Ask the person who runs the server; `gdal-mcp policy check` explains the decision.",
    )


def no_such_tool(name: str, surface: Surface) -> ToolError:
    near = get_close_matches(name, [one.name for one in surface.listed], 1, 0.7)
    hint = f"Did you mean {near[0]}? " if near else ""
    return ToolError(
        Code.NOT_FOUND,
        Stage.LOOKUP,
        "there is no such tool.",
        f"{hint}The tools are: {', '.join(one.name for one in surface.listed[:40])}.",
    )


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
    """A bug of the server, without its text; `published` when the outputs were published before it."""
    stands = f" What it published stands; `gdal-mcp undo {call_id}` takes it back." if published else ""
    return ToolError(
        Code.INTERNAL, Stage.RUN, "the server failed.", f"The server's log names call {call_id}.{stands}"
    )


@contextmanager
def mending(admitted: Admitted, draft: Draft) -> Iterator[None]:
    """A check that refuses a draft says the call that mends it, where there is one."""
    try:
        yield
    except ToolError as error:
        if error.check is not None:
            call = Call(admitted.tool.name, admitted.request.arguments, draft, admitted.entitlements.surface)
            error.check = admitted.toolbox.mend(call, error.check, None)
        raise
