"""An engine without containers, for tests of code that uses an engine: each container is a thread that runs a
function.

Its lifecycle, streams, labels and failures are those of a real engine, and it passes the same suite
(`tests/engines/checks.py`). It isolates nothing, and its containers report this, so no attestation accepts it and no
call of the product runs on it.
"""

import itertools
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sandbox.engine import STDERR, STDOUT, AttachedStreams, ContainerState, EngineInfo, ImageInfo, Leftover
from sandbox.engines.wire import HEADER, DockerStreams
from sandbox.errors import EngineUnavailable, ImageMissing, PullFailed
from sandbox.labels import OWNER, Moment
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation

KILLED = 137  # exit code that a shell reports for SIGKILL


class Box:
    """One container. Its program reads stdin, writes to stdout and stderr, and returns the exit code.

    A program that is to end must check `read`, which returns nothing once the host has closed, or `removed`: a thread
    cannot be killed, so a removal waits for it.
    """

    def __init__(self, name: str, template: SandboxTemplate, labels: Mapping[str, str]) -> None:
        self.name, self.template, self.labels = name, template, dict(labels)
        self.ours, self.theirs = socket.socketpair()
        self.code: int | None = None
        self.ended, self.removed = threading.Event(), threading.Event()
        self.thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        return not self.ended.is_set()

    def read(self, count: int) -> bytes:
        """At most this many bytes of stdin; empty at its end."""
        return b"" if self.removed.is_set() else self.theirs.recv(count)

    def say(self, data: bytes) -> None:
        self.theirs.sendall(HEADER.pack(STDOUT, len(data)) + data)

    def complain(self, data: bytes) -> None:
        self.theirs.sendall(HEADER.pack(STDERR, len(data)) + data)

    def hang_up(self) -> None:
        """Closes its streams, which a process may do long before it ends."""
        try:
            self.theirs.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # closed before

    def end(self, code: int = 0) -> None:
        """Ends the container and its streams, as for a process. Only the first exit code counts."""
        if self.code is None:
            self.code = code
        self.hang_up()
        self.ended.set()

    def live(self, program: "Program") -> None:
        try:
            code = program(self)
        except OSError:  # the reader has gone
            code = 1
        self.end(code)


Program = Callable[[Box], int]


class MemoryImages:
    """Knows content ids only; with None, every image exists."""

    def __init__(self, known: frozenset[str] | None) -> None:
        self.known = known
        self.answer: Callable[[], None] = lambda: None

    def find(self, reference: str) -> ImageInfo | None:
        self.answer()
        there = self.known is None or reference in self.known
        return ImageInfo(reference, reference, reference, {}) if there else None

    def names(self, *repositories: str) -> tuple[str, ...]:
        self.answer()
        return tuple(name for name in sorted(self.known or ()) if name.startswith(repositories))

    def check(self, image: str) -> None:
        """There are no files."""

    def pull(self, reference: str, _report: Callable[[str], None]) -> None:
        if self.find(reference) is None:
            raise PullFailed("an engine in memory has no registry")


class MemoryContainer:
    """A container of an engine in memory, which identifies it by its id."""

    def __init__(self, engine: "MemoryEngine", container: str) -> None:
        self._engine, self.id = engine, container

    def start(self, _cancel: Cancellation | None = None) -> AttachedStreams:
        engine = self._engine
        engine.answer()
        try:
            box = engine.boxes[self.id]
        except KeyError:
            raise EngineUnavailable(f"there is no container {self.id}.") from None
        engine.before("start", box)
        box.thread = threading.Thread(target=box.live, args=(engine.program,), name=box.name, daemon=True)
        box.thread.start()
        return DockerStreams(box.ours.dup())

    def state(self) -> ContainerState | None:
        self._engine.answer()
        box = self._engine.boxes.get(self.id)
        return ContainerState(box.running, box.code or 0, out_of_memory=False) if box else None

    def process(self) -> int | None:
        self._engine.answer()
        return None

    def wait(self, seconds: float) -> ContainerState | None:
        self._engine.answer()
        if (box := self._engine.boxes.get(self.id)) is not None:
            box.ended.wait(seconds)
        return self.state()

    def remove(self) -> None:
        self._engine.answer()
        self._engine.before("remove", self._engine.boxes.get(self.id))
        box = self._engine.take(self.id)
        if box is not None:
            box.removed.set()
            box.end(KILLED)
            if box.thread is not None:
                box.thread.join()
            box.theirs.close()
            box.ours.close()


class MemoryEngine:
    """`made` has every container that was ever created, `boxes` those that exist; at most `most` existed at the same
    time.

    `program` runs in each container. `images` are the content ids that exist; None means all. `before` is called with
    the next action (create, start, remove) and a template or container, and may wait or raise. If `gone` is set, the
    engine does not answer.
    """

    container_type = MemoryContainer

    def __init__(
        self,
        program: Program = lambda _box: 127,
        images: frozenset[str] | None = None,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self.numbers = numbers or itertools.count(1)  # an engine that replaces another continues its numbers
        self.program, self.images = program, MemoryImages(images)
        self.images.answer = self.answer
        self.boxes: dict[str, Box] = {}
        self.made: list[Box] = []
        self.most = 0
        self.gone = False
        self.before: Callable[[str, Any], None] = lambda _what, _about: None
        self._lock = threading.Lock()

    def info(self) -> EngineInfo:
        self.answer()
        return EngineInfo(
            name="Memory",
            version="1",
            api_version=(1, 41),
            architecture=os.uname().machine,
            cgroup_version="2",
            security_options=(),
            rootless=True,
            runtimes=(),
            address="memory:",
            identity=f"memory-{id(self)}",
            host=os.uname().nodename,
            boot=Moment.now().boot,
            same_kernel=True,
        )

    def create(
        self, template: SandboxTemplate, labels: Mapping[str, str], _cancel: Cancellation | None = None
    ) -> MemoryContainer:
        self.answer()
        self.before("create", template)
        if self.images.find(template.image) is None:
            raise ImageMissing(f"image {template.image} is not in this engine.")
        if absent := [mount.host_path for mount in template.mounts if not Path(mount.host_path).exists()]:
            raise EngineUnavailable(f"there is no {absent[0]} to mount.")
        with self._lock:
            box = Box(f"box-{next(self.numbers)}", template, labels)
            self.boxes[box.name] = box
            self.made.append(box)
            self.most = max(self.most, len(self.boxes))
        return self.container(box.name)

    def container(self, id_: str) -> MemoryContainer:
        return self.container_type(self, id_)

    def take(self, container: str) -> Box | None:
        """Makes this engine forget the container."""
        with self._lock:
            return self.boxes.pop(container, None)

    def describe(self, _container: str) -> None:
        self.answer()

    def leftovers(self) -> tuple[Leftover, ...]:
        self.answer()
        with self._lock:
            return tuple(Leftover(box.name, box.labels) for box in self.boxes.values() if OWNER in box.labels)

    def close(self) -> None:
        """Does nothing: the engine holds only its containers."""

    def answer(self) -> None:
        if self.gone:
            raise EngineUnavailable("the engine in memory was told to be gone.")
