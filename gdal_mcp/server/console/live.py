"""Live updates of the console: open questions, decisions and running calls, as server-sent events.

Invariants:
* the registry is queried once in LOOK_SECONDS, however many viewers there are, and not at all without viewers;
* each viewer gets only what that viewer may see, and only when it changed;
* a stream ends with its viewer's session or token.
"""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import anyio.to_thread
from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from gdal_mcp.approvals.model import Approval
from gdal_mcp.calls.activity import RunningCall
from gdal_mcp.records.schema import RegistryUnavailable
from gdal_mcp.server.app import App
from gdal_mcp.server.console import serializers
from gdal_mcp.server.console.sessions import Viewer
from gdal_mcp.server.http.concurrency import LimitExceeded, RequestLimit

LOOK_SECONDS: Final = 0.5
# seconds: the longest silence of a stream, and the interval at which its session or token is checked
BEAT_SECONDS: Final = 10.0
STREAMS: Final = 32
STREAMS_EACH: Final = 8
_DECIDED: Final = 20  # the number of latest decisions that are shown

StillValid = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All questions, decisions and running calls at one moment. `running` are the calls of this server."""

    pending: tuple[Approval, ...] = ()
    decided: tuple[Approval, ...] = ()
    running: tuple[RunningCall, ...] = ()

    def questions(self, viewer: Viewer) -> dict[str, Any]:
        pending = [approval for approval in self.pending if viewer.sees_question(approval.principal)]
        decided = [approval for approval in self.decided if viewer.sees_question(approval.principal)]
        return {
            "pending": [serializers.question(approval, viewer) for approval in pending],
            "decided": [serializers.decision(approval) for approval in decided],
        }

    def calls(self, viewer: Viewer) -> dict[str, Any]:
        question_ids = {
            approval.call_id: approval.id
            for approval in self.pending
            if viewer.sees_question(approval.principal)
        }
        mine = [call for call in self.running if viewer.can_manage(call.principal)]
        return {
            "running": [serializers.running(call, viewer, question_ids.get(call.call_id)) for call in mine]
        }


@dataclass(slots=True)
class Live:
    """The streams of one server. For one event loop."""

    app: App
    _snapshot: Snapshot = field(default_factory=Snapshot)
    _at: float = float("-inf")
    _lock: anyio.Lock = field(default_factory=anyio.Lock)
    streams: RequestLimit = field(default_factory=lambda: RequestLimit(STREAMS, STREAMS_EACH))

    async def now(self) -> Snapshot:
        """A snapshot that is at most LOOK_SECONDS old. Raises RegistryUnavailable."""
        async with self._lock:
            if time.monotonic() - self._at >= LOOK_SECONDS:
                approvals = self.app.approvals.approvals
                pending = await anyio.to_thread.run_sync(approvals.pending)
                decided = await anyio.to_thread.run_sync(approvals.decided, _DECIDED)
                self._snapshot = Snapshot(pending, decided, self.app.pipeline.activity.all())
                self._at = time.monotonic()
            return self._snapshot

    async def events(self, viewer: Viewer, still_valid: StillValid) -> AsyncIterator[bytes]:
        """The bytes of a stream, until `still_valid` returns False."""
        sent: dict[str, str] = {}
        beat = time.monotonic()
        while True:
            try:
                snapshot = await self.now()
            except RegistryUnavailable as error:
                yield _event("trouble", json.dumps({"reason": str(error)}))
                return
            parts = {"questions": snapshot.questions(viewer), "running": snapshot.calls(viewer)}
            for name, value in parts.items():
                text = json.dumps(value)
                if sent.get(name) != text:
                    sent[name] = text
                    yield _event(name, json.dumps({**value, "now": time.time()}))
            if time.monotonic() - beat >= BEAT_SECONDS:
                beat = time.monotonic()
                if not await still_valid():
                    yield _event("over", "{}")
                    return
                yield b": still here\n\n"
            await anyio.sleep(LOOK_SECONDS)


@dataclass(frozen=True, slots=True)
class Stream:
    """The event stream of one viewer. It counts towards the limits as long as it is open."""

    live: Live
    viewer: Viewer
    still_valid: StillValid

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self.live.streams.request(), self.live.streams.per_principal(self.viewer.name):
                events = self.live.events(self.viewer, self.still_valid)
                await StreamingResponse(events, media_type="text/event-stream")(scope, receive, send)
        except LimitExceeded:
            body = {"error": "Too many console windows are open. Close one."}
            await JSONResponse(body, 429)(scope, receive, send)


def _event(name: str, text: str) -> bytes:
    return f"event: {name}\ndata: {text}\n\n".encode()
