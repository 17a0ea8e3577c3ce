"""Runs work that may hang, such as looking up paths or waiting for an engine, in a bounded number of threads.

Such work is done before its call is admitted to the queue (docs/design.md says why). A thread cannot be ended from
outside, so long work must check whether its caller has left.

Invariants:
* at most `at_once` threads work, and at most `per_principal` (fewer) for the same principal, so that work that hangs
  for one principal leaves room for the others;
* a thread counts until it has ended, even after its caller gave up;
* every caller gets an answer within `queue_seconds` and `seconds`, and at once when it is cancelled.
"""

import _thread
import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import anyio
from anyio.to_thread import run_sync

from gdal_mcp.errors import Code, Stage, ToolError
from sandbox.waiting import Cancellation

AT_ONCE: Final = 16  # threads; one that hangs only costs memory
PER_PRINCIPAL: Final = 4  # threads; usual work takes milliseconds, so more would not be faster
# seconds; half of the time that clients wait, so that the other half is left for the draft
QUEUE_SECONDS: Final = 30.0
DRAFT_SECONDS: Final = 30.0
# seconds; the first plan waits until the engine is connected and its host is attested
PLAN_SECONDS: Final = 240.0

T = TypeVar("T")


class BoundedThreads:
    """Threads that principals share fairly. `busy_with` names the work in messages. For one event loop."""

    def __init__(
        self,
        busy_with: str,
        seconds: float = DRAFT_SECONDS,
        *,
        at_once: int = AT_ONCE,
        per_principal: int = PER_PRINCIPAL,
        queue_seconds: float = QUEUE_SECONDS,
    ) -> None:
        self.busy_with = busy_with
        self.per_principal = per_principal
        self.seconds = seconds
        self.queue_seconds = queue_seconds
        self._turns = anyio.Semaphore(at_once)
        # by principal, while a caller waits or a thread has not ended
        self._lines: WeakValueDictionary[str, anyio.Semaphore] = WeakValueDictionary()

    async def run(self, principal: str, work: Callable[[], T]) -> T:
        """The result of `work`. Raises its errors, and ToolError: BUSY if no thread is free in time, TIMEOUT if the
        work does not end.
        """
        line = self._lines.setdefault(principal, anyio.Semaphore(self.per_principal))
        await self._turn(line)
        future: Future[T] = Future()
        ended = anyio.Event()
        loop = asyncio.get_running_loop()

        def over() -> None:
            self._turns.release()
            line.release()
            ended.set()

        def make() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - any error is raised where the result is awaited
                future.set_exception(error)
            with suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(over)

        # not threads of anyio, for which the program would wait at its end, nor of `threading`, whose start blocks the
        # event loop
        try:
            _thread.start_new_thread(copy_context().run, (make,))
        except RuntimeError:  # the system cannot start another thread
            over()
            raise
        with anyio.move_on_after(self.seconds):
            await ended.wait()
            return future.result()
        raise ToolError(
            Code.TIMEOUT,
            Stage.VALIDATE,
            f"{self.busy_with} took longer than {self.seconds:g} s.",
            "Nothing was run. Call again later, or name fewer files.",
        )

    async def _turn(self, line: anyio.Semaphore) -> None:
        """Waits for the principal's own turn first, so that this wait does not delay others."""
        with anyio.move_on_after(self.queue_seconds):
            await line.acquire()
            try:
                return await self._turns.acquire()
            except anyio.get_cancelled_exc_class():
                line.release()
                raise
        raise ToolError(
            Code.BUSY,
            Stage.QUEUE,
            f"too many calls are busy with {self.busy_with}; there was no thread for yours within {self.queue_seconds:g} s.",
            "Nothing was run. Call again when they have ended.",
            retry_after=self.queue_seconds,
        )


async def run_cancellable(work: Callable[[Cancellation], T], threads: anyio.CapacityLimiter) -> T:
    """Runs the work in a thread. Passes a cancellation of this task on to it, and raises it after the work has
    returned.
    """
    cancel = Cancellation()
    ended: list[T] = []

    async def pass_on_cancellation() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancel.set()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(pass_on_cancellation)
            with anyio.CancelScope(shield=True):
                ended.append(await run_sync(work, cancel, limiter=threads))
            group.cancel_scope.cancel()
    except anyio.get_cancelled_exc_class():
        if not ended:
            # if the work has ended, its result must not be lost, and the next checkpoint raises the cancellation again
            raise
    finally:
        cancel.close()
    return ended[0]
