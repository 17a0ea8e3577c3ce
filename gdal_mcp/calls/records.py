"""What is written down about a call: the audit records before and after it, its registry rows, and its receipt."""

import hashlib
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from gdal_mcp.calls.execution import Done
from gdal_mcp.calls.results import file_row, place_row
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.gdal.answers.described import Described
from gdal_mcp.gdal.catalogue.load import catalogue, data_text
from gdal_mcp.gdal.datasets.paths import companions
from gdal_mcp.ledger.audit import AuditLog, AuditUnavailable
from gdal_mcp.ledger.provenance import PATIENCE, Materials
from gdal_mcp.ledger.registry import Artifact, Call, CallEnd, Registry, RegistryUnavailable
from gdal_mcp.ledger.rows import json_text
from gdal_mcp.plan import Draft, Plan
from gdal_mcp.settings import Settings
from gdal_mcp.tools.model import Receipt
from sandbox.outcome import Usage
from sandbox.outputs.store import PublishedFile

if TYPE_CHECKING:
    from gdal_mcp.calls.ticket import Ticket

_MAX_BOXES = 20  # extents of layers that are kept of one output
_READ_PATIENCE = 0.02  # digests of some megabytes are ready by then

_log = structlog.get_logger()

MEDIA_TYPES = {  # what mimetypes does not know
    ".tif": "image/tiff; application=geotiff",
    ".tiff": "image/tiff; application=geotiff",
    ".gpkg": "application/geopackage+sqlite3",
    ".geojson": "application/geo+json",
    ".fgb": "application/vnd.flatgeobuf",
    ".shp": "application/vnd.shp",
    ".vrt": "application/xml",
    ".nc": "application/netcdf",
    ".npy": "application/x-npy",
    ".parquet": "application/vnd.apache.parquet",
    ".kml": "application/vnd.google-earth.kml+xml",
}


def media_type(name: str) -> str:
    """The media type by the extension of a name."""
    suffix = "." + name.rsplit(".", 1)[-1].lower() if "." in name else ""
    return MEDIA_TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"


