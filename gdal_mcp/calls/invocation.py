"""The record of one call: one frozen value, to which each step of the pipeline adds its results.

A step returns a new value; nothing here changes. Only `view` shows the console what happens in between.
"""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gdal_mcp.approvals.model import Approver, Authorization
from gdal_mcp.calls.activity import RunningCall
from gdal_mcp.calls.entitlements import Entitlements
from gdal_mcp.calls.operation import ORDINARY, Operation
from gdal_mcp.errors import ToolError
from gdal_mcp.plan import Plan
from gdal_mcp.policy.identity import Principal
from gdal_mcp.remote.address import Address
from gdal_mcp.remote.record import SourceRead
from gdal_mcp.runtime.connection import Host
from gdal_mcp.toolboxes.base import Tool
from gdal_mcp.toolboxes.preflight import Report
from gdal_mcp.toolboxes.toolbox import Described, Toolbox
from sandbox.outcome import Usage
from sandbox.outputs.store import Published

NOT_YET: Final = Authorization("")


@dataclass(frozen=True, slots=True)
class Request:
    """One call as it was received.

    `on_progress` is called from a worker thread, or from the event loop's thread while the call waits.
    """

    tool: str
    arguments: Mapping[str, Any]
    who: Principal
    client: str
    approver: Approver
    on_progress: Callable[[float, str], None] = lambda _fraction, _message: None
    operation: Operation = ORDINARY
    peer: str = ""  # peer address of an HTTP client
    sender: object = None  # connection and id of this request, by which a cancellation finds it

    @property
    def principal(self) -> str:
        return self.who.id


@dataclass(frozen=True, slots=True)
class Access:
    """The sender's entitlements, and the tool that the call names."""

    entitlements: Entitlements
    tool: Tool
    toolbox: Toolbox


@dataclass(frozen=True, slots=True)
class Prepared:
    """The plan of a call, and the host that would run it."""

    plan: Plan
    host: Host


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a successful call. All text in it is cleaned; `outputs` are in the order of the draft's."""

    usage: Usage
    printed: str
    parsed: Any
    stderr: str
    outputs: tuple[Described, ...]
    messages: tuple[str, ...]  # messages of the library, each once
    tool_version: str
    checks: tuple[Mapping[str, Any], ...] = ()  # made from the messages
    return_code: int | None = None  # for operations that answer with one
    # settings of the library that the worker changed for this job
    settings: Mapping[str, str] = field(default_factory=dict)
    published: Published | None = None
    preview: bytes | None = None
    figures: tuple[bytes, ...] = ()  # figures that the call's code drew, as PNG
    attached: Mapping[str, bytes] = field(default_factory=dict)  # attachments of the worker's answer, by name


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a run. `done` is also set for a run that failed after its outputs were published."""

    done: JobResult | None = None
    error: ToolError | None = None
    usage: Usage | None = None  # resources that the container used
    preflight: Report | None = None  # checks made with the container's description of the inputs
    remote: tuple[SourceRead, ...] = ()  # the remote data that was read
    hosts: tuple[Mapping[str, Any], ...] = ()  # the hosts that were asked, for the receipt
    durations: Mapping[str, float] = field(default_factory=dict)  # seconds by stage


@dataclass(frozen=True, slots=True)
class Invocation:
    """A call with everything that its steps have found so far. Durations are seconds.

    `entitlements`, `tool` and `toolbox` are set by parsing, `plan` and `host` by planning.
    """

    request: Request
    call_id: str = field(default_factory=lambda: secrets.token_hex(8))
    view: RunningCall | None = None
    durations: Mapping[str, float] = field(default_factory=dict)
    access: Access | None = None
    answer: Mapping[str, Any] | None = None  # the answer of a tool without a container
    addresses: tuple[Address, ...] = ()  # hosts that the server itself asks, for a call without a container
    preflight: Report = field(default_factory=Report)
    described: bool = False  # True if a container has been asked to describe the inputs
    prepared: Prepared | None = None
    authorization: Authorization = NOT_YET
    outcome: Outcome = Outcome()
    failure: ToolError | None = None  # the first error of a step
    receipt: Mapping[str, Any] = field(default_factory=dict)  # empty unless the call succeeded

    @property
    def entitlements(self) -> Entitlements:
        assert self.access is not None
        return self.access.entitlements

    @property
    def tool(self) -> Tool:
        assert self.access is not None
        return self.access.tool

    @property
    def toolbox(self) -> Toolbox:
        assert self.access is not None
        return self.access.toolbox

    @property
    def plan(self) -> Plan:
        assert self.prepared is not None
        return self.prepared.plan

    @property
    def host(self) -> Host:
        assert self.prepared is not None
        return self.prepared.host

    @property
    def done(self) -> JobResult | None:
        """The result of the run; set as soon as outputs are published, even if something fails after that."""
        return self.outcome.done

    @property
    def published(self) -> Published | None:
        return self.done.published if self.done is not None else None

    @property
    def error(self) -> ToolError | None:
        return self.failure or self.outcome.error

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds as reported by the container, at most what its limits allow; without a report, that maximum."""
        usage = self.outcome.usage
        if usage is None or self.prepared is None:
            return 0.0
        limits = self.plan.limits
        most = min(usage.run_seconds, limits.wall_seconds) * limits.cpus
        return min(usage.cpu_seconds, most) if usage.cpu_seconds is not None else most

    def failed(self, error: ToolError) -> "Invocation":
        return replace(self, failure=error)

    def timed(self, name: str, since: float) -> "Invocation":
        """The call with the seconds of a stage that began at `since` on the monotonic clock."""
        return replace(self, durations={**self.durations, name: seconds_since(since)})

    def report_progress(self, fraction: float, message: str) -> None:
        """May be called from any thread."""
        if (shown := self.view) is not None:
            shown.fraction, shown.message = max(shown.fraction, fraction), message
        self.request.on_progress(fraction, message)

    def report_fraction(self, fraction: float, _message: str) -> None:
        """Like `report_progress`, without the message."""
        self.report_progress(fraction, "")

    def enter(self, stage: str) -> None:
        """Sets the stage that the console shows."""
        if self.view is not None:
            self.view.stage = stage


def seconds_since(moment: float) -> float:
    return round(time.monotonic() - moment, 6)


@dataclass(frozen=True, slots=True)
class Reply:
    """A call's result: the tool's own keys with the receipt, what was published, and a preview."""

    call_id: str
    result: Mapping[str, Any]
    done: JobResult | None = None
    error: ToolError | None = None
    # the request to make instead of sending this reply, which is then only in the records
    next_request: Request | None = None

    @classmethod
    def failed(cls, call: Invocation, error: ToolError) -> "Reply":
        further = call.toolbox.answering.error_details(error) if call.access is not None else {}
        return cls(call.call_id, {**error.as_dict(call.call_id), **further}, call.done, error)
