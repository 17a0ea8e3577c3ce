"""What is written down about a call: the audit records before and after it, its registry rows, and its receipt."""

import hashlib
import json
import mimetypes
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import structlog

from gdal_mcp.audit import AuditLog, AuditUnavailable
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.execution import Done
from gdal_mcp.registry import Artifact, Call, Finish, Registry, RegistryUnavailable
from gdal_mcp.settings import Settings
from gdal_mcp.tools.model import Answer, Receipt, Tool, Written
from sandbox.publication import PublishedFile
from sandbox.workspace import Located

if TYPE_CHECKING:
    from gdal_mcp.pipeline import Ticket

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


@dataclass(frozen=True, slots=True)
class Records:
    """Writes to the audit log and the registry. No record, no run."""

    settings: Settings
    audit: AuditLog
    registry: Registry
    server: str  # this process's owner id

    def started(self, ticket: "Ticket") -> None:
        """Before anything runs. Raises ToolError when it cannot be written."""
        plan, host, request = ticket.plan, ticket.host, ticket.request
        assert plan is not None
        assert host is not None
        call = Call(
            id=ticket.call_id,
            principal=request.principal,
            tool=plan.tool,
            arguments=dict(request.arguments),
            server=self.server,
            plan_digest=plan.digest,
            argv=plan.draft.command.argv,
            image=host.image.digest,
            gdal_version=host.image.gdal_version,
            tier=host.tier(self.settings),
        )
        try:
            self.audit.append({**self._event(ticket, "call.started"), "outcome": "started"})
            self.registry.begin_call(call)
        except (AuditUnavailable, RegistryUnavailable) as error:
            raise ToolError(
                Code.INTERNAL,
                Stage.AUDIT,
                str(error),
                "Nothing was run: a call that cannot be recorded is not made.",
            ) from error

    def suspended(self, ticket: "Ticket") -> None:
        """The client was asked and will call again."""
        try:
            self.audit.append({**self._event(ticket, "approval.requested"), "outcome": "asked"})
        except AuditUnavailable:
            _log.exception("audit_failed", call=ticket.call_id)

    def finished(self, ticket: "Ticket", done: Done | None, error: ToolError | None) -> ToolError | None:
        """After everything. Returns a failure when it cannot be written, since the call itself is over."""
        outcome = str(error.code) if error else "OK"
        event = {**self._event(ticket, "call.finished"), "outcome": outcome, "seconds": dict(ticket.seconds)}
        if error is not None:
            event["message"] = error.message
        if done is not None and done.published is not None:
            event["outputs"] = [_file_row(file) for file in done.published.files]
            event["replaced"] = [str(located) for located in done.published.replaced]
        _log.info(
            "call", call=ticket.call_id, tool=ticket.request.tool, outcome=outcome, seconds=ticket.seconds
        )
        try:
            self.audit.append(event)
            if ticket.host is not None:
                self._register(ticket, done, outcome, error)
        except (AuditUnavailable, RegistryUnavailable) as failure:
            _log.exception("record_failed", call=ticket.call_id)
            return ToolError(
                Code.INTERNAL,
                Stage.AUDIT,
                f"the call ended with {outcome}, but that could not be recorded: {failure}",
                f"What it published stands; `gdal-mcp undo {ticket.call_id}` takes it back.",
            )
        return None

    def _register(self, ticket: "Ticket", done: Done | None, outcome: str, error: ToolError | None) -> None:
        message = error.message if error else ""
        version = done.gdal_version if done else ""
        files = done.published.files if done and done.published else ()
        receipt = self._receipt(ticket, done).model_dump(mode="json") if done else {}
        told = {**receipt, "outputs": [_file_row(file) for file in files]}
        self.registry.finish_call(
            ticket.call_id, Finish(outcome, message, version, dict(ticket.seconds), told)
        )
        if files:
            self.registry.add_artifacts(ticket.call_id, [_artifact(file) for file in files])

    def _event(self, ticket: "Ticket", kind: str) -> dict[str, Any]:
        request, plan, host = ticket.request, ticket.plan, ticket.host
        event: dict[str, Any] = {
            "type": kind,
            "call": ticket.call_id,
            "subject": {"principal": request.principal, "client": request.client},
            "source": {"server": self.server},
            "tool": request.tool[:100],
            "arguments_sha256": _digest(request.arguments),
        }
        if plan is not None:
            event["object"] = {
                "argv": list(plan.draft.command.argv),
                "inputs": [_place(located) for located in plan.draft.inputs],
                "output": str(plan.draft.output.target) if plan.draft.output else None,
                "effect": str(plan.effect),
                "plan": plan.digest,
                "limits": asdict(plan.limits),
            }
            event["approval"] = ticket.approval
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

    def result(self, ticket: "Ticket", tool: Tool[Any], done: Done) -> Mapping[str, Any]:
        """The structured result, held to the tool's output schema."""
        plan = ticket.plan
        assert plan is not None
        output = plan.draft.output
        place = output.target if output else None
        answer = Answer(
            done.printed,
            done.parsed,
            done.stderr,
            place.uri if place else None,
            str(place) if place else None,
        )
        own = dict(tool.present(answer))
        own["receipt"] = self._receipt(ticket, done)
        if issubclass(tool.result, Written) and done.published is not None:
            own |= {
                "description": done.description,
                "files": [_file_row(file) for file in done.published.files],
                "replaced": [str(located) for located in done.published.replaced],
                "warnings": list(done.warnings),
            }
        checked = tool.result.model_validate(own).model_dump(mode="json", by_alias=True)
        return {**{key: checked[key] for key in own}, **checked}  # the tool's own keys come first

    def _receipt(self, ticket: "Ticket", done: Done) -> Receipt:
        plan, host, usage = ticket.plan, ticket.host, done.usage
        assert plan is not None
        assert host is not None
        seconds = {
            **ticket.seconds,
            "create": usage.create_seconds,
            "start": usage.start_seconds,
            "remove": usage.remove_seconds,
        }
        return Receipt(
            call_id=ticket.call_id,
            image=host.image.reference,
            image_digest=host.image.digest,
            gdal_version=done.gdal_version or host.image.gdal_version,
            stand_in=host.image.standin,
            engine=f"{host.info.name} {host.info.version}",
            tier=host.tier(self.settings),
            pool=usage.pool,
            argv=list(plan.draft.command.argv),
            plan_digest=plan.digest,
            limits={name: float(value) for name, value in asdict(plan.limits).items()},
            seconds={name: round(value, 4) for name, value in seconds.items()},
            cpu_seconds=usage.cpu_seconds,
            peak_memory_bytes=usage.peak_memory_bytes,
            approval=ticket.approval,
        )


def _digest(arguments: Mapping[str, Any]) -> str:
    text = json.dumps(dict(arguments), sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _place(located: Located) -> dict[str, Any]:
    return {"path": str(located), "bytes": located.identity.size if located.identity else None}


def _file_row(file: PublishedFile) -> dict[str, Any]:
    row = {"path": str(file.located), "bytes": file.size, "sha256": file.sha256}
    return {**row, "files": len(file.parts)} if file.located.is_folder else row


def _artifact(file: PublishedFile) -> Artifact:
    located = file.located
    kind = "inode/directory" if located.is_folder else media_type(located.name)
    return Artifact(located.uri, str(located), located.name, file.size, kind, file.sha256)
