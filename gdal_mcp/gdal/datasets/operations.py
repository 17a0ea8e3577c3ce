"""GDAL's algorithms that copy, rename and delete files, as calls in which GDAL moves nothing.

Invariants:
* what belongs to a dataset is told by names alone (`gdal_mcp.gdal.datasets.sidecars`), never by the list that its driver reports:
  that of a VRT holds its sources, which are other people's files;
* a link is never followed to what is renamed or deleted, and neither a workspace nor `.gdal-mcp` ever is one of these;
* GDAL looks at the files in the container, read-only; the host renames and removes once that succeeded, in one
  publication, which one undo takes back;
* all places that change are in one workspace: there is no such promise across two.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.gdal.datasets.files import (
    dataset,
    destination,
    existing_place,
    files,
    free,
    named_alike,
    output_place,
    place_inside,
    refuse_nested,
    refuse_plain_folder,
)
from gdal_mcp.gdal.datasets.names import invalid, refused
from gdal_mcp.gdal.datasets.paths import Paths
from gdal_mcp.plan import Output, OutputKind
from gdal_mcp.remote.address import is_address
from gdal_mcp.untrusted import clean_text
from sandbox.errors import PathMissing, PathRefused
from sandbox.outputs.inspection import listing_of
from sandbox.outputs.store import Transfer
from sandbox.workspace import Located, open_folder

Given = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class FileWork:
    """One file operation: what runs in the container, and what the host does before and after it."""

    argv: tuple[str, ...]  # after `gdal`; it writes at most to the outputs' places in staging
    inputs: tuple[Located, ...]
    outputs: tuple[Output, ...] = ()
    copies: tuple[Transfer, ...] = ()  # before: each source to the staged name of its target, an output
    transfers: tuple[Transfer, ...] = ()  # after: each is renamed
    removes: tuple[Located, ...] = ()  # after: each is taken away, with all that is in it
    listings: Mapping[PurePosixPath, str] = field(default_factory=dict)  # for `Staging.publish`
    identified: tuple[Located, ...] = ()  # GDAL must know each, see `check_identified`


Planner = Callable[[Given, Paths], FileWork]


def plan_operation(path: str, given: Given, paths: Paths) -> FileWork:
    """The work of one algorithm of `FILE_OPERATIONS` on arguments that are bound but not resolved. Raises ToolError."""
    if given.get("format"):
        raise invalid("the driver is found by looking at the files.", "Leave `format` out.")
    if path == "dataset copy" and any(map(is_address, given.get("source", ()))):
        raise invalid("only files of a workspace are copied so.", "Use fetch, or vsi copy for a single file.")
    try:
        return _PLANNERS[path](given, paths)
    except PathMissing as error:
        raise ToolError(Code.NOT_FOUND, Stage.RESOLVE, str(error), "Check the name.") from error
    except PathRefused as error:
        fix = "Name a file or folder in a writable workspace; links are named by what they lead to."
        raise refused(str(error), fix) from error


def check_identified(identified: tuple[Located, ...], report: Any) -> None:
    """Raises ToolError unless GDAL's report (the JSON of `dataset identify`, cleaned) names a driver for each file."""
    rows = report if isinstance(report, list) else []
    known = {row.get("name") for row in rows if isinstance(row, dict) and row.get("driver")}
    unknown = [one for one in identified if clean_text(str(one)) not in known]
    if unknown:
        raise ToolError(
            Code.INVALID_ARGUMENT,
            Stage.RUN,
            f"GDAL knows no format of {unknown[0].name!r}, so it is no dataset; nothing was changed.",
            "Use vsi delete, vsi move or vsi copy for files that are no datasets.",
        )


def _delete_datasets(given: Given, paths: Paths) -> FileWork:
    mains = tuple(dataset(text, paths) for text in given.get("filename", ()))
    if not mains:
        raise invalid("filename is needed.", "Name one dataset or more.")
    gone = tuple({one.relative: one for main in mains for one in files(main, paths)}.values())
    _refuse_several(gone)
    return FileWork(_identify(mains), mains, removes=gone, listings=_listings(gone), identified=mains)


def _rename_dataset(given: Given, paths: Paths) -> FileWork:
    source = dataset(_one(given, "source"), paths)
    output = destination(_one(given, "destination"), source, paths, overwrite=_true(given, "overwrite"))
    _refuse_several((source, output.target))
    transfers = named_alike(source, output, paths)
    stale = _stale(output, transfers)
    places = (*stale, *(place for one in transfers for place in (one.source, one.target)))
    return FileWork(
        _identify((source,)),
        (source,),
        transfers=transfers,
        removes=stale,
        listings=_listings(places),
        identified=(source,),
    )


def _copy_dataset(given: Given, paths: Paths) -> FileWork:
    source = paths.input(_one(given, "source"))
    refuse_plain_folder(source)
    output = destination(_one(given, "destination"), source, paths, overwrite=_true(given, "overwrite"))
    copies = named_alike(source, output, paths)
    stale = _stale(output, copies)
    outputs = tuple(
        Output(one.target, "dataset" if one.source == source else "file", replaces=_there(one.target))
        for one in copies
    )
    return FileWork(
        _identify((source,)),
        (source,),
        outputs=outputs,
        copies=copies,
        removes=stale,
        listings=_listings((*stale, *(one.target for one in copies))),
        identified=(source,),
    )


