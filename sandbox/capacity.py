"""How much memory containers may be promised together, by every server that shares a file.

A promise is a locked range of a file that holds nothing: one byte for each MiB. The kernel drops the locks of a process
that dies, so what it had promised is free again without anybody's doing.
"""

import fcntl
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from sandbox.errors import CapacityExhausted

_MIB = 1 << 20
_PAUSE = 0.05  # seconds between two looks at what other processes hold; our own releases are heard at once


@dataclass(eq=False, slots=True)
class Place:
    """The promised memory of one container. Releasing it twice does nothing."""

    capacity: "Capacity"
    start: int
    length: int

    def release(self) -> None:
        self.capacity._release(self)  # noqa: SLF001 - the two are one thing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass(eq=False)
class Capacity:
    """The sum that is never exceeded. Safe to use from several threads; one for each file in a process.

    Closing any descriptor of the file would drop this process's locks, so that nothing else may open it.
    """

    file: Path
    total_bytes: int
    _held: set[Place] = field(default_factory=set)
    _freed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self._descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @property
    def promised_bytes(self) -> int:
        """What this process has promised."""
        with self._freed:
            return sum(place.length for place in self._held) * _MIB

    def places(self, size: int) -> int:
        """How many containers of `size` bytes there is room for when nothing runs."""
        return self.total_bytes // _MIB // _mib(size)

    def take(self, size: int, *, leaving: int = 0) -> Place | None:
        """A place for `size` bytes, if one is free and `leaving` bytes more are."""
        with self._freed:
            place = self._lock(_mib(size))
            if place is None or not leaving:
                return place
            spare = self._lock(_mib(leaving))
            if spare is None:
                self._unlock(place)
                return None
            self._unlock(spare)
            return place

    def wait(self, size: int, seconds: float, meanwhile: Callable[[], bool] = lambda: False) -> Place:
        """The next free place. `meanwhile` is called after each look that found none; whether it made room.

        Raises CapacityExhausted after `seconds`, or at once for what never fits; and whatever `meanwhile` raises.
        """
        if not self.places(size):
            raise CapacityExhausted(
                f"a container may use {_mib(size)} MiB, but all containers together only {self.total_bytes // _MIB} MiB. "
                "Lower the memory limit, or raise the share of the machine's memory."
            )
        end = time.monotonic() + seconds
        while (place := self.take(size)) is None:
            if meanwhile():
                continue
            left = end - time.monotonic()
            if left <= 0:
                raise CapacityExhausted(
                    f"no memory was free for a container within {seconds:.0f} s. Try again when other calls have ended."
                )
            with self._freed:
                self._freed.wait(min(left, _PAUSE))
        return place

    def close(self) -> None:
        """Ends every promise of this process; to release one later does nothing."""
        with self._freed:
            self._held.clear()
            os.close(self._descriptor)

    def _lock(self, length: int) -> Place | None:
        """The first free range of `length`; ranges start at its multiples, as nearly all are of one length."""
        for start in range(0, self.total_bytes // _MIB - length + 1, length):
            if not self._is_ours(start, length) and self._try(start, length):
                place = Place(self, start, length)
                self._held.add(place)
                return place
        return None

    def _is_ours(self, start: int, length: int) -> bool:
        """Locks of one process do not exclude each other."""
        return any(one.start < start + length and start < one.start + one.length for one in self._held)

    def _try(self, start: int, length: int) -> bool:
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
        except OSError:
            return False
        return True

    def _release(self, place: Place) -> None:
        with self._freed:
            if place in self._held:
                self._unlock(place)
                self._freed.notify_all()

    def _unlock(self, place: Place) -> None:
        self._held.discard(place)
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, place.length, place.start)


def _mib(size: int) -> int:
    return -(-size // _MIB)
