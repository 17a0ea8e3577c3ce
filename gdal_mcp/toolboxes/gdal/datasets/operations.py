"""GDAL's algorithms that copy, rename and delete files. The host, not GDAL, renames and deletes.

Invariants:
* the files of a dataset are recognised by name only (`gdal_mcp.toolboxes.gdal.datasets.sidecars`), never by the file
  list of its driver: that of a VRT includes its sources, which are other people's files;
* links are never followed to a file that is renamed or deleted; a workspace itself and `.gdal-mcp` are never renamed
  or deleted;
* GDAL inspects the files in the container, read-only. When that has succeeded, the host renames and removes them in
  one publication, which one undo reverts;
* all paths that change are in one workspace, because changes in two workspaces cannot be published at once.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Command, Draft, FileChanges, Output, OutputKind, PrintedOutput
from gdal_mcp.remote.address import is_address
from gdal_mcp.toolboxes.gdal.datasets.names import invalid, parse, refused
from gdal_mcp.toolboxes.gdal.datasets.paths import POINTING, Paths
from gdal_mcp.toolboxes.gdal.datasets.sidecars import REPLACED, SINGLE_DATASETS
from gdal_mcp.toolboxes.untrusted import clean_text
from sandbox.errors import PathMissing, PathRefused
from sandbox.outputs.inspection import listing_of
from sandbox.outputs.store import Transfer
from sandbox.workspace import WorkspacePath, open_folder

ArgumentValues = Mapping[str, tuple[str, ...]]
_NAMED_INSIDE: Final = frozenset({".ige", ".rrd", ".rde"})  # an .img contains the names of these files


def plan_operation(path: str, arguments: ArgumentValues, paths: Paths) -> Draft:
    """Plans one algorithm of `FILE_OPERATIONS` from arguments that are bound but not resolved. Raises ToolError."""
    if path == "dataset copy" and any(map(is_address, arguments.get("source", ()))):
        raise invalid("only files of a workspace are copied so.", "Use fetch, or vsi copy for a single file.")
    try:
        return _PLANNERS[path](arguments, paths)
    except PathMissing as error:
        raise ToolError(Code.NOT_FOUND, Stage.RESOLVE, str(error), "Check the name.") from error
    except PathRefused as error:
        fix = "Name a file or folder in a writable workspace; links are named by what they lead to."
        raise refused(str(error), fix) from error


def check_identified(identified: tuple[WorkspacePath, ...], named: tuple[str, ...], report: Any) -> None:
    """Raises ToolError unless GDAL identified each file, by one of the `named` drivers if there are any.

    `report` is the cleaned JSON of `dataset identify`.
    """
    rows = report if isinstance(report, list) else []
    known = {row.get("name"): row.get("driver") for row in rows if isinstance(row, dict)}
    drivers = {located: known.get(clean_text(str(located))) for located in identified}
    unknown = [
        located for located, driver in drivers.items() if not driver or driver not in (named or (driver,))
    ]
    if unknown:
        raise ToolError(
            Code.INVALID_ARGUMENT,
            Stage.RUN,
            f"GDAL knows {unknown[0].name!r} as no {named[0] if named else 'dataset'}; nothing was changed.",
            "Use vsi delete, vsi move or vsi copy for files that are no datasets.",
        )


# --- datasets


def _delete_datasets(arguments: ArgumentValues, paths: Paths) -> Draft:
    mains = tuple(_dataset(text, paths) for text in arguments.get("filename", ()))
    if not mains:
        raise invalid("filename is needed.", "Name one dataset or more.")
    files = (located for main in mains for located in (main, *paths.listings.companions(main)))
    gone = tuple({located.relative: located for located in files}.values())
    return _on_datasets(arguments, mains, gone, FileChanges(removes=gone))


def _move_dataset(arguments: ArgumentValues, paths: Paths, *, copies: bool) -> Draft:
    """Copies or renames a dataset to a new name with the same extension.

    If a dataset exists at the destination, its files that are not replaced are removed.
    """
    text = _one(arguments, "source")
    source = paths.input(text) if copies else _dataset(text, paths)
    if copies:
        _refuse_plain_folder(source)
    overwrite = arguments.get("overwrite") == ("true",)
    output = _destination(_one(arguments, "destination"), source, paths, overwrite=overwrite)
    moves = _moves_of(source, output, paths)
    targets = {transfer.target.relative: transfer.target for transfer in moves}
    stale = tuple(located for located in output.replaces if located.relative not in targets)
    if not copies:
        places = (*stale, *(place for transfer in moves for place in (transfer.source, transfer.target)))
        return _on_datasets(arguments, (source,), places, FileChanges(transfers=moves, removes=stale))
    outputs: tuple[Output, ...] = ()
    for transfer in moves:
        kind: OutputKind = "dataset" if transfer.source == source else "file"
        replaces = (transfer.target,) if transfer.target.identity is not None else ()
        outputs += (Output(transfer.target, kind, replaces=replaces),)
    draft = _on_datasets(arguments, (source,), (*stale, *targets.values()), FileChanges(moves, removes=stale))
    return replace(draft, outputs=outputs)


def _on_datasets(
    arguments: ArgumentValues,
    mains: tuple[WorkspacePath, ...],
    places: tuple[WorkspacePath, ...],
    changes: FileChanges,
) -> Draft:
    """The draft for datasets that GDAL must identify first. `places` are the paths that change."""
    _refuse_several(places)
    if any("," in str(main) for main in mains):  # GDAL would split the path
        fix = "Use vsi move to give it another name first."
        raise invalid("a path with a comma cannot be looked at.", fix)
    names = (f"--filename={main}" for main in mains)
    words = ("dataset", "identify", "--report-failures", "--output-format=json", *names)
    verify = partial(check_identified, mains, arguments.get("format", ()))
    files = replace(changes, listings=_listings(places))
    return Draft(Command("gdal", words), mains, files=files, printed=PrintedOutput(verify=verify))


def _dataset(text: str, paths: Paths) -> WorkspacePath:
    """The main file or folder of a dataset that may be renamed or deleted."""
    located = _existing(text, paths)
    _refuse_plain_folder(located)
    if (owner := paths.listings.owner(located)) is not None:
        raise invalid(
            f"{located.name} is a part of {owner.name}.", f"Name {owner.name}, or use the vsi tools."
        )
    return located


def _refuse_plain_folder(located: WorkspacePath) -> None:
    """Raises ToolError for a folder that is not one dataset.

    GDAL identifies every folder with a shapefile as a dataset, and all other files in it would be moved or deleted
    too.
    """
    if not located.is_folder or _ending(located) in SINGLE_DATASETS["folders"]:
        return
    with open_folder(located.workspace, located.relative) as folder, os.scandir(folder) as entries:
        if any(entry.name in SINGLE_DATASETS["marks"] for entry in entries):
            return
    fix = "Name a dataset in it, or use the vsi tools."
    raise invalid(f"{located.name} is a folder of files, not one dataset.", fix)


def _destination(text: str, source: WorkspacePath, paths: Paths, *, overwrite: bool) -> Output:
    destination = _place(text, paths)
    if destination.is_folder and not (source.is_folder and _ending(source) == _ending(destination)):
        text = str(destination.path / source.name)
    kind: OutputKind = "folder" if source.is_folder else "dataset"
    output = paths.output(text, inputs=(source,), overwrite=overwrite, kind=kind)
    target, ending = output.target, _ending(source)
    if ending != _ending(target):
        raise invalid(
            f"{source.name} would get another extension, and not another format.",
            "Keep the extension, or convert the dataset.",
        )
    _refuse_nested(source, target)
    # under new names, the files might no longer be one dataset
    if not source.is_folder and ending not in REPLACED and ending not in SINGLE_DATASETS["files"]:
        raise invalid(
            f"which files belong to a dataset of the kind of {source.name} is not known.",
            "Use vsi move or vsi copy for each of its files, or convert the dataset.",
        )
    for inner in (source, *paths.listings.companions(source)):
        if _ending(inner) in _NAMED_INSIDE:
            raise invalid(
                f"{source.name} holds the name of {inner.name}, so it would not find it under another.",
                "Use raster convert to write it under another name.",
            )
    if ending in POINTING and source.path.parent != target.path.parent:
        raise invalid(
            f"{source.name} names its sources relative to its folder, and would not find them from another.",
            "Give the new name in the same folder, or write it anew there.",
        )
    return output


def _moves_of(source: WorkspacePath, output: Output, paths: Paths) -> tuple[Transfer, ...]:
    """The new path of each file of a dataset; the part after the main file's name or stem is unchanged."""
    known = {located.name: located for located in output.replaces}
    old, new = PurePosixPath(source.name), PurePosixPath(output.target.name)
    moves = []
    for located in (source, *paths.listings.companions(source)):
        has_full_name = located.name.startswith(old.name)
        before, after = (old.name, new.name) if has_full_name else (old.stem, new.stem)
        name = after + located.name.removeprefix(before)
        target = known.get(name) or _free(_place(str(output.target.path.parent / name), paths))
        moves.append(Transfer(located, target))
    return tuple(moves)


