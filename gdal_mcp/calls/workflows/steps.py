"""A step of a workflow as an ordinary call: its tool, the folder of its outputs, and what its container sees."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from gdal_mcp.calls.entitlements import Entitlements
from gdal_mcp.calls.operation import Operation
from gdal_mcp.calls.refusals import no_such_tool
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.toolboxes.base import Tool, spelling
from gdal_mcp.toolboxes.surface import Surface
from sandbox.workspace import Workspace, WorkspacePath, Workspaces

# arguments that name an output, in the tools and in the steps of a pipeline
_OUTPUTS: Final = frozenset("output dst_dataset dst_raster dst_vector dst_csv dst_vrt destination".split())


@dataclass(frozen=True, kw_only=True)
class WorkflowStep(Operation):
    """A step of a workflow: it may use the results of earlier steps, and writes only to the store.

    In the store, a step can only name its own folder and those of the finished steps of its workflow. The rest
    belongs to other runs, perhaps of other callers.
    """

    store: Workspace
    folders: tuple[PurePosixPath, ...]  # folders in the store

    def entitled(self, entitlements: Entitlements) -> Entitlements:
        items = (*entitlements.workspaces.items, replace(self.store, shown=self.folders))
        return replace(entitlements, workspaces=Workspaces(items))

    def accept(self, draft: Draft) -> None:
        """Raises ToolError for a step that would change a file of a workspace."""
        if (
            draft.files.transfers
            or draft.files.removes
            or any(output.target.workspace != self.store for output in draft.outputs)
        ):
            raise ToolError(
                Code.INVALID_ARGUMENT,
                Stage.VALIDATE,
                "a step of a workflow changes no file of a workspace.",
                "Give its output as a file name without a folder, and publish it with `outputs`; set `overwrite` there to replace.",
            )

    def visible(self, draft: Draft, workspaces: Workspaces) -> Workspaces:
        """The workspaces of the step's container.

        The store is left out for a step that reads no other step's output, so that a waiting container can run it.
        """
        if self._results(draft):
            return workspaces
        return Workspaces(tuple(workspace for workspace in workspaces.items if workspace != self.store))

    def places(self, draft: Draft, workspaces: Workspaces) -> tuple[WorkspacePath, ...] | None:
        """The workspaces, and the folders of the store that the step reads; None if it reads none of them.

        Other folders of the store may belong to other callers.
        """
        results = self._results(draft)
        if not results:
            return None
        roots = [
            WorkspacePath(workspace, PurePosixPath(), is_folder=True)
            for workspace in workspaces.items
            if workspace != self.store
        ]
        folders = dict.fromkeys(PurePosixPath(*located.relative.parts[:2]) for located in results)
        store = Workspaces((self.store,))
        return (*roots, *(store.input(str(self.store.root / folder)) for folder in folders))

    def _results(self, draft: Draft) -> list[WorkspacePath]:
        """The results of other steps that a step reads."""
        return [located for located in (*draft.inputs, *draft.looked_at) if located.workspace == self.store]


def step_folders(store: Workspace, own: Path, outputs: Iterable[Sequence[str]]) -> tuple[PurePosixPath, ...]:
    """The folders in the store that a step may use: its own, and those of the outputs of other steps."""
    folders = dict.fromkeys([own, *(Path(path).parent for paths in outputs for path in paths)])
    return tuple(PurePosixPath(folder.relative_to(store.root)) for folder in folders)


def tool_of(name: str, arguments: Mapping[str, Any], surface: Surface) -> tuple[Tool, Mapping[str, Any]]:
    """The tool of a step with its arguments. `gdal_write` or `gdal_read` runs an algorithm without a tool of its own.
    Raises ToolError.
    """
    if (tool := surface.callable.get(name)) is not None:
        return tool, arguments
    boxes = {box.name: box for box in surface.toolboxes.values()}.values()
    paths = {spelling(path): path for box in boxes for path in box.operations if surface.permits(path)}
    runner = surface.callable.get("gdal_write" if _OUTPUTS & set(arguments) else "gdal_read")
    if runner is None or spelling(name) not in paths:
        raise _not_available(name, surface)
    return runner, {"algorithm": paths[spelling(name)], "arguments": arguments}


def _not_available(name: str, surface: Surface) -> ToolError:
    """The error for an unknown tool. Workflows come from other servers too, so the tool may be switched off here."""
    error = no_such_tool(name, surface)
    hint = "The server's options `--toolsets` and `--toolboxes` switch tools on."
    return error.changed(suggestion=f"{error.suggestion} {hint}")


def require_container(tool: Tool) -> None:
    """Raises ToolError for a tool that cannot be a step."""
    if tool.reaches_out or tool.name.startswith("workflow_"):
        raise ToolError(
            Code.INVALID_ARGUMENT,
            Stage.VALIDATE,
            f"{tool.name} cannot be a step of a workflow.",
            "Call it by itself, and give what it finds as a parameter.",
        )


def require_bare_names(arguments: Any) -> None:
    """Raises ToolError for an output whose path has a folder."""
    if isinstance(arguments, Mapping):
        for key, value in arguments.items():
            if key.replace("-", "_") in _OUTPUTS and isinstance(value, str) and "/" in value:
                raise ToolError(
                    Code.INVALID_ARGUMENT,
                    Stage.VALIDATE,
                    f"the argument {key} is a path with a folder, and a step writes to a private folder.",
                    f"Give only a file name, such as {PurePosixPath(value).name[:80]!r}; `outputs` sets where the file is published.",
                    check={"code": "output_in_folder", "argument": key},
                )
            require_bare_names(value)


def place_outputs(arguments: Any, folder: Path) -> Any:
    """The arguments, with each output that is a bare file name placed in a folder."""
    if isinstance(arguments, Mapping):
        return {
            key: str(folder / value)
            if key.replace("-", "_") in _OUTPUTS and isinstance(value, str) and value and "/" not in value
            else place_outputs(value, folder)
            for key, value in arguments.items()
        }
    return (
        [place_outputs(argument, folder) for argument in arguments]
        if isinstance(arguments, list)
        else arguments
    )
