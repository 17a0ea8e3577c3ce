"""Single operations from the command line: one call, one undo."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio

from gdal_mcp.app import App, local_user
from gdal_mcp.approval.terminal import Terminal
from gdal_mcp.commands.exits import Exit, exit_of
from gdal_mcp.commands.streams import out_json
from gdal_mcp.operations.undoing import undo
from gdal_mcp.pipeline import Reply, Request


def call_once(app: App, tool: str, arguments: Mapping[str, Any], *, assume_yes: bool) -> Exit:
    """Prints the structured result, or the error in the same shape as clients get it."""
    user = local_user()
    request = Request(tool, arguments, user, "gdal-mcp call", Terminal(user.id, assume_yes))
    reply: Reply = anyio.run(partial(app.pipeline.call, request))
    out_json(reply.result)
    return exit_of(reply.error)


def undo_call(app: App, call_id: str) -> Exit:
    """Takes a publication back, in whichever workspace it was made. Raises StagingFailed, PathMissing."""
    out_json(undo(app, call_id, local_user().id).as_dict())
    return Exit.DONE
