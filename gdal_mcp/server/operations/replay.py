"""Repeats a recorded call without publishing: its outputs are compared in staging and then deleted.

Outputs with equal bytes are the same. Otherwise their contents are compared, because some formats store the time of
writing (GeoPackage, dBASE).

Invariants:
* The same pipeline runs it, with the validation, approval, audit, limits and container of any call.
* No file of a workspace is written, replaced or removed, whatever the recorded call did.
* The contents of the new outputs are read in a separate container, never by this process.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Literal

from gdal_mcp.calls.execution import home
from gdal_mcp.calls.invocation import Invocation
from gdal_mcp.calls.operation import Operation
from gdal_mcp.calls.workflows.run import WorkflowRun
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft, Output
from gdal_mcp.records.provenance import Materials
from gdal_mcp.records.registry import Call
from gdal_mcp.runtime.hosting import Hosting
from sandbox.errors import PathRefused
from sandbox.outputs.staging import Staging
from sandbox.outputs.store import Published
from sandbox.program import delivered
from sandbox.runner import Job
from sandbox.waiting import Cancellation
from sandbox.workspace import WorkspacePath, Workspaces


@dataclass(frozen=True, slots=True)
class ReplayVerdict:
    """The result for one output."""

    path: str
    sameness: Literal["same_bytes", "same_content", "differs", "unknown"]
    reason: str = ""

    @property
    def same(self) -> bool:
        return self.sameness in ("same_bytes", "same_content")

    def as_dict(self) -> dict[str, Any]:
        row: dict[str, Any] = {"path": self.path, "verdict": self.sameness}
        return {**row, "reason": self.reason} if self.reason else row


@dataclass(frozen=True, kw_only=True)
class Replay(Operation):
    """A repeated call, whose outputs are compared with what `recorded` published.

    `as_new` is the id of the recorded call, from which the names of outputs without a path were derived.
    """

    hosting: Hosting
    workspaces: Workspaces
    recorded: Call
    verdicts: list[ReplayVerdict] = field(default_factory=list)

    def accept(self, draft: Draft) -> None:
        """Raises ToolError if a draft changes the workspace in any way other than writing new outputs."""
        changes = any(
            output.update or output.replaces or output.shared or output.server_named
            for output in draft.outputs
        )
        if draft.files.transfers or draft.files.removes or changes:
            raise ToolError(
                Code.INVALID_ARGUMENT,
                Stage.VALIDATE,
                "the call changed, moved or removed files that no longer exist, so it cannot be repeated.",
                "Only calls that read, or that write something new, can be replayed.",
            )

    def publish(self, call: Invocation, staging: Staging, cancel: Cancellation) -> Published:
        """Compares the outputs; publishes nothing."""
        plan = call.plan
        workspace = home(plan.draft)
        folder = PurePosixPath(staging.path.relative_to(workspace.root))
        new = {
            staged.name: Materials.digest(
                WorkspacePath(workspace, folder / staged.name, is_folder=staged.is_folder)
            )
            for staged in staging.collect(plan.limits)
        }
        old = {PurePosixPath(row["path"]).name: row.get("sha256") for row in self.recorded.files}
        places = {output.target.name: output for output in plan.draft.outputs}
        known = {PurePosixPath(row["path"]).name for row in self.recorded.outputs}
        for row in self.recorded.outputs:
            name = PurePosixPath(row["path"]).name
            files = [own_files(name, {*places, *known}, some) for some in (old, new)]
            self.verdicts.append(self._verdict(call, row, places.get(name), files, staging, cancel))
        for output in (places[name] for name in places.keys() - known):
            reason = "the recorded call did not write it"
            self.verdicts.append(ReplayVerdict(str(output.target), "differs", reason=reason))
        return Published("", ())

    def _verdict(  # noqa: PLR0913, PLR0917 - what is compared with what, and where
        self,
        call: Invocation,
        row: Mapping[str, Any],
        output: Output | None,
        files: list[dict[str, str | None]],
        staging: Staging,
        cancel: Cancellation,
    ) -> ReplayVerdict:
        path = str(row["path"])
        old, new = files
        if old == new and None not in new.values():
            return ReplayVerdict(path, "same_bytes")
        if output is None or output.target.name not in new:
            return ReplayVerdict(path, "differs", reason="the call no longer writes it")
        if row["kind"] != "dataset":
            return ReplayVerdict(path, "differs", reason="its bytes differ, and it is not a dataset")
        try:
            located = self.workspaces.input(path)
            is_as_recorded = str(located) == path and Materials.digest(located) == old.get(located.name)
        except PathRefused:
            is_as_recorded = False
        if not is_as_recorded:
            reason = "its bytes differ, and the recorded file no longer exists"
            return ReplayVerdict(path, "unknown", reason=reason)
        return by_content(path, self._descriptions(call, path, output, staging, cancel))

    def _descriptions(
        self, call: Invocation, path: str, output: Output, staging: Staging, cancel: Cancellation
    ) -> object:
        """The container's descriptions of the recorded and the new output; None if there are none."""
        host, toolbox, scope = call.host, call.toolbox, call.plan.confines
        if toolbox.execution.compare is None:
            return None
        # mounts the call's inputs, because both outputs may refer to them, and the recorded output
        if scope.places is not None:
            compared = replace(call.plan.draft, looked_at=(self.workspaces.input(path),))
            scope = replace(scope, places=toolbox.analysis.mounts(compared))
        template = self.hosting.templates.build(host, None, scope)
        mount = replace(staging.mount, read_only=True)
        sent = delivered(toolbox.execution.compare())
        mounts = (*template.mounts, mount)
        template = replace(template, command=sent.command, program=sent.program, mounts=mounts)
        job = Job(f"compare-{staging.staging_id}", template, {"inputs": [path, output.inside]})
        return (host.runner.run(job, cancel).final or {}).get("datasets")


