"""A recorded call made again, with nothing published: its outputs are compared in staging and then forgotten.

Invariants:
* the same pipeline runs it: look-up, validation, resolution, approval, audit, limits and container are those of any call;
* no file of a workspace is written, replaced or taken away, whatever the call did when it was recorded;
* what the new outputs hold is told by a container of their own, never by this process.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from gdal_mcp.calls.execution import ORDINARY, Run, home
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.gdal.datasets.paths import Inputs, Paths
from gdal_mcp.gdal.datasets.scope import places
from gdal_mcp.host.hosting import Hosting, SandboxScope
from gdal_mcp.ledger.provenance import Materials
from gdal_mcp.ledger.registry import Call
from gdal_mcp.operations.comparison import Verdict, by_content, own_files
from gdal_mcp.pipeline import Pipeline
from gdal_mcp.plan import Draft, Output, OutputKind, Plan
from sandbox.errors import PathRefused
from sandbox.outputs.store import OutputFolder, Published, Staged
from sandbox.program import delivered, source, worker_command
from sandbox.runner import Job
from sandbox.workspace import Located, Workspace, Workspaces


@dataclass(frozen=True)
class FreshPaths(Paths):
    """The workspaces as if nothing stood where outputs go, as it was before the recorded call."""

    def output(
        self,
        text: str,
        *,
        inputs: Inputs,  # noqa: ARG002 - nothing is written, so no input is at risk
        overwrite: bool,  # noqa: ARG002 - nothing is replaced
        update: bool = False,  # noqa: ARG002 - a call that changed what was there is not made again
        kind: OutputKind = "dataset",
    ) -> Output:
        found = super().output(text, inputs=(), overwrite=True, kind=kind).target
        return Output(replace(found, identity=None, is_folder=False), kind)

    def new_output(self, stem: str, extension: str, kind: OutputKind = "dataset") -> Output:
        """Under the name that the recorded call gave it, as its id is ours; its folder is not made."""
        return replace(super().new_output(stem, extension, kind), server_named=False)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a call that is made again would publish, compared with what `recorded` published."""

    hosting: Hosting
    workspaces: Workspaces
    recorded: Call
    verdicts: list[Verdict] = field(default_factory=list)

    def of(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline of a server, for this call alone."""
        drafting = replace(pipeline.drafting, paths=self._fresh, accept=_refuse_changes)
        ways = replace(ORDINARY, publish=self._compare)
        return replace(pipeline, drafting=drafting, execution=replace(pipeline.execution, ways=ways))

    def _fresh(self, paths: Paths) -> Paths:
        """Under the recorded call's id, which made the names of outputs that nobody named."""
        return FreshPaths(paths.workspaces, paths.outputs_folder, self.recorded.id, paths.threads)

    def _compare(self, run: Run, staging: OutputFolder) -> Published:
        """Nothing is published."""
        plan = run.plan
        new = {one.name: _digest(one, staging, home(plan.draft)) for one in staging.collect(plan.limits)}
        old = {PurePosixPath(row["path"]).name: row.get("sha256") for row in self.recorded.files}
        places = {output.target.name: output for output in plan.draft.outputs}
        known = {PurePosixPath(row["path"]).name for row in self.recorded.outputs}
        for row in self.recorded.outputs:
            name = PurePosixPath(row["path"]).name
            files = [own_files(name, {*places, *known}, some) for some in (old, new)]
            self.verdicts.append(self._verdict(run, row, places.get(name), files, staging))
        for output in (places[name] for name in places.keys() - known):
            reason = "the recorded call did not write it"
            self.verdicts.append(Verdict(str(output.target), "differs", reason=reason))
        return Published("", ())

    def _verdict(
        self,
        run: Run,
        row: Mapping[str, Any],
        output: Output | None,
        files: list[dict[str, str | None]],
        staging: OutputFolder,
    ) -> Verdict:
        path = str(row["path"])
        old, new = files
        if old == new and None not in new.values():
            return Verdict(path, "same_bytes")
        if output is None or output.target.name not in new:
            return Verdict(path, "differs", reason="the call does not write it any more")
        if row["kind"] != "dataset":
            return Verdict(path, "differs", reason="its bytes differ, and it is no dataset")
        if not self._is_as_recorded(path, old):
            return Verdict(
                path, "unknown", reason="its bytes differ, and what was recorded is not there any more"
            )
        return by_content(path, self._told(run, path, output, staging))

    def _is_as_recorded(self, path: str, old: Mapping[str, str | None]) -> bool:
        """Whether the recorded output still stands where it was, itself unchanged."""
        try:
            located = self.workspaces.input(path)
        except PathRefused:
            return False
        return str(located) == path and Materials.digest(located) == old.get(located.name)

    def _told(self, run: Run, path: str, output: Output, staging: OutputFolder) -> object:
        """What a container says of the recorded output and of the new one; None when it could not."""
        host = run.host
        template = self.hosting.template(host.image, None, self._confines(run.plan, path))
        mount = replace(staging.mount, read_only=True)
        sent = delivered(worker_command(source("gdal_mcp.gdal.inside", "compare_program.py")))
        mounts = (*template.mounts, mount)
        template = replace(template, command=sent.command, program=sent.program, mounts=mounts)
        request = {"inputs": [path, output.inside]}
        result = host.runner.run(Job(f"compare-{staging.staging_id}", template, request), run.cancel)
        return (result.final or {}).get("datasets")

    def _confines(self, plan: Plan, recorded: str) -> SandboxScope:
        """What the call itself saw, and the recorded output: either may refer to what went in."""
        confines: SandboxScope = plan.confines
        if confines.places is None:
            return confines
        compared = replace(plan.draft, looked_at=(self.workspaces.input(recorded),))
        return replace(confines, places=places(compared))


def _refuse_changes(draft: Draft) -> None:
    if not _leaves_all(draft):
        raise not_repeatable()


def not_repeatable() -> ToolError:
    """The answer to a call that cannot be made twice."""
    return ToolError(
        Code.INVALID_ARGUMENT,
        Stage.VALIDATE,
        "the call changed, moved or took away what was there, which is not there any more to do it again.",
        "Only calls that read, or that write something new, are replayed.",
    )


def _leaves_all(draft: Draft) -> bool:
    """Whether all that a draft does to the workspace is to write outputs."""
    changes = any(one.update or one.replaces or one.shared or one.server_named for one in draft.outputs)
    return not (draft.transfers or draft.removes or changes)


def _digest(one: Staged, staging: OutputFolder, workspace: Workspace) -> str | None:
    """The digest of what is staged, as `PublishedFile` has it."""
    relative = PurePosixPath(staging.path.relative_to(workspace.root), one.name)
    return Materials.digest(Located(workspace, relative, is_folder=one.is_folder))
