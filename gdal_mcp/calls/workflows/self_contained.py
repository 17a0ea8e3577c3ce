"""Finds outputs of steps that name the files they were made of. Results of steps are private and removed later, so
such an output breaks.

`require_self_contained` checks known commands and formats before the first step runs; `find_name` searches the files
that are about to be published, for everything else.
"""

import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.remote.places import local
from gdal_mcp.toolboxes.gdal.datasets.paths import POINTING
from sandbox.workspace import Workspace

_FORMATS: Final = frozenset({"VRT", "GTI", "GDALG"})
_SUFFIXES: Final = (*POINTING, ".gdalg.json")
_CORRECTIONS: Final = {
    "raster footprint": "Set no_location_field.",
    **dict.fromkeys(("raster index", "vector index"), "Make the index of files in a workspace."),
}
# by command: the argument that leaves the name of the input out; "" if there is none
_COMMANDS: Final = {"raster index": "", "vector index": "", "raster footprint": "no-location-field"}


def require_self_contained(draft: Draft, store: Workspace) -> None:
    """Raises ToolError for an output that only names results in the store, where later steps and readers would not find them."""
    if any(located.workspace == store for located in local(draft.inputs)) and (how := _naming(draft)):
        raise ToolError(
            Code.INVALID_ARGUMENT,
            Stage.VALIDATE,
            f"its output ({how}) would only name the result of another step, which exists only while the workflow runs.",
            _CORRECTIONS.get(how, "Write a format that stores the data itself, such as .tif or .gpkg."),
        )


def _naming(draft: Draft) -> str:
    """The format or command by which the output of a call names its inputs; "" if it does not."""
    for path, arguments in draft.work.steps:
        omit = _COMMANDS.get(path)
        if omit is not None and not (omit and arguments.get(omit) == ("true",)):
            return path
        formats = (value.upper() for value in arguments.get("output-format", ()))
        if named := next((name for name in formats if name in _FORMATS), ""):
            return named
    names = (output.target.name.lower() for output in draft.outputs)
    return next((end for name in names for end in _SUFFIXES if name.endswith(end)), "")


def find_name(paths: Iterable[Path], names: Iterable[str]) -> Path | None:
    """The first of these files, or of the files in these folders, whose bytes contain one of the names.

    Links are not followed. Raises OSError.
    """
    wanted = [name.encode() for name in names]
    return next((file for path in paths for file in _files(path) if _contains(file, wanted)), None)


def _files(path: Path) -> Iterator[Path]:
    paths = path.rglob("*") if path.is_dir() else (path,)
    return (file for file in paths if file.is_file() and not file.is_symlink())


def _contains(file: Path, names: Iterable[bytes]) -> bool:
    if not file.stat().st_size:
        return False
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(content.find(name) >= 0 for name in names)