@lru_cache(maxsize=1)
def catalogue_name() -> str:
    """Which catalogue this process checks arguments with: GDAL's version and the digest of the data."""
    return f"{catalogue().gdal_version} sha256:{hashlib.sha256(data_text().encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Records:
    """Writes to the audit log and the registry. No record, no run."""

    settings: Settings
    audit: AuditLog
    registry: Registry
    server: str  # this process's owner id
    policy: str = ""  # the digest of the policy file
    watched: dict[str, Materials] = field(default_factory=dict)  # of the calls that run

    def started(self, ticket: "Ticket") -> None:
        """Before anything runs; from here on the inputs are watched. Raises ToolError when it cannot be written."""
        assert ticket.plan is not None
        try:
            self.registry.begin_call(self._call(ticket))  # first: the next server ends what is begun in there
            self._append_started(ticket)
        except (AuditUnavailable, RegistryUnavailable) as error:
            raise _unrecorded(error) from error
        self.watched[ticket.call_id] = Materials.start(
            ticket.plan.draft.inputs, self.settings.digest_size, companions()
        )

    def _append_started(self, ticket: "Ticket") -> None:
        try:
            self.audit.append({**self._event(ticket, "call.started"), "outcome": "started"})
        except AuditUnavailable as error:
            self.registry.finish_call(ticket.call_id, CallEnd(str(Code.INTERNAL), str(error)))
            raise

    def answered(self, ticket: "Ticket") -> None:
        """Before an answer that needs no container. Raises ToolError when it cannot be written."""
        try:
            self.audit.append({**self._event(ticket, "call.started"), "outcome": "started"})
        except AuditUnavailable as error:
            raise _unrecorded(error) from error

    def _call(self, ticket: "Ticket") -> Call:
        """What is known of a call before it runs: all of it if there is a plan."""
        plan, host, request = ticket.plan, ticket.host, ticket.request
        call = Call(
            ticket.call_id, request.principal, request.tool[:100], dict(request.arguments), self.server
        )
        call = replace(call, catalogue=catalogue_name(), approval=ticket.approval)
        if plan is not None:
            argv, limits = plan.draft.command.argv, asdict(plan.limits)
            call = replace(call, plan_digest=plan.digest, argv=argv, limits=limits)
        if host is not None:
            image, tier = host.image, host.tier(self.settings)
            call = replace(call, image=image.digest, image_reference=image.reference, tier=tier)
            call = replace(call, tool_version=image.gdal_version)
        return call

    def suspended(self, ticket: "Ticket") -> None:
        """The client was asked and will call again."""
        try:
            self.audit.append({**self._event(ticket, "approval.requested"), "outcome": "asked"})
        except AuditUnavailable:
            _log.exception("audit_failed", call=ticket.call_id)

    def finished(self, ticket: "Ticket", done: Done | None, error: ToolError | None) -> ToolError | None:
        """After everything. Returns a failure when it cannot be written, since the call itself is over."""
        finish = self._finish(ticket, done, error)
        _log.info(
            "call",
            call=ticket.call_id,
            tool=ticket.request.tool,
            outcome=finish.outcome,
            seconds=ticket.seconds,
        )
        try:
            self.audit.append(self._ending(ticket, done, finish))
            self._register(ticket, done, finish)
        except (AuditUnavailable, RegistryUnavailable) as failure:
            _log.exception("record_failed", call=ticket.call_id)
            return ToolError(
                Code.INTERNAL,
                Stage.AUDIT,
                f"the call ended with {finish.outcome}, but that could not be recorded: {failure}",
                f"What it published stands; `gdal-mcp undo {ticket.call_id}` takes it back.",
            )
        return None

    def _ending(self, ticket: "Ticket", done: Done | None, finish: CallEnd) -> dict[str, Any]:
        """The audit record of a call's end."""
        event = {
            **self._event(ticket, "call.finished"),
            "outcome": finish.outcome,
            "seconds": dict(finish.durations),
            "materials": list(finish.inputs),
        }
        if finish.message:
            event["message"] = finish.message
        if done is not None and done.published is not None:
            event["outputs"] = list(finish.files)
            event["replaced"] = [str(located) for located in done.published.replaced]
            event["removed"] = list(finish.removed)
        return event

    def _finish(self, ticket: "Ticket", done: Done | None, error: ToolError | None) -> CallEnd:
        """How the call ended, with all that can be told; what was published is told whatever fails of the rest."""
        published = done.published if done else None
        ended = CallEnd(
            outcome=str(error.code) if error else "OK",
            message=error.message if error else "",
            durations=dict(ticket.seconds),
            files=tuple(file_row(file) for file in published.files) if published else (),
            removed=tuple(str(located) for located in published.removed) if published else (),
        )
        try:
            ended = replace(ended, inputs=self._inputs(ticket, done))
            return replace(ended, **self._results(ticket, done))
        except Exception:  # noqa: BLE001 - a fault of ours in what is nice to know must not cost the record of what was done
            _log.exception("record_incomplete", call=ticket.call_id)
            return ended

    def _inputs(self, ticket: "Ticket", done: Done | None) -> tuple[Mapping[str, Any], ...]:
        watched = self.watched.pop(ticket.call_id, None)
        if watched is None:
            return ()
        touched = _touched(ticket.plan) if ticket.plan and done and done.published else frozenset()
        return tuple(one.row() for one in watched.result(touched=touched, patience=_patience(done)))

    def _results(self, ticket: "Ticket", done: Done | None) -> dict[str, Any]:
        """What a call gave and cost, as fields of its `CallEnd`."""
        if done is None or ticket.plan is None:
            return {"receipt": _cost(ticket.usage, ticket.seconds)} if ticket.usage else {}
        published = done.published
        return {
            "tool_version": done.gdal_version,
            "receipt": self.receipt(ticket, done).model_dump(mode="json"),
            "outputs": _effects(ticket.plan.draft, done.outputs) if published and published.undo_id else (),
            "printed": _answer(done),
        }

    def _register(self, ticket: "Ticket", done: Done | None, finish: CallEnd) -> None:
        """Into the registry, also what failed before it ran; an answer without a container is in the audit log alone."""
        if (
            done is not None and done.published is not None
        ):  # before its end: what is not ended, a restart looks after
            artifacts = [_artifact(file) for file in done.published.files]
            self.registry.add_artifacts(ticket.call_id, artifacts)
        self.registry.finish_call(ticket.call_id, finish)
        if done is None and finish.outcome != "OK":
            told = replace(self._call(ticket), outcome=finish.outcome, message=finish.message)
            if ticket.plan is None:  # what was not understood may hold a password: its digest alone is kept
                told = replace(told, arguments={}, arguments_digest=_digest(ticket.request.arguments))
            self.registry.add_refused(replace(told, durations=finish.durations))

    def _event(self, ticket: "Ticket", kind: str) -> dict[str, Any]:
        request, host = ticket.request, ticket.host
        event: dict[str, Any] = {
            "type": kind,
            "call": ticket.call_id,
            "subject": {"principal": request.principal, "client": request.client},
            "source": {"server": self.server},
            "tool": request.tool[:100],
            "arguments_sha256": _digest(request.arguments),
        }
        if ticket.plan is not None:
            event["object"] = _object(ticket.plan)
            event["approval"] = ticket.approval
            event["policy"] = {"mode": self.settings.approval, "sha256": self.policy or None}
        if host is not None:
            event["where"] = {
                "engine": f"{host.info.name} {host.info.version}",
                "image": host.image.reference,
                "digest": host.image.digest,
                "gdal": host.image.gdal_version,
                "stand_in": host.image.standin,
                "tier": host.tier(self.settings),
            }
        return event

    def receipt(self, ticket: "Ticket", done: Done) -> Receipt:
        """What ran, where and at what cost, of a call that succeeded."""
        plan, host, usage = ticket.plan, ticket.host, done.usage
        assert plan is not None
        assert host is not None
        return Receipt(
            call_id=ticket.call_id,
            image=host.image.reference,
            image_digest=host.image.digest,
            gdal_version=done.gdal_version or host.image.gdal_version,
            stand_in=host.image.standin,
            engine=f"{host.info.name} {host.info.version}",
            tier=host.tier(self.settings),
            argv=list(plan.draft.command.argv),
            mounts=list(plan.mounts),
            plan_digest=plan.digest,
            limits={name: float(value) for name, value in asdict(plan.limits).items()},
            approval=ticket.approval,
            **_cost(usage, ticket.seconds),
        )


