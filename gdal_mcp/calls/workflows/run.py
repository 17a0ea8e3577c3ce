"""Runs a workflow as one call whose output folder is filled by the workflow's steps, and publishes it like any output.

The call is checked, approved, recorded, published and undone as a whole. Its steps are calls too, each in a container of its own; they are
allowed by what allowed the whole, and their results stay outside the workspaces.

Invariants:
* no step starts before the start of the whole is recorded, and its approval used up;
* nothing of a workspace changes before every step has succeeded; then all outputs are published together, or none;
* a step whose result is not what was predicted, in a way that a person was shown, ends the workflow: it has to be approved again.
"""

import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio import from_thread

from gdal_mcp.approvals.model import Authorization, Nobody
from gdal_mcp.calls.drafting import Drafted, Drafting
from gdal_mcp.calls.invocation import Invocation, Reply, Request
from gdal_mcp.calls.operation import Operation
from gdal_mcp.calls.workflows.check import (
    Checked,
    CheckedStep,
    Checker,
    Publishing,
    State,
    digest_of,
    external,
    question_parts,
)
from gdal_mcp.calls.workflows.document import WorkflowInvalid, bind, load, parse
from gdal_mcp.calls.workflows.schedule import StepFailed, run_steps
from gdal_mcp.calls.workflows.steps import WorkflowStep, place_outputs, tool_of
from gdal_mcp.calls.workflows.store import RunFolder, StepResult, StepStore
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Command, Draft, Output
from gdal_mcp.records.provenance import Materials
from gdal_mcp.toolboxes.base import ImmediateResult
from gdal_mcp.toolboxes.preflight import Preflight
from gdal_mcp.untrusted import UNTRUSTED
from sandbox.errors import PathRefused, SandboxError
from sandbox.outputs.staging import Staging
from sandbox.waiting import Cancellation
from sandbox.workspace import Workspaces, open_file

if TYPE_CHECKING:
    from gdal_mcp.calls.pipeline import Pipeline

_MAX_DOCUMENT: Final = 256 << 10  # bytes
MANIFEST: Final = 1  # the version of the manifest


@dataclass
class Run:
    """What one run made so far; it is with the draft of its call."""

    checked: Checked
    fresh: bool
    manifest: Output | None = None
    run_id: str = field(default_factory=lambda: secrets.token_hex(8))
    results: dict[str, StepResult] = field(default_factory=dict)
    reused: set[str] = field(default_factory=set)
    held: ExitStack = field(default_factory=ExitStack)  # the run's folder


@dataclass(frozen=True, kw_only=True)
class WorkflowOperation(Operation):
    """What `workflow_check` and `workflow_run` share: the workflow, checked on what is known now."""

    checker: Checker
    reads_remote: bool = False

    def checked(self, call: Invocation) -> Checked:
        """Raises ToolError for a document that is not valid or outputs that cannot be published."""
        given = call.request.arguments
        try:
            document = _document(given["workflow"], call)
            workflow = bind(document, given.get("parameters") or {})
            return self.checker.check(call, workflow, fresh=bool(given.get("fresh")))
        except WorkflowInvalid as error:
            rows = [
                {"step": one.step, "argument": one.argument, "message": one.message} for one in error.problems
            ]
            raise ToolError(
                Code.INVALID_ARGUMENT,
                Stage.VALIDATE,
                "the workflow is not valid.",
                "Correct what `check` lists.",
                check={"code": "workflow_invalid", "problems": rows},
            ) from error

    def look_of(self, checked: Checked, call: Invocation, preflight: Preflight) -> Draft | None:
        """One job that describes all inputs of the workflow of which too little is known."""
        inputs, addresses = external(checked, call.entitlements)
        if addresses:  # each step has a name of its own for them
            return None
        return preflight.describing(checked.drafts, inputs)


@dataclass(frozen=True, kw_only=True)
class WorkflowCheck(WorkflowOperation):
    """`workflow_check`: what a workflow would do, step by step, without doing it."""

    def draft(self, call: Invocation, drafting: Drafting) -> Drafted | ImmediateResult:
        del drafting
        checked = self.checked(call)
        preflight = call.entitlements.preflights[call.toolbox.name]
        look = self.look_of(checked, call, preflight)
        if look is None:
            return ImmediateResult(_answer(checked))

        def present(answer: Any) -> Mapping[str, Any]:
            preflight.described(look.looked_at, answer.parsed)
            return _answer(self.checked(call))

        return Drafted(replace(look, present=present), preflight.check(look))

    def look(self, _call: Invocation, _preflight: Preflight) -> Draft | None:
        return None