# --- files and folders


def _delete_file(arguments: ArgumentValues, paths: Paths) -> Draft:
    gone = _existing(_one(arguments, "filename"), paths)
    if gone.is_folder and arguments.get("recursive") != ("true",):
        with open_folder(gone.workspace, gone.relative) as opened, os.scandir(opened) as entries:
            if next(entries, None) is not None:
                fix = "Set recursive to delete it with all in it."
                raise invalid(f"folder {gone.name} is not empty.", fix)
    return Draft(_list(gone), (gone,), files=FileChanges(removes=(gone,), listings=_listings((gone,))))


def _move_file(arguments: ArgumentValues, paths: Paths) -> Draft:
    source = _existing(_one(arguments, "source"), paths)
    target = _inside(_one(arguments, "destination"), source, paths)
    _refuse_several((source, target))
    files = FileChanges(transfers=(Transfer(source, target),), listings=_listings((source,)))
    return Draft(_list(source), (source,), files=files)


def _copy_file(arguments: ArgumentValues, paths: Paths) -> Draft:
    source = _tree(_one(arguments, "source"), paths)
    if source.is_folder and arguments.get("recursive") != ("true",):
        raise invalid(f"{source.name} is a folder.", "Set recursive to copy it with all in it.")
    target = _inside(_one(arguments, "destination"), source, paths)
    output = Output(target, "folder" if source.is_folder else "file")
    recursive = ("--recursive",) if source.is_folder else ()  # GDAL refuses the switch for a file
    skipping = ("--skip-errors",) if arguments.get("skip-errors") == ("true",) else ()
    ends = (f"--source={source}", f"--destination={output.inside}")
    return Draft(Command("gdal", ("vsi", "copy", *recursive, *skipping, *ends)), (source,), (output,))


