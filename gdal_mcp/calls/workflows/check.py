"""Checks a workflow before its first step runs.

Every step is drafted by its tool, on the facts that the steps before it would leave. Empty files represent the
results of steps, in a folder that is removed at the end; their content is predicted. For a step that has already run
with the same inputs, its result is used instead.

There are three answers for each step: `fine`, `wrong` and `unknown`. A step is unknown if something about its inputs
is not known, so that checks could not use it. A workflow with a wrong step does not run.
"""

import hashlib
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gdal_mcp.approvals.model import NullApprover
from gdal_mcp.calls.drafting import Drafted, Drafting
from gdal_mcp.calls.invocation import Access, Invocation, Request
from gdal_mcp.calls.refusals import denied
from gdal_mcp.calls.workflows.checked import CheckedStep, CheckedWorkflow, StepState
from gdal_mcp.calls.workflows.document import Workflow, WorkflowInvalid, dependencies
from gdal_mcp.calls.workflows.publishing import (
    Publishing,
    not_published,
    output_kind,
    require_publishable,
    require_together,
)
from gdal_mcp.calls.workflows.self_contained import require_self_contained
from gdal_mcp.calls.workflows.steps import (
    WorkflowStep,
    place_outputs,
    require_bare_names,
    require_container,
    step_folders,
    tool_of,
)
from gdal_mcp.calls.workflows.store import StepResult, StepStore, step_key
from gdal_mcp.calls.workflows.used import UsedFile, UsedFiles
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft, OutputKind
from gdal_mcp.policy.policy import Deny, case, decide
from gdal_mcp.remote.places import label, local
from gdal_mcp.toolboxes.base import ImmediateResult, Tool
from gdal_mcp.toolboxes.gdal.datasets.paths import Reading
from gdal_mcp.toolboxes.preflight import Preflight
from sandbox.errors import SandboxError
from sandbox.template import STAGING_TARGET
from sandbox.workspace import WorkspacePath, Workspaces


@dataclass(frozen=True)
class Checker:
    """Checks workflows. Safe to use from several threads."""

    drafting: Drafting
    store: StepStore
    files: UsedFiles = field(default_factory=UsedFiles)

    def check(self, call: Invocation, workflow: Workflow, *, fresh: bool = False) -> CheckedWorkflow:
        """Checks each step; a wrong step is part of the result.

        Raises ToolError for an output that cannot be published, and SandboxError.
        """
        self.store.prepare(self.drafting.hosting.templates.user())
        folder = self.store.folder / f"check-{call.call_id}"
        try:
            return _CheckRun(self, call, workflow, folder, fresh=fresh).run()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@dataclass
