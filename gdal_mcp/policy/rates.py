"""Limits for one principal: calls per minute and at once, processor time and output per day.

Invariants:
* with any number of threads, exactly the calls within the limits are admitted;
* a refused call does not count;
* `admit` uses memory only, so that it can run on an event loop; all other methods use the disk, and are for threads;
* the use of a day is on disk: it survives a restart, and servers with one state folder share it.

Days are in UTC, so that people know when they end. The use of a call is known at its end: calls that run when the
limit is reached may finish, so it can be exceeded by the calls that run at once. Calls per minute are counted in
memory: a restart forgets them.
"""

import math
import sqlite3
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import structlog

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.policy.policy import PolicyEntry
from gdal_mcp.settings.state import make_private, open_database

_log = structlog.get_logger()

_MINUTE: Final = 60.0  # seconds
_DAY: Final = 86_400
_MAX_DAYS: Final = 35  # days, so that the use of the last month can be shown
_BUSY_SECONDS: Final = 5.0
_SOON: Final = 1.0  # seconds to wait: the end of a running call is unknown
_TABLE: Final = """CREATE TABLE IF NOT EXISTS usage (
    day INTEGER NOT NULL, principal TEXT NOT NULL, cpu_seconds REAL NOT NULL, output_bytes INTEGER NOT NULL,
    PRIMARY KEY (day, principal)) WITHOUT ROWID"""
_REMOTE: Final = """CREATE TABLE IF NOT EXISTS remote (
    day INTEGER NOT NULL, principal TEXT NOT NULL, bytes INTEGER NOT NULL, requests INTEGER NOT NULL,
    PRIMARY KEY (day, principal)) WITHOUT ROWID"""
_ADD_REMOTE: Final = """INSERT INTO remote VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
    SET bytes = bytes + excluded.bytes, requests = requests + excluded.requests"""
_ADD: Final = """INSERT INTO usage VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
    SET cpu_seconds = cpu_seconds + excluded.cpu_seconds, output_bytes = output_bytes + excluded.output_bytes"""


class Rates:
    """The use of all principals of one server. Safe to use from several threads."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """`path` is a database in the state folder; `clock` returns seconds since 1970."""
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._recent_calls: defaultdict[str, deque[float]] = defaultdict(
            deque
        )  # start times of the last minute's calls
        self._db_lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._unwritten: list[tuple[int, str, float, int]] = []
        self._tidied = 0  # the last day on which old rows were deleted

    @contextmanager
    def admit(self, principal: str, entry: PolicyEntry | None) -> Iterator[None]:
        """Admits one call of this principal for as long as it runs, by the limits of its policy entry.

        Raises ToolError (RATE_LIMITED, with the time to wait).
        """
        if entry is None:
            yield
            return
        with self._lock:
            running = self._running[principal]
            if entry.concurrent is not None and running >= entry.concurrent:
                raise _limited(f"{running} of your calls are running, which is your limit", _SOON)
            if (calls := entry.calls_per_minute) is not None:
                now, recent = time.monotonic(), self._recent_calls[principal]
                while recent and recent[0] <= now - _MINUTE:
                    recent.popleft()
                if len(recent) >= calls:
                    left = recent[-calls] + _MINUTE - now
                    raise _limited(f"you made {calls} calls within a minute, which is your limit", left)
                recent.append(now)
            self._running[principal] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= Counter([principal])  # removes entries of zero

    def require_allowance(self, principal: str, entry: PolicyEntry | None, *, writes: bool) -> None:
        """Raises ToolError (RATE_LIMITED) if today's processor time is used up, or today's output for a call that
        writes.
        """
        if entry is None or not entry.by_day:
            return
        seconds, written = self.used(principal)
        left = (self._day() + 1) * _DAY - self._clock()
        if entry.cpu_seconds_a_day is not None and seconds >= entry.cpu_seconds_a_day:
            raise _limited(
                f"you have used up the {_hours(entry.cpu_seconds_a_day)} of processor time of today", left
            )
        if writes and entry.output_bytes_a_day is not None and written >= entry.output_bytes_a_day:
            raise _limited(
                f"you have used up the {entry.output_bytes_a_day / (1 << 20):.0f} MiB of output of today",
                left,
            )

    def record_use(self, principal: str, cpu_seconds: float, output_bytes: int) -> None:
        """Adds the use of a call, whether it succeeded or failed. Use that cannot be written now is written with the
        next call.
        """
        with self._db_lock:
            self._unwritten.append((self._day(), principal, max(cpu_seconds, 0.0), max(output_bytes, 0)))
        try:
            with self._database():
                pass
        except ToolError as error:
            _log.warning("use_not_kept", reason=error.message)

    def used(self, principal: str) -> tuple[float, int]:
        """Processor seconds and bytes of output of today. Raises ToolError if the database cannot be used."""
        query = "SELECT cpu_seconds, output_bytes FROM usage WHERE day = ? AND principal = ?"
        with self._database() as db:
            seconds, written = db.execute(query, (self._day(), principal)).fetchone() or (0.0, 0)
        return seconds, written

    def remote_used(self, principal: str) -> tuple[int, int]:
        """Bytes and requests of today's remote reads. Raises the errors of `used`."""
        query = "SELECT bytes, requests FROM remote WHERE day = ? AND principal = ?"
        with self._database() as db:
            read, requests = db.execute(query, (self._day(), principal)).fetchone() or (0, 0)
        return read, requests

    def record_remote_use(self, principal: str, read: int, requests: int) -> None:
        """Adds the remote reads of a call. Raises the errors of `used`."""
        if requests:
            with self._database() as db:
                db.execute(_ADD_REMOTE, (self._day(), principal, read, requests))

    def close(self) -> None:
        with self._db_lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def _day(self) -> int:
        return int(self._clock() // _DAY)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """A transaction, which first writes everything that was spent. Raises ToolError."""
        try:
            with self._db_lock:
                self._db = self._db or _opened(self._path)
                with self._db as db:
                    if self._unwritten:
                        db.executemany(_ADD, self._unwritten)
                        if self._tidied != self._day():
                            self._tidied = self._day()
                            for table in ("usage", "remote"):
                                db.execute(f"DELETE FROM {table} WHERE day < ?", (self._tidied - _MAX_DAYS,))  # noqa: S608 - ours
                    yield db
                self._unwritten.clear()
        except (sqlite3.Error, OSError) as error:
            raise ToolError(
                Code.INTERNAL,
                Stage.QUEUE,
                f"today's use cannot be recorded in {self._path.name}: {error}",
                "Check that the disk of the state folder works and is not full.",
            ) from error


def _opened(path: Path) -> sqlite3.Connection:
    """Opens the database. A power cut may lose the last moments of use, which are not worth waiting for the disk
    after each call.
    """
    make_private(path)
    with ExitStack() as failed:
        db = open_database(path, _BUSY_SECONDS)
        failed.callback(db.close)
        with db:
            db.execute(_TABLE)
            db.execute(_REMOTE)
        failed.pop_all()
    return db


def _hours(seconds: float) -> str:
    return (
        f"{seconds:g} s"
        if seconds < 120
        else f"{seconds / 60:g} min"
        if seconds < 7200
        else f"{seconds / 3600:g} h"
    )


def _limited(why: str, seconds: float) -> ToolError:
    wait = float(max(math.ceil(seconds), 1))
    day = " Days end at midnight UTC." if wait > _MINUTE else ""
    return ToolError(
        Code.RATE_LIMITED,
        Stage.QUEUE,
        f"{why}.",
        f"The call did not run. Call again in about {_hours(wait)}.{day}",
        retry_after=wait,
    )
