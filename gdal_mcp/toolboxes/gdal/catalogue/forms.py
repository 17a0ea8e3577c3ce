"""The forms of path arguments, and how GDAL reads them. Pure.

Some arguments contain more than a path: `A=dem.tif`, `ortho.tif,band=2`. `split` separates the parts, only the path
is looked up, and `PathParts.join` inserts the resolved path. Invariants:
* one text contains at most one path; text that GDAL would read as a list, a pattern or a nested pipeline is refused;
* GDAL reads the joined text as the same parts: a resolved path whose name would change them is refused.

    (empty)            a dataset: a file, a folder that is a dataset, or a part of either
    file               a plain file that is not a dataset
    document           JSON text in the argument itself, or a plain file with it
    folder-or-dataset  a dataset, or a folder of datasets
    recursive folder   a file, or a folder that is walked recursively
    listed             a dataset where GDAL expands @ * ? [ into lists of names
    named              NAME=dataset or a dataset
    band               a dataset, with ,band=N for one band of it
    output-tree        a folder that is created, or a file
    archive            a ZIP file
"""

import re
from dataclasses import dataclass
from typing import Final

from gdal_mcp.toolboxes.gdal.catalogue.documents import check_document
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused

FORMS: Final = frozenset(
    ("", "recursive folder", *"file document folder-or-dataset listed named band output-tree archive".split())
)
_NAMED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,63})=(.*)", re.DOTALL)
_BAND: Final = re.compile(r"(.*),band=([1-9][0-9]{0,4})", re.DOTALL)
_SIGN: Final = ",band="
_MAX_PATH: Final = 4096  # bytes; the kernel's limit


@dataclass(frozen=True, slots=True)
class PathParts:
    """The parts of a path argument. `path` is None if the text contains no path."""

    path: str | None
    before: str = ""
    after: str = ""
    never: tuple[str, ...] = ()  # texts that would make GDAL misread the path
    text: str = ""  # the text in canonical form, if it contains no path

    def join(self, place: str, what: str) -> str:
        """The text with the resolved path inserted. Raises ArgumentRefused for a path that GDAL would misread."""
        syntax = next((text for text in self.never if text in place), None)
        if syntax is not None:
            raise ArgumentRefused(
                f"the name of the file for {what} holds {syntax}, which GDAL reads as syntax.",
                "Rename the file.",
            )
        return f"{self.before}{place}{self.after}"


def split(form: str, text: str, what: str) -> PathParts:
    """The parts of a text in one of the forms. Raises ArgumentRefused."""
    if form == "document" and text.lstrip().startswith("{"):
        return PathParts(None, text=check_document(text, what))
    if not text or "\0" in text or len(text.encode("utf-8", "surrogatepass")) > _MAX_PATH:
        raise ArgumentRefused(f"{what} is empty, too long or holds a NUL.", "Give the path of a file.")
    if form == "listed":
        _refuse_list(text, what)
        return PathParts(text, never=("*", "?", "["))
    if form == "named":
        match = _NAMED.fullmatch(text)
        name, path = match.groups() if match else ("", text)
        if not path or path.lstrip().startswith("["):
            raise ArgumentRefused(
                f"{what} is NAME=path; a nested pipeline is not accepted.",
                "Run the inner steps first, or use pipeline.",
            )
        _refuse_list(path, what)
        return PathParts(path, before=f"{name}=") if name else PathParts(path, never=("=",))
    if form == "band":
        _refuse_list(text, what)
        match = _BAND.fullmatch(text)
        path, after = (match[1], f"{_SIGN}{match[2]}") if match else (text, "")
        return PathParts(path, after=after, never=(_SIGN,))
    if form not in FORMS:
        raise ValueError(f"{form!r} is not a form of a path")
    return PathParts(text)


def _refuse_list(text: str, what: str) -> None:
    if text.startswith("@"):
        raise ArgumentRefused(f"{what} names a list of files.", "Give the files one by one.")
    if any(letter in text for letter in "*?["):
        raise ArgumentRefused(
            f"{what} is a pattern, or a name that GDAL would take for one.", "Give the files one by one."
        )
