"""The records of a call: audit records before and after it, its registry rows, and its receipt."""

import hashlib
import mimetypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import structlog

from gdal_mcp.calls.invocation import Invocation, JobResult
from gdal_mcp.calls.results import cost, file_row
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.records.audit import AuditLog
from gdal_mcp.records.audit_files import AuditUnavailable
from gdal_mcp.records.provenance import DIGEST_GRACE, Materials
from gdal_mcp.records.registry import WAITING, Artifact, Call, Registry, RegistryUnavailable
from gdal_mcp.records.schema import json_text
from gdal_mcp.remote.places import label, local, without_secrets
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.gdal.catalogue.endings import usual_name
from gdal_mcp.toolboxes.toolbox import Described
from sandbox.outputs.store import PublishedFile

_MAX_BOXES = 20  # extents of layers recorded for one output
_MAX_REASON = 16 << 10  # characters of a failed call's messages
_READ_DIGEST_GRACE = 0.02  # seconds; digests of some megabytes are ready by then

_log = structlog.get_logger()

MEDIA_TYPES = {  # types that mimetypes does not know
    ".tif": "image/tiff; application=geotiff",
    ".gpkg": "application/geopackage+sqlite3",
    ".geojson": "application/geo+json",
    ".fgb": "application/vnd.flatgeobuf",
    ".shp": "application/vnd.shp",
    ".vrt": "application/xml",
    ".nc": "application/netcdf",
    ".h5": "application/x-hdf5",
    ".jp2": "image/jp2",
    ".kmz": "application/vnd.google-earth.kmz",
    ".npy": "application/x-npy",
    ".parquet": "application/vnd.apache.parquet",
    ".kml": "application/vnd.google-earth.kml+xml",
    ".gml": "application/gml+xml",
    ".jsonl": "application/jsonl",
    ".geojsonl": "application/geo+json-seq",
    ".geojsons": "application/geo+json-seq",
    ".asc": "text/plain",
    ".prj": "text/plain",
    ".wkt": "text/plain",
    ".xyz": "text/plain",
}


