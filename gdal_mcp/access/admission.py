"""Who may run now: a bounded number of calls at once, and a bounded, fair queue in front of them.

Invariants:
* never more places are taken than there are, and none stays free while a call waits;
* a principal's calls are served in the order they came;
* a place goes to the principal that has the fewest, and of equals to the one that has had none for longest: principals
  take turns, and while one without a place waits, no other is given more than one, however many calls it has sent;
* one principal fills at most half of what the others leave of the queue, so that there is room for the next one;
* a call that leaves, even in the moment in which it is given a place, leaves nothing behind.

For one event loop: not to be used from threads.
"""

import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

import anyio

from gdal_mcp.errors import Code, Stage, ToolError

_FIRST_GUESS = 1.0  # seconds that a call takes, while none has ended
_NEWEST_PART = 0.2  # of the newest call in what calls take: some ten decide
_LONGEST_HINT = 600.0  # seconds; nobody plans further ahead by an estimate


@dataclass(frozen=True, slots=True)
class Permit:
    """The right to run, for as long as its context lasts."""

    waited: float  # seconds


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many calls of one principal run, and how many wait."""

    running: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Load:
    """How full it is now. `turned_away` is counted since the start."""

    concurrent: int
    queue_length: int
    running: int
    waiting: int
    turned_away: int
    principals: Mapping[str, QueueDepth]


@dataclass(slots=True)
class _Line:
    """What one principal has, and the calls of its that wait."""

    turn: int  # counts up: when it last gave a place back, or came for the first time
    running: int = 0
    waiting: deque[anyio.Event] = field(default_factory=deque)


class Admission:
    """The places of one server."""

    def __init__(self, concurrent: int, queue_length: int, queue_seconds: float) -> None:
        if min(concurrent - 1, queue_length, queue_seconds) < 0:
            raise ValueError("at least one call runs at once, and a queue is not shorter than nothing")
        self.queue_length = queue_length
        self.queue_seconds = queue_seconds
        self._concurrent = concurrent
        self._lines: dict[str, _Line] = {}  # of who has a call here; of who had one too, while anybody waits
        self._running = 0
        self._waiting = 0
        self._turns = count()
        self._turned_away = 0
        self._typical = _FIRST_GUESS
        self._newest = 0.0  # when the last place was given out

    @asynccontextmanager
    async def permit(
        self, principal: str, on_wait: Callable[[], None] | None = None
    ) -> AsyncIterator[Permit]:
        """Waits for a permit and gives it back at the end; `on_wait` is called if there is none at once.

        Raises ToolError (BUSY, with an estimate of when to try again) when the queue is full for this principal, or when
        none was free within `queue_seconds`.
        """
        arrived = anyio.current_time()
        if self._running < self._concurrent:
            self._take(self._line(principal))
        else:
            await self._wait(principal, on_wait)
        taken = self._newest = anyio.current_time()
        try:
            yield Permit(taken - arrived)
        finally:
            self._learn(anyio.current_time() - taken)
            self._give_back(principal)

    def resize(self, concurrent: int) -> None:
        """More places are given out at once; fewer as soon as so many calls have ended."""
        if concurrent < 1:
            raise ValueError("at least one call runs at once")
        self._concurrent = concurrent
        self._serve()

    def load(self) -> Load:
        rows = {
            name: QueueDepth(line.running, len(line.waiting))
            for name, line in self._lines.items()
            if line.running or line.waiting
        }
        return Load(
            self._concurrent, self.queue_length, self._running, self._waiting, self._turned_away, rows
        )

    async def _wait(self, principal: str, on_wait: Callable[[], None] | None) -> None:
        """Returns with a place. Every other way out leaves none."""
        mine = self._join(principal)
        try:
            if on_wait is not None:
                on_wait()
            with anyio.move_on_after(self.queue_seconds):
                await mine.wait()
        except BaseException:
            self._withdraw(principal, mine)
            raise
        if not mine.is_set():
            self._withdraw(principal, mine)
            raise self._busy(f"no place was free for it within {self.queue_seconds:g} s.")

    def _join(self, principal: str) -> anyio.Event:
        line = self._lines.get(principal)
        if (len(line.waiting) if line else 0) >= self.queue_length - self._waiting:
            raise self._busy(f"{self._waiting} calls wait already, as many as may.")
        line = self._line(principal)
        mine = anyio.Event()
        line.waiting.append(mine)
        self._waiting += 1
        return mine

    def _withdraw(self, principal: str, mine: anyio.Event) -> None:
        """Out of the queue; a place that was given in the same moment goes to the next call."""
        if mine.is_set():
            self._give_back(principal)
            return
        self._lines[principal].waiting.remove(mine)
        self._waiting -= 1

    def _give_back(self, principal: str) -> None:
        line = self._lines[principal]
        line.running -= 1
        line.turn = next(self._turns)
        self._running -= 1
        self._serve()
        if not self._waiting:  # whose turn it is matters only while somebody waits
            self._lines = {name: one for name, one in self._lines.items() if one.running}

    def _serve(self) -> None:
        """Gives out what is free."""
        while self._waiting and self._running < self._concurrent:
            heir = min((line for line in self._lines.values() if line.waiting), key=_claim)
            heir.waiting.popleft().set()
            self._waiting -= 1
            self._take(heir)

    def _take(self, line: _Line) -> None:
        line.running += 1
        self._running += 1

    def _line(self, principal: str) -> _Line:
        if principal not in self._lines:
            self._lines[principal] = _Line(next(self._turns))
        return self._lines[principal]

    def _learn(self, seconds: float) -> None:
        self._typical += (seconds - self._typical) * _NEWEST_PART

    def _busy(self, why: str) -> ToolError:
        """Try again when those that wait now will have had their turn."""
        self._turned_away += 1
        # what runs now has run for at least so long
        each = max(self._typical, anyio.current_time() - self._newest)
        hint = math.ceil(min((self._waiting + 1) * each / self._concurrent, _LONGEST_HINT))
        return ToolError(
            Code.BUSY,
            Stage.QUEUE,
            f"the server is busy: {why}",
            f"Nothing was run. Call again in about {hint} s.",
            retry_after=float(hint),
        )


def _claim(line: _Line) -> tuple[int, int]:
    """The lowest is next."""
    return line.running, line.turn
