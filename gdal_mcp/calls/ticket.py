"""What came in as a call, what is known of it on its way, and what goes out."""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gdal_mcp.access.identity import Principal
from gdal_mcp.approval.model import Approver
from gdal_mcp.calls.activity import Running
from gdal_mcp.calls.execution import Done
from gdal_mcp.entitlements import Entitlements
from gdal_mcp.errors import ToolError
from gdal_mcp.gdal.preflight.service import PreflightReport
from gdal_mcp.host.hosting import Host
from gdal_mcp.plan import Plan
from sandbox.outcome import Usage


@dataclass(frozen=True, slots=True)
class Request:
    """One call as it came in. `on_progress` is called from another thread, or from the event loop's while the call waits."""

    tool: str
    arguments: Mapping[str, Any]
    who: Principal
    client: str
    approver: Approver
    on_progress: Callable[[float, str], None] = lambda _fraction, _message: None

    @property
    def principal(self) -> str:
        return self.who.id


@dataclass(slots=True)
class Ticket:
    """What is known of a call so far, for its records."""

    request: Request
    call_id: str = field(default_factory=lambda: secrets.token_hex(8))
    plan: Plan | None = None
    host: Host | None = None
    approval: str = ""
    begun: float = field(default_factory=time.monotonic)
    seconds: dict[str, float] = field(default_factory=dict)
    ended: Done | ToolError | None = None
    usage: Usage | None = None  # of its container, however the call ended
    preflight: PreflightReport | None = None
    reach: Entitlements | None = None
    running: Running | None = None  # as the console shows it

    def tell(self, fraction: float, message: str) -> None:
        """From any thread."""
        if self.running is not None:
            self.running.report(fraction, message)
        self.request.on_progress(fraction, message)

    def enter(self, stage: str) -> None:
        if self.running is not None:
            self.running.stage = stage

    def lap(self, name: str, since: float) -> None:
        self.seconds[name] = round(time.monotonic() - since, 6)


@dataclass(frozen=True, slots=True)
class Reply:
    """A call's result: the tool's own keys with the receipt, what was published, and a preview."""

    call_id: str
    result: Mapping[str, Any]
    done: Done | None = None
    error: ToolError | None = None