def media_type(name: str) -> str:
    suffix, usual = PurePosixPath(name).suffix.lower(), PurePosixPath(usual_name(name)).suffix
    known = MEDIA_TYPES.get(suffix) or MEDIA_TYPES.get(usual)
    return known or mimetypes.guess_type(name)[0] or "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Records:
    """Writes to the audit log and the registry. No record, no run."""

    settings: Settings
    audit: AuditLog
    registry: Registry
    server: str  # this process's owner id
    policy: str = ""  # the digest of the policy file
    digesting: dict[str, Materials] = field(default_factory=dict)  # the inputs of running calls
    listeners: list[Callable[[Call], None]] = field(
        default_factory=list
    )  # called at the end of each call, in its thread

    def record_start(self, call: Invocation) -> None:
        """Records the start before anything runs, and starts to digest the inputs. Raises ToolError if it cannot."""
        self._begin(call)
        plan = call.plan
        self.digesting[call.call_id] = Materials(
            local(plan.draft.inputs), self.settings.digest_size, plan.beside
        )

    def _begin(self, call: Invocation) -> None:
        with _must_be_recorded():
            # first, because the next server ends calls that the registry has as started
            if call.request.operation.in_history:
                self.registry.begin_call(self._call(call))
            try:
                self.audit.append(self._event(call, "call.started", "started"))
            except AuditUnavailable as error:
                ended = replace(self._call(call), outcome=str(Code.INTERNAL), message=str(error))
                self.registry.finish_call(ended)
                raise

    def record_answer(self, call: Invocation) -> None:
        """Records a call without a container before it answers and before any request is made for it. Raises
        ToolError if it cannot.
        """
        if call.addresses:
            self._begin(call)
        else:
            self.record_event(call)

    def record_event(self, call: Invocation, kind: str = "call.started", outcome: str = "started") -> None:
        """Records an action in the audit log before it is done, without a row in the history. Raises ToolError if it
        cannot.
        """
        with _must_be_recorded():
            self.audit.append(self._event(call, kind, outcome))

    def record_end(self, call: Invocation) -> ToolError | None:
        """Records the end of a call. Returns an error instead of raising one, because the call itself has ended."""
        ended = self._finish(call)
        _log.info(
            "call",
            call=call.call_id,
            tool=call.request.tool[:100],
            principal=call.request.principal,
            peer=call.request.peer,
            outcome=ended.outcome,
            seconds=dict(call.durations),
        )
        try:
            self.audit.append(self._ending(call, ended))
            self._register(call, ended)
        except (AuditUnavailable, RegistryUnavailable) as failure:
            _log.exception("record_failed", call=call.call_id)
            return ToolError(
                Code.INTERNAL,
                Stage.AUDIT,
                f"the call ended with {ended.outcome}, but that could not be recorded: {failure}",
                f"What it published stands; `gdal-mcp undo {call.call_id}` takes it back.",
            )
        return None

    def _call(self, call: Invocation) -> Call:
        request = call.request
        row = Call(
            call.call_id,
            request.principal,
            request.tool[:100],
            dict(request.arguments),
            self.server,
            part_of=request.operation.part_of,
        )
        if call.prepared is None:
            if not call.addresses:
                return row
            arguments = without_secrets(row.arguments, call.addresses)
            return replace(row, arguments=arguments, argv=(row.tool, *map(str, call.addresses)))
        plan, image = call.plan, call.host.image
        return replace(
            row,
            arguments=without_secrets(row.arguments, plan.draft.addresses),
            catalogue=call.toolbox.version,
            approval=call.authorization.text,
            plan_digest=plan.digest,
            argv=plan.draft.display_command,
            limits=asdict(plan.limits),
            image=image.digest,
            image_reference=image.reference,
            tier=call.host.tier(self.settings),
            tool_version=image.version,
        )

    def _ending(self, call: Invocation, ended: Call) -> dict[str, Any]:
        event = {
            **self._event(call, "call.finished", ended.outcome),
            "seconds": dict(ended.durations),
            "materials": list(ended.inputs),
        }
        if ended.message:
            event["message"] = ended.message
        if (published := call.published) is not None:
            event["outputs"] = list(ended.files)
            event["replaced"] = [str(located) for located in published.replaced]
            event["removed"] = list(ended.removed)
        return event

    def _finish(self, call: Invocation) -> Call:
        """The record of the end of a call. It always has the published files, even if collecting the rest fails."""
        error, done, published = call.error, call.done, call.published
        outcome = "OK" if error is None else str(error.code)
        if error is not None and error.confirmation is not None:
            # the call waits for a person's answer: it was not denied, and will be sent again
            outcome = WAITING
        ended = replace(
            self._call(call),
            outcome=outcome,
            message=error.message if error else "",
            durations=dict(call.durations),
            files=tuple(file_row(file) for file in published.files) if published else (),
            removed=tuple(str(located) for located in published.removed) if published else (),
        )
        try:
            ended = replace(ended, inputs=self._inputs(call))
            if call.prepared is None or done is None:
                usage, hosts = call.outcome.usage, call.outcome.hosts
                spent = cost(usage, call.durations) if usage else {}
                spent |= {"remote": list(hosts)} if hosts else {}
                return replace(ended, receipt={**spent, **_reason(error, locked=self.settings.lockdown)})
            effects = _effects(call.plan.draft, done.outputs)
            return replace(
                ended,
                tool_version=done.tool_version or ended.tool_version,
                receipt=call.receipt,
                outputs=effects if published and published.undo_id else (),
                printed=_answer(done),
            )
        except Exception:  # noqa: BLE001 - the record of what was done matters more than its details; the log has the error
            _log.exception("record_incomplete", call=call.call_id)
            return ended

    def _inputs(self, call: Invocation) -> tuple[Mapping[str, Any], ...]:
        digesting, done = self.digesting.pop(call.call_id, None), call.done
        if digesting is None:
            return ()
        touched = _touched(call.plan.draft) if call.published else frozenset()
        # a call that only read does not wait for digests, because nothing is traced back to it
        patience = 0.0 if done is None else DIGEST_GRACE if call.published is not None else _READ_DIGEST_GRACE
        rows = [material.row() for material in digesting.result(touched=touched, patience=patience)]
        for read in call.outcome.remote:  # only parts of the file were read, so there is no digest of it
            row = {"path": read.address, "bytes": read.length, "modified": read.last_modified}
            rows.append({**row, "sha256": None, "reason": "read in parts", "remote": read.as_dict()})
        return tuple(rows)

    def _register(self, call: Invocation, ended: Call) -> None:
        """Registers the end of a call, even if it failed before it ran. An answer without a container is only
        audited.
        """
        done = call.done
        if not call.request.operation.in_history:
            return
        if (published := call.published) is not None:
            # listed before the end is recorded, because a restart finishes calls without an end
            self.registry.add_artifacts(call.call_id, map(artifact_of, published.files))
        self.registry.finish_call(ended)
        if done is None and ended.outcome != "OK":
            # arguments that could not be parsed may contain a password: only their digest is stored
            if call.prepared is None:
                ended = replace(ended, arguments={}, arguments_digest=_digest(call.request.arguments))
            self.registry.add_refused(ended)
        if done is not None or ended.outcome != "OK" or call.addresses:
            for listener in self.listeners:
                listener(self.registry.call(ended.id) or ended)  # as registered, with its times

    def _event(self, call: Invocation, kind: str, outcome: str) -> dict[str, Any]:
        request = call.request
        event: dict[str, Any] = {
            "type": kind,
            "outcome": outcome,
            "call": call.call_id,
            "subject": {"principal": request.principal, "client": request.client},
            "source": {"server": self.server},
            "tool": request.tool[:100],
            "arguments_sha256": _digest(request.arguments),
        }
        if call.addresses:
            event["object"] = {"addresses": [str(address) for address in call.addresses]}
        if call.outcome.hosts:
            event["remote"] = list(call.outcome.hosts)
        if call.prepared is not None:
            host, plan, draft = call.host, call.plan, call.plan.draft
            event["object"] = {
                "argv": list(draft.command.argv),
                "inputs": [
                    {"path": label(located), "bytes": located.identity.size if located.identity else None}
                    for located in draft.inputs
                ],
                "outputs": [str(output.target) for output in draft.outputs],
                "transfers": [
                    [str(transfer.source), str(transfer.target)] for transfer in draft.files.transfers
                ],
                "removes": [str(located) for located in draft.files.removes],
                "effect": str(plan.effect),
                "plan": plan.digest,
                "mounts": list(plan.mounts),
                "limits": asdict(plan.limits),
            }
            event["approval"] = call.authorization.text
            event["policy"] = {"mode": self.settings.approval, "sha256": self.policy or None}
            event["where"] = {
                "engine": f"{host.info.name} {host.info.version}",
                "image": host.image.reference,
                "digest": host.image.digest,
                "toolbox": call.toolbox.name,
                "tool_version": host.image.version,
                "stand_in": host.image.standin,
                "tier": host.tier(self.settings),
            }
        return event


