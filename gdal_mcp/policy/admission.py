"""Admission control: a bounded number of calls at once, and a bounded, fair queue in front of them.

Invariants:
* there are never more permits in use than exist, and none is free while a call waits;
* a principal's calls are served in the order in which they came;
* a permit goes to the principal with the fewest, and among equals to the one that has had none for longest.
  Principals take turns: while one without a permit waits, no other gets a second one, however many calls it has sent;
* one principal fills at most half of the queue that the others leave, so that there is room for the next one;
* a call that leaves, even while it gets a permit, leaves nothing behind.

For one event loop. Not safe to use from threads.
"""

import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

import anyio

from gdal_mcp.errors import Code, Stage, ToolError

_NEWEST_PART = 0.2  # weight of the newest call in the average duration: about ten calls count
_LONGEST_HINT = 600.0  # seconds; a longer estimate is of no use


@dataclass(slots=True)
class _Line:
    """One principal's running and waiting calls."""

    turn: int  # counter value when it last returned a permit, or first came
    running: int = 0
    waiting: deque[anyio.Event] = field(default_factory=deque)


class Admission:
    """The permits of one server: `running` of `concurrent` are in use, and `waiting` calls wait for one."""

    def __init__(self, concurrent: int, queue_length: int, queue_seconds: float) -> None:
        self.queue_length = queue_length
        self.queue_seconds = queue_seconds
        self.concurrent = concurrent
        # principals with calls and, while a call waits, also those that had calls before
        self._lines: dict[str, _Line] = {}
        self.running = 0
        self.waiting = 0
        self._turns = count()
        self._typical = 1.0  # seconds that a call takes: a guess until the first one has ended
        self._newest = 0.0  # time of the last permit

    @asynccontextmanager
    async def permit(self, principal: str, on_wait: Callable[[], None]) -> AsyncIterator[None]:
        """Waits for a permit and returns it at the end. `on_wait` is called if none is free at once.

        Raises ToolError (BUSY, with an estimate of when to try again) if the queue is full for this principal, or no
        permit became free within `queue_seconds`.
        """
        if self.running < self.concurrent:
            self._take(self._line(principal))
        else:
            await self._wait(principal, on_wait)
        taken = self._newest = anyio.current_time()
        try:
            yield
        finally:
            seconds = anyio.current_time() - taken
            self._typical += (seconds - self._typical) * _NEWEST_PART
            self._give_back(principal)

    def resize(self, concurrent: int) -> None:
        """Changes the number of permits, at least 1. Additional ones are used at once; a reduction takes effect as
        calls end.
        """
        self.concurrent = concurrent
        self._serve()

    async def _wait(self, principal: str, on_wait: Callable[[], None]) -> None:
        """Returns with a permit, or raises without one."""
        known = self._lines.get(principal)
        if (len(known.waiting) if known else 0) >= self.queue_length - self.waiting:
            raise self._busy(f"{self.waiting} calls are waiting already.")
        mine = anyio.Event()
        self._line(principal).waiting.append(mine)
        self.waiting += 1
        held = False
        try:
            on_wait()
            with anyio.move_on_after(self.queue_seconds):
                await mine.wait()
            held = mine.is_set()
        finally:
            if not held and mine.is_set():  # the permit came at the same moment: it goes to the next call
                self._give_back(principal)
            elif not held:
                self._lines[principal].waiting.remove(mine)
                self.waiting -= 1
        if not held:
            raise self._busy(f"the call could not start within {self.queue_seconds:g} s.")

    def _give_back(self, principal: str) -> None:
        line = self._lines[principal]
        line.running -= 1
        line.turn = next(self._turns)
        self.running -= 1
        self._serve()
        if not self.waiting:  # the order matters only while somebody waits
            self._lines = {name: line for name, line in self._lines.items() if line.running}

    def _serve(self) -> None:
        """Gives out the free permits."""
        while self.waiting and self.running < self.concurrent:
            waiting = (line for line in self._lines.values() if line.waiting)
            following = min(waiting, key=lambda line: (line.running, line.turn))
            following.waiting.popleft().set()
            self.waiting -= 1
            self._take(following)

    def _take(self, line: _Line) -> None:
        line.running += 1
        self.running += 1

    def _line(self, principal: str) -> _Line:
        if principal not in self._lines:
            self._lines[principal] = _Line(next(self._turns))
        return self._lines[principal]

    def _busy(self, why: str) -> ToolError:
        """The error of a refused call: try again after the calls that wait now have run."""
        # the running calls have run for at least this long
        each = max(self._typical, anyio.current_time() - self._newest)
        hint = math.ceil(min((self.waiting + 1) * each / self.concurrent, _LONGEST_HINT))
        return ToolError(
            Code.BUSY,
            Stage.QUEUE,
            f"the server is busy: {why}",
            f"The call did not run. Call again in about {hint} s.",
            retry_after=float(hint),
        )
