"""Converts records to the JSON of the console. Pure. Texts are not escaped: the page inserts them as text only."""

import shlex
from collections.abc import Mapping
from typing import Any, Final

from gdal_mcp.approvals.model import Approval, Grant
from gdal_mcp.calls.activity import RunningCall
from gdal_mcp.plan import Effect
from gdal_mcp.records.registry import Artifact, Call
from gdal_mcp.server.console.sessions import Viewer
from gdal_mcp.toolboxes.untrusted import shown_text

_COMMAND: Final = 300  # characters of a command in a list
_MESSAGE: Final = 300


def _fields(row: object, *names: str) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def question(row: Approval, viewer: Viewer) -> dict[str, Any]:
    """An open question, with everything that a person needs to decide."""
    return {
        **_fields(row, "id", "tool", "principal", "effect", "created", "expires", "ways", "workspaces"),
        "call": row.call_id,
        "details": dict(row.details) or {"sentence": row.summary},
        "decidable": viewer.decides and "console" in row.ways,
        "deniable": viewer.decides,
        "grantable": viewer.decides and "console" in row.ways and can_be_granted(row),
    }


def can_be_granted(row: Approval) -> bool:
    """True if calls like this one can be approved in advance. Some calls always need a separate decision."""
    details = row.details
    asked_always = details.get("code") or any(
        (details.get(key) or {}).get("shown") for key in ("moves", "removes")
    )
    return bool(row.workspaces) and row.effect != Effect.DESTROY and not asked_always


def decision(row: Approval) -> dict[str, Any]:
    return {
        **_fields(row, "id", "tool", "principal", "state"),
        "call": row.call_id,
        "sentence": shown_text(str(row.details.get("sentence", row.tool)), _MESSAGE),
        "by": row.decided_by,
        "how": row.decided_how,
        "way": row.decided_way,
        "at": row.decided_at or row.created,
    }


def running(call: RunningCall, viewer: Viewer, question_id: str | None = None) -> dict[str, Any]:
    return {
        **_fields(call, "tool", "principal", "client", "begun", "stage"),
        "id": call.call_id,
        "fraction": round(call.fraction, 3),
        "message": shown_text(call.message, _MESSAGE),
        "outputs": [shown_text(path, _MESSAGE) for path in call.outputs],
        "question": question_id,
        "cancellable": viewer.can_manage(call.principal),
    }


def listed(call: Call) -> dict[str, Any]:
    return {
        **_fields(call, "id", "tool", "principal", "started", "outcome"),
        "seconds": round(call.finished - call.started, 3) if call.finished is not None else None,
        "message": shown_text(call.message, _MESSAGE),
        "command": shown_text(shlex.join(call.argv[:40]), _COMMAND),
        "files": len(call.files),
        "question": call.receipt.get("question"),
        "undone": bool(call.undone),
    }


def artifact(output: Artifact, dataset: Mapping[str, Any] | None) -> dict[str, Any]:
    """An output. `dataset` is its description in the record of its call, if it is one of the call's datasets."""
    return {
        **_fields(output, "id", "path", "name", "media_type", "created", "state"),
        "call": output.call_id,
        "bytes": output.size,
        "pictured": dataset is not None,
        "folder": output.media_type == "inode/directory",
        **{name: (dataset or {}).get(name) for name in ("driver", "size", "features", "crs")},
        "wgs84": list(dataset.get("wgs84", ())) if dataset else [],
    }


def grant(rule: Grant, now: float, viewer: Viewer) -> dict[str, Any]:
    may_revoke = viewer.is_admin or (viewer.decides and rule.granted_by == viewer.name)
    return {
        **_fields(rule, "id", "principal", "tool", "workspace", "created", "expires", "revoked_by"),
        "by": rule.granted_by,
        "how": rule.granted_how,
        "state": rule.state(now),
        "revocable": rule.holds(now) and may_revoke,
    }
