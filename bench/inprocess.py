"""The server's own parts in this process, with a clock around every call of the engine."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from bench.arena import Arena, NotMeasurable
from bench.series import used_seconds
from gdal_mcp import logs
from gdal_mcp.access.identity import local
from gdal_mcp.app import App, running
from gdal_mcp.approval.model import Nobody
from gdal_mcp.pipeline import Reply, Request
from sandbox.engine import ContainerState, Engine, Wire
from sandbox.template import SandboxTemplate

REMOVAL_SECONDS = 30.0  # a container that is not gone by then never will be


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the engine: monotonic seconds, and those of all processors that anything used until then."""

    name: str
    begun: float
    ended: float
    used_before: float
    used_after: float

    @property
    def seconds(self) -> float:
        return self.ended - self.begun

    @property
    def used(self) -> float:
        return self.used_after - self.used_before


@dataclass(slots=True)
class ClockedEngine:
    """An engine that notes its operations since they were last forgotten."""

    engine: Engine
    operations: list[Operation] = field(default_factory=list)
    _ended: threading.Condition = field(default_factory=threading.Condition)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def create(self, template: SandboxTemplate, labels: Mapping[str, str]) -> str:
        with self._noting("create"):
            return self.engine.create(template, labels)

    def attach(self, container: str) -> Wire:
        with self._noting("attach"):
            return self.engine.attach(container)

    def start(self, container: str) -> None:
        with self._noting("start"):
            self.engine.start(container)

    def process(self, container: str) -> int | None:
        return self.engine.process(container)

    def wait(self, container: str, seconds: float) -> ContainerState | None:
        with self._noting("exit"):
            return self.engine.wait(container, seconds)

    def remove(self, container: str) -> None:
        with self._noting("remove"):
            self.engine.remove(container)

    def all_removed(self) -> None:
        """Waits until every container that was made since is gone. Raises NotMeasurable."""
        with self._ended:
            if not self._ended.wait_for(
                lambda: self._count("remove") >= self._count("create"), REMOVAL_SECONDS
            ):
                raise NotMeasurable(f"a container was not removed within {REMOVAL_SECONDS:.0f} s")

    def _count(self, name: str) -> int:
        return sum(one.name == name for one in self.operations)

    @contextmanager
    def _noting(self, name: str) -> Iterator[None]:
        begun, before = time.monotonic(), used_seconds()
        try:
            yield
        finally:
            done = Operation(name, begun, time.monotonic(), before, used_seconds())
            with self._ended:
                self.operations.append(done)
                self._ended.notify_all()


@dataclass(frozen=True, slots=True)
class InProcess:
    """Calls through the pipeline, without the protocol."""

    app: App
    engine: ClockedEngine
    portal: BlockingPortal

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The structured result. Raises NotMeasurable when the call fails.

        What the engine did for it is noted, also what it goes on to do afterwards.
        """
        self.engine.operations.clear()
        request = Request(tool, arguments, local("bench"), "bench", Nobody())
        reply: Reply = self.portal.call(partial(self.app.pipeline.call, request))
        if reply.error is not None:
            raise NotMeasurable(f"{tool} failed: {reply.error}: {reply.error.untrusted}")
        return reply.result


@contextmanager
def in_process(arena: Arena, *, warm: bool = False) -> Iterator[InProcess]:
    """Attested and ready, with the default pool or without one. Raises SandboxError."""
    logs.configure("warning", "console")
    with running(arena.settings(None if warm else 0)) as app, start_blocking_portal() as portal:
        runner = app.hosting.ready().runner
        engine = ClockedEngine(runner.engine)
        runner.engine = engine
        if warm:
            app.hosting.keep_warm()
        yield InProcess(app, engine, portal)
