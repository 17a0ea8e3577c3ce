"""What the tests of the pool run on the engine in memory: kinds of containers, and a worker that does as its job says."""

import json
import time
from pathlib import PurePosixPath
from typing import Any

from sandbox.pool.lease import SlotKey
from sandbox.protocol import HEADER, LENGTH
from sandbox.template import Limits, Mount, SandboxTemplate, host_source
from tests.conftest import USER
from tests.engines.memory import Box

MIB = 1 << 20
LIMITS = Limits(memory_bytes=64 * MIB, wall_seconds=20.0)


def kind(name: str = "reads", *folders: Any, area: Any = None, **more: Any) -> SlotKey:
    """A kind of its own for each name, on these folders."""
    mounts = tuple(Mount(host_source(folder), PurePosixPath(str(folder))) for folder in folders)
    template = SandboxTemplate("sha256:a", (name,), USER, more.pop("limits", LIMITS), mounts, **more)
    return SlotKey(template, area)


def frame(letter: bytes, value: Any) -> bytes:
    data = json.dumps(value).encode()
    return HEADER.pack(letter, len(data)) + data


def worker(box: Box) -> int:
    """Says that it is ready, waits for its one job and does what the job's `do` says."""
    box.say(frame(b"R", {}))
    while length := _exactly(box, LENGTH.size):
        data = _exactly(box, LENGTH.unpack(length)[0])
        if not data:
            break
        jobs(box).append(json.loads(data)["request"])
        what = jobs(box)[-1].get("do", "answer")
        if "answer" in what:
            box.say(frame(b"F", {"code": 0, "box": box.name}))
        if "stay" in what:
            box.read(1)
        if "close" in what:  # and goes on
            box.hang_up()
            box.removed.wait()
        break
    return 0


def jobs(box: Box) -> list[Any]:
    return box.__dict__.setdefault("jobs", [])


def _exactly(box: Box, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = box.read(count - len(data))
        if not piece:
            return b""
        data += piece
    return data


class Clock:
    """`time.monotonic` that can be put forward."""

    def __init__(self) -> None:
        self.ahead, self._real = 0.0, time.monotonic

    def __call__(self) -> float:
        return self._real() + self.ahead
