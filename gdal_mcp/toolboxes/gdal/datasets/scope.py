"""The files that a container sees if only the files named by the call are mounted.

Invariants:
* every mounted path was named by the call and looked up like any path, or is next to such a file under a name that
  formats use for the parts of a dataset, or is the folder of the dataset that a named file is part of;
* no file is opened to find others: references in a file are never followed, because an attacker may have written
  them;
* no mounted path is inside another, and there are at most `MAX_PLACES`.
"""

import os
from typing import Final

from gdal_mcp.plan import Draft
from gdal_mcp.remote.places import local
from gdal_mcp.toolboxes.gdal.datasets.names import invalid, refused
from gdal_mcp.toolboxes.gdal.datasets.sidecars import SINGLE_DATASETS, read_with
from sandbox.errors import PathRefused
from sandbox.workspace import Identity, WorkspacePath, open_folder

MAX_PLACES: Final = 256  # mounts; so many delay the start of a container by about a second
ADVICE: Final = (
    "This server mounts only what a call names, so a dataset that refers to other files does not find them: name those files "
    "themselves, or ask the person who runs the server for --mount-scope workspaces."
)
_COVERAGE: Final = ".adf"  # any file of an Arc/Info coverage or grid stands for the whole folder


def places(draft: Draft) -> tuple[WorkspacePath, ...]:
    """The paths to mount for a draft, those named by the call first. Raises ToolError."""
    try:
        named = [_dataset_of(located) for located in local((*draft.inputs, *draft.looked_at))]
        by_path = {str(located): located for located in (*named, *read_with(named))}
    except PathRefused as error:
        raise refused(str(error), "Check the name and call again.") from error
    inner = {
        name
        for name, located in by_path.items()
        if any(str(folder) in by_path for folder in located.path.parents)
    }
    outermost = tuple(located for name, located in by_path.items() if name not in inner)
    if len(outermost) > MAX_PLACES:
        raise invalid(
            f"the call names {len(outermost)} files with what belongs to them; this server mounts each by itself, and at most "
            f"{MAX_PLACES}.",
            "Take them in parts and join the results, name a folder where the tool takes one, or ask the person who runs the server "
            "for --mount-scope workspaces.",
        )
    return outermost


def _dataset_of(named: WorkspacePath) -> WorkspacePath:
    """The folder of a file's dataset, for formats whose datasets are folders; otherwise the named path itself."""
    above = [
        folder for folder in reversed(named.relative.parents) if folder.parts
    ]  # a workspace itself is not a dataset
    folders = [folder for folder in above if folder.suffix.lower() in SINGLE_DATASETS["folders"]]
    if not named.is_folder and (
        named.name in SINGLE_DATASETS["marks"] or named.relative.suffix.lower() == _COVERAGE
    ):
        folders += above[-1:]
    if not folders:
        return named
    with open_folder(named.workspace, folders[0]) as opened:
        return WorkspacePath(named.workspace, folders[0], Identity.of(os.fstat(opened)), is_folder=True)
