"""The life of one call, top to bottom: look up, validate, resolve, plan, policy, approval, audit, run, publish, audit.

No step calls an earlier one; a failure at any step goes to the closing audit record. While a person decides, no container,
lock or staging is held.
"""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import structlog
from pydantic import ValidationError

from gdal_mcp.admission import Admission
from gdal_mcp.approval.model import Approver, Question, Suspended, question_text
from gdal_mcp.catalogue.errors import ArgumentRefused
from gdal_mcp.environment import gdal_threads
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.execution import Done, Execution
from gdal_mcp.foreseeing import Foresight
from gdal_mcp.foresight.advice import Advice
from gdal_mcp.hosting import Host, Hosting
from gdal_mcp.longresults import ResultStore, presented
from gdal_mcp.paths import Paths
from gdal_mcp.plan import Draft, Plan
from gdal_mcp.policy import Allow, RequireApproval, decide
from gdal_mcp.records import Records
from gdal_mcp.registry import Registry, RegistryUnavailable
from gdal_mcp.results import Ran, structured
from gdal_mcp.settings import Settings
from gdal_mcp.surface import Surface
from gdal_mcp.tools.model import Desk, Told, Tool
from gdal_mcp.translation import explain
from sandbox.cancel import Cancellation
from sandbox.errors import SandboxError
from sandbox.outcome import Usage
from sandbox.workspace import Workspaces

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Request:
    """One call as it came in. `on_progress` is called from another thread, or from the event loop's while the call waits."""

    tool: str
    arguments: Mapping[str, Any]
    principal: str
    client: str
    approver: Approver
    on_progress: Callable[[float, str], None] = lambda _fraction, _message: None


@dataclass(slots=True)
class Ticket:
    """What is known of a call so far, for its records."""

    request: Request
    call_id: str = field(default_factory=lambda: secrets.token_hex(8))
    plan: Plan | None = None
    host: Host | None = None
    approval: str = ""
    begun: float = field(default_factory=time.monotonic)
    seconds: dict[str, float] = field(default_factory=dict)
    ended: Done | ToolError | None = None
    usage: Usage | None = None  # of its container, however the call ended
    advice: tuple[Advice, ...] = ()

    def lap(self, name: str, since: float) -> None:
        self.seconds[name] = round(time.monotonic() - since, 6)