def _sync(arguments: ArgumentValues, paths: Paths) -> Draft:
    """Plans `vsi sync`.

    As in GDAL, a source that ends with a slash stands for its contents, otherwise for the folder itself.
    """
    text = _one(arguments, "source")
    source = _tree(text, paths)
    destination = _place(_one(arguments, "destination"), paths)
    nested = source.is_folder and not text.endswith("/")
    if destination.is_folder and (nested or not source.is_folder):
        destination, nested = _place(str(destination.path / source.name), paths), False
    there = destination.identity is not None
    if there and destination.is_folder is not source.is_folder:
        raise invalid(
            f"{destination.name} would turn from file to folder or back.", "Choose another destination."
        )
    _refuse_nested(source, destination)
    kind: OutputKind = "folder" if source.is_folder else "file"
    output = Output(destination, kind, update=there, replaces=(destination,) if there else ())
    recursive = ("--recursive",) if arguments.get("recursive") == ("true",) else ()
    values = (
        f"--{name}={value}" for name in ("strategy", "num-threads") for value in arguments.get(name, ())
    )
    named = f"{source}/" if source.is_folder and not nested else str(source)
    words = ("vsi", "sync", *recursive, *values, f"--source={named}", f"--destination={output.inside}")
    return Draft(
        Command("gdal", words), (source,), (output,), FileChanges(listings=_listings((destination,)))
    )


_PLANNERS: Final[Mapping[str, Callable[[ArgumentValues, Paths], Draft]]] = {
    "dataset copy": partial(_move_dataset, copies=True),
    "dataset delete": _delete_datasets,
    "dataset rename": partial(_move_dataset, copies=False),
    "vsi copy": _copy_file,
    "vsi delete": _delete_file,
    "vsi move": _move_file,
    "vsi sync": _sync,
}
FILE_OPERATIONS: Final = frozenset(_PLANNERS)
# every call needs approval, regardless of the policy
ALWAYS_ASKED: Final = FILE_OPERATIONS - {"dataset copy", "vsi copy"}


def _list(located: WorkspacePath) -> Command:
    return Command("gdal", ("vsi", "list", "--output-format=json", f"--filename={located}"))


def _place(text: str, paths: Paths) -> WorkspacePath:
    try:
        return paths.workspaces.output(text)
    except PathRefused:
        parse(text)  # raises the error for a name that is not a path
        raise


def _existing(text: str, paths: Paths) -> WorkspacePath:
    """A file or folder that may be renamed or deleted: in a writable workspace, and not a link."""
    located = _place(text, paths)
    if located.identity is None:
        parse(text)
        raise PathMissing(f"{located.name!r} does not exist in a workspace.")
    return located


def _free(target: WorkspacePath) -> WorkspacePath:
    if target.identity is not None:
        fix = "Choose another name, or delete it first."
        raise invalid(f"{target.name} exists already and would be lost.", fix)
    return target


def _inside(text: str, source: WorkspacePath, paths: Paths) -> WorkspacePath:
    """The unused destination; if the text names an existing folder, the source's name in that folder."""
    destination = _place(text, paths)
    target = _free(
        _place(str(destination.path / source.name), paths) if destination.is_folder else destination
    )
    _refuse_nested(source, target)
    return target


def _tree(text: str, paths: Paths) -> WorkspacePath:
    located = paths.tree(text)
    if not located.relative.parts:
        raise PathRefused("a whole workspace is not copied. Name a folder in it.")
    return located


def _refuse_nested(source: WorkspacePath, target: WorkspacePath) -> None:
    if target.path.is_relative_to(source.path):
        fix = "Choose another destination."
        raise invalid(f"the destination is {source.name} itself or lies in it.", fix)


def _refuse_several(places: tuple[WorkspacePath, ...]) -> None:
    if len({located.workspace.root for located in places}) > 1:
        raise invalid(
            "files of two workspaces would change, which cannot be published or undone at once.",
            "Copy to the other workspace first, then delete the source, in two calls.",
        )


def _listings(places: tuple[WorkspacePath, ...]) -> Mapping[PurePosixPath, str]:
    return {located.relative: listing_of(located) for located in places if located.is_folder}


def _ending(located: WorkspacePath) -> str:
    return located.relative.suffix.lower()


def _one(arguments: ArgumentValues, name: str) -> str:
    values = arguments.get(name, ())
    if len(values) != 1:
        raise invalid(f"{name} is needed, once.", "Give it.")
    return values[0]
