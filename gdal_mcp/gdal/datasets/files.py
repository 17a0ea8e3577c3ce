"""The files that a dataset is, where they may go, and what they are called there.

What belongs to a dataset is told by names alone, never by the list that its driver reports: that of a VRT holds its
sources, which are other people's files. A link is never followed to what is renamed or deleted, and neither a workspace
nor `.gdal-mcp` ever is one of these.
"""

import os
from pathlib import PurePosixPath
from typing import Final

from gdal_mcp.gdal.datasets.names import invalid, parse
from gdal_mcp.gdal.datasets.paths import POINTING, Paths
from gdal_mcp.gdal.datasets.sidecars import REPLACED, WHOLE
from gdal_mcp.plan import Output, OutputKind
from sandbox.errors import PathMissing, PathRefused
from sandbox.outputs.store import Transfer
from sandbox.workspace import Located, open_folder

FOLDER_ENDINGS: Final = WHOLE["folders"]
FOLDER_MARKS: Final = WHOLE["marks"]
_NAMED_INSIDE: Final = frozenset({".ige", ".rrd", ".rde"})  # an .img holds the names of these


def output_place(text: str, paths: Paths) -> Located:
    try:
        return paths.workspaces.output(text)
    except PathRefused:
        parse(text)  # tells of a name that is no path at all
        raise


def existing_place(text: str, paths: Paths) -> Located:
    """An existing file or folder that may be renamed or deleted: in a writable workspace, and no link."""
    found = output_place(text, paths)
    if found.identity is None:
        parse(text)
        raise PathMissing(f"{found.name!r} does not exist in a workspace.")
    return found


def free(target: Located) -> Located:
    if target.identity is not None:
        raise invalid(
            f"{target.name} exists already and would be lost.", "Choose another name, or delete it first."
        )
    return target


def place_inside(text: str, source: Located, paths: Paths) -> Located:
    """The place that a text names, or the source's name in it if it is a folder."""
    found = output_place(text, paths)
    return output_place(str(found.path / source.name), paths) if found.is_folder else found


def dataset(text: str, paths: Paths) -> Located:
    """The main file or folder of a dataset that may be renamed or deleted."""
    found = existing_place(text, paths)
    refuse_plain_folder(found)
    if (owner := paths.listings.owner(found)) is not None:
        raise invalid(f"{found.name} is a part of {owner.name}.", f"Name {owner.name}, or use the vsi tools.")
    return found


def files(main: Located, paths: Paths) -> tuple[Located, ...]:
    return (main, *paths.listings.companions(main))


def refuse_plain_folder(located: Located) -> None:
    """GDAL takes any folder with a shapefile in it for a dataset, and we would take all that is in it."""
    if not located.is_folder or ending(located) in FOLDER_ENDINGS:
        return
    with open_folder(located.workspace, located.relative) as folder, os.scandir(folder) as entries:
        if any(one.name in FOLDER_MARKS for one in entries):
            return
    raise invalid(
        f"{located.name} is a folder of files, not one dataset.",
        "Name a dataset in it, or use the vsi tools.",
    )


def destination(text: str, source: Located, paths: Paths, *, overwrite: bool) -> Output:
    """The place for a dataset under a new name, which keeps its extension."""
    found = output_place(text, paths)
    if found.is_folder and not (source.is_folder and ending(source) == ending(found)):
        text = str(found.path / source.name)
    kind: OutputKind = "folder" if source.is_folder else "dataset"
    output = paths.output(text, inputs=(source,), overwrite=overwrite, kind=kind)
    if ending(source) != ending(output.target):
        raise invalid(
            f"{source.name} would get another extension, and not another format.",
            "Keep the extension, or convert the dataset.",
        )
    refuse_nested(source, output.target)
    _refuse_torn(source, output.target, paths)
    return output


def _refuse_torn(source: Located, target: Located, paths: Paths) -> None:
    """Raises ToolError where the files under their new names might not be the dataset any more."""
    kind = ending(source)
    if not source.is_folder and kind not in REPLACED and kind not in WHOLE["files"]:
        raise invalid(
            f"which files belong to a dataset of the kind of {source.name} is not known.",
            "Use vsi move or vsi copy for each of its files, or convert the dataset.",
        )
    inner = next((one for one in files(source, paths) if ending(one) in _NAMED_INSIDE), None)
    if inner is not None:
        raise invalid(
            f"{source.name} holds the name of {inner.name}, so it would not find it under another.",
            "Use raster convert to write it under another name.",
        )
    if kind in POINTING and source.path.parent != target.path.parent:
        raise invalid(
            f"{source.name} names its sources relative to its folder, and would not find them from another.",
            "Give the new name in the same folder, or write it anew there.",
        )


def named_alike(source: Located, output: Output, paths: Paths) -> tuple[Transfer, ...]:
    """Each file of a dataset with its new name: what follows the name or the stem of the main file stays."""
    known = {one.name: one for one in output.replaces}
    folder = output.target.path.parent
    new = output.target.name
    named: dict[str, Located] = {}
    for one in files(source, paths):
        if one.name.startswith(source.name):
            named[new + one.name.removeprefix(source.name)] = one
        else:
            stem = PurePosixPath(source.name).stem
            named[PurePosixPath(new).stem + one.name.removeprefix(stem)] = one
    return tuple(
        Transfer(one, known.get(name) or free(output_place(str(folder / name), paths)))
        for name, one in named.items()
    )


def refuse_nested(source: Located, target: Located) -> None:
    if target.path.is_relative_to(source.path):
        raise invalid(
            f"the destination is {source.name} itself or lies in it.", "Choose another destination."
        )


def ending(located: Located) -> str:
    return located.relative.suffix.lower()
