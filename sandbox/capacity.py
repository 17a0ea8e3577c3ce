"""Limits the memory of the containers of all servers on one machine: a counter with a queue.

Each server process has a ledger file in a shared folder, with the memory that it has reserved and its waiting
requests.

Invariants:
* a ledger counts while its process holds the lock on it, which the kernel drops when the process ends in any way;
* every change is made under one lock on the folder, so two processes never see the same memory as free;
* requests are served in the order of arrival, so small ones cannot delay a large one for ever;
* a ledger that cannot be read counts as all the memory: nothing is reserved until its process has written it again.

The locks are flock(2), which belong to an open file and not to a process: opening the same file again does not drop
them. On a cluster the scheduler decides instead.
"""

import contextlib
import fcntl
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from sandbox.errors import CapacityExhausted
from sandbox.portable import try_lock

_MIB = 1 << 20
_PAUSE = 0.05  # seconds between two checks of other processes; releases in this process are noticed at once
_LOCK: Final = "lock"  # the file whose lock is held over each change
_LOCK_SECONDS: Final = (
    5.0  # a change takes microseconds; only a process that was stopped in the middle of one takes longer
)


@dataclass(eq=False, slots=True)
class MemoryReservation:
    """The memory reserved for one container."""

    capacity: "LockFileCapacity"
    length: int  # MiB

    def release(self) -> None:
        """Releases the memory. Calling it again has no effect."""
        self.capacity.release(self)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self.release()


class _Ticket(NamedTuple):
    """A waiting request. Tickets are served in their order, across processes."""

    number: int  # arrival, in nanoseconds of the machine's monotonic clock
    size: int  # MiB
    # seconds on the same clock, after which the ticket is ignored, even if its process was stopped
    end: float


class _Ledgers(NamedTuple):
    """The sum of all ledgers: the reserved memory in MiB, and the tickets."""

    reserved: float
    waiting: tuple[_Ticket, ...]

    def ahead_of(self, ticket: _Ticket | None) -> int:
        """MiB that earlier tickets request. Without a ticket: MiB of all tickets."""
        return sum(queued.size for queued in self.waiting if ticket is None or queued < ticket)


