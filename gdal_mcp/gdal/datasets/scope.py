"""What a call's container sees of the workspaces when only what the call names is mounted.

Invariants:
* every place was named by the call and looked up like any path, or stands beside such a file under a name that formats give
  to the parts of a dataset, or is the folder that is the dataset a named file is a part of;
* no file is opened to find others: what a file says of other files is never followed, as that is the attack;
* no place lies in another, and there are at most `MAX_PLACES`.
"""

import os
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.gdal.datasets.files import FOLDER_ENDINGS, FOLDER_MARKS
from gdal_mcp.gdal.datasets.sidecars import read_with
from gdal_mcp.plan import Draft
from sandbox.errors import PathRefused
from sandbox.workspace import Identity, Located, open_folder

MAX_PLACES: Final = 256  # so many delay the start of a container by about a second
ADVICE: Final = (
    "This server mounts only what a call names, so a dataset that refers to other files does not find them: name those files "
    "themselves, or ask the person who runs the server for --mount-scope workspaces."
)
_COVERAGE: Final = ".adf"  # any file of an Arc/Info coverage or grid names the whole


def places(draft: Draft) -> tuple[Located, ...]:
    """What to mount for a draft, the named ones first. Raises ToolError."""
    try:
        named = [_dataset_of(one) for one in (*draft.inputs, *draft.looked_at)]
        found = {str(one): one for one in (*named, *read_with(named))}
    except PathRefused as error:
        raise ToolError(
            Code.PATH_NOT_ALLOWED, Stage.RESOLVE, str(error), "Check the name and call again."
        ) from error
    outermost = tuple(
        one for one in found.values() if not any(str(folder) in found for folder in one.path.parents)
    )
    if len(outermost) > MAX_PLACES:
        raise _too_many(len(outermost))
    return outermost


def _dataset_of(named: Located) -> Located:
    """The folder that a file is a part of, as formats have it that make a dataset a folder; else what was named."""
    folder = next(_folders(named), None)
    return _folder(named, folder) if folder is not None else named


def _folders(named: Located) -> Iterator[PurePosixPath]:
    """The outermost first. A workspace itself is none."""
    above = [one for one in reversed(named.relative.parents) if one.parts]
    yield from (one for one in above if one.suffix.lower() in FOLDER_ENDINGS)
    marked = named.name in FOLDER_MARKS or named.relative.suffix.lower() == _COVERAGE
    if above and marked and not named.is_folder:
        yield named.relative.parent


def _folder(within: Located, relative: PurePosixPath) -> Located:
    with open_folder(within.workspace, relative) as opened:
        identity = Identity.of(os.fstat(opened))
    return Located(within.workspace, relative, identity, is_folder=True)


def _too_many(count: int) -> ToolError:
    return ToolError(
        Code.INVALID_ARGUMENT,
        Stage.RESOLVE,
        f"the call names {count} files with what belongs to them; this server mounts each by itself, and at most {MAX_PLACES}.",
        "Take them in parts and join the results, name a folder where the tool takes one, or ask the person who runs the server "
        "for --mount-scope workspaces.",
    )
