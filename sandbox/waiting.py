"""Waits for any number of descriptors (`select` refuses those above 1023, which a busy server has), and wakes waiting
threads.
"""

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

from sandbox.errors import LaunchCancelled

_CHUNK: Final = 1 << 18  # bytes that are written at once


class HasDescriptor(Protocol):
    def fileno(self) -> int: ...


Waited = TypeVar("Waited", bound=HasDescriptor)


def writable(item: HasDescriptor, seconds: float) -> bool:
    """True if the descriptor accepts data, or has failed, within `seconds`."""
    return bool(readable([item], seconds, select.POLLOUT))


def write_all(
    item: HasDescriptor, write: Callable[[memoryview], int | None], data: bytes, seconds: float
) -> None:
    """Writes all of `data` to a container's stdin, in pieces. Raises TimeoutError, and the errors of `write`."""
    view, end = memoryview(data), time.monotonic() + seconds
    while view:
        left = end - time.monotonic()
        if left <= 0 or not writable(item, left):
            raise TimeoutError("the container does not read its stdin")
        view = view[write(view[:_CHUNK]) or 0 :]


def readable(items: Iterable[Waited], seconds: float, event: int = select.POLLIN) -> tuple[Waited, ...]:
    """The descriptors that can be read, or have ended, within `seconds`; none on timeout."""
    by_number = {item.fileno(): item for item in items}
    if closed := by_number.get(-1):  # another thread has just closed the descriptor
        return (closed,)
    poll = select.poll()
    for number in by_number:
        poll.register(number, event)
    milliseconds = max(0, int(seconds * 1000 + 0.999))  # rounded up: a wait that ends early would spin
    return tuple(by_number[number] for number, _ in poll.poll(milliseconds))


class Process:
    """A process, held by a descriptor so that its id cannot be reused. Readable once the process has ended."""

    def __init__(self, pid: int) -> None:
        """Opens a descriptor of a process. Raises OSError if there is no process with that id."""
        self.descriptor = os.pidfd_open(pid)

    def fileno(self) -> int:
        return self.descriptor

    def close(self) -> None:
        """Closes the descriptor. Safe to call again."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class Wakeup:
    """Wakes a polling thread from any other thread. Several calls of `wake` count as one.

    After `close`, `wake` does nothing.
    """

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()  # not inherited by child processes
        for end in (self._reading, self._writing):
            os.set_blocking(end, False)
        self._lock = threading.Lock()
        self._closed = False

    def wake(self) -> None:
        with self._lock, contextlib.suppress(BlockingIOError):  # full, so it is readable already
            if not self._closed:
                os.write(self._writing, b"!")

    def clear(self) -> None:
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


def refuse_cancelled(cancel: "Cancellation | None") -> None:
    """Raises LaunchCancelled if the caller has cancelled."""
    if cancel is not None and cancel.is_set:
        raise LaunchCancelled("cancelled before the container was started")


class Cancellation(Wakeup):
    """A request to stop: set once, from any thread, and never cleared. Setting it after `close` does nothing."""

    is_set = False

    def set(self) -> None:
        self.is_set = self.is_set or not self._closed
        self.wake()
