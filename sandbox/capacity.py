"""How much memory the containers of all servers of one machine may be promised together.

`LockFileCapacity` keeps a promise as a locked range of an empty file: one byte for each MiB. The kernel drops the locks of a
process that dies, so what it had promised is free again without anybody's doing. On a cluster the scheduler decides instead.
"""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import CapacityExhausted

_MIB = 1 << 20
_PAUSE = 0.05  # seconds between two looks at what other processes hold; our own releases are noticed at once


@dataclass(eq=False, slots=True)
class MemoryReservation:
    """The memory promised to one container."""

    capacity: "LockFileCapacity"
    start: int  # MiB
    length: int  # MiB

    def release(self) -> None:
        """Twice does nothing."""
        self.capacity.release(self)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self.release()


class LockFileCapacity:
    """A sum that every server on this machine that shares `file` keeps to; one object for each file in a process, for any thread.

    Closing any descriptor of the file would drop this process's locks, so nothing else may open it.
    """

    def __init__(self, file: Path, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self._held: set[MemoryReservation] = set()
        self._freed = threading.Condition()
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, size: int, *, leaving: int = 0) -> MemoryReservation | None:
        """`size` bytes, if they are free now and `leaving` bytes more are."""
        with self._freed:
            taken = self._lock(_mib(size))
            if taken is None or not leaving:
                return taken
            spare = self._lock(_mib(leaving))
            self._unlock(taken if spare is None else spare)
            return None if spare is None else taken

    def wait(
        self, size: int, seconds: float, make_room: Callable[[], bool] = lambda: False
    ) -> MemoryReservation:
        """`size` bytes as soon as they are free. `make_room` is called when they are not, and says whether it freed some.

        Raises CapacityExhausted after `seconds`, or at once for what never fits; and whatever `make_room` raises.
        """
        if self.total_bytes // _MIB < _mib(size):
            raise CapacityExhausted(
                f"a container may use {_mib(size)} MiB, but all containers together only {self.total_bytes // _MIB} MiB. "
                "Lower the memory limit, or raise the share of the machine's memory."
            )
        end = time.monotonic() + seconds
        while (taken := self.take(size)) is None:
            if make_room():
                continue
            left = end - time.monotonic()
            if left <= 0:
                raise CapacityExhausted(f"no memory for a container within {seconds:.0f} s. Try again later.")
            with self._freed:
                self._freed.wait(min(left, _PAUSE))
        return taken

    def close(self) -> None:
        """Ends every promise of this process; to release one later does nothing."""
        with self._freed:
            self._held.clear()
            os.close(self._descriptor)

    def _lock(self, length: int) -> MemoryReservation | None:
        """The first free range of `length`; ranges start at its multiples, as nearly all are of one length."""
        for start in range(0, self.total_bytes // _MIB - length + 1, length):
            # locks of one process do not exclude each other
            if any(one.start < start + length and start < one.start + one.length for one in self._held):
                continue
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
            except OSError:  # another process's
                continue
            taken = MemoryReservation(self, start, length)
            self._held.add(taken)
            return taken
        return None

    def release(self, taken: MemoryReservation) -> None:
        with self._freed:
            if taken in self._held:
                self._unlock(taken)
                self._freed.notify_all()

    def _unlock(self, taken: MemoryReservation) -> None:
        self._held.discard(taken)
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, taken.length, taken.start)


def _mib(size: int) -> int:
    return -(-size // _MIB)


def machine_memory() -> Mapping[str, int]:
    """/proc/meminfo of this machine: bytes by name; empty where there is no such file."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    rows = (line.split() for line in lines)
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) == 3}  # name, number, kB
