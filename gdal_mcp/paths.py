"""Turns the path texts of a call into `Located` places and `Output`s, with answers a caller can act on."""

import os
import re
import stat
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Literal

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Output
from sandbox.companions import REPLACED, companions
from sandbox.errors import PathMissing, PathRefused
from sandbox.workspace import Identity, Located, Workspaces, open_folder

# A name is a path first and is opened under its absolute path, where none of these means anything. Only a name that is no
# file of the workspace is looked at for what its writer may have meant.
_NETWORK = re.compile(
    r"^(/vsi(curl|s3|gs|az|adls|oss|swift|webhdfs|hdfs)[a-z_]*[/?]"
    r"|(?!vrt:|file:)[a-z][a-z0-9+.-]*://"
    r"|(pg|mysql|mssql|odbc|oci|mongodbv3|es|wms|wmts|wfs|wcs|csw|oapif\w*|ogcapi|stacit|stacta|carto|ngw|eeda|eedai"
    r"|plscenes|plmosaic|amigocloud|daas|http|https|ftp)\s*:)",
    re.IGNORECASE,
)
_VIRTUAL = re.compile(r"^(/vsi[a-z0-9_]+|<|\{|(?!file:)[a-z0-9_]{2,}:)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Paths:
    """The workspaces as the tools see them. `call_id` makes the names of outputs that nobody named."""

    workspaces: Workspaces
    outputs_folder: str
    call_id: str
    threads: int = 1  # the most that a container of this server has

    def input(self, text: str) -> Located:
        """An existing file or folder. Raises ToolError."""
        try:
            return self.workspaces.input(text)
        except PathRefused as error:
            raise _refusal(text, error) from error

    def inputs(self, texts: list[str]) -> tuple[Located, ...]:
        return tuple(self.input(text) for text in texts)

    def output(
        self,
        text: str,
        *,
        inputs: tuple[Located, ...],
        overwrite: bool,
        update: bool = False,
        kind: Literal["dataset", "table", "array"] = "dataset",
    ) -> Output:
        """A place to write. `update` keeps an existing dataset and works on a copy of it. Raises ToolError."""
        try:
            target = self.workspaces.output(text)
        except PathRefused as error:
            raise _refusal(text, error) from error
        replaces = _replaced(target)
        shared = _shared(target, replaces)
        touched = {target.path, *(one.path for one in (*replaces, *shared))}
        if any(path in touched for source in inputs for path in _family(source)):
            raise ToolError(
                Code.INVALID_ARGUMENT,
                Stage.RESOLVE,
                "the output, or a file that goes with it, belongs to an input; a dataset is never converted onto itself.",
                "Write to another name.",
            )
        if replaces and not overwrite and not update:
            raise ToolError(
                Code.INVALID_ARGUMENT,
                Stage.RESOLVE,
                f"{replaces[0].name} already exists and overwrite is false.",
                "Choose another name, or set overwrite to true; what is replaced can be restored with undo.",
            )
        return Output(target, kind, update and target.identity is not None, replaces, shared)

    def new_output(
        self, stem: str, extension: str, kind: Literal["dataset", "table", "array"] = "dataset"
    ) -> Output:
        """A uniquely named output in the outputs folder of the first writable workspace."""
        workspace = next((one for one in self.workspaces.items if one.writable), None)
        if workspace is None:
            raise ToolError(
                Code.PATH_NOT_ALLOWED,
                Stage.RESOLVE,
                "every workspace is read-only, so there is nowhere to write.",
                "Start the server with --workspace DIR.",
            )
        safe = re.sub(r"[^A-Za-z0-9._-]", "_", stem)[:80].lstrip("-.") or "output"
        name = f"{safe}_{self.call_id[-10:]}{extension}"
        target = Located(workspace, PurePosixPath(self.outputs_folder, name))
        return Output(target, kind, server_named=True)


def _replaced(target: Located) -> tuple[Located, ...]:
    """What stands in the place of an output: the old dataset's files, the main one first.

    Companions without their dataset count too: they would pass for the new one's.
    """
    exists = target.identity is not None
    assumed = target if exists else replace(target, identity=Identity(0, 0, 0, 0))
    try:
        return (*([target] if exists else []), *companions(assumed))
    except PathRefused as error:
        raise ToolError(
            Code.PATH_NOT_ALLOWED, Stage.RESOLVE, str(error), "Write to another name, or move that file away."
        ) from error


def _shared(target: Located, replaces: tuple[Located, ...]) -> tuple[Located, ...]:
    """Files that the output's format writes beside it and that are left out of `replaces`, as another dataset has them too."""
    known = {one.name for one in replaces}
    names = (f"{target.path.stem}{ending}" for ending in sorted(REPLACED.get(target.path.suffix.lower(), ())))
    return tuple(
        found for name in names if name not in known and (found := _regular(target, name)) is not None
    )


def _regular(beside: Located, name: str) -> Located | None:
    with open_folder(beside.workspace, beside.relative.parent) as folder:
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Located(beside.workspace, beside.relative.parent / name, Identity.of(status))


def _family(source: Located) -> tuple[Path, ...]:
    """The paths of an input; of its companions as far as they can be told."""
    if source.is_folder:
        return (source.path,)
    try:
        own = companions(source)
    except PathRefused:
        own = ()
    return (source.path, *(one.path for one in (*own, *_shared(source, own))))


def _refusal(text: str, error: PathRefused) -> ToolError:
    """Our answer to a path that is no place in a workspace."""
    if _NETWORK.match(text):
        return ToolError(
            Code.NETWORK_BLOCKED,
            Stage.RESOLVE,
            "the name points to a network or database source, and containers have no network.",
            "Download the data into a workspace first, then give its path.",
        )
    if _VIRTUAL.match(text):
        return ToolError(
            Code.PATH_NOT_ALLOWED,
            Stage.RESOLVE,
            "virtual file systems, driver prefixes and inline documents are not accepted as dataset names.",
            "Give the plain path of a file in a workspace.",
        )
    message = str(error)
    if isinstance(error, PathMissing):
        return ToolError(
            Code.NOT_FOUND,
            Stage.RESOLVE,
            message,
            "Check the name; relative paths start at the first workspace.",
        )
    return ToolError(
        Code.PATH_NOT_ALLOWED,
        Stage.RESOLVE,
        message,
        "Use a path inside a workspace; `gdal-mcp doctor` lists them.",
    )
