"""Calls that may outlive their requests: each runs in the server's task group, and a long one becomes a task.

Invariants:
* a call ends once: as the reply to its request, or as its task;
* cancelling a request cancels its call, unless the task has become the reply;
* a task is on disk before its reply is sent, and its call counts as pending until its end is on disk;
* only a credential with the scope to write answers the questions of a call that writes;
* each question of a task has a key that the task has not used before.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
import mcp_types as t
import structlog
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter

from gdal_mcp.policy.identity import WRITE
from gdal_mcp.records.schema import RegistryUnavailable
from gdal_mcp.records.tasks import Status, Task, TaskStore
from gdal_mcp.server.mcp.progress import RUNNING, Tell

_log = structlog.get_logger()

Answer = t.CallToolResult | t.InputRequiredResult
Work = Callable[[t.CallToolRequestParams, Tell], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Rules:
    """The time after which a call becomes a task, and the time for which its questions stay open, in seconds."""

    after: float
    answer_seconds: float


@dataclass(eq=False)
class TaskJob:
    """One call that may outlive its request.

    If `work` asks a question, it is run again from its start with the answers.
    """

    principal: str
    params: t.CallToolRequestParams
    work: Work
    send_progress: Tell  # reports progress to the open request
    # True if its tool can write, so that answers to its questions need the scope to write
    writes: bool = False
    task: Task | None = None
    question: t.InputRequiredResult | None = None  # the open question
    # of the open questions: the key for the client -> the key in `work`
    keys: dict[str, str] = field(default_factory=dict)
    result: Answer | MCPError | None = None  # None if it was cancelled
    why: str = ""  # why it was cancelled
    report: tuple[str, float] = (RUNNING, 0.0)  # the newest progress message, and its time
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    answered: anyio.Event = field(default_factory=anyio.Event)
    answers: dict[str, t.InputResponse] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)  # keys of all questions until now

    def tell(self, fraction: float, message: str) -> None:
        """Reports progress. May be called from any thread."""
        self.report = (f"{message} ({fraction:.0%})", time.time())
        self.send_progress(fraction, message)

    def cancel(self, why: str) -> None:
        self.why = self.why or why
        self.scope.cancel()

    def ask(self, question: t.InputRequiredResult) -> None:
        requests = question.input_requests or {}
        keys = {key if key not in self.used else f"{key}-{len(self.used)}": key for key in requests}
        self.used |= keys.keys()
        self.question, self.keys, self.answers, self.answered = question, keys, {}, anyio.Event()
        self.report = ("waiting for an answer", time.time())

    def answer(self, responses: Mapping[str, Any]) -> None:
        """Takes answers to open questions. Raises ValidationError for a malformed one."""
        if self.question is None:
            return
        keys = (self.keys.keys() - self.answers.keys()) & responses.keys()
        self.answers |= {key: _response().validate_python(responses[key], by_name=False) for key in keys}
        if self.answers.keys() == self.keys.keys():
            self.answered.set()

    def repeated(self) -> t.CallToolRequestParams:
        """The call with the answers, as a client would repeat it."""
        assert self.question is not None
        responses = {self.keys[key]: value for key, value in self.answers.items()}
        update = {"input_responses": responses, "request_state": self.question.request_state}
        self.params = self.params.model_copy(update=update)
        self.question = None
        return self.params

    def now(self) -> Task:
        assert self.task is not None
        if self.task.ended:
            return self.task
        words, since = self.report
        task = replace(self.task, message=words, updated=max(self.task.updated, since))
        if self.question is None:
            return task
        wire = self.question.model_dump(by_alias=True, mode="json", exclude_none=True)["inputRequests"]
        left = {key: wire[own] for key, own in self.keys.items() if key not in self.answers}
        return replace(task, status="input_required", payload=left)


@dataclass(eq=False)
class Jobs:
    """The calls of this process that may become tasks, and those that have become tasks."""

    _group: anyio.abc.TaskGroup
    _store: TaskStore
    _rules: Rules
    _pending: set[str]  # a mark for each call that must be recorded before the process ends
    _live: dict[str, TaskJob] = field(default_factory=dict)

    async def call(self, job: TaskJob) -> Answer | Task:
        """The answer of the call, or a task in its place. Raises MCPError."""
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
            raise MCPError(t.INTERNAL_ERROR, "The server is shutting down.")
        if isinstance(job.result, MCPError):
            raise job.result
        return job.result

    async def _hand_over(self, job: TaskJob) -> Task | None:
        """Makes the task of a running job. None if it cannot be made, or the job has already ended."""
        # a task that was stored must become the reply, or be removed or ended
        with anyio.CancelScope(shield=True):
            try:
                task = await anyio.to_thread.run_sync(
                    self._store.create, job.principal, job.params.name[:100]
                )
            except RegistryUnavailable:
                _log.exception("no_task")
                return None
            if task is None:
                return None
            if job.ended.is_set():
                await anyio.to_thread.run_sync(self._store.drop, task)
                return None
            job.task = task
            self._live[task.id] = job
        await anyio.lowlevel.checkpoint_if_cancelled()  # from here on, the task is the reply
        return job.now()

    async def _run(self, job: TaskJob) -> None:
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

    async def _rounds(self, job: TaskJob) -> Answer | MCPError | None:
        """Runs the work until there is a result, an error, or a question that the open request can carry.

        None if a question was not answered in time.
        """
        params = job.params
        while True:
            try:
                result = await job.work(params, job.tell)
            except MCPError as error:
                return error
            except Exception:  # noqa: BLE001 - the outermost handler of a job; the error's text may hold data
                _log.exception("task_failed", tool=job.params.name[:100])
                return MCPError(t.INTERNAL_ERROR, "Internal error")
            if isinstance(result, t.CallToolResult) or job.task is None:
                return result
            job.ask(result)
            with anyio.move_on_after(self._rules.answer_seconds) as waiting:
                await job.answered.wait()
            if waiting.cancelled_caught:
                job.why = "no answer in time"
                return None
            params = job.repeated()

    async def _record(self, job: TaskJob, task: Task) -> None:
        """Writes the end of a task to disk. If that fails, keeps it in memory until this server ends."""
        status: Status = "cancelled"
        message, payload = job.why or "cancelled", None
        if isinstance(job.result, MCPError):
            error = job.result.error
            status, message = "failed", error.message
            payload = error.model_dump(by_alias=True, mode="json", exclude_none=True)
        elif isinstance(job.result, t.CallToolResult):
            status, message = "completed", "ended with an error" if job.result.is_error else "done"
            payload = job.result.model_dump(by_alias=True, mode="json", exclude_none=True)
        try:
            job.task = await anyio.to_thread.run_sync(self._store.end, task, status, message, payload)
        except RegistryUnavailable:
            _log.exception("task_not_recorded", task=task.id)
            job.task = replace(task, status=status, message=message, payload=payload, updated=time.time())
        else:
            del self._live[task.id]

    async def get(self, task_id: str, principal: str) -> Task:
        """A task. Raises MCPError for a task of another principal, or one that was removed."""
        job = self._live.get(task_id)
        if job is not None and job.principal == principal:
            return job.now()
        task = await anyio.to_thread.run_sync(self._store.get, task_id, principal)
        if task is None:
            raise MCPError(t.INVALID_PARAMS, "There is no such task. Its record may have expired.")
        return task

    async def update(
        self, task_id: str, principal: str, responses: Mapping[str, Any], *, may_write: bool = False
    ) -> None:
        """Passes answers on to a task.

        Raises the errors of `get`, MCPError if the scope to write is missing, and ValidationError for a malformed
        answer.
        """
        await self.get(task_id, principal)
        if (job := self._live.get(task_id)) is not None:
            if job.writes and not may_write:
                raise MCPError(
                    t.INVALID_REQUEST, f"This answers a call that writes, which needs the scope {WRITE}."
                )
            job.answer(responses)

    async def cancel(self, task_id: str, principal: str) -> None:
        """Stops a running task. Has no effect on a task that has ended, or that another server runs."""
        await self.get(task_id, principal)
        if (job := self._live.get(task_id)) is not None:
            job.cancel("the client cancelled the task")


@lru_cache(maxsize=1)
def _response() -> TypeAdapter[t.InputResponse]:
    """The adapter that validates answers. It is made with the first answer, because it would slow down every start."""
    return TypeAdapter(t.InputResponse)


@asynccontextmanager
async def running(
    _server: Server[Any], store: TaskStore, rules: Rules, pending: set[str]
) -> AsyncIterator[Jobs]:
    """The lifespan of a server with tasks. At its end, running tasks are cancelled and waited for.

    The unfinished task of a dead server is reported as failed to its next reader.
    """
    try:
        async with anyio.create_task_group() as group:
            yield Jobs(group, store, rules, pending)
            group.cancel_scope.cancel()
    finally:
        store.close()
