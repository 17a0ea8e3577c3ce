"""How much one principal may ask for: calls a minute and at once, processor time and output a day.

Invariants:
* however many threads ask, never more calls pass than the bounds allow, and none that may pass is refused;
* a call that is refused counts for nothing;
* what a day allows is kept on disk: a restart gives nobody a new day, and servers with one state folder share it.

A day is one of UTC, since people can tell when it ends. What a call uses is known at its end: those that run when the
allowance is used up end as they would, so it can be passed by as much as may run at once.

Minutes are kept in memory: after a restart a principal has its whole minute.
"""

import math
import os
import sqlite3
import stat
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from gdal_mcp.errors import Code, Stage, ToolError

_log = structlog.get_logger()

_MINUTE: Final = 60.0  # seconds
_DAY: Final = 86_400
_KEPT_DAYS: Final = 35  # for whoever wants to see last month's use
_BUSY_SECONDS: Final = 5.0
_SOON: Final = 1.0  # seconds: nobody knows when a call of one's own will end
_TABLE: Final = """CREATE TABLE IF NOT EXISTS usage (
    day INTEGER NOT NULL, principal TEXT NOT NULL, cpu_seconds REAL NOT NULL, output_bytes INTEGER NOT NULL,
    PRIMARY KEY (day, principal)) WITHOUT ROWID"""
_ADD: Final = """INSERT INTO usage VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
    SET cpu_seconds = cpu_seconds + excluded.cpu_seconds, output_bytes = output_bytes + excluded.output_bytes"""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one principal may have; None is as much as there is."""

    calls_per_minute: int | None = None
    concurrent: int | None = None
    cpu_seconds_a_day: float | None = None
    output_bytes_a_day: int | None = None

    @property
    def by_day(self) -> bool:
        """Whether what calls used has to be kept."""
        return self.cpu_seconds_a_day is not None or self.output_bytes_a_day is not None


@dataclass(frozen=True, slots=True)
class Use:
    """What one principal used on one day."""

    cpu_seconds: float = 0.0
    output_bytes: int = 0


class Rates:
    """The principals of one server. Threads may share it."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """`path` is a database of the state folder; `clock` tells which day it is, in seconds since 1970."""
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._made: defaultdict[str, deque[float]] = defaultdict(deque)  # when calls of the last minute began
        self._using = threading.Lock()
        self._open: sqlite3.Connection | None = None
        self._unwritten: list[tuple[int, str, float, int]] = []
        self._tidied = 0  # the newest day on which old ones were dropped

    @contextmanager
    def admit(self, principal: str, bounds: Bounds) -> Iterator[None]:
        """One call of this principal, while it lasts. Raises ToolError (RATE_LIMITED, with the time to wait)."""
        self._enter(principal, bounds)
        try:
            yield
        finally:
            self._leave(principal)

    def spent(self, principal: str, cpu_seconds: float, output_bytes: int) -> None:
        """Adds what a call used, however it ended. What cannot be written now counts too, and is written with the next."""
        with self._using:
            self._unwritten.append((self._day(), principal, max(cpu_seconds, 0.0), max(output_bytes, 0)))
        try:
            with self._database():
                pass
        except ToolError as error:
            _log.warning("use_not_kept", reason=error.message)

    def used(self, principal: str) -> Use:
        """What it used today. Raises ToolError when that cannot be told."""
        query = "SELECT cpu_seconds, output_bytes FROM usage WHERE day = ? AND principal = ?"
        with self._database() as db:
            row = db.execute(query, (self._day(), principal)).fetchone()
        return Use(*row) if row else Use()

    def close(self) -> None:
        with self._using:
            if self._open is not None:
                self._open.close()
                self._open = None

    def _enter(self, principal: str, bounds: Bounds) -> None:
        self._require_allowance(principal, bounds)
        with self._lock:
            running = self._running[principal]
            if bounds.concurrent is not None and running >= bounds.concurrent:
                raise _limited(f"{running} calls of yours run, as many as may at once", _SOON)
            if bounds.calls_per_minute is not None:
                self._require_minute(principal, bounds.calls_per_minute)
            self._running[principal] += 1

    def _leave(self, principal: str) -> None:
        with self._lock:
            self._running[principal] -= 1
            if not self._running[principal]:
                del self._running[principal]

    def _require_minute(self, principal: str, calls: int) -> None:
        """Counts a call, unless so many began within the last minute."""
        now, made = time.monotonic(), self._made[principal]
        while made and made[0] <= now - _MINUTE:
            made.popleft()
        if len(made) >= calls:
            wait = (made[-calls] if calls else now) + _MINUTE - now
            raise _limited(f"you made {calls} calls within a minute, as many as may", wait)
        made.append(now)

    def _require_allowance(self, principal: str, bounds: Bounds) -> None:
        if not bounds.by_day:
            return
        used = self.used(principal)
        left = (self._day() + 1) * _DAY - self._clock()
        if bounds.cpu_seconds_a_day is not None and used.cpu_seconds >= bounds.cpu_seconds_a_day:
            raise _limited(f"you used today's {bounds.cpu_seconds_a_day:g} s of processor time", left)
        if bounds.output_bytes_a_day is not None and used.output_bytes >= bounds.output_bytes_a_day:
            raise _limited(f"you wrote today's {bounds.output_bytes_a_day} bytes", left)

    def _day(self) -> int:
        return int(self._clock() // _DAY)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """A transaction in which everything that was spent is written. Raises ToolError."""
        try:
            with self._using:
                self._open = self._open or _opened(self._path)
                with self._open as db:
                    self._write(db)
                    yield db
                self._unwritten.clear()
        except (sqlite3.Error, OSError) as error:
            raise ToolError(
                Code.INTERNAL,
                Stage.QUEUE,
                f"what was used today cannot be kept in {self._path.name}: {error}",
                "See that the disk of the state folder works and has room.",
            ) from error

    def _write(self, db: sqlite3.Connection) -> None:
        if not self._unwritten:
            return
        db.executemany(_ADD, self._unwritten)
        if self._tidied != self._day():
            self._tidied = self._day()
            db.execute("DELETE FROM usage WHERE day < ?", (self._tidied - _KEPT_DAYS,))


def _opened(path: Path) -> sqlite3.Connection:
    """What is lost in a power cut is the use of the last moments: not worth a wait for the disk after each call."""
    with suppress(FileExistsError):
        # not open: closing any descriptor of a database drops the locks that SQLite has on it in this process
        os.mknod(path, stat.S_IFREG | 0o600)
    db = sqlite3.connect(path, _BUSY_SECONDS, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        with db:
            db.execute(_TABLE)
    except BaseException:
        db.close()
        raise
    return db


def _limited(why: str, seconds: float) -> ToolError:
    wait = float(max(math.ceil(seconds), 1))
    return ToolError(
        Code.RATE_LIMITED,
        Stage.QUEUE,
        f"{why}.",
        f"Nothing was run. Call again in about {wait:g} s.",
        retry_after=wait,
    )