def _object(plan: Plan) -> dict[str, Any]:
    """What a call works on, as its audit records say it."""
    draft = plan.draft
    return {
        "argv": list(draft.command.argv),
        "inputs": [place_row(located) for located in draft.inputs],
        "outputs": [str(output.target) for output in draft.outputs],
        "transfers": [[str(one.source), str(one.target)] for one in draft.transfers],
        "removes": [str(located) for located in draft.removes],
        "effect": str(plan.effect),
        "plan": plan.digest,
        "mounts": list(plan.mounts),
        "limits": asdict(plan.limits),
    }


def _cost(usage: Usage, laps: Mapping[str, float]) -> dict[str, Any]:
    """What a call took, in the words of its receipt."""
    own = {"create": usage.create_seconds, "start": usage.start_seconds, "remove": usage.remove_seconds}
    return {
        "pool": usage.pool,
        "seconds": {name: round(value, 4) for name, value in {**laps, **own}.items()},
        "cpu_seconds": usage.cpu_seconds,
        "peak_memory_bytes": usage.peak_memory_bytes,
    }


def _digest(arguments: Mapping[str, Any]) -> str:
    return hashlib.sha256(json_text(dict(arguments)).encode("utf-8", "surrogatepass")).hexdigest()


def _answer(done: Done) -> str:
    """The digest of what a call answered: text, code, and the picture of one that only looks."""
    total = hashlib.sha256(done.printed.encode("utf-8", "surrogatepass"))
    total.update(f"\0{done.return_code}\0".encode())
    if done.published is None and done.preview:
        total.update(done.preview)
    return total.hexdigest()


def _patience(done: Done | None) -> float:
    """Seconds to wait for digests: an answer that only read is not held up, as nothing will be traced back to it."""
    if done is None:
        return 0
    return PATIENCE if done.published is not None else _READ_PATIENCE


def _touched(plan: Plan) -> frozenset[Path]:
    """Where a call that published put, replaced, moved or took away something."""
    draft = plan.draft
    places = [located for one in draft.outputs for located in (one.target, *one.replaces, *one.shared)]
    places += [located for one in draft.transfers for located in (one.source, one.target)]
    return frozenset(located.path for located in (*places, *draft.removes))


def _effects(draft: Draft, found: Sequence[Described]) -> tuple[Mapping[str, Any], ...]:
    """What a call that published did to the workspace, dataset by dataset: written, changed, moved or removed."""
    places = [_where(one) for one in found] + [{}] * (len(draft.outputs) - len(found))
    rows = list(zip(draft.outputs, places, strict=False))
    written = [{"path": str(one.target), "kind": one.kind, **at} for one, at in rows if not one.update]
    changed = [{"path": str(one.target), "kind": "changed", **at} for one, at in rows if one.update]
    moved = [{"path": str(one.target), "kind": "moved", "from": str(one.source)} for one in draft.transfers]
    removed = [{"path": str(located), "kind": "removed"} for located in draft.removes]
    return (*written, *changed, *moved, *removed)


def _where(one: Described) -> dict[str, Any]:
    """Where on earth an output lies: [west, south, east, north] in degrees, of each layer that can be told."""
    boxes = [
        one.facts.get("wgs84"),
        *(layer.get("wgs84") for layer in one.facts.get("layers") or () if layer),
    ]
    known = [box for box in boxes if box]
    return {"wgs84": known[:_MAX_BOXES]} if known else {}


def _unrecorded(error: Exception) -> ToolError:
    return ToolError(
        Code.INTERNAL,
        Stage.AUDIT,
        str(error),
        "Nothing was run: a call that cannot be recorded is not made.",
    )


def _artifact(file: PublishedFile) -> Artifact:
    located = file.located
    kind = "inode/directory" if located.is_folder else media_type(located.name)
    return Artifact(located.uri, str(located), located.name, file.size, kind, file.sha256)
