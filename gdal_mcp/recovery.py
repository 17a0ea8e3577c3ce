"""What the servers that died here left unfinished is brought to an end, in the workspaces, the registry and the audit log.

A call that had published is listed with what it published, and one that was taken back is not, so that registry and workspace
agree and an undo finds what there is.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from gdal_mcp.calls.records import media_type
from gdal_mcp.ledger.audit import AuditLog
from gdal_mcp.ledger.registry import Artifact, Call, Finish, Registry
from sandbox.outputs.journal import Content, Record, State
from sandbox.outputs.staging import StagingArea
from sandbox.outputs.undo import Recovery
from sandbox.workspace import Located, Workspace

_log = structlog.get_logger()

Kept = Sequence[tuple[Workspace, Record]]  # the journals of what was published


def recover(
    areas: Mapping[Path, StagingArea],
    audit: AuditLog,
    registry: Registry,
    server: str,
    alive: Callable[[str], bool],
) -> None:
    """Finishes or takes back what dead servers were publishing, ends their calls, and says so in the audit log.

    `server` is who says it. Raises AuditUnavailable, RegistryUnavailable, StagingFailed.
    """
    for area in areas.values():
        for found in area.recover():
            audit.append(_recovered(found, server))
            _log.warning("recovered", call=found.call_id, outcome=str(found.finding))
    kept = [(area.workspace, record) for area in areas.values() for record in area.kept()]
    registry.interrupted(alive, partial(_ended, kept, audit, registry, server))
    for call_id in {record.call_id for _, record in kept if record.state is State.UNDONE}:
        _retract(call_id, audit, registry, server)


def _ended(kept: Kept, audit: AuditLog, registry: Registry, server: str, call: Call) -> Finish:
    """Written elsewhere first, so that a crash in here leaves a call to be ended by the next server."""
    made = _published(kept, call.id)
    if made and not registry.artifacts_of(call.id):
        registry.add_artifacts(call.id, made)
    rows = tuple({"path": one.path, "bytes": one.size, "sha256": one.sha256} for one in made)
    message = "the server died during the call" + ("; what it published stands" if made else "")
    event = {"type": "call.finished", "call": call.id, "outcome": "INTERNAL", "message": message}
    audit.append({**event, "source": {"server": server}, **({"outputs": list(rows)} if rows else {})})
    return Finish("INTERNAL", message, files=rows)


def _retract(call_id: str, audit: AuditLog, registry: Registry, server: str) -> None:
    """Takes off the list what was taken back in the workspace by an undo that did not live to say so."""
    listed = [one for one in registry.artifacts_of(call_id) if one.state != "retracted"]
    if not listed:
        return
    targets = [one.path for one in listed]
    event = {"type": "undo.recovered", "call": call_id, "outcome": str(State.UNDONE), "targets": targets}
    audit.append({**event, "source": {"server": server}})
    registry.retract_artifacts(call_id)
    _log.warning("undo_recovered", call=call_id)


def _recovered(found: Recovery, server: str) -> dict[str, Any]:
    return {
        "type": "publication.recovered",
        "call": found.call_id,
        "outcome": str(found.finding),
        "targets": [str(located) for located in found.targets],
        "kept_in": found.kept_in,
        "detail": found.detail,
        "source": {"server": server},
    }


def _published(kept: Kept, call_id: str) -> tuple[Artifact, ...]:
    """What a call put into a workspace, by the journal that is kept for its undo."""
    return tuple(
        _artifact(workspace, record, content)
        for workspace, record in kept
        if record.call_id == call_id and record.state is State.PUBLISHED
        for content in record.contents
        if content.sha256  # what was renamed has none, and is no output
    )


def _artifact(workspace: Workspace, record: Record, content: Content) -> Artifact:
    located = Located(workspace, content.target)
    is_folder = any(
        step.new is not None and step.new.is_folder for step in record.steps if step.target == content.target
    )
    kind = "inode/directory" if is_folder else media_type(located.name)
    return Artifact(located.uri, str(located), located.name, content.size, kind, content.sha256)
