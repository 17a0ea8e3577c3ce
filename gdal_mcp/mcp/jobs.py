"""Calls that may outlive their requests: each runs in the server's own task group, and a long one becomes a task.

Invariants:
* a call ends once: as the reply of its request, or as its task;
* a request that is cancelled takes its call along, until the task is the reply;
* a task is on disk before its reply goes out, and nothing is pending once its end is on disk;
* what a call that writes asks is answered by nobody who may not write, whoever's credential it is;
* what a task asks for is asked under a key that this task never used before.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
import mcp_types as t
import structlog
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter

from gdal_mcp.access.identity import WRITE
from gdal_mcp.ledger.schema import RegistryUnavailable
from gdal_mcp.ledger.tasks import Status, Task, TaskStore
from gdal_mcp.mcp.progress import RUNNING, Tell

_log = structlog.get_logger()

_WAITING: Final = "waiting for an answer"

Answer = t.CallToolResult | t.InputRequiredResult
Work = Callable[[t.CallToolRequestParams, Tell], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Rules:
    """When a call becomes a task, and how long its questions stay open, in seconds."""

    after: float = 3.0
    answer_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Asked:
    """Open questions: by the key that the client sees, the key of the work's own and the question."""

    keys: Mapping[str, str]
    questions: Mapping[str, t.InputRequest]
    state: str | None


@dataclass(eq=False)
class Job:
    """One call that may outlive its request. `work` is done again from its start with the answers to what it asks."""

    principal: str
    params: t.CallToolRequestParams
    work: Work
    told: Tell  # to the request that is still open
    # whether its tool can write, so that answers to what it asks need the scope for that
    writes: bool = False
    task: Task | None = None
    asked: Asked | None = None
    result: Answer | MCPError | None = None  # None of one that was cancelled
    why: str = ""  # it was cancelled
    report: tuple[str, float] = (RUNNING, 0.0)  # the newest words, and since when
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    answered: anyio.Event = field(default_factory=anyio.Event)
    answers: dict[str, t.InputResponse] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)  # keys of questions, of all rounds

    def tell(self, fraction: float, message: str) -> None:
        """From any thread."""
        self.report = (f"{message} ({fraction:.0%})", time.time())
        self.told(fraction, message)

    def cancel(self, why: str) -> None:
        self.why = self.why or why
        self.scope.cancel()

    def ask(self, question: t.InputRequiredResult) -> None:
        requests = question.input_requests or {}
        keys = {self._fresh(key): key for key in requests}
        self.used |= keys.keys()
        self.asked = Asked(
            keys, {shown: requests[key] for shown, key in keys.items()}, question.request_state
        )
        self.answers, self.answered = {}, anyio.Event()
        self.report = (_WAITING, time.time())

    def _fresh(self, key: str) -> str:
        return key if key not in self.used else f"{key}-{len(self.used)}"

    def answer(self, responses: Mapping[str, Any]) -> None:
        """Takes answers to open questions. Raises ValidationError for one that is none."""
        if self.asked is None:
            return
        open_ones = self.asked.questions.keys() - self.answers.keys()
        self.answers |= {
            key: _response().validate_python(responses[key], by_name=False)
            for key in open_ones & responses.keys()
        }
        if self.answers.keys() == self.asked.questions.keys():
            self.answered.set()

    def repeated(self) -> t.CallToolRequestParams:
        """The call with the answers, as a client sends it again."""
        assert self.asked is not None
        responses = {self.asked.keys[key]: value for key, value in self.answers.items()}
        self.params = self.params.model_copy(
            update={"input_responses": responses, "request_state": self.asked.state}
        )
        self.asked = None
        return self.params

    def now(self) -> Task:
        """The task as it is at this moment."""
        assert self.task is not None
        if self.task.ended:
            return self.task
        words, since = self.report
        task = replace(self.task, message=words, updated=max(self.task.updated, since))
        if self.asked is None:
            return task
        left = {
            key: question.model_dump(by_alias=True, mode="json", exclude_none=True)
            for key, question in self.asked.questions.items()
            if key not in self.answers
        }
        return replace(task, status="input_required", payload=left)


