"""Waits for descriptors, of any number: `select` refuses those above 1023, which a busy server has."""

import contextlib
import os
import select
import threading
from collections.abc import Iterable
from typing import Protocol


class HasDescriptor(Protocol):
    def fileno(self) -> int: ...


def readable(items: Iterable[HasDescriptor], seconds: float) -> tuple[HasDescriptor, ...]:
    """Those that can be read, or have ended, within `seconds`; none when the time is over."""
    return _wait(items, select.POLLIN, seconds)


def writable(item: HasDescriptor, seconds: float) -> bool:
    """Whether it takes data, or has failed, within `seconds`."""
    return bool(_wait([item], select.POLLOUT, seconds))


def _wait(items: Iterable[HasDescriptor], event: int, seconds: float) -> tuple[HasDescriptor, ...]:
    by_number = {item.fileno(): item for item in items}
    if closed := by_number.get(-1):  # by another thread, just now
        return (closed,)
    poll = select.poll()
    for number in by_number:
        poll.register(number, event)
    milliseconds = max(0, int(seconds * 1000 + 0.999))  # rounded up: a wait that ends early would spin
    return tuple(by_number[number] for number, _ in poll.poll(milliseconds))


class Bell:
    """Wakes a thread that waits for descriptors, from any other thread. Rung twice, it is heard once; closed, it is silent."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._lock = threading.Lock()
        self._closed = False

    def ring(self) -> None:
        with self._lock, contextlib.suppress(BlockingIOError):  # full: it rings already
            if not self._closed:
                os.write(self._writing, b"!")

    def hush(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._reading, 1 << 16)

    def fileno(self) -> int:
        return self._reading

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._reading)
                os.close(self._writing)