@dataclass(frozen=True, kw_only=True)
class WorkflowRun(WorkflowOperation):
    """`workflow_run`."""

    pipeline: Callable[[], "Pipeline"]

    @property
    def store(self) -> StepStore:
        return self.checker.store

    def draft(self, call: Invocation, drafting: Drafting) -> Drafted:
        """Raises ToolError for a workflow with a wrong step."""
        del drafting
        checked = self.checked(call)
        if (wrong := checked.wrong) is not None:
            raise _wrong(wrong)
        inputs, addresses = external(checked, call.entitlements)
        run = Run(checked, bool(call.request.arguments.get("fresh")))
        outputs = tuple(one.output for one in checked.publishes)
        if not outputs:
            raise ToolError(
                Code.INVALID_ARGUMENT,
                Stage.VALIDATE,
                "the workflow publishes nothing.",
                "Name what it makes under `outputs`; for questions alone call the tools by themselves.",
            )
        if name := call.request.arguments.get("manifest"):
            run.manifest = self._manifest_output(name, outputs, call)
            outputs += (run.manifest,)
        words = (
            f"--workflow={checked.workflow.document.name}",
            f"--sha256={digest_of(checked.workflow.canonical)}",
        )
        draft = Draft(
            Command("identify", words),
            inputs,
            outputs,
            addresses=addresses,
            algorithm="workflow run",
            steps=tuple(
                dict.fromkeys(path for one in checked.drafts for path in (one.algorithm, *one.steps) if path)
            ),
            code="\n\n".join(one.code for one in checked.drafts if one.code),
            always_asked=any(one.always_asked for one in checked.drafts),
            parts=question_parts(checked),
            detail=run,
            present=lambda _answer: _steps_made(run),
        )
        return Drafted(draft, _Report(checked))

    def look(self, call: Invocation, preflight: Preflight) -> Draft | None:
        return self.look_of(_run_of(call).checked, call, preflight)

    def before(self, call: Invocation, cancel: Cancellation) -> None:
        """Runs the steps. Raises ToolError for the first that fails."""
        run = _run_of(call)
        try:
            user = self.checker.drafting.hosting.user()
            folder = run.held.enter_context(self.store.run(run.run_id, user))
            from_thread.run(self._steps, call, run, folder, cancel)
        except StepFailed as failure:
            raise _step_failed(failure, run) from failure
        except (OSError, SandboxError) as error:
            raise ToolError(
                Code.INTERNAL, Stage.RUN, f"the results of steps cannot be kept: {error}."
            ) from error

    async def _steps(self, call: Invocation, run: Run, folder: RunFolder, cancel: Cancellation) -> None:
        """Cancelled with its call. Raises StepFailed."""
        own_slot = anyio.Semaphore(1)
        done: list[Exception] = []

        async def one(step: str, results: Mapping[str, StepResult]) -> StepResult:
            return await self._step(call, run, folder, step, results, own_slot)

        async def work() -> None:
            try:
                run.results.update(await run_steps(run.checked.workflow.document, one))
            except StepFailed as failure:
                done.append(failure)
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(work)
            await anyio.wait_readable(cancel)  # set from another thread
            group.cancel_scope.cancel()
        if done:
            raise done[0]
        if len(run.results) < len(run.checked.steps):
            raise ToolError(Code.CANCELLED, Stage.RUN, "the workflow was cancelled; nothing was published.")

    async def _step(  # noqa: PLR0913, PLR0917 - one step of one run, after the steps before it
        self,
        call: Invocation,
        run: Run,
        folder: RunFolder,
        name: str,
        results: Mapping[str, StepResult],
        own_slot: anyio.Semaphore,
    ) -> StepResult:
        """Raises ToolError, WorkflowInvalid."""
        checked = run.checked.step(name)
        number = len(run.results) + len(results)
        call.report_progress(min(number / (len(run.checked.steps) + 1), 0.99), f"step {name}")
        if checked.result is not None:
            run.reused.add(name)
            run.results[name] = checked.result
            return checked.result
        outputs = {step: result.outputs for step, result in results.items()}
        given = place_outputs(run.checked.workflow.arguments(name, outputs), folder.step(name))
        tool, arguments = tool_of(checked.tool, given, call.entitlements.surface)
        request = Request(
            tool.name,
            arguments,
            call.request.who,
            f"workflow {run.checked.workflow.document.name}",
            Nobody(),
            operation=WorkflowStep(
                store=self.store.workspace,
                authorization=Authorization(
                    f"step {name} of call {call.call_id}", reads=call.authorization.reads
                ),
            ),
        )
        reply = await self._called(request, own_slot)
        if reply.error is not None:
            raise reply.error
        result = _result_of(checked, reply)
        _require_predicted(checked, result)
        if checked.key:
            files = (
                [file.located.path for file in reply.done.published.files]
                if reply.done and reply.done.published
                else []
            )
            self.store.put(result, [path for one in files for path in _all_files(one)])
        run.results[name] = result
        return result

    async def _called(self, request: Request, own_slot: anyio.Semaphore) -> Reply:
        """Makes the call of a step in the workflow's own slot, or in another where one is free for its caller."""
        nested = replace(request, operation=replace(request.operation, nested=True))
        try:
            own_slot.acquire_nowait()
        except anyio.WouldBlock:
            reply = await self.pipeline().call(request)
            if reply.error is None or reply.error.code not in (Code.BUSY, Code.RATE_LIMITED):
                return reply
            await own_slot.acquire()
        try:
            return await self.pipeline().call(nested)
        finally:
            own_slot.release()

    def copies(self, _draft: Draft) -> bool:
        return True

    def copy_in(
        self, call: Invocation, staging: Staging, seen: Callable[[Path], Path], go_on: Callable[[], object]
    ) -> None:
        """Copies what is published, under its new names, and the manifest."""
        del seen  # the store is seen by this process alone
        run, limits = _run_of(call), call.plan.limits
        places = Workspaces((self.store.workspace,))
        for one in run.checked.publishes:
            for path, name in _named(one, run.results[one.source.step], call):
                staging.copy_in(places.input(str(path)), name, limits, check_cancelled=go_on)
        if run.manifest is not None:
            path = self.store.folder / run.run_id / "manifest.json"
            path.write_text(json.dumps(manifest(run, call), indent=1), encoding="utf-8")
            staging.copy_in(places.input(str(path)), run.manifest.target.name, limits, check_cancelled=go_on)

    def ended(self, call: Invocation) -> None:
        if call.prepared is not None and isinstance(call.plan.draft.detail, Run):
            call.plan.draft.detail.held.close()

    def _manifest_output(self, name: str, outputs: Sequence[Output], call: Invocation) -> Output:
        scope = self.checker.drafting.scope(
            call.entitlements, call.toolbox, call.request.principal, call.call_id
        )
        made: Output = call.toolbox.context(scope).paths.output(name, inputs=(), overwrite=True, kind="file")
        taken = {one.target.name for one in outputs}
        if made.target.name in taken or any(made.target.workspace != one.target.workspace for one in outputs):
            raise ToolError(
                Code.INVALID_ARGUMENT,
                Stage.VALIDATE,
                "the manifest is published with the outputs.",
                "Give it a name of its own in the same workspace.",
            )
        return made


