"""`/healthz`, `/readyz` and `/metrics`: for administrators and their monitoring.

Invariants:
* without a token one learns only whether each item is well, never why, where or what it is;
* however often it is asked, the host is examined once in FRESH_SECONDS at most, by one thread.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gdal_mcp.access.identity import ADMIN
from gdal_mcp.app import App
from gdal_mcp.http.auth import Authenticator
from gdal_mcp.ledger.audit import AuditUnavailable
from gdal_mcp.ledger.figures import Now, containers
from gdal_mcp.ledger.schema import RegistryUnavailable
from gdal_mcp.settings.web import LOOPBACK
from sandbox.errors import AttestationFailed, EngineUnavailable, ImageMissing, SandboxError

if TYPE_CHECKING:
    from gdal_mcp.ledger import metrics as ledger

_log = structlog.get_logger()

HEALTH_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"
METRICS_PATH: Final = "/metrics"
ITEMS: Final = ("engine", "image", "attestation", "audit")
LOOK_SECONDS: Final = 3.0  # for one examination; a host in attestation takes longer, and is not ready
FRESH_SECONDS: Final = 5.0
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
_FRESH: Final = {"Cache-Control": "no-store"}
_LEAST_FREE: Final = 16 << 20  # bytes on the disk of the records


@dataclass(frozen=True, slots=True)
class HostHealth:
    """This host at one moment: which items are well, and its containers if they could be counted."""

    well: Mapping[str, bool]
    slots: Mapping[str, int] | None = None
    containers: Mapping[tuple[str, str], int] | None = None


_NOTHING: Final = HostHealth(dict.fromkeys(ITEMS, False))


@dataclass(slots=True)
class Watch:
    look: Callable[[], HostHealth]
    clock: Callable[[], float] = time.monotonic
    _seen: HostHealth = _NOTHING
    _at: float = float("-inf")
    _one: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def now(self) -> HostHealth:
        async with self._lock:
            if self.clock() - self._at >= FRESH_SECONDS:
                self._seen = _NOTHING
                with anyio.move_on_after(LOOK_SECONDS):
                    self._seen = await anyio.to_thread.run_sync(
                        self.look, abandon_on_cancel=True, limiter=self._one
                    )
                self._at = self.clock()
            return self._seen


def look(app: App) -> HostHealth:
    audit = {"audit": _audit(app)}
    try:
        host = app.hosting.ready()
        if host.engine.images.find(host.image.id) is None:
            app.hosting.lost()  # as a call would notice
            raise ImageMissing(f"image {host.image.reference} was removed.")
        counted = containers(host.engine, app.owner)  # asks the engine, which may be gone by now
    except SandboxError as error:
        _log.info("not_ready", reason=str(error))
        # ITEMS is in the order in which they are checked
        passed = (
            0 if isinstance(error, EngineUnavailable) else 2 if isinstance(error, AttestationFailed) else 1
        )
        return HostHealth({**{name: number < passed for number, name in enumerate(ITEMS)}, **audit})
    pool = host.pool.figures()
    slots = {"waiting": pool.waiting, "starting": pool.starting}
    return HostHealth({**dict.fromkeys(ITEMS, True), **audit}, slots, counted)


def _audit(app: App) -> bool:
    """Whether a record could be written, without writing one."""
    try:
        app.audit.checkpoint()
        free = os.statvfs(app.audit.path)
    except (AuditUnavailable, OSError) as error:
        _log.info("not_ready", reason=str(error))
        return False
    return os.access(app.audit.path, os.W_OK) and free.f_bavail * free.f_frsize >= _LEAST_FREE


def health_routes(watch: Watch) -> list[BaseRoute]:
    """The routes that need no token."""

    async def alive(_request: Request) -> Response:
        return PlainTextResponse("ok\n", headers=_FRESH)

    async def ready(_request: Request) -> Response:
        seen = (await watch.now()).well
        well = all(seen.values())
        items = {name: "ok" if good else "failed" for name, good in seen.items()}
        return JSONResponse({"ready": well, **items}, 200 if well else 503, _FRESH)

    return [Route(HEALTH_PATH, alive, methods=["GET"]), Route(READY_PATH, ready, methods=["GET"])]


def metrics(app: App, watch: Watch) -> ASGIApp:
    """The metrics of one server, without authentication."""
    one = anyio.CapacityLimiter(1)  # what is counted is for one thread at a time

    @cache
    def counted() -> "ledger.Metrics":
        from gdal_mcp.ledger.metrics import Metrics  # noqa: PLC0415 - its library is loaded on demand

        return Metrics(app.registry.path, app.toolboxes.tools)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        seen, load = await watch.now(), app.pipeline.admission.load()

        def text() -> str:
            unfinished = counted().refresh()
            return counted().text(Now(unfinished, seen.containers, load=load, slots=seen.slots))

        try:
            body = await anyio.to_thread.run_sync(text, limiter=one)
        except RegistryUnavailable as error:
            _log.warning("no_metrics", reason=str(error))
            await PlainTextResponse("the registry cannot be read\n", 503, _FRESH)(scope, receive, send)
            return
        await PlainTextResponse(body, headers={**_FRESH, "Content-Type": _PROMETHEUS})(scope, receive, send)

    return answer


def metrics_route(metrics: ASGIApp, auth: Authenticator, *, free: bool) -> BaseRoute:
    """For administrators; with `free`, also for programs on this machine without a token."""
    guarded = auth.guarded(lambda _who: metrics, ADMIN)

    async def answer(request: Request) -> ASGIApp:
        local = free and request.client is not None and request.client.host in LOOPBACK
        return metrics if local else guarded

    return Route(METRICS_PATH, answer, methods=["GET"])
