"""Resolves the path texts of a call to `WorkspacePath`s, `Source`s and `Output`s. Errors say what to do next.

A text is first looked up as a path and opened by its absolute path, for which GDAL's special names have no meaning.
Only a text that is not a file or folder in a workspace is parsed as another kind of dataset name.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Final, TypeAlias

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Output, OutputKind
from gdal_mcp.remote.address import is_address
from gdal_mcp.remote.places import AddressTable, Remote
from gdal_mcp.toolboxes.base import nearest
from gdal_mcp.toolboxes.gdal.datasets.names import DatasetName, invalid, parse, refused
from gdal_mcp.toolboxes.gdal.datasets.sidecars import Listings, could_belong, regular_files, shared_endings
from gdal_mcp.toolboxes.gdal.datasets.trees import Tree
from gdal_mcp.toolboxes.untrusted import clean_text
from sandbox.errors import PathMissing, PathRefused
from sandbox.workspace import RESERVED, Identity, WorkspacePath, Workspaces

_MAX_FOLDERS: Final = 5  # in the text of an error
# the address of an archive and the path inside it; without braces, the extension marks the end of the address
_IN_ARCHIVE: Final = re.compile(r"(.+?\.(?:zip|kmz|tar|tgz|tar\.gz))(/.*)?", re.IGNORECASE | re.DOTALL)
POINTING: Final = frozenset({".vrt", ".gti"})  # files that contain the names of their sources


@dataclass(frozen=True, slots=True)
class Source:
    """A dataset to read: its file or folder in a workspace, and its name for GDAL."""

    located: WorkspacePath
    name: str
    in_archive: bool = False

    @property
    def is_plain(self) -> bool:
        """True if the dataset is the file or folder itself, neither a part of it nor in an archive."""
        return self.name == str(self.located)


class Reading:
    """The inputs of a call, to be compared with its outputs.

    Invariants:
    * a path belongs to an input if it is the input, has a name that goes with it, or is a folder that contains it;
      files next to an archive do not belong to a file in it;
    * a name that two datasets could claim belongs to both: it is better to refuse too much than too little;
    * construction takes one pass over the inputs; the cost of a query does not grow with their number.
    """

    def __init__(self, inputs: "Iterable[WorkspacePath | Source]") -> None:
        self._paths: set[str] = set()
        self._mains: set[tuple[str, str]] = set()
        self._endings: dict[tuple[str, str], frozenset[str]] = {}
        for source in dict.fromkeys(inputs):
            located = source.located if isinstance(source, Source) else source
            self._paths.add(str(located))
            if located.is_folder or (isinstance(source, Source) and source.in_archive):
                continue
            folder = str(located.path.parent)
            self._mains.add((folder, located.name))
            if own := shared_endings(located.name):
                key = (folder, PurePosixPath(located.name).stem)
                self._endings[key] = own | self._endings.get(key, frozenset())
        self._sorted = sorted(self._paths)

    def takes(self, place: WorkspacePath) -> bool:
        """True if an output at this path would replace a file that the call reads."""
        if str(place) in self._paths:
            return True
        if place.identity is None:  # a missing file cannot belong to an input
            return False
        if place.is_folder:
            at = bisect_left(self._sorted, f"{place}/")
            return at < len(self._sorted) and self._sorted[at].startswith(f"{place}/")
        folder = str(place.path.parent)
        return any(
            (folder, stem) in self._mains
            if ending is None
            else ending in self._endings.get((folder, stem), ())
            for stem, ending in could_belong(place.name)
        )


Inputs: TypeAlias = tuple[WorkspacePath | Source, ...] | Reading


@dataclass(frozen=True, slots=True)
class Paths:
    """The workspaces while one call is drafted. Each folder is listed once.

    `call_id` is used for the names of outputs that the caller did not name. With `as_new`, existing files at the
    outputs are ignored: the recorded call with that id is drafted again as it was before it ran, and writes nothing.
    """

    workspaces: Workspaces
    outputs_folder: str
    call_id: str
    threads: int = 1  # limit of this server's containers
    as_new: bool = False
    listings: Listings = field(default_factory=Listings, compare=False, repr=False)
    # None: addresses are not accepted
    remote: AddressTable | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for workspace in self.workspaces.items:
            if workspace.root.parts[1].lower().startswith("vsi"):
                why = f"GDAL takes names under {workspace.root} for something else, so it is no workspace."
                raise _refusal(PathRefused(why), self.workspaces)

    def _remote(self, text: str) -> Remote | None:
        return self.remote.place(text) if self.remote is not None and is_address(text) else None

    def input(self, text: str) -> WorkspacePath:
        """An existing file or folder by its plain path, or remote data. Raises ToolError."""
        if (remote := self._remote(text)) is not None:
            return remote
        try:
            return self.workspaces.input(text)
        except PathRefused as error:
            if not parse(text).is_plain:
                raise refused(
                    "this argument takes the plain path of a file or folder, not a part of one or a file in an archive.",
                    "Give the path of the file or folder itself.",
                ) from error
            raise self._refused(text, error) from error

    def _refused(self, text: str, error: PathRefused) -> ToolError:
        """The error for a path that cannot be used, with the existing names most similar to a missing one."""
        refusal = _refusal(error, self.workspaces)
        folder, _, name = text.rpartition("/")
        if isinstance(error, PathMissing) and (folder or not text.startswith("/")):
            with suppress(PathRefused):
                beside = self.workspaces.input(folder or ".")
                there = self.listings.names(beside.workspace, beside.relative) if beside.is_folder else []
                if near := nearest(
                    name, [existing for existing in there if existing.casefold() != RESERVED], 3
                ):
                    refusal.untrusted = {"similar": [clean_text(existing, 255) for existing in near]}
        return refusal

    def inputs(self, texts: list[str]) -> tuple[WorkspacePath, ...]:
        return tuple(map(self.input, texts))

    def folder(self, text: str) -> WorkspacePath:
        """An existing folder of a workspace by its plain path. Raises ToolError."""
        if is_address(text):
            raise refused("this takes a folder of a workspace.", "Use remote_list for what a bucket holds.")
        return _must_be("folder", self.input(text))

    def source(self, text: str) -> Source:
        """An existing dataset: a plain path, an address, a file in an archive, or a part of a file. Raises ToolError."""
        if (remote := self._remote(text)) is not None:
            return Source(remote, str(remote))
        try:
            located = self.workspaces.input(text)
        except PathRefused as error:
            name = parse(text, addresses=self.remote is not None)
            if name.is_plain:
                raise self._refused(text, error) from error
            return self._within(name)
        return Source(located, DatasetName("", text, "").at(str(located)))

    def tree(self, text: str) -> WorkspacePath:
        """An existing file, or a folder that GDAL may walk: no link in it leads out or in a circle. Raises ToolError.

        Links to targets in the workspaces are accepted. Files that are added to the folder later are not checked.
        """
        located = self.input(text)
        if located.is_folder and not isinstance(located, Remote):
            try:
                Tree(self.workspaces).check(located, ())
            except PathRefused as error:
                raise _refusal(error, self.workspaces) from error
        return located

    def _within(self, name: DatasetName) -> Source:
        """The source of a parsed name; for an unsplit archive name, the first split whose path is a file.

        Raises ToolError.
        """
        if self.remote is not None and is_address(name.path):
            archive = _archive_of(name)
            remote = self.remote.place(archive.path)
            return Source(remote, archive.at(str(remote)), archive.in_archive)
        failure = PathRefused("the path is empty.")
        for reading in name.splits():
            try:
                located = self.workspaces.input(reading.path)
            except PathRefused as error:
                failure = error
                continue
            if name.unsplit and located.is_folder:
                failure = PathRefused("no part of the path is a file; an archive is one.")
                continue
            _must_be(reading.place, located)
            return Source(located, reading.at(str(located)), reading.in_archive)
        raise _refusal(failure, self.workspaces) from failure

    def output(
        self,
        text: str,
        *,
        inputs: Inputs,
        overwrite: bool,
        update: bool = False,
        kind: OutputKind = "dataset",
    ) -> Output:
        """A path to write. With `update`, the call works on a copy of an existing dataset. Raises ToolError.

        An existing folder is replaced as a whole; its contents are kept for undo.
        """
        try:
            target = self.workspaces.output(text)
        except PathRefused as error:
            parse(text)
            refusal = _refusal(error, self.workspaces)
            if isinstance(error, PathMissing):
                refusal.suggestion = (
                    "Calls create no folders: write to a folder that exists, or ask the user to create it."
                )
            raise refusal from error
        if target.identity is None:
            refuse_other_name(text)
        if self.as_new:
            return Output(replace(target, identity=None, is_folder=False), kind)
        if target.identity and kind != "dataset" and target.is_folder != (kind == "folder"):
            there, wanted = ("folder", "file") if target.is_folder else ("file", "folder")
            why = f"{target.name} is a {there}, and this output is a {wanted}."
            raise invalid(why, "Write to another name.")
        if self.remote is not None and self.remote.addresses and target.relative.suffix.lower() in POINTING:
            raise invalid(
                "such a file would name the remote data as this one call sees it, which means nothing afterwards.",
                "Write a format that holds the data, such as COG, or fetch the files into a workspace first.",
            )
        replaces = self._replaced(target, kind)
        shared = () if kind == "folder" else _shared(target, replaces)
        read = inputs if isinstance(inputs, Reading) else Reading(inputs)
        if any(read.takes(located) for located in (target, *replaces, *shared)):
            raise invalid(
                "the output, or a file that goes with it, belongs to an input; a dataset is never converted onto itself.",
                "Write to another name.",
            )
        if replaces and not overwrite and not update:
            raise invalid(
                f"{replaces[0].name} already exists and overwrite is false.",
                "Choose another name, or set overwrite to true; what is replaced can be restored with undo.",
            )
        return Output(target, kind, update and target.identity is not None, replaces, shared)

    def _replaced(self, target: WorkspacePath, kind: OutputKind) -> tuple[WorkspacePath, ...]:
        """The files that an output replaces: those of the existing dataset, the main file first.

        Companions without their main file are included, because they would be taken for those of the new dataset. A
        folder has no companions.
        """
        exists = target.identity is not None
        if kind == "folder":
            return (target,) if exists else ()
        assumed = target if exists else replace(target, identity=Identity(0, 0, 0, 0))
        try:
            return (*([target] if exists else []), *self.listings.companions(assumed))
        except PathRefused as error:
            raise refused(str(error), "Write to another name, or move that file away.") from error

    def new_output(self, stem: str, extension: str, kind: OutputKind = "dataset") -> Output:
        """A uniquely named output in the outputs folder of the first writable workspace."""
        workspace = next((workspace for workspace in self.workspaces.items if workspace.writable), None)
        if workspace is None:
            message = "every workspace is read-only, so there is nowhere to write."
            raise refused(message, "Start the server with --workspace DIR.")
        safe = re.sub(r"[^A-Za-z0-9._-]", "_", stem)[:80].lstrip("-.") or "output"
        name = f"{safe}_{self.call_id[-10:]}{extension}"
        target = WorkspacePath(workspace, PurePosixPath(self.outputs_folder, name))
        return Output(target, kind, server_named=not self.as_new)


def family(source: WorkspacePath | Source, listings: Listings | None = None) -> tuple[Path, ...]:
    """The paths that belong to an input, its own first, then those of its companions.

    Companions that cannot be determined are left out. Files next to an archive do not belong to a file in it.
    """
    if isinstance(source, Source):
        return (source.located.path,) if source.in_archive else family(source.located, listings)
    if source.is_folder:
        return (source.path,)
    try:
        own = (listings or Listings()).companions(source)
    except PathRefused:
        own = ()
    return (source.path, *(located.path for located in (*own, *_shared(source, own))))


def companions() -> Callable[[WorkspacePath], tuple[Path, ...]]:
    """A function that finds the companions of an input by name. It lists each folder once."""
    listings = Listings()
    return lambda located: family(located, listings)[1:]


def refuse_other_name(text: str) -> None:
    """Raises ToolError if the name of a new file looks like a part of a dataset or like a database connection.

    Such a file would hide the dataset or connection of that name.
    """
    try:
        plain = parse(text).is_plain
    except ToolError as error:
        plain = error.code is not Code.NETWORK_BLOCKED
    if not plain:
        raise refused(
            "the name of the output reads like a part of a dataset or like a connection, and only files are written.",
            "Give the plain name of a file, such as out.tif.",
        )


def _shared(target: WorkspacePath, replaces: tuple[WorkspacePath, ...]) -> tuple[WorkspacePath, ...]:
    """Files with endings of the output's format that are not in `replaces`, because another dataset has them too."""
    names = {f"{target.path.stem}{ending}" for ending in shared_endings(target.name)}
    beside = sorted(names - {located.name for located in replaces})
    return tuple(regular_files(target.workspace, target.relative.parent, beside))


