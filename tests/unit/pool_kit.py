"""An engine in memory whose containers are threads on real sockets, for what the pool does with many of them."""

import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from sandbox.engine import STDERR, STDOUT, ContainerState
from sandbox.errors import EngineUnavailable
from sandbox.lease import Kind
from sandbox.protocol import HEADER, LENGTH
from sandbox.template import Limits, Mount, SandboxTemplate
from tests.conftest import USER

MIB = 1 << 20
LIMITS = Limits(memory_bytes=64 * MIB, wall_seconds=20.0)


def kind(name: str = "reads", *folders: Any, area: Any = None, **more: Any) -> Kind:
    """A kind of its own for each name, on these folders."""
    mounts = tuple(Mount(str(folder), PurePosixPath(str(folder))) for folder in folders)
    template = SandboxTemplate("sha256:a", (name,), USER, more.pop("limits", LIMITS), mounts, **more)
    return Kind(template, area)


def frame(letter: bytes, value: Any) -> bytes:
    data = json.dumps(value).encode()
    return HEADER.pack(letter, len(data)) + data


class MemoryWire:
    """The host's end of one container's streams."""

    def __init__(self, ours: socket.socket) -> None:
        self._ours = ours
        ours.setblocking(False)

    def fileno(self) -> int:
        return self._ours.fileno()

    def receive(self) -> list[tuple[int, bytes]] | None:
        try:
            data = self._ours.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        return [(STDERR if data.startswith(b"!") else STDOUT, data)]

    def send(self, data: bytes, _seconds: float) -> None:
        self._ours.sendall(data)

    def close(self) -> None:
        self._ours.close()


@dataclass
class Box:
    """One container: says that it is ready, waits for its one job and does what the job's `do` says."""

    name: str
    template: SandboxTemplate
    labels: Mapping[str, str]
    jobs: list[Any] = field(default_factory=list)
    running: bool = True
    thread: threading.Thread | None = None
    wire: MemoryWire | None = None

    def __post_init__(self) -> None:
        ours, self.theirs = socket.socketpair()
        self.wire = MemoryWire(ours)

    def say(self, data: bytes) -> None:
        self.theirs.sendall(data)

    def end(self) -> None:
        """Ends as a process does: its streams with it."""
        self.running = False
        try:
            self.theirs.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def live(self) -> None:
        try:
            self.say(frame(b"R", {}))
            while (length := self._read(LENGTH.size)) is not None:
                data = self._read(LENGTH.unpack(length)[0])
                if data is None:
                    break
                self.jobs.append(json.loads(data)["request"])
                if self._do(self.jobs[-1].get("do", "answer")):
                    return
        except OSError:
            pass
        self.end()

    def _do(self, what: str) -> bool:
        """Whether it goes on although its streams are closed."""
        if "answer" in what:
            self.say(frame(b"F", {"code": 0, "box": self.name}))
        if "stay" in what:
            self.theirs.recv(1)
        if "close" in what:
            self.theirs.shutdown(socket.SHUT_RDWR)
            return True
        self.end()
        return False

    def _read(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            piece = self.theirs.recv(count - len(data))
            if not piece:
                return None
            data += piece
        return data


class MemoryEngine:
    """Every container it ever made is in `made`, those that exist are in `boxes`; `most` existed at once.

    `before` are called with (what, template or box) and may wait or raise; `started` and `removed` list names.
    """

    def __init__(self) -> None:
        self.boxes: dict[str, Box] = {}
        self.made: list[Box] = []
        self.most = 0
        self.before: Callable[[str, Any], None] = lambda _what, _about: None
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def create(self, template: SandboxTemplate, labels: Mapping[str, str]) -> str:
        self.before("create", template)
        with self._lock:
            box = Box(f"box-{next(self._numbers)}", template, labels)
            self.boxes[box.name] = box
            self.made.append(box)
            self.most = max(self.most, len(self.boxes))
        return box.name

    def attach(self, container: str) -> MemoryWire:
        wire = self._box(container).wire
        assert wire is not None
        return wire

    def start(self, container: str) -> None:
        box = self._box(container)
        self.before("start", box)
        box.thread = threading.Thread(target=box.live, daemon=True)
        box.thread.start()

    def state(self, container: str) -> ContainerState | None:
        box = self.boxes.get(container)
        return ContainerState(box.running, 0, False) if box else None

    def process(self, _container: str) -> int | None:
        return None

    def wait(self, container: str, _seconds: float) -> ContainerState | None:
        return self.state(container)

    def remove(self, container: str) -> None:
        self.before("remove", self.boxes.get(container))
        with self._lock:
            box = self.boxes.pop(container, None)
        if box is not None:
            box.end()
            if box.thread is not None:
                box.thread.join()
            box.theirs.close()
            assert box.wire is not None
            box.wire.close()

    def _box(self, container: str) -> Box:
        try:
            return self.boxes[container]
        except KeyError:
            raise EngineUnavailable("no such container") from None


class Clock:
    """`time.monotonic` that can be put forward."""

    def __init__(self) -> None:
        self.ahead, self._real = 0.0, time.monotonic

    def __call__(self) -> float:
        return self._real() + self.ahead
