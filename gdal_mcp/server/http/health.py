"""`/healthz`, `/readyz` and `/metrics`: for monitoring.

Invariants:
* without a token, the answer only shows which items work, never why, where or what they are;
* however many requests arrive, the host is examined at most once in FRESH_SECONDS, by one thread.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.to_thread
import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from gdal_mcp.policy.identity import METRICS
from gdal_mcp.records.audit_files import AuditUnavailable
from gdal_mcp.records.metrics import Metrics
from gdal_mcp.server.app import App
from gdal_mcp.server.http.auth import Authenticator
from sandbox.errors import AttestationFailed, EngineUnavailable, ImageMissing, SandboxError

_log = structlog.get_logger()

HEALTH_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"
METRICS_PATH: Final = "/metrics"
ITEMS: Final = ("engine", "image", "attestation", "audit")
# seconds for one examination; a host that is being attested takes longer, and is not ready
LOOK_SECONDS: Final = 3.0
FRESH_SECONDS: Final = 5.0
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
_FRESH: Final = {"Cache-Control": "no-store"}
_MIN_FREE: Final = 16 << 20  # bytes that are free on the disk of the records


@dataclass(frozen=True, slots=True)
class HostHealth:
    """The state of this host at one moment: the healthy items, and the containers of its pool."""

    well: Mapping[str, bool]
    slots: Mapping[str, int] | None = None


_NOTHING: Final = HostHealth(dict.fromkeys(ITEMS, False))


@dataclass(slots=True)
class Watch:
    look: Callable[[], HostHealth]
    _last_health: HostHealth = _NOTHING
    _at: float = float("-inf")
    _one: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def now(self) -> HostHealth:
        async with self._lock:
            if time.monotonic() - self._at >= FRESH_SECONDS:
                self._last_health = _NOTHING
                with anyio.move_on_after(LOOK_SECONDS):
                    self._last_health = await anyio.to_thread.run_sync(
                        self.look, abandon_on_cancel=True, limiter=self._one
                    )
                self._at = time.monotonic()
            return self._last_health


def look(app: App) -> HostHealth:
    audit = {"audit": _audit(app)}
    try:
        host = app.hosting.ready()
        if host.engine.images.find(host.image.id) is None:
            app.hosting.invalidate(host)  # a call would do the same
            raise ImageMissing(f"image {host.image.reference} was removed.")
        host.engine.leftovers()  # queries the engine, which may have stopped
    except SandboxError as error:
        _log.info("not_ready", reason=str(error))
        # ITEMS is in the order in which they are checked
        passed = (
            0 if isinstance(error, EngineUnavailable) else 2 if isinstance(error, AttestationFailed) else 1
        )
        return HostHealth({**{name: number < passed for number, name in enumerate(ITEMS)}, **audit})
    pool = host.pool.figures()
    slots = {"waiting": pool.waiting, "starting": pool.starting}
    return HostHealth({**dict.fromkeys(ITEMS, True), **audit}, slots)


def _audit(app: App) -> bool:
    """True if an audit record could be written. Writes none."""
    try:
        app.audit.checkpoint()
        free = os.statvfs(app.audit.path)
    except (AuditUnavailable, OSError) as error:
        _log.info("not_ready", reason=str(error))
        return False
    return os.access(app.audit.path, os.W_OK) and free.f_bavail * free.f_frsize >= _MIN_FREE


def health_routes(watch: Watch) -> list[BaseRoute]:
    """The routes that need no token."""

    async def ready(_request: Request) -> Response:
        parts = (await watch.now()).well
        well = all(parts.values())
        items = {name: "ok" if good else "failed" for name, good in parts.items()}
        return JSONResponse({"ready": well, **items}, 200 if well else 503, _FRESH)

    alive = PlainTextResponse("ok\n", headers=_FRESH)
    return [Route(HEALTH_PATH, alive, methods=["GET"]), Route(READY_PATH, ready, methods=["GET"])]


def metrics_route(app: App, watch: Watch, auth: Authenticator) -> BaseRoute:
    """The route of the metrics. Their token gives no other access, because monitoring programs store it."""
    counted = Metrics(app.toolboxes.tools)
    app.pipeline.records.listeners.append(counted.count)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        body = counted.text(app.pipeline.admission, (await watch.now()).slots)
        reply = PlainTextResponse(body, headers={**_FRESH, "Content-Type": _PROMETHEUS})
        await reply(scope, receive, send)

    return Route(METRICS_PATH, auth.guarded(lambda _who: answer, METRICS), methods=["GET"])
