"""A hosting on in-memory engines, without the checks of isolation, because such containers have none."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.runtime import hosting as hosting_module
from gdal_mcp.runtime.hosting import Hosting
from gdal_mcp.runtime.image import Image
from gdal_mcp.runtime.nested import HostPaths
from gdal_mcp.server.toolboxes import toolboxes
from gdal_mcp.settings import load_settings
from gdal_mcp.settings.pathmap import PathMap
from sandbox import slot as slot_module
from sandbox.engines import opening
from sandbox.owner import Owner
from sandbox.program import Delivery
from sandbox.workspace import Workspace, Workspaces
from tests.engines.memory import KILLED, MemoryEngine
from tests.unit.sandbox.pool_kit import worker

IMAGE = Image("gdal:1", "sha256:a", "sha256:a", "3.13.3", standin=False)


class Machine:
    """One engine of a machine, and every connection to it that was opened. The next set-ups raise the errors in
    `refuse`.
    """

    def __init__(self) -> None:
        self.engine = MemoryEngine(worker)
        self.opened: list[Connected] = []
        self._past: list[MemoryEngine] = []
        self.attest: Callable[[], None] = lambda: None

    def open(self, *_: Any) -> "Connected":
        connection = Connected(self.engine)
        self.engine.info()  # raises if it is gone
        self.opened.append(connection)
        return connection

    def restart(self) -> None:
        """Ends its containers; from now on another engine answers."""
        old = self.engine
        self.engine = MemoryEngine(worker, numbers=old.numbers)
        self._past.append(old)
        old.gone = True
        for box in [*old.boxes.values()]:
            box.removed.set()
            box.end(KILLED)

    def sweep(self) -> None:
        """Removes leftovers of engines that are gone, as a machine does."""
        for engine in self._past:
            engine.gone, engine.before = False, lambda _what, _about: None
            for name in [*engine.boxes]:
                engine.container(name).remove()
            engine.gone = True


class Connected:
    """A connection to an in-memory engine, which must be closed exactly once."""

    def __init__(self, engine: MemoryEngine) -> None:
        self._engine, self.closed = engine, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def is_of(self, engine: MemoryEngine) -> bool:
        return self._engine is engine

    def close(self) -> None:
        self.closed += 1


@contextlib.contextmanager
def hosted(machine: Machine, folder: Path, patch: pytest.MonkeyPatch, **more: Any) -> Iterator[Hosting]:
    def open_first(*arguments: Any, fresh: bool = False) -> opening.OpenedEngine:
        return opening.OpenedEngine(machine.open(*arguments), "memory")

    patch.setattr(opening, "open_first", open_first)
    patch.setattr(hosting_module, "_forget_trials", lambda: None)  # there are no trials
    patch.setattr(slot_module, "violations", lambda _template, _facts, **_: ())
    patch.setattr(hosting_module, "resolve", lambda *_: IMAGE)
    patch.setattr(hosting_module, "attest", lambda *_: machine.attest() or ())
    patch.setattr(hosting_module, "compiled_program", lambda *_: Delivery(("worker",), b""))
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    settings = load_settings(
        workspaces=(workspace,), state_dir=folder / "state", toolboxes=("gdal", "python"),
        memory="128MiB", memory_share=0.5, **more,
    )  # fmt: skip
    settings.state_dir.mkdir(exist_ok=True)
    owner = Owner(settings.state.servers)
    spaces = Workspaces((Workspace.at(workspace, writable=True),))
    boxes = toolboxes(settings).items
    hosting = Hosting(settings, spaces, owner, {}, boxes, HostPaths(PathMap.parse(())), lambda: None)
    try:
        yield hosting
    finally:
        machine.engine.before = lambda _what, _about: None
        hosting.close()
        machine.sweep()
        owner.close()


class Gate:
    """Blocks all callers while closed, until it is opened."""

    def __init__(self) -> None:
        self._open, self.reached = threading.Event(), threading.Event()
        self._open.set()

    def close(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def __call__(self) -> None:
        if not self._open.is_set():
            self.reached.set()
            self._open.wait()
