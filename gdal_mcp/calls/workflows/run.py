"""Runs a workflow as one call whose output folder is filled by the workflow's steps, and publishes it like any
output.

The call is checked, approved, recorded, published and undone as a whole. Its steps are calls too, each in a container
of its own. The authorization of the whole covers them, and their results stay outside the workspaces.

Invariants:
* no step starts before the start of the whole is recorded and its approval consumed;
* nothing in a workspace changes before every step has succeeded; then all outputs are published together, or none;
* a step whose result differs from the prediction that a person saw ends the run: it has to be approved again.
"""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ClassVar, Final

from anyio import from_thread

from gdal_mcp.calls.drafting import Drafted, Drafting
from gdal_mcp.calls.invocation import Invocation, Request
from gdal_mcp.calls.workflows.arguments import CheckArguments, RunWorkflowArguments
from gdal_mcp.calls.workflows.check import digest_of
from gdal_mcp.calls.workflows.check_tool import WorkflowOperation
from gdal_mcp.calls.workflows.checked import CheckedWorkflow, find_external_inputs, question_parts
from gdal_mcp.calls.workflows.manifest import Run, manifest, step_rows
from gdal_mcp.calls.workflows.publishing import Publishing
from gdal_mcp.calls.workflows.report import NOT_AS_PREDICTED, failed_step, workflow_report, wrong_step
from gdal_mcp.calls.workflows.schedule import StepFailed
from gdal_mcp.calls.workflows.self_contained import find_name
from gdal_mcp.calls.workflows.stepping import StepCalls
from gdal_mcp.calls.workflows.store import StepResult, StepStore
from gdal_mcp.calls.workflows.times import FindSeconds, expected_time
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Command, Draft, Output, PrintedOutput, Review, Work
from gdal_mcp.runtime.image import Image
from gdal_mcp.toolboxes.preflight import Preflight
from sandbox.errors import SandboxError
from sandbox.outputs.staging import Staging
from sandbox.waiting import Cancellation
from sandbox.workspace import Workspaces, open_file

if TYPE_CHECKING:
    from gdal_mcp.calls.pipeline import Pipeline

_MANIFEST_START: Final = b'{\n "manifest": '  # the first key of a manifest, as `json.dumps` writes it


@dataclass(frozen=True, kw_only=True)
class WorkflowRun(WorkflowOperation):
    """The operation of `workflow_run`."""

    model: ClassVar[type[CheckArguments]] = RunWorkflowArguments
    pipeline: Callable[[], "Pipeline"]
    find_seconds: FindSeconds = lambda _principal, _commands: {}
    runs_steps: bool = True

    @property
    def store(self) -> StepStore:
        return self.checker.store

    def draft(self, call: Invocation, drafting: Drafting) -> Drafted:
        """Checks the workflow and drafts the run. Raises ToolError for a workflow with a wrong step."""
        del drafting
        checked = self.checked(call)
        if (wrong := checked.wrong) is not None:
            raise wrong_step(wrong)
        inputs, addresses = find_external_inputs(checked, call.entitlements)
        run = Run(checked, self.fresh(call))
        outputs = tuple(publishing.output for publishing in checked.publishes)
        if name := getattr(self.arguments(call), "manifest", None):
            run.manifest = self._manifest_output(name, outputs, call)
            outputs += (run.manifest,)
        draft = Draft(
            Command("identify", _words(checked)),
            inputs,
            outputs,
            addresses=addresses,
            work=Work("workflow run", algorithms=_algorithms(checked.drafts)),
            review=Review(
                any(step_draft.review.always_needs_approval for step_draft in checked.drafts),
                "\n\n".join(
                    step_draft.review.code for step_draft in checked.drafts if step_draft.review.code
                ),
                question_parts(checked),
                expected_time(checked, call.request.principal, self.find_seconds),
            ),
            printed=PrintedOutput(present=lambda _answer: step_rows(run)),
            detail=run,
        )
        self.accept(draft)
        return Drafted(draft, workflow_report(checked))

    def look(self, call: Invocation, preflight: Preflight) -> Draft | None:
        return self.look_of(_get_run(call).checked, call, preflight)

    def before(self, call: Invocation, cancel: Cancellation) -> None:
        """Runs the steps. Raises ToolError for the first that fails."""
        run = _get_run(call)
        try:
            user = self.checker.drafting.hosting.templates.user()
            folder = run.folder_lock.enter_context(self.store.run(run.run_id, user))
            results = [step.result for step in run.checked.steps if step.result is not None]
            run.folder_lock.enter_context(self.store.hold(results))
            calls = StepCalls(self.pipeline, self.checker, call, run, folder)
            from_thread.run(calls.all, cancel)
        except StepFailed as failure:
            raise failed_step(failure, len(run.cached)) from failure
        except (OSError, SandboxError) as error:
            raise ToolError(
                Code.INTERNAL,
                Stage.RUN,
                f"the results of steps cannot be stored or read: {error}.",
                "Send the workflow again; if it fails again, check the free space of the state folder.",
            ) from error

    def job(self, draft: Draft) -> Draft:
        """Describes the outputs. The steps have read the inputs, and remote data is not available here."""
        return replace(draft, inputs=(), addresses=())

    def copies(self, _draft: Draft) -> bool:
        return True

    def copy_in(
        self,
        call: Invocation,
        staging: Staging,
        mount_source: Callable[[Path], Path],
        check_cancelled: Callable[[], object],
    ) -> None:
        """Copies the outputs, under their new names, and the manifest."""
        del mount_source  # only this process sees the store
        run, limits = _get_run(call), call.plan.limits
        places = Workspaces((self.store.workspace,))
        runs = {
            Path(path).relative_to(self.store.folder).parts[0]
            for result in run.results.values()
            for path in result.outputs
        }
        for publishing in run.checked.publishes:
            files = _name_files(publishing, run.results[publishing.source.step], call)
            _require_self_contained(publishing, [path for path, _ in files], runs)
            for path, name in files:
                staging.copy_in(places.input(str(path)), name, limits, check_cancelled=check_cancelled)
        if run.manifest is not None:
            path = self.store.folder / run.run_id / "manifest.json"
            record = manifest(run, call, self._find_images(run, call))
            path.write_text(json.dumps(record, indent=1), encoding="utf-8")
            staging.copy_in(
                places.input(str(path)), run.manifest.target.name, limits, check_cancelled=check_cancelled
            )

    def _find_images(self, run: Run, call: Invocation) -> dict[str, Image]:
        """The images of the toolboxes of the steps, by the toolbox's name. Raises SandboxError."""
        used = {step.toolbox for step in run.checked.steps}
        boxes = {box.name: box for box in call.entitlements.surface.toolboxes.values() if box.name in used}
        hosting = self.checker.drafting.hosting
        return {name: hosting.ready(box).image for name, box in boxes.items()}

    def next_request(self, call: Invocation) -> Request | None:
        """The same request, if the person who approved the run has to be asked again; else None.

        The person is asked again, with the difference, if a result was not as predicted and the next run uses it.
        Without a person, the caller decides whether to go on.
        """
        check, again = (call.error.check if call.error else None) or {}, call.request.approver.again()
        if check.get("code") != NOT_AS_PREDICTED or not call.authorization.approval_id or again is None:
            return None
        run, tell, reached = (
            _get_run(call),
            call.request.on_progress,
            call.view.fraction if call.view else 0.0,
        )
        if run.fresh or check["step"] not in run.cached:
            return None
        return replace(
            call.request,
            approver=again,
            on_progress=lambda fraction, message: tell(max(fraction, reached), message),
        )

    def ended(self, call: Invocation) -> None:
        if call.prepared is not None and isinstance(call.plan.draft.detail, Run):
            call.plan.draft.detail.folder_lock.close()

    def _manifest_output(self, name: str, outputs: Sequence[Output], call: Invocation) -> Output:
        scope = self.checker.drafting.scope(
            call.entitlements, call.toolbox, call.request.principal, call.call_id, self.as_new
        )
        output: Output = call.toolbox.analysis.context(scope).paths.output(
            name, inputs=(), overwrite=_is_manifest(name, call.entitlements.workspaces), kind="file"
        )
        taken = {other.target.name for other in outputs}
        if output.target.name in taken or any(
            output.target.workspace != other.target.workspace for other in outputs
        ):
            raise ToolError(
                Code.INVALID_ARGUMENT,
                Stage.VALIDATE,
                "the manifest is published with the outputs.",
                "Give it a name of its own in the same workspace.",
            )
        return output