class _CheckRun:
    """One check, from the first step to the last."""

    checker: Checker
    call: Invocation
    workflow: Workflow
    folder: Path
    fresh: bool
    steps: dict[str, CheckedStep] = field(default_factory=dict)
    # by step, the paths of its results, or of the empty files in their place
    outputs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)  # placeholders for these paths in the keys of steps

    def run(self) -> CheckedWorkflow:
        before = dependencies(self.workflow.document)
        for name, step in self.workflow.steps.items():
            if (
                broken := next(
                    (dependency for dependency in before[name] if dependency not in self.outputs), None
                )
            ) is not None:
                why = "is wrong" if self.steps[broken].state is StepState.WRONG else "could not be checked"
                self.steps[name] = CheckedStep(
                    name, step.tool, StepState.UNKNOWN, unknown=(f"step {broken!r} {why}",)
                )
                continue
            try:
                self.steps[name] = self._step(name, step.tool)
            except (ToolError, WorkflowInvalid) as error:
                self.steps[name] = CheckedStep(name, step.tool, StepState.WRONG, error=_to_tool_error(error))
        steps = tuple(self.steps.values())
        wrong = any(step.state is StepState.WRONG for step in steps)
        return CheckedWorkflow(self.workflow, steps, () if wrong else self._publishes())

    def _step(self, name: str, tool_name: str) -> CheckedStep:
        """The facts about one step. Raises ToolError, WorkflowInvalid."""
        surface = self.call.entitlements.surface
        folder = self.folder / name
        folder.mkdir(parents=True)
        written = self.workflow.arguments(name, self.outputs)
        require_bare_names(written)
        placed = place_outputs(written, folder)
        tool, arguments = tool_of(tool_name, placed, surface)
        require_container(tool)
        sub = self._invocation(tool, arguments, folder)
        drafted = sub.request.operation.draft(sub, self.checker.drafting)
        if isinstance(drafted, ImmediateResult):
            self.outputs[name] = ()
            return CheckedStep(name, tool_name, StepState.FINE)
        return self._judge(name, tool_name, sub, drafted)

    def _judge(self, name: str, tool_name: str, sub: Invocation, drafted: Drafted) -> CheckedStep:
        draft, preflight = drafted.draft, sub.entitlements.preflights[sub.toolbox.name]
        verdict = decide(
            case(draft, sub.tool.name, self.call.request.principal), self.checker.drafting.policy
        )
        if isinstance(verdict, Deny):
            raise denied(verdict.reason)
        require_self_contained(draft, self.checker.store.workspace)
        unknown = tuple(self._list_unknown(draft, preflight))
        facts = preflight.predicted(draft)
        used = self._used(sub, draft)
        key, command = self._key(sub, draft, used), self._display_command(draft)
        result = self.checker.store.find(key) if key and not self.fresh else None
        self.outputs[name] = self._make_stand_ins(name, sub, draft, result, facts)
        output = (
            Workspaces((self.checker.store.workspace,)).input(self.outputs[name][0])
            if self.outputs[name]
            else None
        )
        return CheckedStep(
            name,
            tool_name,
            StepState.UNKNOWN if unknown else StepState.FINE,
            draft,
            sub.toolbox.name,
            command,
            tuple(finding.as_dict() for finding in drafted.preflight.findings),
            unknown,
            (preflight.kind_of(output) or preflight.becomes(draft)) if output is not None else "",
            facts,
            drafted.preflight.figures,
            key,
            used,
            result,
            differences=preflight.contradictions(facts, result.facts[0]) if result and result.facts else {},
        )

    def _invocation(self, tool: Tool, arguments: Mapping[str, Any], folder: Path) -> Invocation:
        """The step as a call that is only drafted."""
        request, store = self.call.request, self.checker.store.workspace
        operation = WorkflowStep(store=store, folders=step_folders(store, folder, self.outputs.values()))
        entitlements = operation.entitled(self.call.entitlements)
        toolbox = entitlements.surface.toolboxes[tool.name]
        step = Request(tool.name, arguments, request.who, request.client, NullApprover(), operation=operation)
        return Invocation(step, call_id=self.call.call_id, access=Access(entitlements, tool, toolbox))

    def _make_stand_ins(
        self, name: str, sub: Invocation, draft: Draft, result: StepResult | None, facts: Any
    ) -> tuple[str, ...]:
        """The outputs of a step: those of an earlier run, else empty files with predicted facts."""
        preflight, workspaces = (
            sub.entitlements.preflights[sub.toolbox.name],
            Workspaces((self.checker.store.workspace,)),
        )
        if result is not None:
            for number, (path, written) in enumerate(zip(result.outputs, result.facts, strict=False)):
                preflight.learn(workspaces.input(path), written, None if number else facts)
            paths = result.outputs
        else:
            paths = tuple(str(output.target) for output in draft.outputs)
            for number, (path, output) in enumerate(zip(paths, draft.outputs, strict=True)):
                _make_stand_in(Path(path), output.kind)
                if number == 0:
                    preflight.assume(workspaces.input(path), facts)
        for number, path in enumerate(paths):
            self.tokens[path] = f"<{name}.{number}>"
        return paths

    def _used(self, sub: Invocation, draft: Draft) -> tuple[UsedFile, ...]:
        limit, store = self.call.entitlements.settings.digest_size, self.checker.store.workspace
        return self.checker.files.read_by(draft, store, sub.toolbox.analysis.companions(), limit)

    def _key(self, sub: Invocation, draft: Draft, files: Sequence[UsedFile]) -> str:
        """The digest of everything that decides the result; "" if not all of it is known, as for remote data."""
        if draft.addresses:
            return ""
        used = {str(file.located): file.content for file in files}
        for located in dict.fromkeys((*local(draft.inputs), *draft.looked_at)):
            if located.workspace == self.checker.store.workspace:
                step = self._maker(str(located))
                if step is None or not step.key:
                    return ""
                used[self._token(str(located))] = step.key
        host = self.checker.drafting.hosting.ready(sub.toolbox)
        return step_key(
            {
                "image": host.image.id,
                "toolbox": sub.toolbox.version,
                "tool": sub.tool.name,
                "argv": [self._token(word) for word in draft.command.argv],
                "extra": self._token(repr(sorted(draft.command.extra.items()))),
                "code": draft.review.code,
                "inputs": used,
            }
        )

    def _maker(self, path: str) -> CheckedStep | None:
        """The step that wrote a path of the store; None if no step did."""
        owner = next(
            (
                output
                for output, token in self.tokens.items()
                if path == output or path.startswith(f"{output}/")
            ),
            None,
        )
        return self.steps.get(self.tokens[owner][1:].rpartition(".")[0]) if owner else None

    def _token(self, text: str) -> str:
        """The text with each path of an earlier step replaced by the step's name, which is the same in each run.

        No text of a caller can contain such a name.
        """
        text = _escape(text)
        for path in sorted(self.tokens, key=len, reverse=True):
            text = text.replace(_escape(path), self.tokens[path])
        return text.replace(_escape(str(self.folder)), "<here>")

    def _display_command(self, draft: Draft) -> str:
        """The command with references for results of earlier steps, and bare names for its own outputs."""
        text = shlex.join(draft.display_command).replace(f"{STAGING_TARGET}/", "")
        for path in sorted(self.tokens, key=len, reverse=True):
            step, _, number = self.tokens[path].strip("<>").rpartition(".")
            text = text.replace(
                path, f"${{steps.{step}}}" if number == "0" else f"${{steps.{step}.outputs.{number}}}"
            )
        return text

    def _describe_input(self, located: WorkspacePath) -> str:
        step = self._maker(str(located))
        return f"the result of step {step.id!r}" if step else label(located)

    def _list_unknown(self, draft: Draft, preflight: Preflight) -> Iterator[str]:
        """Yields facts about the inputs that are not known, so that checks could not use them; each is a phrase."""
        blank = preflight.unknown(draft)
        for located in dict.fromkeys((*local(draft.inputs), *blank)):
            step = self._maker(str(located))
            lacks = preflight.gaps(draft, located) if step is not None and step.result is None else ()
            if located in blank:
                yield f"the content of {self._describe_input(located)}"
            elif lacks:
                yield f"{', '.join(lacks)} of {self._describe_input(located)}"

    def _publishes(self) -> tuple[Publishing, ...]:
        """The outputs that the workflow publishes. Raises ToolError for one that cannot be published."""
        context = self._paths()
        inputs = Reading(
            located
            for draft in (step.draft for step in self.steps.values())
            if draft
            for located in draft.inputs
        )
        publishings = []
        for source, target, overwrite in self.workflow.published:
            step = self.steps[source.step]
            try:
                kind = output_kind(source, step.draft, is_done=step.result is not None)
                require_publishable(self.outputs[source.step][source.number], target)
                output = context.output(target, inputs=inputs, overwrite=overwrite, kind=kind)
            except ToolError as error:
                raise not_published(error, source.step, target) from error
            publishings.append(Publishing(source, output))
        require_together([publishing.output for publishing in publishings])
        return tuple(publishings)

    def _paths(self) -> Any:
        entitlements, call = self.call.entitlements, self.call
        request = call.request
        scope = self.checker.drafting.scope(
            entitlements, call.toolbox, request.principal, call.call_id, request.operation.as_new
        )
        return call.toolbox.analysis.context(scope).paths


def _escape(text: str) -> str:
    """Puts a character that no argument can contain before each `<` of a text."""
    return text.replace("<", "\0<")


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _make_stand_in(path: Path, kind: OutputKind) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "folder":
        path.mkdir(exist_ok=True)
    else:
        path.touch()


def _to_tool_error(error: ToolError | WorkflowInvalid | SandboxError) -> ToolError:
    if isinstance(error, ToolError):
        return error
    return ToolError(Code.INVALID_ARGUMENT, Stage.VALIDATE, str(error), "Correct the workflow.")
