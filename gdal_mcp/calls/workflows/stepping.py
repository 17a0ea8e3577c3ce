"""Runs the steps of a workflow as calls: each in its own container, under the approval of the workflow.

Invariants:
* the cancellation of the whole cancels every step that runs, and no further step starts;
* a step whose result differs from the prediction, in a way that the approval question showed, ends the workflow;
* a step that may have read another content of a file than was approved ends the workflow, and its result is not used again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio.to_thread import run_sync

from gdal_mcp.approvals.model import Authorization, NullApprover
from gdal_mcp.calls.invocation import Invocation, Reply, Request
from gdal_mcp.calls.workflows.check import Checker
from gdal_mcp.calls.workflows.checked import CheckedStep
from gdal_mcp.calls.workflows.manifest import Run
from gdal_mcp.calls.workflows.report import prediction_error
from gdal_mcp.calls.workflows.schedule import StepFailed, run_steps
from gdal_mcp.calls.workflows.steps import WorkflowStep, place_outputs, step_folders, tool_of
from gdal_mcp.calls.workflows.store import RunFolder, StepResult, StepStore
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.remote.places import local
from sandbox.waiting import Cancellation

if TYPE_CHECKING:
    from gdal_mcp.calls.pipeline import Pipeline


@dataclass(frozen=True)
class StepCalls:
    """Makes the calls of one run's steps. `call` is the call of the whole workflow."""

    pipeline: Callable[[], "Pipeline"]
    checker: Checker
    call: Invocation
    run: Run
    folder: RunFolder
    own_slot: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(1))

    @property
    def store(self) -> StepStore:
        return self.checker.store

    async def all(self, cancel: Cancellation) -> None:
        """Runs the steps until they have ended or the whole workflow is cancelled. Raises StepFailed, ToolError."""
        failed: list[StepFailed] = []

        async def work() -> None:
            try:
                self.run.results.update(await run_steps(self.run.checked.workflow.document, self.step))
            except StepFailed as failure:
                failed.append(failure)
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(work)
            await anyio.wait_readable(cancel)  # set from another thread
            group.cancel_scope.cancel()
        if failed:
            raise failed[0]
        if len(self.run.results) < len(self.run.checked.steps):
            raise ToolError(Code.CANCELLED, Stage.RUN, "the workflow was cancelled; nothing was published.")

    async def step(self, name: str, results: Mapping[str, StepResult]) -> StepResult:
        """The result of a step, reused from an earlier run if there is one. Raises ToolError, WorkflowInvalid."""
        checked = self.run.checked.step(name)
        self._report_progress(name, 0.0, "")
        if checked.result is not None:
            self.run.reused.add(name)
            self.run.cached.add(name)
            self.run.results[name] = checked.result
            return checked.result
        reply = await self._call(self._request(checked, results))
        if reply.error is not None:
            raise reply.error
        result = _make_result(checked, reply)
        await run_sync(self._keep, checked, result, reply)
        # checked after the result was stored, so that the next check can use it
        self._require_predicted(checked, result)
        self.run.results[name] = result
        return result

    def _keep(self, checked: CheckedStep, result: StepResult, reply: Reply) -> None:
        """Stores a result for later runs, if its key covers everything that decided it. Raises ToolError if an input
        has changed.
        """
        if self._has_changed_input(checked):
            raise ToolError(
                Code.APPROVAL_EXPIRED,
                Stage.APPROVAL,
                "a file that the step reads was changed while the workflow ran; nothing was published.",
                "Send the workflow again: it is checked and approved with the files as they are now.",
                check={"code": "input_changed"},
            )
        if checked.draft is None or not checked.key:
            return
        preflight = self.call.entitlements.preflights[checked.toolbox]
        inputs = (
            located for located in local(checked.draft.inputs) if located.workspace != self.store.workspace
        )
        if not any(preflight.names_others(located) for located in inputs):
            self.store.put(result, _list_published_files(reply))
            self.run.cached.add(checked.id)

    def _has_changed_input(self, checked: CheckedStep) -> bool:
        if checked.draft is None:
            return False
        entitlements = self.call.entitlements
        toolboxes = {toolbox.name: toolbox for toolbox in entitlements.surface.toolboxes.values()}
        companions = toolboxes[checked.toolbox].analysis.companions()
        limit = entitlements.settings.digest_size
        now = self.checker.files.read_by(checked.draft, self.store.workspace, companions, limit)
        return now != checked.used

    def _require_predicted(self, checked: CheckedStep, result: StepResult) -> None:
        """Raises ToolError if the first output differs from the prediction that a person saw."""
        preflight = self.call.entitlements.preflights[checked.toolbox] if result.facts else None
        differences = (
            preflight.contradictions(checked.facts, result.facts[0]) if preflight is not None else {}
        )
        if differences:
            raise prediction_error(differences, self._how_to_continue(checked.id))

    def _how_to_continue(self, step: str) -> str:
        """The advice after the result of a step was not as predicted."""
        if step not in self.run.cached:
            return (
                "Run this step as a single call, and use its output as an input of the workflow: the result of this step cannot be "
                "cached."
            )
        without = " without `fresh`" if self.run.fresh else ""
        return f"Send the workflow again{without}: the later steps are checked with this result, and the question shows the difference."

    def _request(self, checked: CheckedStep, results: Mapping[str, StepResult]) -> Request:
        outputs = {step: result.outputs for step, result in results.items()}
        written = self.run.checked.workflow.arguments(checked.id, outputs)
        own, store = self.folder.step(checked.id), self.store.workspace
        placed = place_outputs(written, own)
        tool, arguments = tool_of(checked.tool, placed, self.call.entitlements.surface)
        return Request(
            tool.name,
            arguments,
            self.call.request.who,
            f"workflow {self.run.checked.workflow.document.name}",
            NullApprover(),
            on_progress=lambda fraction, message: self._report_progress(checked.id, fraction, message),
            operation=WorkflowStep(
                store=store,
                folders=step_folders(store, own, outputs.values()),
                part_of=self.call.call_id,
                authorization=Authorization(
                    f"step {checked.id} of call {self.call.call_id}", reads=self.call.authorization.reads
                ),
            ),
        )

    async def _call(self, request: Request) -> Reply:
        """Makes the call of a step in the workflow's own slot, or in another slot if one is free for the caller."""
        nested = replace(request, operation=replace(request.operation, nested=True))
        try:
            self.own_slot.acquire_nowait()
        except anyio.WouldBlock:
            reply = await self.pipeline().call(request)
            if reply.error is None or reply.error.code not in (Code.BUSY, Code.RATE_LIMITED):
                return reply
            await self.own_slot.acquire()
        try:
            return await self.pipeline().call(nested)
        finally:
            self.own_slot.release()

    def _report_progress(self, step: str, fraction: float, message: str) -> None:
        """Reports the progress of the workflow. May be called from any thread.

        It is the number of finished steps and the fraction of this one, out of all steps and the publication.
        """
        total = len(self.run.checked.steps) + 1
        done = min((len(self.run.results) + fraction) / total, 0.99)
        self.call.report_progress(done, f"step {step}: {message}" if message else f"step {step}")


def _make_result(step: CheckedStep, reply: Reply) -> StepResult:
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
        tuple(dict(described.facts) for described in done.outputs),
        _list_checks(step, reply),
        _list_transformations(reply),
    )


def _list_checks(step: CheckedStep, reply: Reply) -> tuple[Mapping[str, Any], ...]:
    """The warnings about the result of a step that were not known before it ran."""
    rows = (reply.result, *reply.result.get("outputs", ()))
    known = {check.get("code") for check in step.checks}
    return tuple(check for row in rows for check in row.get("checks", ()) if check.get("code") not in known)


def _list_transformations(reply: Reply) -> tuple[Mapping[str, Any], ...]:
    """The operations that changed the CRS, with their accuracy."""
    transformation = reply.result.get("transformation", ())
    return (transformation,) if isinstance(transformation, Mapping) else tuple(transformation)


def _list_published_files(reply: Reply) -> list[Path]:
    published = reply.done.published if reply.done is not None else None
    paths = [file.located.path for file in published.files] if published is not None else []
    return [path for target in paths for path in _list_files(target)]


def _list_files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
