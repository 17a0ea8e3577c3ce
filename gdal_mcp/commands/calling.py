"""Single operations from the command line: one call, one undo."""

import json
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio

from gdal_mcp.app import App, local_user
from gdal_mcp.approval.terminal import Terminal
from gdal_mcp.calls.undoing import undo
from gdal_mcp.errors import Code
from gdal_mcp.pipeline import Reply, Request

_ENGINE_EXIT = 3  # gdal_mcp.cli.ENGINE


def call_once(app: App, tool: str, arguments: Mapping[str, Any], *, assume_yes: bool) -> int:
    """Prints the structured result, or the error in the same shape as clients get it. Returns the exit code."""
    user = local_user()
    terminal = Terminal(user.id, assume_yes)
    request = Request(tool, arguments, user, "gdal-mcp call", terminal)
    reply: Reply = anyio.run(partial(app.pipeline.call, request))
    sys.stdout.write(json.dumps(reply.result, indent=2, ensure_ascii=True) + "\n")
    if reply.error is None:
        return 0
    return _ENGINE_EXIT if reply.error.code is Code.ENGINE_UNAVAILABLE else 1


def undo_call(app: App, call_id: str) -> int:
    """Takes a publication back, in whichever workspace it was made. Raises StagingFailed, PathMissing."""
    done = undo(app, call_id, local_user().id)
    sys.stdout.write(json.dumps(done.as_dict(), indent=2) + "\n")
    return 0
