"""Single operations from the command line: one call, one undo."""

import json
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio

from gdal_mcp.app import App, local_principal
from gdal_mcp.approval.terminal import Terminal
from gdal_mcp.errors import Code
from gdal_mcp.pipeline import Reply, Request
from sandbox.errors import PathMissing, SandboxError
from sandbox.journal import valid_id
from sandbox.workspace import RESERVED

_ENGINE_EXIT = 3  # gdal_mcp.cli.ENGINE


def call_once(app: App, tool: str, arguments: Mapping[str, Any], *, assume_yes: bool) -> int:
    """Prints the structured result, or the error in the same shape as clients get it. Returns the exit code."""
    principal = local_principal()
    terminal = Terminal(principal, assume_yes)
    request = Request(tool, arguments, principal, "gdal-mcp call", terminal)
    reply: Reply = anyio.run(partial(app.pipeline.call, request))
    sys.stdout.write(json.dumps(reply.result, indent=2, ensure_ascii=True) + "\n")
    if reply.error is None:
        return 0
    return _ENGINE_EXIT if reply.error.code is Code.ENGINE_UNAVAILABLE else 1


def undo_call(app: App, call_id: str) -> int:
    """Takes a publication back, in whichever workspace it was made. Raises StagingFailed, PathMissing."""
    call = app.registry.call(call_id)
    for area in app.areas.values():
        if not (valid_id(call_id) and (area.workspace.root / RESERVED / "undo" / call_id).is_dir()):
            continue
        event = {
            "call": call_id,
            "subject": {"principal": local_principal()},
            "source": {"server": app.owner.id},
            "tool": call.tool if call else "",
        }
        app.audit.append({**event, "type": "undo.started", "outcome": "started"})
        try:
            undone = area.undo(call_id)
        except SandboxError as error:
            app.audit.append({**event, "type": "undo.finished", "outcome": "FAILED", "message": str(error)})
            raise
        app.registry.retract_artifacts(call_id)
        told = {
            "restored": [str(one) for one in undone.restored],
            "taken_away": [str(one) for one in undone.taken_away],
        }
        app.audit.append({**event, "type": "undo.finished", "outcome": "OK", **told})
        sys.stdout.write(json.dumps({"call": call_id, **told}, indent=2) + "\n")
        return 0
    raise PathMissing(
        f"no workspace remembers call {call_id[:64]!r}; name its workspace with --workspace, or it was pruned."
    )