def _must_be(place: str, located: WorkspacePath) -> WorkspacePath:
    if place != "any" and located.is_folder != (place == "folder"):
        there = "folder" if located.is_folder else "file"
        why = f"{located.name!r} is a {there}, and a {place} is needed here."
        raise refused(why, f"Give the path of a {place}.")
    return located


def _archive_of(name: DatasetName) -> DatasetName:
    """The name with only the archive's address as its path. Raises ToolError if the end of the address is unclear."""
    if not name.unsplit:
        return name
    if match := _IN_ARCHIVE.fullmatch(name.path):
        return replace(name, path=match[1], after=f"}}{match[2] or ''}{name.after}", unsplit=False)
    why = "where the address of the archive ends cannot be told from its name."
    raise refused(why, "Write /vsizip/{ADDRESS}/NAME INSIDE.")


def _refusal(error: PathRefused, workspaces: Workspaces) -> ToolError:
    """The error for a path outside the workspaces, which names them, or for a missing file."""
    if isinstance(error, PathMissing):
        fix = "Check the name; relative paths start at the first workspace."
        if "*" in str(error):
            fix = "No pattern is expanded here: list_workspace has the names for one, and raster index takes a folder."
        return ToolError(Code.NOT_FOUND, Stage.RESOLVE, str(error), fix)
    return refused(str(error), f"Use a path inside a workspace: {_folders(workspaces)}.")


def _folders(workspaces: Workspaces) -> str:
    """The folders in which paths can be named, for an error."""
    folders = [
        f"{workspace.root / folder}{'' if workspace.writable else ' (read-only)'}"
        for workspace in workspaces.items
        for folder in (workspace.shown if workspace.shown is not None else (PurePosixPath(),))
    ]
    more = f" and {len(folders) - _MAX_FOLDERS} more" if len(folders) > _MAX_FOLDERS else ""
    return f"{', '.join(folders[:_MAX_FOLDERS])}{more}"
