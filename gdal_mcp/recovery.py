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
from gdal_mcp.ledger.registry import Artifact, Call, CallEnd, Registry
from sandbox.outputs.store import Finding, KeptPublication, OutputStore, PublishedFile, Recovery

_log = structlog.get_logger()


def recover(
    areas: Mapping[Path, OutputStore],
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
    kept = [one for area in areas.values() for one in area.kept()]
    registry.interrupted(alive, partial(_ended, kept, audit, registry, server))
    for call_id in {one.call_id for one in kept if one.is_undone}:
        _retract(call_id, audit, registry, server)


def _ended(
    kept: Sequence[KeptPublication], audit: AuditLog, registry: Registry, server: str, call: Call
) -> CallEnd:
    """Written elsewhere first, so that a crash in here leaves a call to be ended by the next server."""
    made = _published(kept, call.id)
    if made and not registry.artifacts_of(call.id):
        registry.add_artifacts(call.id, made)
    rows = tuple({"path": one.path, "bytes": one.size, "sha256": one.sha256} for one in made)
    message = "the server died during the call" + ("; what it published stands" if made else "")
    event = {"type": "call.finished", "call": call.id, "outcome": "INTERNAL", "message": message}
    audit.append({**event, "source": {"server": server}, **({"outputs": list(rows)} if rows else {})})
    return CallEnd("INTERNAL", message, files=rows)


def _retract(call_id: str, audit: AuditLog, registry: Registry, server: str) -> None:
    """Takes off the list what was taken back in the workspace by an undo that did not live to say so."""
    listed = [one for one in registry.artifacts_of(call_id) if one.state != "retracted"]
    if not listed:
        return
    targets = [one.path for one in listed]
    event = {"type": "undo.recovered", "call": call_id, "outcome": str(Finding.UNDONE), "targets": targets}
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


def _published(kept: Sequence[KeptPublication], call_id: str) -> tuple[Artifact, ...]:
    """What a call put into a workspace, by what is kept for its undo."""
    made = (
        one
        for kept_one in kept
        if kept_one.call_id == call_id and not kept_one.is_undone
        for one in kept_one.files
    )
    return tuple(_artifact(one) for one in made if one.sha256)  # what was renamed has none, and is no output


def _artifact(file: PublishedFile) -> Artifact:
    located = file.located
    kind = "inode/directory" if located.is_folder else media_type(located.name)
    return Artifact(located.uri, str(located), located.name, file.size, kind, file.sha256)