@dataclass(frozen=True)
class _Finding:
    row: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return dict(self.row)


@dataclass(frozen=True)
class _Report:
    """What is known of a workflow before it runs, as of any call."""

    checked: Checked
    facts: Mapping[str, Any] = field(default_factory=dict)
    untrusted: Mapping[str, Any] = field(default_factory=dict)

    @property
    def figures(self) -> None:
        return None

    @property
    def findings(self) -> tuple[_Finding, ...]:
        rows = []
        for step in self.checked.steps:
            rows += [_Finding({**one, "step": step.id}) for one in step.checks]
            rows += [
                _Finding(
                    {
                        "code": "not_checked",
                        "step": step.id,
                        "message": f"step {step.id!r} could not be checked: {text} {'are' if 'facts' in text else ''} not known.".replace(
                            "  ", " "
                        ),
                        "suggestion": "It is checked again when it runs.",
                    }
                )
                for text in step.unknown
            ]
        return tuple(rows)


def manifest(run: Run, call: Invocation) -> dict[str, Any]:
    """The record of a run for a file beside its outputs: what went in, what was done, what came out, by content."""
    workflow = run.checked.workflow
    return {
        "manifest": MANIFEST,
        "workflow": workflow.document.model_dump(mode="json", by_alias=True),
        "parameters": dict(workflow.values),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "call": call.call_id,
        "approval": call.authorization.text,
        "inputs": [
            {"path": str(one), "sha256": Materials.digest(one) if one.identity else None}
            for one in call.plan.draft.inputs
        ],
        "steps": [_manifest_step(step, run) for step in run.checked.steps],
        "outputs": [
            {
                "path": str(one.output.target),
                "step": one.source.step,
                "sha256": run.results[one.source.step].digests[one.source.number],
            }
            for one in run.checked.publishes
        ],
        "image": {
            "reference": call.host.image.reference,
            "digest": call.host.image.digest,
            "version": call.host.image.version,
        },
    }


def _manifest_step(step: CheckedStep, run: Run) -> dict[str, Any]:
    result = run.results[step.id]
    return {
        "id": step.id,
        "tool": step.tool,
        "command": list(step.draft.command.argv) if step.draft else [],
        "call": result.call,
        "key": step.key or None,
        "used_again": step.id in run.reused,
        "state": str(step.state),
        "checks": [dict(one) for one in step.checks],
        "outputs": [dict(one) for one in result.facts],
    }


