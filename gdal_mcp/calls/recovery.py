"""Finishes what dead servers left in the workspaces, the registry and the audit log.

Afterwards the registry lists the outputs of calls that were published and not those that were undone, so that it
agrees with the workspaces and an undo finds its files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import structlog

from gdal_mcp.calls.records import artifact_of
from gdal_mcp.records.audit import AuditLog
from gdal_mcp.records.registry import Call, Registry
from sandbox.outputs.staging import StagingArea
from sandbox.outputs.store import RecoveryOutcome, StoredPublication
from sandbox.owner import Owner

_log = structlog.get_logger()


def recover(
    areas: Mapping[Path, StagingArea],
    audit: AuditLog,
    registry: Registry,
    owner: Owner,
    *,
    discard: bool = True,
) -> None:
    """Finishes or rolls back publications of dead servers, ends their calls, and records that in the audit log.

    `owner` is this server; `discard` is as in `StagingArea.recover`. Raises AuditUnavailable, RegistryUnavailable,
    StagingFailed.
    """
    for area in areas.values():
        for recovery in area.recover(discard=discard):
            audit.append(
                {
                    "type": "publication.recovered",
                    "call": recovery.call_id,
                    "outcome": str(recovery.outcome),
                    "targets": [str(located) for located in recovery.targets],
                    "kept_in": recovery.kept_in,
                    "detail": recovery.detail,
                    "source": {"server": owner.id},
                }
            )
            _log.warning("recovered", call=recovery.call_id, outcome=str(recovery.outcome))
    publications = [publication for area in areas.values() for publication in area.publications()]
    registry.interrupted(owner.is_alive, partial(_ended, publications, audit, registry, owner.id))
    for call_id in {publication.call_id for publication in publications if publication.is_undone}:
        # the undo was finished in the workspace but not recorded
        listed = [artifact for artifact in registry.artifacts_of(call_id) if artifact.state != "retracted"]
        if listed:
            audit.append(
                {
                    "type": "undo.recovered",
                    "call": call_id,
                    "outcome": str(RecoveryOutcome.UNDONE),
                    "targets": [artifact.path for artifact in listed],
                    "source": {"server": owner.id},
                }
            )
            registry.retract_artifacts(call_id)
            _log.warning("undo_recovered", call=call_id)


def _ended(
    publications: Sequence[StoredPublication], audit: AuditLog, registry: Registry, server: str, call: Call
) -> Call:
    """Records how a lost call ended. The end is written last, so that the next server repeats this after a crash in
    between.
    """
    published = [
        file
        for publication in publications
        if publication.call_id == call.id and not publication.is_undone
        for file in publication.files
    ]
    # a file that was only renamed has no digest and is not an output
    artifacts = tuple(artifact_of(file) for file in published if file.sha256)
    if artifacts and not registry.artifacts_of(call.id):
        registry.add_artifacts(call.id, artifacts)
    rows = tuple(
        {"path": artifact.path, "bytes": artifact.size, "sha256": artifact.sha256} for artifact in artifacts
    )
    message = "the server died during the call" + ("; what it published stands" if artifacts else "")
    event = {"type": "call.finished", "call": call.id, "outcome": "INTERNAL", "message": message}
    audit.append({**event, "source": {"server": server}, **({"outputs": list(rows)} if rows else {})})
    return replace(call, outcome="INTERNAL", message=message, files=rows)