class LockFileCapacity:
    """The memory limit shared by all servers on this machine that use `folder`. Safe to use from several threads."""

    def __init__(self, folder: Path, total_bytes: int) -> None:
        """Opens the folder of ledgers. Raises OSError if it cannot be made or written to."""
        self.total_bytes = total_bytes
        self._folder = folder
        self._reservations: set[MemoryReservation] = set()
        self._waiting: set[_Ticket] = set()
        self._freed = threading.Condition()
        self._closed = False
        folder.mkdir(mode=0o700, exist_ok=True)
        self._name = secrets.token_hex(8)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        with contextlib.ExitStack() as undo:
            self._lock = os.open(folder / _LOCK, flags, 0o600)
            undo.callback(os.close, self._lock)
            # under the lock: an unlocked ledger would count as that of a dead process
            with self._exclusive():
                self._ledger = os.open(folder / self._name, flags | os.O_EXCL, 0o600)
                undo.callback(os.close, self._ledger)
                fcntl.flock(self._ledger, fcntl.LOCK_EX)
                self._write()
            undo.pop_all()

    def take(self, size: int, *, leaving: int = 0) -> MemoryReservation | None:
        """Reserves `size` bytes if they and `leaving` more are free now and no other request waits; None otherwise."""
        with self._freed, self._exclusive():
            ledgers = self._read()
            if ledgers.waiting or self._free(ledgers) < _mib(size) + _mib(leaving):
                return None
            return self._promise(_mib(size))

    def wait(
        self,
        size: int,
        seconds: float,
        make_room: Callable[[], bool] = lambda: False,
        check: Callable[[], None] = lambda: None,
    ) -> MemoryReservation:
        """Reserves `size` bytes when they are free and earlier requests have been served.

        `make_room` is called while too little is free for this request and those before it, and returns True if it
        freed some. `check` is called each time and may raise to end the wait. Raises CapacityExhausted after
        `seconds`, or at once for a size that never fits, and the errors of the two functions.
        """
        if self.total_bytes // _MIB < _mib(size):
            raise CapacityExhausted(
                f"a container may use {_mib(size)} MiB, but all containers together only {self.total_bytes // _MIB} MiB. "
                "Lower the memory limit, or raise the share of the machine's memory."
            )
        end = time.monotonic() + seconds
        with self._ticket(_mib(size), end) as ticket:
            while True:
                taken, lacking = self._serve(ticket)
                if taken is not None:
                    return taken
                check()
                if lacking and make_room():
                    continue
                if (left := end - time.monotonic()) <= 0:
                    raise CapacityExhausted(
                        f"no memory for a container within {seconds:.0f} s. Try again later."
                    )
                with self._freed:
                    self._freed.wait(min(left, _PAUSE))

    def release(self, taken: MemoryReservation) -> None:
        with self._freed:
            if taken not in self._reservations:
                return
            self._reservations.discard(taken)
            self._freed.notify_all()
            # a ledger that cannot be written overstates the use and never understates it; the next change corrects it
            with contextlib.suppress(OSError, CapacityExhausted), self._exclusive():
                self._write()

    def close(self) -> None:
        """Ends all reservations of this process. Releasing one later has no effect."""
        with self._freed:
            if self._closed:
                return
            self._closed = True
            self._reservations.clear()
            with contextlib.suppress(OSError):
                (self._folder / self._name).unlink()
            os.close(self._ledger)
            os.close(self._lock)

    def _serve(self, ticket: _Ticket) -> tuple[MemoryReservation | None, bool]:
        """Reserves the memory of a ticket if it is free; else returns True if too little is free for it and the
        earlier tickets.
        """
        with self._freed, self._exclusive():
            ledgers = self._read()
            ahead, free = ledgers.ahead_of(ticket), self._free(ledgers)
            if ahead or free < ticket.size:
                return None, free < ahead + ticket.size
            self._waiting.discard(ticket)
            taken = self._promise(ticket.size)
            self._freed.notify_all()  # the next ticket is now the first
            return taken, False

    @contextlib.contextmanager
    def _ticket(self, size: int, end: float) -> Iterator[_Ticket]:
        with self._freed:
            ticket = _Ticket(time.monotonic_ns(), size, end)
            self._waiting.add(ticket)
        try:
            with self._freed, self._exclusive():
                self._write()
            yield ticket
        finally:
            with self._freed:
                if ticket in self._waiting:
                    self._waiting.discard(ticket)
                    self._freed.notify_all()
                    with contextlib.suppress(OSError, CapacityExhausted), self._exclusive():
                        self._write()

    def _promise(self, length: int) -> MemoryReservation:
        taken = MemoryReservation(self, length)
        self._reservations.add(taken)
        try:
            self._write()
        except BaseException:  # re-raised: a reservation that is not in the ledger does not count
            self._reservations.discard(taken)
            raise
        return taken

    def _free(self, ledgers: _Ledgers) -> float:
        return self.total_bytes // _MIB - ledgers.reserved

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Holds the lock over all ledgers. Raises CapacityExhausted if it cannot be taken, or if this object is closed."""
        if self._closed:
            raise CapacityExhausted("the server is ending, so no memory is promised any more.")
        end = time.monotonic() + _LOCK_SECONDS
        while not try_lock(self._lock, fcntl.LOCK_EX):
            if time.monotonic() > end:
                raise CapacityExhausted(
                    f"another server of this machine holds {self._folder / _LOCK} and does not go on. End it, or try again later."
                )
            time.sleep(_PAUSE / 50)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _write(self) -> None:
        now = time.monotonic()
        waiting = [ticket for ticket in self._waiting if ticket.end > now]
        data = json.dumps(
            {"held": sum(reservation.length for reservation in self._reservations), "waiting": waiting}
        ).encode()
        try:
            os.pwrite(self._ledger, data, 0)
            os.ftruncate(self._ledger, len(data))
        except OSError as error:
            raise CapacityExhausted(
                f"the memory of a container cannot be noted in {self._folder}: {error.strerror}. Free disk space there."
            ) from error

    def _read(self) -> _Ledgers:
        """The ledgers of all living processes. Those of dead processes are removed."""
        reserved, waiting, now = 0.0, list(self._waiting), time.monotonic()
        for name in os.listdir(self._folder):  # noqa: PTH208 - names are all that is needed
            if name in (_LOCK, self._name):
                continue
            amount, tickets = _ledger_of(self._folder / name)
            reserved += amount
            waiting += tickets
        reserved += sum(reservation.length for reservation in self._reservations)
        return _Ledgers(reserved, tuple(sorted(ticket for ticket in waiting if ticket.end > now)))


def _ledger_of(path: Path) -> tuple[float, list[_Ticket]]:
    """The memory and tickets of a process. Empty for a dead process, whose ledger is removed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return 0.0, []
    try:
        if try_lock(descriptor, fcntl.LOCK_EX):
            path.unlink(missing_ok=True)
            return 0.0, []
        ledger = json.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
        return int(ledger["held"]), [
            _Ticket(int(number), int(size), float(end)) for number, size, end in ledger["waiting"]
        ]
    except (ValueError, KeyError, TypeError):
        return float("inf"), []
    finally:
        os.close(descriptor)


def _mib(size: int) -> int:
    return -(-size // _MIB)


def machine_memory() -> Mapping[str, int]:
    """/proc/meminfo of this machine: bytes by name. Empty if the file does not exist."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    rows = (line.split() for line in lines)
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) == 3}  # name, number, kB
