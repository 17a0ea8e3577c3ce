"""The server's own parts in this process, with a clock around every call of the engine."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from bench.arena import Arena, NotMeasurable
from gdal_mcp import logs
from gdal_mcp.app import App, running
from gdal_mcp.approval.model import Nobody
from gdal_mcp.pipeline import Reply, Request
from sandbox.engine import ContainerState, Engine, EngineInfo, Leftover, Wire
from sandbox.template import SandboxTemplate


@dataclass(slots=True)
class ClockedEngine:
    """An engine that notes how long each operation of the last call took, in seconds."""

    engine: Engine
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def info(self) -> EngineInfo:
        return self.engine.info()

    def create(self, template: SandboxTemplate, labels: Mapping[str, str]) -> str:
        with self._noting("create"):
            return self.engine.create(template, labels)

    def attach(self, container: str) -> Wire:
        with self._noting("attach"):
            return self.engine.attach(container)

    def start(self, container: str) -> None:
        with self._noting("start"):
            self.engine.start(container)

    def state(self, container: str) -> ContainerState | None:
        return self.engine.state(container)

    def wait(self, container: str, seconds: float) -> ContainerState | None:
        with self._noting("wait"):
            return self.engine.wait(container, seconds)

    def remove(self, container: str) -> None:
        with self._noting("remove"):
            self.engine.remove(container)

    def leftovers(self) -> tuple[Leftover, ...]:
        return self.engine.leftovers()

    @contextmanager
    def _noting(self, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - begun


@dataclass(frozen=True, slots=True)
class InProcess:
    """Calls through the pipeline, without the protocol."""

    app: App
    engine: ClockedEngine
    portal: BlockingPortal

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The structured result. Raises NotMeasurable when the call fails."""
        self.engine.seconds.clear()
        request = Request(tool, arguments, "local:bench", "bench", Nobody())
        reply: Reply = self.portal.call(partial(self.app.pipeline.call, request))
        if reply.error is not None:
            raise NotMeasurable(f"{tool} failed: {reply.error}: {reply.error.untrusted}")
        return reply.result


@contextmanager
def in_process(arena: Arena) -> Iterator[InProcess]:
    """Attested and ready. Raises SandboxError."""
    logs.configure("warning", "console")
    with running(arena.settings()) as app, start_blocking_portal() as portal:
        runner = app.hosting.ready().runner
        engine = ClockedEngine(runner.engine)
        runner.engine = engine
        yield InProcess(app, engine, portal)