def _delete_file(given: Given, paths: Paths) -> FileWork:
    gone = existing_place(_one(given, "filename"), paths)
    if gone.is_folder and not _true(given, "recursive"):
        with open_folder(gone.workspace, gone.relative) as opened, os.scandir(opened) as entries:
            if next(entries, None) is not None:
                fix = "Set recursive to delete it with all in it."
                raise invalid(f"folder {gone.name} is not empty.", fix)
    return FileWork(_list(gone), (gone,), removes=(gone,), listings=_listings((gone,)))


def _move_file(given: Given, paths: Paths) -> FileWork:
    source = existing_place(_one(given, "source"), paths)
    target = free(place_inside(_one(given, "destination"), source, paths))
    _refuse_several((source, target))
    refuse_nested(source, target)
    transfers = (Transfer(source, target),)
    return FileWork(_list(source), (source,), transfers=transfers, listings=_listings((source,)))


def _copy_file(given: Given, paths: Paths) -> FileWork:
    source = _tree(_one(given, "source"), paths)
    if source.is_folder and not _true(given, "recursive"):
        raise invalid(f"{source.name} is a folder.", "Set recursive to copy it with all in it.")
    target = free(place_inside(_one(given, "destination"), source, paths))
    refuse_nested(source, target)
    output = Output(target, "folder" if source.is_folder else "file")
    recursive = ("--recursive",) if source.is_folder else ()  # GDAL refuses it for a file
    skipping = ("--skip-errors",) if _true(given, "skip-errors") else ()
    argv = ("vsi", "copy", *recursive, *skipping)
    return FileWork((*argv, f"--source={source}", f"--destination={output.inside}"), (source,), (output,))


def _sync(given: Given, paths: Paths) -> FileWork:
    """As GDAL has it, a source that ends with a slash is its contents; else it gets its own name in the destination."""
    text = _one(given, "source")
    source = _tree(text, paths)
    found = output_place(_one(given, "destination"), paths)
    nested = source.is_folder and not text.endswith("/")
    if found.is_folder and (nested or not source.is_folder):
        found, nested = output_place(str(found.path / source.name), paths), False
    if found.identity is not None and found.is_folder is not source.is_folder:
        raise invalid(f"{found.name} would turn from file to folder or back.", "Choose another destination.")
    refuse_nested(source, found)
    kind: OutputKind = "folder" if source.is_folder else "file"
    output = Output(found, kind, update=found.identity is not None, replaces=_there(found))
    recursive = ("--recursive",) if _true(given, "recursive") else ()
    values = (f"--{name}={value}" for name in ("strategy", "num-threads") for value in given.get(name, ()))
    argv = ("vsi", "sync", *recursive, *values)
    named = f"{source}/" if source.is_folder and not nested else str(source)
    argv = (*argv, f"--source={named}", f"--destination={output.inside}")
    return FileWork(argv, (source,), (output,), listings=_listings((found,)))


_PLANNERS: Final[Mapping[str, Planner]] = MappingProxyType(
    {
        "dataset copy": _copy_dataset,
        "dataset delete": _delete_datasets,
        "dataset rename": _rename_dataset,
        "vsi copy": _copy_file,
        "vsi delete": _delete_file,
        "vsi move": _move_file,
        "vsi sync": _sync,
    }
)
FILE_OPERATIONS: Final = frozenset(_PLANNERS)
# a person says yes to each call, whatever the policy
ALWAYS_ASKED: Final = FILE_OPERATIONS - {"dataset copy", "vsi copy"}


def _identify(located: tuple[Located, ...]) -> tuple[str, ...]:
    if any("," in str(one) for one in located):  # GDAL would read two names
        raise invalid(
            "a path with a comma cannot be looked at.", "Use vsi move to give it another name first."
        )
    names = (f"--filename={one}" for one in located)
    return ("dataset", "identify", "--report-failures", "--output-format=json", *names)


def _list(located: Located) -> tuple[str, ...]:
    return ("vsi", "list", "--output-format=json", f"--filename={located}")


# --- places


def _tree(text: str, paths: Paths) -> Located:
    found = paths.tree(text)
    if not found.relative.parts:
        raise PathRefused("a whole workspace is not copied. Name a folder in it.")
    return found


def _stale(output: Output, transfers: tuple[Transfer, ...]) -> tuple[Located, ...]:
    """What is replaced under a name that nothing gets."""
    goes = {one.target.relative for one in transfers}
    return tuple(one for one in output.replaces if one.relative not in goes)


def _there(target: Located) -> tuple[Located, ...]:
    return (target,) if target.identity is not None else ()


def _listings(places: tuple[Located, ...]) -> Mapping[PurePosixPath, str]:
    return {one.relative: listing_of(one) for one in places if one.is_folder}


def _refuse_several(places: tuple[Located, ...]) -> None:
    if len({one.workspace.root for one in places}) > 1:
        raise invalid(
            "files of two workspaces would change, which cannot be published or undone at once.",
            "Copy to the other workspace first, then delete the source, in two calls.",
        )


# --- arguments


def _one(given: Given, name: str) -> str:
    values = given.get(name, ())
    if len(values) != 1:
        raise invalid(f"{name} is needed, once.", "Give it.")
    return values[0]


def _true(given: Given, name: str) -> bool:
    return given.get(name) == ("true",)
