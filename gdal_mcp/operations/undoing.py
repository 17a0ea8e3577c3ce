"""Taking a publication back, with its records, whoever asks for it."""

from typing import Any

from gdal_mcp.app import App
from sandbox.errors import PathMissing, SandboxError
from sandbox.outputs.staging import StagingArea


def can_undo(app: App, call_id: str) -> bool:
    """Whether a workspace still keeps what an undo needs, and it was not undone already. Raises StagingFailed."""
    area = _area(app, call_id)
    kept = area.kept() if area is not None else ()
    return any(one.call_id == call_id and not one.is_undone for one in kept)


def undo(app: App, call_id: str, by: str) -> dict[str, Any]:
    """Takes a call back in whichever workspace it published. Tells the paths that are `restored`, and those that it made.

    Raises StagingFailed, PathMissing, AuditUnavailable.
    """
    area = _area(app, call_id)
    if area is None:
        raise PathMissing(
            f"no workspace remembers call {call_id[:64]!r}; name its workspace with --workspace, or it was pruned."
        )
    call = app.registry.call(call_id)
    event = {
        "call": call_id,
        "subject": {"principal": by},
        "source": {"server": app.owner.id},
        "tool": call.tool if call else "",
    }
    app.audit.append({**event, "type": "undo.started", "outcome": "started"})
    try:
        undone = area.undo(call_id)
    except SandboxError as error:
        app.audit.append({**event, "type": "undo.finished", "outcome": "FAILED", "message": str(error)})
        raise
    app.registry.retract_artifacts(call_id, by)
    told = {name: list(map(str, getattr(undone, name))) for name in ("restored", "taken_away")}
    app.audit.append({**event, "type": "undo.finished", "outcome": "OK", **told})
    return {"call": call_id, **told}


def _area(app: App, call_id: str) -> StagingArea | None:
    return next((area for area in app.areas.values() if area.remembers(call_id)), None)