@dataclass(frozen=True, kw_only=True)
class WorkflowReplay(Replay, WorkflowRun):
    """A repeated workflow: all its steps run again, and its outputs are compared."""

    joins: bool = False

    def fresh(self, _call: Invocation) -> bool:
        return True


def replay_of(call: Call, hosting: Hosting, workspaces: Workspaces, ordinary: Operation) -> Replay:
    """The operation that repeats a recorded call; `ordinary` is the operation that normally runs its tool."""
    if isinstance(ordinary, WorkflowRun):
        return WorkflowReplay(
            as_new=call.id,
            hosting=hosting,
            workspaces=workspaces,
            recorded=call,
            checker=ordinary.checker,
            pipeline=ordinary.pipeline,
        )
    return Replay(as_new=call.id, hosting=hosting, workspaces=workspaces, recorded=call)


def own_files(name: str, names: set[str], files: Mapping[str, str | None]) -> dict[str, str | None]:
    """The digests, by file name, of one output's files. `names` are the names of all outputs of the call."""
    digests: dict[str, str | None] = {}
    for file, digest in files.items():
        # a companion file such as `a.tif.aux.xml` belongs to `a.tif`; otherwise it is matched by stem, as for `a.hdr`
        appended = [output for output in names if file.startswith(f"{output}.")]
        stems = [output for output in names if file.startswith(f"{output.rpartition('.')[0] or output}.")]
        owners = [file] if file in names else sorted(appended, key=len, reverse=True) or sorted(stems)
        if owners[:1] == [name]:
            digests[file] = digest
    return digests


def by_content(path: str, parsed: object) -> ReplayVerdict:
    """Compares the container's untrusted descriptions of the recorded and the new output."""
    old, new = parsed if isinstance(parsed, list) and len(parsed) == 2 else (None, None)
    if not isinstance(old, dict) or not isinstance(new, dict) or "problem" in old:
        return ReplayVerdict(path, "unknown", reason="what it holds could not be read")
    return ReplayVerdict(path, "same_content" if old == new else "differs")
