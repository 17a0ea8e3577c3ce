"""What is told of each thing, as JSON values. Pure. Texts go to the page as they are, which shows them as text alone."""

import shlex
from collections.abc import Mapping
from typing import Any, Final

from gdal_mcp.approval.model import Approval, Grant
from gdal_mcp.calls.activity import Running
from gdal_mcp.console.sessions import Viewer
from gdal_mcp.ledger.registry import Artifact, Call
from gdal_mcp.plan import Effect
from gdal_mcp.untrusted import shown_text

_COMMAND: Final = 300  # characters of a command in a list
_MESSAGE: Final = 300


def question(row: Approval, viewer: Viewer) -> dict[str, Any]:
    """An open question, with all that a person needs to decide."""
    return {
        "id": row.id,
        "call": row.call_id,
        "tool": row.tool,
        "principal": row.principal,
        "effect": row.effect,
        "created": row.created,
        "expires": row.expires,
        "ways": list(row.ways),
        "workspaces": list(row.workspaces),
        "details": dict(row.details) or {"sentence": row.summary},
        "decidable": viewer.decides and "console" in row.ways,
        "deniable": viewer.decides,
        "grantable": viewer.decides and "console" in row.ways and can_be_granted(row),
    }


def can_be_granted(row: Approval) -> bool:
    """Whether a yes beforehand would count for such calls: not for those that a person decides every time."""
    asked_always = any((row.details.get(key) or {}).get("shown") for key in ("moves", "removes"))
    return bool(row.workspaces) and row.effect != Effect.DESTROY and not asked_always


def decision(row: Approval) -> dict[str, Any]:
    """A question that is not open any more."""
    return {
        "id": row.id,
        "call": row.call_id,
        "tool": row.tool,
        "principal": row.principal,
        "sentence": shown_text(str(row.details.get("sentence", row.tool)), _MESSAGE),
        "state": row.state,
        "by": row.decided_by,
        "how": row.decided_how,
        "at": row.decided_at or row.created,
    }


def running(one: Running, viewer: Viewer) -> dict[str, Any]:
    """A call of this server."""
    return {
        "id": one.call_id,
        "tool": one.tool,
        "principal": one.principal,
        "client": one.client,
        "begun": one.begun,
        "stage": one.stage,
        "fraction": round(one.fraction, 3),
        "message": shown_text(one.message, _MESSAGE),
        "cancellable": viewer.governs(one.principal),
    }


def elsewhere(call: Call) -> dict[str, Any]:
    """A call of another server, of which nothing but its beginning is known here."""
    return {
        "id": call.id,
        "tool": call.tool,
        "principal": call.principal,
        "client": "another server",
        "begun": call.started,
        "stage": "running",
        "fraction": 0.0,
        "message": "",
        "cancellable": False,
    }


def listed(call: Call) -> dict[str, Any]:
    """A call as a row of the history."""
    return {
        "id": call.id,
        "tool": call.tool,
        "principal": call.principal,
        "started": call.started,
        "seconds": round(call.finished - call.started, 3) if call.finished is not None else None,
        "outcome": call.outcome,
        "message": shown_text(call.message, _MESSAGE),
        "command": shown_text(shlex.join(call.argv[:40]), _COMMAND),
        "files": len(call.files),
    }


def artifact(one: Artifact, dataset: Mapping[str, Any] | None) -> dict[str, Any]:
    """An output; `dataset` is what its call recorded of it, if it is one of the call's datasets."""
    return {
        "id": one.id,
        "call": one.call_id,
        "path": one.path,
        "name": one.name,
        "bytes": one.size,
        "media_type": one.media_type,
        "created": one.created,
        "state": one.state,
        "pictured": dataset is not None,
        "folder": one.media_type == "inode/directory",
        "wgs84": list(dataset.get("wgs84", ())) if dataset else [],
    }


def grant(one: Grant, now: float, viewer: Viewer) -> dict[str, Any]:
    return {
        "id": one.id,
        "principal": one.principal,
        "tool": one.tool,
        "workspace": one.workspace,
        "by": one.granted_by,
        "how": one.granted_how,
        "created": one.created,
        "expires": one.expires,
        "state": one.state(now),
        "revoked_by": one.revoked_by,
        "revocable": one.holds(now)
        and (viewer.is_admin or (viewer.decides and one.granted_by == viewer.name)),
    }