class Jobs:
    """The calls of this process that may become tasks, and those that are."""

    def __init__(self, group: anyio.abc.TaskGroup, store: TaskStore, rules: Rules, pending: set[str]) -> None:
        """`pending` names what must be recorded before the process may end."""
        self._group, self._store, self._rules, self._pending = group, store, rules, pending
        self._live: dict[str, Job] = {}

    async def call(self, job: Job) -> Answer | Task:
        """The call's own answer, or a task in its place. Raises MCPError as the work does."""
        self._group.start_soon(self._run, job)
        try:
            with anyio.move_on_after(self._rules.after):
                await job.ended.wait()
            if not job.ended.is_set() and (task := await self._hand_over(job)) is not None:
                return task
            await job.ended.wait()
        except anyio.get_cancelled_exc_class():
            job.cancel("the client cancelled the call")
            with anyio.CancelScope(shield=True):
                await job.ended.wait()
            raise
        if job.result is None:
            raise MCPError(t.INTERNAL_ERROR, "The server is ending.")
        if isinstance(job.result, MCPError):
            raise job.result
        return job.result

    async def _hand_over(self, job: Job) -> Task | None:
        """Makes the task of a running job. None when there can be none now, or need be none any more."""
        with anyio.CancelScope(shield=True):  # a row that is made is told of, or dropped, or ends
            task = await self._created(job)
            if task is None:
                return None
            if job.ended.is_set():
                await anyio.to_thread.run_sync(self._store.drop, task)
                return None
            job.task = task
            self._live[task.id] = job
        await anyio.lowlevel.checkpoint_if_cancelled()  # from here on the reply goes out
        return job.now()

    async def _created(self, job: Job) -> Task | None:
        try:
            return await anyio.to_thread.run_sync(self._store.create, job.principal, job.params.name[:100])
        except RegistryUnavailable:
            _log.exception("no_task")
            return None

    async def _run(self, job: Job) -> None:
        mark = f"task-{id(job):x}"
        self._pending.add(mark)
        try:
            with job.scope:
                job.result = await self._rounds(job)
            if job.task is not None:
                with anyio.CancelScope(shield=True):
                    await self._record(job, job.task)
        finally:
            job.ended.set()
            self._pending.discard(mark)

    async def _rounds(self, job: Job) -> Answer | MCPError | None:
        """Works until there is something other than a question, or a request that takes the question."""
        params = job.params
        while True:
            try:
                result = await job.work(params, job.tell)
            except MCPError as error:
                return error
            except Exception:  # noqa: BLE001 - the outermost handler of what outlives its request; its text may hold data
                _log.exception("task_failed", tool=job.params.name[:100])
                return MCPError(t.INTERNAL_ERROR, "Internal error")
            if isinstance(result, t.CallToolResult) or job.task is None:
                return result
            job.ask(result)
            with anyio.move_on_after(self._rules.answer_seconds) as waiting:
                await job.answered.wait()
            if waiting.cancelled_caught:
                job.why = "nobody answered in time"
                return None
            params = job.repeated()

    async def _record(self, job: Job, task: Task) -> None:
        """The end on disk. While it cannot be written it is kept here, for as long as this server lives."""
        status, message, payload = _ending(job)
        try:
            job.task = await anyio.to_thread.run_sync(self._store.end, task, status, message, payload)
        except RegistryUnavailable:
            _log.exception("task_not_recorded", task=task.id)
            job.task = replace(task, status=status, message=message, payload=payload, updated=time.time())
        else:
            del self._live[task.id]

    async def get(self, task_id: str, principal: str) -> Task:
        """The task as it is. Raises MCPError for one that is not this principal's, or not kept."""
        job = self._live.get(task_id)
        if job is not None and job.principal == principal:
            return job.now()
        found = await anyio.to_thread.run_sync(self._store.get, task_id, principal)
        if found is None:
            raise MCPError(
                t.INVALID_PARAMS, "There is no such task. It may have been kept for its time and dropped."
            )
        return found

    async def update(
        self, task_id: str, principal: str, responses: Mapping[str, Any], *, may_write: bool = False
    ) -> None:
        """Raises MCPError as `get` does and for one who may not write what is asked about, ValidationError for an answer
        that is none.
        """
        await self.get(task_id, principal)
        if (job := self._live.get(task_id)) is not None:
            if job.writes and not may_write:
                raise MCPError(
                    t.INVALID_REQUEST, f"This answers a call that writes, which needs the scope {WRITE}."
                )
            job.answer(responses)

    async def cancel(self, task_id: str, principal: str) -> None:
        """Stops a running task; one that has ended, or that another server runs, is left as it is."""
        await self.get(task_id, principal)
        if (job := self._live.get(task_id)) is not None:
            job.cancel("the client cancelled the task")


@lru_cache(maxsize=1)
def _response() -> TypeAdapter[t.InputResponse]:
    """Made when the first answer comes: it takes time that a start has not."""
    return TypeAdapter(t.InputResponse)


def _ending(job: Job) -> tuple[Status, str, Mapping[str, Any] | None]:
    match job.result:
        case t.CallToolResult() as result:
            payload = result.model_dump(by_alias=True, mode="json", exclude_none=True)
            return "completed", "ended with an error" if result.is_error else "done", payload
        case MCPError() as failure:
            error = failure.error.model_dump(by_alias=True, mode="json", exclude_none=True)
            return "failed", failure.error.message, error
        case _:
            return "cancelled", job.why or "cancelled", None


@asynccontextmanager
async def running(
    _server: Server[Any], store: TaskStore, rules: Rules, pending: set[str]
) -> AsyncIterator[Jobs]:
    """The lifespan of a server with tasks: at its end those that still run are cancelled, and waited for.

    What they leave in the store is judged by whoever looks next: a task of a server that is gone has failed.
    """
    try:
        async with anyio.create_task_group() as group:
            yield Jobs(group, store, rules, pending)
            group.cancel_scope.cancel()
    finally:
        store.close()