def _is_manifest(name: str, workspaces: Workspaces) -> bool:
    """True if the file is a manifest of an earlier run, the only file that a new manifest may replace."""
    try:
        with open_file(workspaces.input(name)) as file:
            return os.pread(file, len(_MANIFEST_START), 0) == _MANIFEST_START
    except (OSError, SandboxError):
        return False


def _words(checked: CheckedWorkflow) -> tuple[str, ...]:
    """The words of the command, with digests of the workflow and of the differences that the question showed.

    An approval covers these words, and so the whole workflow.
    """
    differences = {step.id: dict(step.differences) for step in checked.steps if step.differences}
    return (
        f"--workflow={checked.workflow.document.name}",
        f"--sha256={digest_of(checked.workflow.canonical)}",
        *((f"--differences={digest_of(json.dumps(differences, sort_keys=True))}",) if differences else ()),
    )


def _get_run(call: Invocation) -> Run:
    run = call.plan.draft.detail
    assert isinstance(run, Run)
    return run


def _require_self_contained(publishing: Publishing, paths: Sequence[Path], runs: Iterable[str]) -> None:
    """Raises ToolError if a file names the folder of a run: the folder is private, and is removed later."""
    if (path := find_name(paths, runs)) is not None:
        raise ToolError(
            Code.INVALID_ARGUMENT,
            Stage.RUN,
            f"{path.name} of step {publishing.source.step!r} names the result of another step, which exists only while the workflow runs.",
            "Publish a format that holds the data itself, or leave out the argument that writes the name.",
            check={"code": "not_self_contained", "step": publishing.source.step},
        )


def _name_files(publishing: Publishing, result: StepResult, call: Invocation) -> list[tuple[Path, str]]:
    """The files of an output of a step, each with its name in the workspace."""
    source, target = (
        Path(result.outputs[publishing.source.number]),
        PurePosixPath(publishing.output.target.name),
    )
    belongs = call.toolbox.answering.belongs
    rows = []
    for path in sorted(source.parent.iterdir()):
        if path == source:
            rows.append((path, target.name))
        elif belongs(path.name, source.name) and path.name.startswith(source.stem):
            has_full_name = path.name.startswith(source.name)
            old, new = (source.name, target.name) if has_full_name else (source.stem, target.stem)
            rows.append((path, new + path.name.removeprefix(old)))
    return rows


def _algorithms(drafts: Sequence[Draft]) -> tuple[str, ...]:
    """The algorithms of all steps, each once."""
    work = [draft.work for draft in drafts]
    return tuple(
        dict.fromkeys(
            path for step_work in work for path in (step_work.algorithm, *step_work.algorithms) if path
        )
    )
