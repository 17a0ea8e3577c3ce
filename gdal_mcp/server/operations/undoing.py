"""Undoes a call's publication and updates its records."""

from dataclasses import dataclass
from typing import Any

from gdal_mcp.records.registry import Call
from gdal_mcp.server.app import App
from sandbox.errors import PathMissing, SandboxError, StagingFailed
from sandbox.outputs.staging import StagingArea


@dataclass(frozen=True, slots=True)
class Undoable:
    """A call that can be undone, with what it published, and the calls that must be undone before it, in that order."""

    call: Call
    paths: tuple[str, ...]
    later: tuple[str, ...]


def undoable(app: App) -> tuple[Undoable, ...]:
    """The calls that can be undone in the workspaces of these settings, newest first. Raises StagingFailed."""
    rows = []
    for area in app.areas.values():
        for entry in area.publications():
            call = app.registry.call(entry.call_id)
            if call is not None and not entry.is_undone:
                later = tuple(row.id for row in _later(app, area, call.id))
                rows.append(Undoable(call, tuple(sorted(_touched(call))), later))
    return tuple(sorted(rows, key=lambda row: row.call.started, reverse=True))


def can_undo(app: App, call_id: str) -> bool:
    """True if the call was not undone and a workspace still has the files for an undo. Raises StagingFailed."""
    area = _area(app, call_id)
    entries = area.publications() if area is not None else ()
    return any(entry.call_id == call_id and not entry.is_undone for entry in entries)


def undo(app: App, call_id: str, by: str) -> dict[str, Any]:
    """Undoes a call in the workspace to which it published.

    Returns the `restored` paths, and the paths that were `taken_away`. Raises StagingFailed, PathMissing,
    AuditUnavailable.
    """
    area = _area(app, call_id)
    if area is None:
        raise PathMissing(
            f"no workspace has files to undo call {call_id[:64]!r}. A call that only reads has none. For another one, name its workspace with "
            "--workspace; if it is named, the files were removed as the oldest (undo_calls, undo_size)."
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
        if isinstance(error, StagingFailed) and (later := _later(app, area, call_id)):
            names = ", then ".join(f"{later_call.id} ({later_call.tool})" for later_call in later)
            raise StagingFailed(f"{error} A later call prevents this: undo {names} first.") from error
        raise
    app.registry.retract_artifacts(call_id, by)
    paths = {name: list(map(str, getattr(undone, name))) for name in ("restored", "taken_away")}
    app.audit.append({**event, "type": "undo.finished", "outcome": "OK", **paths})
    return {"call": call_id, **paths}


def _area(app: App, call_id: str) -> StagingArea | None:
    return next((area for area in app.areas.values() if area.has_undo_entry(call_id)), None)


def _later(app: App, area: StagingArea, call_id: str) -> tuple[Call, ...]:
    """Later calls that wrote, moved or removed the same files and were not undone, newest first."""
    call = app.registry.call(call_id)
    ids = [entry.call_id for entry in area.publications() if not entry.is_undone]
    if call is None or call_id not in ids:
        return ()
    newer = filter(None, map(app.registry.call, ids[: ids.index(call_id)]))
    return tuple(other for other in newer if _touched(other) & _touched(call))


def _touched(call: Call) -> set[str]:
    return {str(row["path"]) for row in (*call.files, *call.outputs)} | set(call.removed)