def _digest(arguments: Mapping[str, Any]) -> str:
    return hashlib.sha256(json_text(dict(arguments)).encode("utf-8", "surrogatepass")).hexdigest()


def _answer(done: JobResult) -> str:
    """The digest of a call's answer: its text, its code, and the picture of a call that only read."""
    total = hashlib.sha256(done.printed.encode("utf-8", "surrogatepass"))
    total.update(f"\0{done.return_code}\0".encode())
    for picture in (done.preview, *done.figures) if done.published is None else ():
        total.update(picture or b"")
    return total.hexdigest()


def _touched(draft: Draft) -> frozenset[Path]:
    places = [
        located for output in draft.outputs for located in (output.target, *output.replaces, *output.shared)
    ]
    places += [
        located for transfer in draft.files.transfers for located in (transfer.source, transfer.target)
    ]
    return frozenset(located.path for located in (*places, *draft.files.removes))


def _effects(draft: Draft, outputs: Sequence[Described]) -> tuple[Mapping[str, Any], ...]:
    """The effect of a published call on each dataset: written, changed, moved or removed."""
    places = [_gallery_facts(described) for described in outputs] + [{}] * (len(draft.outputs) - len(outputs))
    rows = list(zip(draft.outputs, places, strict=False))
    written = [
        {"path": str(output.target), "kind": output.kind, **at} for output, at in rows if not output.update
    ]
    changed = [{"path": str(output.target), "kind": "changed", **at} for output, at in rows if output.update]
    moved = [
        {"path": str(transfer.target), "kind": "moved", "from": str(transfer.source)}
        for transfer in draft.files.transfers
    ]
    removed = [{"path": str(located), "kind": "removed"} for located in draft.files.removes]
    return (*written, *changed, *moved, *removed)


def _reason(error: ToolError | None, *, locked: bool) -> dict[str, Any]:
    """Why a call failed: the library's messages, and the open question."""
    if error is None:
        return {}
    shown = error.untrusted and not locked and len(json_text(error.untrusted)) <= _MAX_REASON
    reason: dict[str, Any] = {"untrusted": dict(error.untrusted)} if shown else {}
    if error.confirmation is not None:
        reason["question"] = error.confirmation.get("approval")
    return reason


def _gallery_facts(described: Described) -> dict[str, Any]:
    """The facts of an output for a gallery: format, size or features, CRS, and the extent of each layer in degrees."""
    layers = [layer for layer in described.facts.get("layers") or () if layer]
    crs = (
        described.facts.get("crs") or next((layer["crs"] for layer in layers if layer.get("crs")), None) or {}
    )
    counts = [layer["features"] for layer in layers if layer.get("features") is not None]
    facts = {
        "driver": described.facts.get("driver"),
        "size": described.facts.get("size"),
        "crs": crs.get("code"),
    }
    facts |= {"features": sum(counts)} if counts else {}
    known = [box["wgs84"] for box in (described.facts, *layers) if box.get("wgs84")]
    facts |= {"wgs84": known[:_MAX_BOXES]} if known else {}
    return {name: value for name, value in facts.items() if value is not None}


@contextmanager
def _must_be_recorded() -> Iterator[None]:
    """Raises ToolError if the audit log or the registry cannot be written."""
    try:
        yield
    except (AuditUnavailable, RegistryUnavailable) as error:
        advice = "Nothing was run: a call that cannot be recorded is not made."
        raise ToolError(Code.INTERNAL, Stage.AUDIT, str(error), advice) from error


def artifact_of(file: PublishedFile) -> Artifact:
    located = file.located
    kind = "inode/directory" if located.is_folder else media_type(located.name)
    return Artifact(located.uri, str(located), located.name, file.size, kind, file.sha256)
