"""The states of a call: its request, what is known after each step, and the reply.

Each step makes a frozen value for the next: `Admitted`, `Planned`, `Ran`. Only `CallContext` changes: it holds the newest of
them, for the records of a call that ends early, and how long each step took.
"""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gdal_mcp.access.identity import Principal
from gdal_mcp.approval.model import Approver
from gdal_mcp.calls.activity import Running
from gdal_mcp.calls.operation import ORDINARY, Operation
from gdal_mcp.entitlements import Entitlements
from gdal_mcp.errors import ToolError
from gdal_mcp.host.hosting import Host
from gdal_mcp.plan import Plan
from gdal_mcp.preflight import NoReport, Report
from gdal_mcp.remote.record import SourceRead
from gdal_mcp.toolbox import Described, Tool, Toolbox
from sandbox.outcome import Usage
from sandbox.outputs.store import Published


@dataclass(frozen=True, slots=True)
class Request:
    """One call as it came in. `on_progress` is called from another thread, or from the event loop's while the call waits."""

    tool: str
    arguments: Mapping[str, Any]
    who: Principal
    client: str
    approver: Approver
    on_progress: Callable[[float, str], None] = lambda _fraction, _message: None
    operation: Operation = ORDINARY

    @property
    def principal(self) -> str:
        return self.who.id


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request whose sender has the tool."""

    context: "CallContext"
    entitlements: Entitlements
    tool: Tool
    toolbox: Toolbox


@dataclass(frozen=True, slots=True)
class Planned:
    """Exactly what would run, and where. `approval` says how it was allowed; empty before that.

    `reads` are the remote hosts and folders that whoever approved it was told of; None where nobody was asked.
    """

    admitted: Admitted
    plan: Plan
    host: Host
    approval: str = ""
    reads: tuple[str, ...] | None = None

    @property
    def context(self) -> "CallContext":
        return self.admitted.context


@dataclass(frozen=True, slots=True)
class Done:
    """What a successful call produced. All text in it is cleaned; `outputs` are in the order of the draft's."""

    usage: Usage
    printed: str
    parsed: Any
    stderr: str
    outputs: tuple[Described, ...]
    messages: tuple[str, ...]  # what the library reported, each once
    tool_version: str
    checks: tuple[Mapping[str, Any], ...] = ()  # what our words make of the messages
    return_code: int | None = None  # of operations that answer with one
    settings: Mapping[str, str] = field(
        default_factory=dict
    )  # the library's, as the worker changed them for this job
    published: Published | None = None
    preview: bytes | None = None
    figures: tuple[bytes, ...] = ()  # that code of the call drew, as PNG
    attached: Mapping[str, bytes] = field(default_factory=dict)  # all that came beside the answer, by name


@dataclass(frozen=True, slots=True)
class Ran:
    """A plan that ran and succeeded."""

    planned: Planned
    done: Done


@dataclass(slots=True)
class CallContext:
    """What is known of a call so far. Durations are seconds."""

    request: Request
    call_id: str = field(default_factory=lambda: secrets.token_hex(8))
    durations: dict[str, float] = field(default_factory=dict)
    admitted: Admitted | None = None  # the steps that were reached, each with its newest value
    planned: Planned | None = None
    ran: Ran | None = None
    preflight: Report = field(default_factory=NoReport)  # the newest; the container's look adds to it
    remote: tuple[SourceRead, ...] = ()  # what was read over the network, however the call ended
    hosts: list[dict[str, Any]] = field(default_factory=list)  # that were asked for it, as the receipt tells
    usage: Usage | None = None  # of its container, however the call ended
    running: Running | None = None  # as the console shows it

    @property
    def done(self) -> Done | None:
        """Set as soon as outputs are published, whatever fails after that."""
        return self.ran.done if self.ran else None

    def report_progress(self, fraction: float, message: str) -> None:
        """From any thread."""
        if (shown := self.running) is not None:
            shown.fraction, shown.message = max(shown.fraction, fraction), message
        self.request.on_progress(fraction, message)

    def enter(self, stage: str) -> None:
        """Sets the stage that the console shows."""
        if self.running is not None:
            self.running.stage = stage

    def cpu_seconds(self) -> float:
        """CPU time as the container reports it, at most what its limits allow; without a report, all of that."""
        if self.usage is None or self.planned is None:
            return 0.0
        limits = self.planned.plan.limits
        most = min(self.usage.run_seconds, limits.wall_seconds) * limits.cpus
        return min(self.usage.cpu_seconds, most) if self.usage.cpu_seconds is not None else most

    def record_duration(self, name: str, since: float) -> None:
        self.durations[name] = round(time.monotonic() - since, 6)


@dataclass(frozen=True, slots=True)
class Reply:
    """A call's result: the tool's own keys with the receipt, what was published, and a preview."""

    call_id: str
    result: Mapping[str, Any]
    done: Done | None = None
    error: ToolError | None = None

    @classmethod
    def failed(cls, context: CallContext, error: ToolError) -> "Reply":
        further = context.admitted.toolbox.error_details(error) if context.admitted else {}
        return cls(context.call_id, {**error.as_dict(context.call_id), **further}, context.done, error)
