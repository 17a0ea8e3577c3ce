"""How the text of a path argument names a place, and what GDAL would make of the same text. Pure.

Some arguments hold more than a path: `A=dem.tif`, `ortho.tif,band=2`. `split` takes such a text apart, the inner text alone is
looked up, and `Parts.join` puts the place back. Invariants:
* one text names at most one place; what GDAL would take for a list, a pattern or a nested pipeline is refused;
* what is put back is read by GDAL with the same parts: a place whose own name would shift them is refused.

    (empty)            a dataset: a file, a folder that is one, or a part of either
    file               a plain file that is not a dataset
    document           a JSON text in the argument itself, or a plain file with it
    folder-or-dataset  a dataset, or a folder whose datasets are meant
    recursive folder   a file, or a folder that is walked
    listed             a dataset where GDAL expands @ * ? [ into lists of names
    named              NAME=dataset or a dataset
    band               a dataset, with ,band=N for one band of it
    output-tree        a folder that is made, or a file
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
_MAX_PATH: Final = 4096  # what the kernel takes


@dataclass(frozen=True, slots=True)
class Parts:
    """A text taken apart. `path` is None where the text names no place at all."""

    path: str | None
    before: str = ""
    after: str = ""
    never: tuple[str, ...] = ()  # what would make GDAL read the place in another way
    text: str = ""  # of a text without a place: itself, in canonical form

    def join(self, place: str, what: str) -> str:
        """The text with the place in it. Raises ArgumentRefused for a place that GDAL would misread."""
        found = next((one for one in self.never if one in place), None)
        if found is not None:
            raise ArgumentRefused(
                f"the name of the file for {what} holds {found}, which GDAL reads as syntax.",
                "Rename the file.",
            )
        return f"{self.before}{place}{self.after}"


def split(form: str, text: str, what: str) -> Parts:
    """The parts of a text in one of the forms. Raises ArgumentRefused."""
    if form == "document" and text.lstrip().startswith("{"):
        return Parts(None, text=check_document(text, what))
    if not text or "\0" in text or len(text.encode("utf-8", "surrogatepass")) > _MAX_PATH:
        raise ArgumentRefused(f"{what} is empty, too long or holds a NUL.", "Give the path of a file.")
    if form == "listed":
        _refuse_list(text, what)
        return Parts(text, never=("*", "?", "["))
    if form == "named":
        match = _NAMED.fullmatch(text)
        name, path = match.groups() if match else ("", text)
        if not path or path.lstrip().startswith("["):
            raise ArgumentRefused(
                f"{what} is NAME=path; a nested pipeline is not accepted.",
                "Run the inner steps first, or use pipeline.",
            )
        _refuse_list(path, what)
        return Parts(path, before=f"{name}=") if name else Parts(path, never=("=",))
    if form == "band":
        _refuse_list(text, what)
        match = _BAND.fullmatch(text)
        path, after = (match[1], f"{_SIGN}{match[2]}") if match else (text, "")
        return Parts(path, after=after, never=(_SIGN,))
    if form not in FORMS:
        raise ValueError(f"{form!r} is not a form of a path")
    return Parts(text)


def _refuse_list(text: str, what: str) -> None:
    if text.startswith("@"):
        raise ArgumentRefused(f"{what} names a list of files.", "Give the files one by one.")
    if any(letter in text for letter in "*?["):
        raise ArgumentRefused(
            f"{what} is a pattern, or a name that GDAL would take for one.", "Give the files one by one."
        )