def _steps_made(run: Run) -> dict[str, Any]:
    """What `workflow_run` says of the steps: the call of each, and whether its result was there already."""
    rows = [
        {
            "id": one.id,
            "call_id": run.results[one.id].call,
            **({"used_again": True} if one.id in run.reused else {}),
        }
        for one in run.checked.steps
    ]
    return {"steps": rows, UNTRUSTED: {}}


def _answer(checked: Checked) -> dict[str, Any]:
    """What `workflow_check` answers."""
    states = {one.state for one in checked.steps}
    worst = next(one for one in (State.WRONG, State.UNKNOWN, State.FINE) if one in states)
    return {
        "state": str(worst),
        "steps": [one.as_dict() for one in checked.steps],
        "publishes": [str(one.output.target) for one in checked.publishes],
        "replaces": [str(old) for one in checked.publishes for old in one.output.replaces],
    }


def _document(given: Any, call: Invocation) -> Any:
    """The document of a call: an object, its text, or the path of a file in a workspace. Raises WorkflowInvalid, ToolError."""
    if not isinstance(given, str):
        return parse(given)
    if "\n" in given or given.lstrip().startswith("{"):
        return load(given)
    try:
        located = call.entitlements.workspaces.input(given)
        with open_file(located) as file:
            return load(os.pread(file, _MAX_DOCUMENT + 1, 0))
    except (PathRefused, OSError) as error:
        fix = "Name a JSON or YAML file in a workspace, or give the document itself."
        raise ToolError(
            Code.NOT_FOUND, Stage.RESOLVE, f"the workflow cannot be read: {error}", fix
        ) from error


def _run_of(call: Invocation) -> Run:
    run = call.plan.draft.detail
    assert isinstance(run, Run)
    return run


def _wrong(step: CheckedStep) -> ToolError:
    assert step.error is not None
    check = {**(step.error.check or {}), "step": step.id}
    return _of_step(step.error, f"step {step.id!r}: {step.error.message}", step.error.suggestion, check)


def _step_failed(failure: StepFailed, run: Run) -> ToolError:
    cause = failure.cause
    if isinstance(cause, WorkflowInvalid):
        cause = ToolError(Code.INVALID_ARGUMENT, Stage.VALIDATE, str(cause), "Correct the workflow.")
    if not isinstance(cause, ToolError):
        raise cause
    kept = len(run.results)
    again = (
        f" The results of {kept} step{'s'[: kept != 1]} are kept: send the workflow again to go on from there."
        if kept
        else ""
    )
    check = {**(cause.check or {}), "step": failure.step}
    suggestion = f"{cause.suggestion}{again}".strip()
    return _of_step(cause, f"step {failure.step!r}: {cause.message}", suggestion, check)


def _of_step(error: ToolError, message: str, suggestion: str, check: Mapping[str, Any]) -> ToolError:
    """The same error, also of a kind that is made from other parts."""
    return ToolError(
        error.code, error.stage, message, suggestion, error.untrusted, error.retry_after, check=check
    )


def _result_of(step: CheckedStep, reply: Reply) -> StepResult:
    done = reply.done
    published = done.published if done is not None else None
    if done is None or published is None or step.draft is None:
        return StepResult(step.key, reply.call_id, (), ())
    digests = {str(file.located): file.sha256 for file in published.files}
    outputs = tuple(row["path"] for row in reply.result.get("outputs", ()))
    return StepResult(
        step.key,
        reply.call_id,
        outputs,
        tuple(digests.get(path, "") for path in outputs),
        tuple(dict(one.facts) for one in done.outputs),
    )


def _require_predicted(step: CheckedStep, result: StepResult) -> None:
    """Raises ToolError if a step made something else than a person was shown."""
    made = (result.facts[0].get("crs") or {}).get("code") if result.facts else None
    if step.crs and made and made != step.crs:
        raise ToolError(
            Code.APPROVAL_EXPIRED,
            Stage.APPROVAL,
            f"its result is in {made}; {step.crs} was predicted.",
            "Send the workflow again: the question then shows what this step made.",
            check={"code": "not_as_predicted", "predicted": step.crs, "made": made},
        )


def _named(one: Publishing, result: StepResult, call: Invocation) -> list[tuple[Path, str]]:
    """The files of an output of a step, each with its name in the workspace."""
    source, target = Path(result.outputs[one.source.number]), PurePosixPath(one.output.target.name)
    belongs = call.toolbox.belongs
    rows = []
    for path in sorted(source.parent.iterdir()):
        if path == source:
            rows.append((path, target.name))
        elif belongs(path.name, source.name) and path.name.startswith(source.stem):
            whole = path.name.startswith(source.name)
            old, new = (source.name, target.name) if whole else (source.stem, target.stem)
            rows.append((path, new + path.name.removeprefix(old)))
    return rows


def _all_files(path: Path) -> list[Path]:
    return sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
