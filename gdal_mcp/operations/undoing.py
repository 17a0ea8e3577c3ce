"""Taking a publication back, with its records, whoever asks for it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdal_mcp.app import App
from gdal_mcp.calls.activity import Changed
from sandbox.errors import PathMissing, SandboxError
from sandbox.outputs.staging import StagingArea


@dataclass(frozen=True, slots=True)
class TakenBack:
    """What an undo did: `restored` is back at its place, `taken_away` was made by the call. Paths as texts."""

    call_id: str
    restored: tuple[str, ...]
    taken_away: tuple[str, ...]
    principal: str = ""  # whose call it was

    @property
    def changed(self) -> Changed:
        """What those who watch are told."""
        places = dict.fromkeys((*self.restored, *self.taken_away))
        return Changed(self.principal, self.call_id, tuple(Path(one).as_uri() for one in places))

    def as_dict(self) -> dict[str, Any]:
        return {
            "call": self.call_id,
            "restored": list(self.restored),
            "taken_away": list(self.taken_away),
        }


def can_undo(app: App, call_id: str) -> bool:
    """Whether a workspace still keeps what an undo needs, and it was not undone already. Raises StagingFailed."""
    area = _area(app, call_id)
    kept = area.kept() if area is not None else ()
    return any(one.call_id == call_id and not one.is_undone for one in kept)


def undo(app: App, call_id: str, by: str) -> TakenBack:
    """Takes a call back in whichever workspace it published. Raises StagingFailed, PathMissing, AuditUnavailable."""
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
    restored, taken_away = (tuple(map(str, places)) for places in (undone.restored, undone.taken_away))
    done = TakenBack(call_id, restored, taken_away, call.principal if call else "")
    told = {"restored": list(done.restored), "taken_away": list(done.taken_away)}
    app.audit.append({**event, "type": "undo.finished", "outcome": "OK", **told})
    return done


def _area(app: App, call_id: str) -> StagingArea | None:
    return next((area for area in app.areas.values() if area.remembers(call_id)), None)