@dataclass(frozen=True, slots=True)
class Reply:
    """A call's result: the tool's own keys with the receipt, what was published, and a preview."""

    call_id: str
    result: Mapping[str, Any]
    done: Done | None = None
    error: ToolError | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Runs calls; every part is made by the composition root."""

    settings: Settings
    workspaces: Workspaces
    hosting: Hosting
    execution: Execution
    registry: Registry
    records: Records
    results: ResultStore
    surface: Surface
    foresight: Foresight
    admission: Admission
    threads: anyio.CapacityLimiter  # for calls that run, as many as are admitted
    active: set[str] = field(default_factory=set)  # calls whose last record is not written yet

    async def call(self, request: Request) -> Reply:
        """The outcome of one call, whatever it is. Raises Suspended when the client must repeat it with an answer."""
        ticket = Ticket(request)
        self.active.add(ticket.call_id)
        try:
            reply = await self._recorded(ticket)
            return replace(reply, result=await self._presented(reply))
        finally:
            self.active.discard(ticket.call_id)

    async def _presented(self, reply: Reply) -> Mapping[str, Any]:
        """What of a result a client gets: no text of files in lockdown, and a long one cut with a link to the whole."""
        work = partial(presented, reply.result, reply.call_id, self.settings, self.results)
        return await anyio.to_thread.run_sync(work)

    async def _recorded(self, ticket: Ticket) -> Reply:
        try:
            reply = await self._call(ticket)
        except ToolError as error:
            reply = Reply(ticket.call_id, error.as_dict(ticket.call_id), error=error)
        except anyio.get_cancelled_exc_class():
            await self._close_cancelled(ticket)
            raise
        except Suspended:
            self.records.suspended(ticket)
            raise
        except Exception:  # noqa: BLE001 - the outermost handler: a fault of ours is told without its text, which may hold data
            _log.exception("call_failed", call=ticket.call_id, tool=ticket.request.tool)
            reply = _failed(ticket.call_id)
        return await self._close(ticket, reply.done, reply.error) or reply

    async def _call(self, ticket: Ticket) -> Reply:
        tool = self._look_up(ticket.request.tool)
        begun = time.monotonic()
        draft = await anyio.to_thread.run_sync(partial(self._draft, ticket, tool))
        if isinstance(draft, Told):
            await anyio.to_thread.run_sync(partial(self.records.answered, ticket))
            return Reply(ticket.call_id, draft.result)
        plan, host = await anyio.to_thread.run_sync(partial(self._plan, ticket, tool, draft))
        ticket.plan, ticket.host = plan, host
        ticket.lap("plan", begun)
        begun = time.monotonic()
        verdict = decide(plan.draft, self.settings.approval)
        if isinstance(verdict, Allow):
            ticket.approval = f"allowed: {verdict.reason}"
        else:
            await self._approve(ticket, plan, verdict)
            plan, host = await self._unchanged(ticket, tool, plan)
        ticket.lap("approval", begun)
        self.admission.resize(host.concurrent)
        begun = time.monotonic()
        async with self.admission.place(ticket.request.principal, partial(_tell_waiting, ticket.request)):
            ticket.lap("queue", begun)
            if not ticket.approval:  # used up only now: a call that found no place may be sent again
                ticket.approval = self._used(plan)
            done = await self._run(ticket, plan, host)
        self._learn(plan.draft, done)
        receipt = self.records.receipt(ticket, done)
        served, tools = self.surface.algorithms, self.surface.callable
        ran = Ran(tool, plan, done, receipt, ticket.advice, served, tools)
        return Reply(ticket.call_id, structured(ran), done)

    def _learn(self, draft: Draft, done: Done) -> None:
        """What was written is known from its description, so that a call on it can be foreseen without a container."""
        located = {file.located.path: file.located for file in done.published.files} if done.published else {}
        for output, described in zip(draft.outputs, done.outputs, strict=False):
            if output.target.path in located:
                self.foresight.learn(located[output.target.path], described.facts)

    def _plan(self, ticket: Ticket, tool: Tool, draft: Draft) -> tuple[Plan, Host]:
        """Deterministic for a given state, so that a call that is sent again reaches the same digest."""
        try:
            host = self.hosting.ready()
        except SandboxError as error:
            raise explain(error, Stage.RUN) from error
        template = self.hosting.template(host.image, None)
        plan = Plan(
            call_id=ticket.call_id,
            tool=tool.name,
            principal=ticket.request.principal,
            draft=draft,
            limits=template.limits,
            image_id=template.image,
            runtime=template.runtime,
            mounts=tuple(f"{mount.target}:{'ro' if mount.read_only else 'rw'}" for mount in template.mounts),
            arguments=ticket.request.arguments,
        )
        return plan, host

    async def _unchanged(self, ticket: Ticket, tool: Tool, asked: Plan) -> tuple[Plan, Host]:
        """The plan made anew: files may have changed while a person was reading. Raises ToolError if it differs."""
        draft = await anyio.to_thread.run_sync(partial(self._draft, ticket, tool))
        assert isinstance(draft, Draft)
        plan, host = await anyio.to_thread.run_sync(partial(self._plan, ticket, tool, draft))
        if plan.digest != asked.digest:
            raise _expired("what would run changed while the question was open.")
        ticket.plan, ticket.host = plan, host
        return plan, host

    def _draft(self, ticket: Ticket, tool: Tool) -> Draft | Told:
        """What the tool makes of the arguments; a draft that writes is refused on a server that only reads."""
        try:
            draft = tool.draft(ticket.request.arguments, self._desk(ticket))
        except ValidationError as error:
            raise _invalid(error) from error
        except ArgumentRefused as error:
            raise ToolError(error.code, Stage.VALIDATE, error.message, error.suggestion) from error
        if isinstance(draft, Told):
            return draft
        if draft.writes and self.settings.read_only:
            raise _reads_only()
        draft = draft if draft.algorithm else replace(draft, algorithm=tool.like)
        ticket.advice = self.foresight.check(draft)
        return draft

    def _desk(self, ticket: Ticket) -> Desk:
        threads = gdal_threads(self.settings.limits())
        paths = Paths(self.workspaces, self.settings.outputs_folder, ticket.call_id, threads)
        return Desk(paths, self.settings, self.surface, self.foresight)

    def _look_up(self, name: str) -> Tool:
        tool = self.surface.callable.get(name)
        if tool is None:
            raise ToolError(
                Code.NOT_FOUND,
                Stage.LOOKUP,
                "there is no such tool.",
                f"The tools are: {', '.join(one.name for one in self.surface.listed[:40])}.",
            )
        return tool

    async def _approve(self, ticket: Ticket, plan: Plan, verdict: RequireApproval) -> None:
        """Returns when a person said yes. Raises ToolError when not, Suspended when the answer is still to come."""
        try:
            await self._ask(ticket.request.approver, plan, verdict.reason)
        except RegistryUnavailable as error:
            raise _unapprovable(error) from error

    async def _ask(self, approver: Approver, plan: Plan, reason: str) -> None:
        given = approver.answered()
        if given is None:
            text = question_text(plan, reason)
            row = self.registry.request(
                plan.digest, plan.principal, plan.tool, text, self.settings.approval_seconds
            )
            decision = None
            with anyio.move_on_after(self.settings.approval_seconds) as waiting:
                decision = await approver.ask(Question(row.id, plan.digest, text))
            if waiting.cancelled_caught:
                raise _expired("nobody answered in time.")
            if decision is None:
                raise _nobody_to_ask()
            given = (row.id, decision)
        approval_id, decision = given
        asked = self.registry.approval(approval_id)
        if asked is None or (asked.plan_digest, asked.principal) != (plan.digest, plan.principal):
            raise _expired("the answer is to another question than this call asks now.")
        self.registry.decide(approval_id, approved=decision.approved, by=decision.by, how=decision.how)
        if not decision.approved:
            raise ToolError(
                Code.DENIED,
                Stage.APPROVAL,
                f"{decision.by} said no.",
                "Do not repeat the call unless the person asks for it.",
            )

    def _used(self, plan: Plan) -> str:
        """Uses the one yes for this plan up, and says whose it was. Raises ToolError when there is none."""
        try:
            used = self.registry.consume(plan.digest, plan.principal)
        except RegistryUnavailable as error:
            raise _unapprovable(error) from error
        if used is None:
            raise _expired("the yes was for something else, was used already, or came too late.")
        return f"approved by {used.decided_by} ({used.decided_how})"

    async def _run(self, ticket: Ticket, plan: Plan, host: Host) -> Done:
        """Runs in a thread; a cancellation of this task stops the container and waits until it is gone."""
        cancel = Cancellation()

        async def pass_on_cancellation() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                cancel.set()

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(pass_on_cancellation)
                with anyio.CancelScope(shield=True):
                    work = partial(self._recorded_run, ticket, plan, host, cancel)
                    ticket.ended = await anyio.to_thread.run_sync(work, limiter=self.threads)
                group.cancel_scope.cancel()
        finally:
            cancel.close()
        if isinstance(ticket.ended, Done):
            return ticket.ended
        assert ticket.ended is not None
        raise ticket.ended

    def _recorded_run(self, ticket: Ticket, plan: Plan, host: Host, cancel: Cancellation) -> Done | ToolError:
        """No record, no run."""
        begun = time.monotonic()
        try:
            self.records.started(ticket)
        except ToolError as error:
            return error
        ticket.lap("audit", begun)
        return self.execution.run(plan, host, ticket.request.on_progress, ticket, cancel)

    async def _close_cancelled(self, ticket: Ticket) -> None:
        """What was published before the cancellation came is published, and recorded so."""
        if isinstance(ticket.ended, Done):
            await self._close(ticket, ticket.ended, None)
        else:
            await self._close(
                ticket, None, ToolError(Code.CANCELLED, Stage.RUN, "the client cancelled the call.")
            )

    async def _close(self, ticket: Ticket, done: Done | None, error: ToolError | None) -> Reply | None:
        """The last record of a call, written even if it is cancelled; a reply only when it could not be written."""
        with anyio.CancelScope(shield=True):
            failure = await anyio.to_thread.run_sync(partial(self.records.finished, ticket, done, error))
        if failure is None or error is not None:
            return None
        return Reply(ticket.call_id, failure.as_dict(ticket.call_id), error=failure)


def _tell_waiting(request: Request) -> None:
    request.on_progress(0.0, "waiting for a free place")


def _failed(call_id: str) -> Reply:
    error = ToolError(
        Code.INTERNAL, Stage.RUN, "the server failed.", f"The server's log names call {call_id}."
    )
    return Reply(call_id, error.as_dict(call_id), error=error)


def _unapprovable(error: RegistryUnavailable) -> ToolError:
    return ToolError(
        Code.INTERNAL,
        Stage.APPROVAL,
        str(error),
        "Approvals cannot be kept, so nothing that needs one runs.",
    )


def _reads_only() -> ToolError:
    return ToolError(
        Code.DENIED,
        Stage.POLICY,
        "this server only reads, and the call would write.",
        "Ask the person who runs the server; it was started with --read-only.",
    )


def _invalid(error: ValidationError) -> ToolError:
    rows = [
        f"{'.'.join(str(part) for part in row['loc']) or 'arguments'}: {row['msg']}"
        for row in error.errors(include_url=False)[:5]
    ]
    return ToolError(
        Code.INVALID_ARGUMENT,
        Stage.VALIDATE,
        "the arguments do not fit the tool's input schema.",
        "Correct the named arguments and call again.",
        {"problems": [row[:300] for row in rows]},
    )


def _expired(message: str) -> ToolError:
    suggestion = "Call again: what would run now is put to a person again."
    return ToolError(Code.APPROVAL_EXPIRED, Stage.APPROVAL, message, suggestion)


def _nobody_to_ask() -> ToolError:
    return ToolError(
        Code.DENIED,
        Stage.APPROVAL,
        "the call writes and needs a person's yes, but this client cannot ask one (it has no elicitation).",
        "Use a client with elicitation, or run `gdal-mcp call` in a terminal.",
    )
