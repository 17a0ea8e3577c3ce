"""Kinds of containers, a worker and calls for tests of the pool on an in-memory engine."""

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import pytest

from sandbox import slot as slot_module
from sandbox.capacity import LockFileCapacity
from sandbox.errors import EngineUnavailable
from sandbox.outcome import Exited
from sandbox.outputs.staging import StagingArea
from sandbox.pool import pool as pool_module
from sandbox.pool.lease import Lease, SlotKey
from sandbox.pool.pool import WarmPool
from sandbox.protocol import HEADER, LENGTH
from sandbox.runner import Job
from sandbox.template import Limits, Mount, SandboxTemplate, host_source
from sandbox.waiting import Cancellation
from sandbox.workspace import RESERVED
from tests.conftest import USER
from tests.engines.memory import Box
from tests.waiting import until

MIB = 1 << 20
LIMITS = Limits(memory_bytes=64 * MIB, wall_seconds=20.0)


def measure_nothing(patch: pytest.MonkeyPatch) -> None:
    """In-memory containers have no isolation to measure; the machine has enough memory for them."""
    patch.setattr(slot_module, "violations", lambda _template, _facts, **_: ())
    patch.setattr(pool_module, "machine_memory", dict)


def kind(name: str = "reads", *folders: Any, area: Any = None, **more: Any) -> SlotKey:
    """A separate kind for each name, on these folders."""
    mounts = tuple(Mount(host_source(folder), PurePosixPath(str(folder))) for folder in folders)
    template = SandboxTemplate("sha256:a", (name,), USER, more.pop("limits", LIMITS), mounts, **more)
    return SlotKey(template, area)


def promised(capacity: LockFileCapacity) -> int:
    """The bytes that are reserved in this process."""
    return sum(reservation.length for reservation in [*capacity._reservations]) * MIB


READS = kind("reads")
Making = Callable[..., WarmPool]


def frame(letter: bytes, value: Any) -> bytes:
    data = json.dumps(value).encode()
    return HEADER.pack(letter, len(data)) + data


def worker(box: Box) -> int:
    """Reports that it is ready, waits for its one job and does what the job's `do` says."""
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
        if "close" in what:  # and continues
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
    """`time.monotonic` that a test can advance."""

    def __init__(self) -> None:
        self.ahead, self._real = 0.0, time.monotonic

    def __call__(self) -> float:
        return self._real() + self.ahead


def run(lease: Lease, cancel: Cancellation, **request: object):
    return lease.run(Job("call-0001", lease.template, request, result_only=lease.staging is None), cancel)


def served(pool: WarmPool, kind: SlotKey, cancel: Cancellation, call: str = "call-0001") -> tuple[str, str]:
    """One call: its container, and "warm" or "cold"."""
    with pool.claim(kind, call, cancel) as lease:
        result = run(lease, cancel)
        assert result.outcome == Exited(0)
        return result.final["box"], result.usage.pool


def filled(pool: WarmPool, waiting: int) -> None:
    until(lambda: (pool.figures().waiting, pool.figures().starting) == (waiting, 0))


def wake(pool: WarmPool) -> None:
    """Makes the pool look at everything again, as the end of a call does."""
    pool._wakeup.wake()


def together(count: int, do: Callable[[int], object]) -> list[object]:
    """Results of this many threads that start at the same moment."""
    start, results = threading.Barrier(count), [None] * count

    def work(number: int) -> None:
        start.wait()
        try:
            results[number] = do(number)
        except BaseException as error:  # noqa: BLE001 - returned to the test in place of a result
            results[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def refuse() -> None:
    raise EngineUnavailable("not now")


def staged(area: StagingArea) -> list[str]:
    folder = area.workspace.root / RESERVED / "staging"
    return sorted(os.listdir(folder)) if folder.is_dir() else []
