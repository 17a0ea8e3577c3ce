"""Makes drafts from the arguments of calls, a bounded number at a time.

A draft is made in a thread before its call is admitted to the queue. It looks up paths, so a hanging file system can block
it for any time, and a thread cannot be ended from outside.

Invariants of `Drafts`:
* at most `at_once` threads make drafts, and at most `of_one` (fewer) for the same principal, so that one principal's
  hanging files leave room for the others;
* a thread counts until it has ended, even after its caller gave up;
* every caller is answered within twice `seconds`.
"""

import _thread
import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import anyio
from pydantic import ValidationError

from gdal_mcp.access.identity import WRITE
from gdal_mcp.access.policy import Policy, case, decide
from gdal_mcp.calls.context import Admitted, Done
from gdal_mcp.calls.refusals import invalid, missing_scope, reads_only
from gdal_mcp.entitlements import Entitlements
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.remote.door import Door
from gdal_mcp.remote.places import Numbered
from gdal_mcp.toolbox import DraftScope, ImmediateResult, Toolbox

AT_ONCE: Final = 16  # threads that hang cost memory, and nothing else
OF_ONE: Final = 4  # a usual draft takes milliseconds, so that more would only take turns
ASK_SECONDS: Final = 25.0  # for the requests of a tool itself, which end before their thread is given up
SECONDS: Final = 30.0  # half of what clients wait: there is time for both the turn and the draft

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Drafting:
    policy: Policy
    door: Door

    def draft(self, admitted: Admitted) -> Draft | ImmediateResult:
        """What the tool makes of the arguments, and a note on what can be told of it before it runs. Raises ToolError."""
        request, tool, entitlements = admitted.context.request, admitted.tool, admitted.entitlements
        toolbox, as_new = admitted.toolbox, request.operation.as_new
        scope = self.scope(entitlements, toolbox, request.principal, admitted.context.call_id, as_new)
        try:
            draft = tool.draft(request.arguments, toolbox.context(scope))
        except ValidationError as error:
            raise invalid(error) from error
        if isinstance(draft, ImmediateResult):
            return draft
        if draft.writes and entitlements.settings.read_only:
            raise reads_only()
        if draft.writes and not request.who.holds(WRITE):
            raise missing_scope(WRITE)
        draft = replace(draft, algorithm=draft.algorithm or tool.like, addresses=scope.remote.addresses)
        admitted.context.preflight = entitlements.preflights[toolbox.name].check(draft)
        request.operation.accept(draft)
        return draft

    def ask(self, admitted: Admitted, answer: ImmediateResult, ended: threading.Event) -> Mapping[str, Any]:
        """The answer of a tool for which the server itself makes requests, none of them once `ended` is set.

        What was asked of each host is kept for the record in any case.
        """
        context = admitted.context
        assert answer.ask is not None
        with self.door.asking(context.request.principal, time.monotonic() + ASK_SECONDS, ended) as meter:
            try:
                return answer.ask(meter)
            finally:
                context.hosts = meter.call.by_host()

    def learn(self, admitted: Admitted, draft: Draft, done: Done) -> None:
        """What was written is known from its description, so that a call on it can be judged without another look."""
        located = {file.located.path: file.located for file in done.published.files} if done.published else {}
        preflight = admitted.entitlements.preflights[admitted.toolbox.name]
        for output, described in zip(draft.outputs, done.outputs, strict=False):
            if output.target.path in located:
                preflight.learn(located[output.target.path], described.facts)

    def scope(
        self, entitlements: Entitlements, toolbox: Toolbox, principal: str, call_id: str, as_new: str = ""
    ) -> DraftScope:
        return DraftScope(
            call_id=as_new or call_id,
            workspaces=entitlements.workspaces,
            settings=entitlements.settings,
            limits=entitlements.limits,
            surface=entitlements.surface,
            verdict=lambda tool, draft: decide(case(draft, tool, principal), self.policy),
            preflight=entitlements.preflights[toolbox.name],
            remote=Numbered(lambda text: self.door.address(text, principal)),
            as_new=bool(as_new),
            principal=principal,
            door=self.door,
        )


class Drafts:
    """The threads in which drafts are made. For one event loop."""

    def __init__(self, at_once: int = AT_ONCE, of_one: int = OF_ONE, seconds: float = SECONDS) -> None:
        self.of_one = of_one
        self.seconds = seconds
        self._turns = anyio.Semaphore(at_once)
        # by principal, for as long as a caller waits here or a thread has not ended
        self._lines: WeakValueDictionary[str, anyio.Semaphore] = WeakValueDictionary()

    async def run(self, principal: str, work: Callable[[], T]) -> T:
        """What `work` returns. Raises what it raises, and ToolError: BUSY without a turn in time, TIMEOUT without an end."""
        line = self._lines.setdefault(principal, anyio.Semaphore(self.of_one))
        await self._turn(line)
        made: Future[T] = Future()
        ended = anyio.Event()
        loop = asyncio.get_running_loop()

        def over() -> None:
            self._turns.release()
            line.release()
            ended.set()

        def make() -> None:
            try:
                made.set_result(work())
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised where the draft is waited for
                made.set_exception(error)
            with suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(over)

        # not anyio's threads: the program would wait for them; nor threading's, for whose start the event loop would wait
        try:
            _thread.start_new_thread(copy_context().run, (make,))
        except RuntimeError:  # the system has no thread left
            over()
            raise
        with anyio.move_on_after(self.seconds):
            await ended.wait()
            return made.result()
        raise ToolError(
            Code.TIMEOUT,
            Stage.VALIDATE,
            f"to look at the files that the call names took longer than {self.seconds:g} s.",
            "Nothing was run. Name fewer files, or call again when their file system is less busy.",
        )

    async def _turn(self, line: anyio.Semaphore) -> None:
        """Waits for the principal's own turn first, so that this wait holds up nobody else."""
        with anyio.move_on_after(self.seconds):
            await line.acquire()
            try:
                return await self._turns.acquire()
            except anyio.get_cancelled_exc_class():
                line.release()
                raise
        raise ToolError(
            Code.BUSY,
            Stage.QUEUE,
            f"other calls, whose files are slow to look at, left no turn to look at yours within {self.seconds:g} s.",
            "Nothing was run. Call again when they have ended.",
            retry_after=self.seconds,
        )
