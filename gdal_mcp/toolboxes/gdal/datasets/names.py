"""Dataset names: a path, an archive name such as /vsizip/PATH, or a driver's name for a part of a file. Pure.

GDAL receives `before + path + after`. Invariants of names that `parse` accepts:
* there is exactly one path, which the caller replaces by the canonical path of a file or folder in a workspace;
* `before` and `after` match one grammar of `catalogue/data/names.toml`, or that of an archive, as a whole; text
  outside a grammar is never passed on;
* a canonical path with a character that GDAL could take for the end of the path is refused, so that no name has two
  readings;
* text that reaches a network, a database or another process is refused with the reason, wherever it is in the name.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.remote.address import is_address
from gdal_mcp.toolboxes.gdal import data_of
from sandbox.path_text import has_hidden_chars

Place = Literal["any", "file", "folder"]

MAX_BYTES: Final = 8192  # bytes: 4096 for a path, and as many for the rest of a name
# names in an archive path without braces, where each prefix is looked up to find the archive
MAX_PARTS: Final = 64

_FILE_SYSTEM: Final = re.compile(r"(/vsi[a-z0-9_]+)(?=[/?]|$)(.*)", re.IGNORECASE | re.DOTALL)
_PREFIX: Final = re.compile(r"([a-z0-9_]{2,64})\s*:", re.IGNORECASE)
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_NETWORK_INSIDE: Final = re.compile(
    r"/?vsi(curl|s3|gs|az|adls|oss|swift|webhdfs|hdfs)[a-z_]*[/?]|(https?|ftp)://", re.IGNORECASE
)
_CHAINED: Final = re.compile(r"/?vsi[a-z0-9_]+([/?{]|$)", re.IGNORECASE)

_ARCHIVES: Final = frozenset(("/vsizip", "/vsitar", "/vsigzip"))
_QUOTED_PATH, _BARE_PATH = r'[^"\\]+', r'[^":\\]+'
# Characters that a canonical path must not contain, by its delimiters: GDAL searches for them to find the end of the
# path.
_IN_QUOTES, _BARE, _IN_BRACES = frozenset('"\\'), frozenset('":\\'), frozenset("{}")
_FIELDS: Final = {
    "number": "[0-9]{1,18}",
    "word": "[A-Za-z0-9_]{1,64}",
    "name": r'(?!(?:[^":]*/)?\.\.(?:[/":]|$))[^":\\]{1,512}',
    "quoted": r'(?!(?:[^"]*/)?\.\.(?:[/"]|$))[^"\\]{1,512}',
}
_FIELD: Final = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class DatasetName:
    """A parsed dataset name. `path` is as the caller wrote it, and refers to a file or folder in a workspace."""

    before: str
    path: str
    after: str
    place: Place = "any"  # the required kind of file at the path
    forbidden: frozenset[str] = frozenset()  # characters that a path in this form cannot contain
    unsplit: bool = False  # `path` may continue inside an archive; see `splits`

    @property
    def is_plain(self) -> bool:
        return not (self.before or self.after)

    @property
    def in_archive(self) -> bool:
        return self.before.endswith(("/vsizip/{", "/vsitar/{", "/vsigzip/"))

    def splits(self) -> Iterator["DatasetName"]:
        """Every possible split of an unsplit name, shortest archive path first.

        The archive is the first path that is a file. Nothing can be below a file, so there is only one such split.
        """
        if not self.unsplit:
            yield self
            return
        root, parts = "/" * self.path.startswith("/"), [part for part in self.path.split("/") if part]
        for count in range(1, len(parts) + 1):
            inner = "/".join(("", *parts[count:]))
            path, after = root + "/".join(parts[:count]), "}" + inner + self.after
            yield replace(self, path=path, after=after, unsplit=False)

    def at(self, canonical: str) -> str:
        """The name for GDAL, with the absolute path inserted. Raises ToolError if GDAL could misread it."""
        bad = sorted(self.forbidden & set(canonical))
        if bad or (_CHAINED.match(canonical) and not canonical.startswith("/vsihost/")):
            shown = " ".join(bad) or "/vsi"
            raise refused(
                f"the path of this file holds {shown}, which GDAL would not take for a part of the path here.",
                "Rename the file or folder, or open it by its plain path.",
            )
        return self.before + canonical + self.after


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a kind of name is never accepted, and what to do instead."""

    reason: str
    suggestion: str
    code: Code = Code.PATH_NOT_ALLOWED

    def error(self, start: str) -> ToolError:
        what = f"a name that starts with {start} is not accepted: {self.reason}."
        return ToolError(self.code, Stage.RESOLVE, what, self.suggestion)


_NETWORK: Final = Refusal(
    "it points to a network or database source, and containers have no network",
    "Download the data into a workspace first, then give its path.",
    Code.NETWORK_BLOCKED,
)


@dataclass(frozen=True, slots=True)
class _Grammar:
    """The compiled pattern of a name. `bare` accepts the path without the quotes that GDAL needs."""

    form: Mapping[str, Any]  # the row in names.toml
    prefix: str  # with the colon, in GDAL's spelling
    pattern: re.Pattern[str]
    quoted: bool
    bare: bool = False


@dataclass(frozen=True, slots=True)
class NameTable:
    """The contents of `names.toml`. Keys are in upper case."""

    forms: Sequence[Mapping[str, Any]]  # rows with a driver's names and the reason why they are accepted
    grammars: Mapping[str, tuple[_Grammar, ...]]
    refusals: Mapping[str, Refusal]


def parse(text: str, *, addresses: bool = False) -> DatasetName:
    """Parses a dataset name. Raises ToolError for every text that is not accepted.

    `addresses` permits a remote address as the path in a driver's name. Does not access the file system.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise refused("the name is not valid Unicode.", "Send plain text.") from error
    if not text or has_hidden_chars(text):
        raise refused(
            "the name is empty, or holds a control or invisible character, or a line separator.",
            "Use a path inside a workspace, such as dem.tif.",
        )
    if size > MAX_BYTES:
        raise refused("the name is too long.", f"The most it may have is {MAX_BYTES} bytes.")
    start = _start(text)
    if not start:
        return DatasetName("", text, "")
    grammars = table().grammars.get(start.upper(), ())
    if grammars:
        return _part(text, start, grammars, addresses=addresses)
    if start.lower() in _ARCHIVES:
        return _archive(text)
    raise _never(text, start)


def _start(text: str) -> str:
    """The start that makes a text more than a path: /vsi, a driver's prefix, a URL scheme or a document; else empty."""
    if text[:5].lower() == "file:":
        return ""
    for pattern in (_FILE_SYSTEM, _URL, _PREFIX):
        if match := pattern.match(text):
            return match[0].split(":")[0].strip() if pattern is not _FILE_SYSTEM else match[1]
    if text[:4].lower() == "/vsi":
        return text[:4]
    return text[0] if text[0] in "<{" else ""


def _part(text: str, start: str, grammars: tuple[_Grammar, ...], *, addresses: bool) -> DatasetName:
    for grammar in grammars:
        if match := grammar.pattern.fullmatch(text):
            inner = _inner(match["path"], addresses=addresses)
            begin, end = match.span("path")
            quote = '"' if grammar.bare else ""
            before = grammar.prefix + text[len(grammar.prefix) : begin] + quote + inner.before
            after = inner.after + quote + text[end:]
            if _NETWORK_INSIDE.search(before + after):  # no part of a file has such a name
                raise _NETWORK.error(start)
            place: Place = grammar.form["place"] if inner.is_plain else "file"
            forbidden = inner.forbidden | (_IN_QUOTES if grammar.quoted else _BARE)
            return replace(inner, before=before, after=after, place=place, forbidden=forbidden)
    if _NETWORK_INSIDE.search(text):
        raise _NETWORK.error(start)
    known = " or ".join(name for grammar in grammars for name in grammar.form["names"])
    raise refused(f"this is not how {start} names a dataset.", f"Known here: {known}.")


def _inner(text: str, *, addresses: bool) -> DatasetName:
    """The path in a driver's name: plain, an address or an archive. Raises ToolError for nested names and URIs."""
    if addresses and is_address(text):
        return DatasetName("", text, "")
    start = _start(text)
    if start.lower() in _ARCHIVES:
        return _archive(text)
    if start or text[:5].lower() == "file:":
        raise _never(text, start or "file")
    return DatasetName("", text, "")


def _archive(text: str) -> DatasetName:
    """Parses the name of a file in an archive.

    The forms are `/vsizip/PATH`, `/vsizip/PATH/INNER`, `/vsizip/{PATH}/INNER`, the same with /vsitar, and
    `/vsigzip/PATH`. Raises ToolError.
    """
    match = _FILE_SYSTEM.fullmatch(text)
    assert match is not None, "only called for an archive"
    system, rest = match[1].lower(), match[2].removeprefix("/")
    if _CHAINED.match(rest):
        raise _chained(rest, system)
    if not rest or rest[:5].lower() == "file:" or not match[2].startswith("/"):
        raise _misread(system)
    if system == "/vsigzip":
        return DatasetName("/vsigzip/", rest, "", "file")
    if not rest.startswith("{"):
        if len(_inner_parts(rest, system)) > MAX_PARTS:
            raise refused(
                f"the path behind {system}/ has more than {MAX_PARTS} names.",
                f"Write {system}/{{PATH OF THE ARCHIVE}}/NAME INSIDE.",
            )
        return DatasetName(f"{system}/{{", rest, "", "file", _IN_BRACES, unsplit=True)
    path, closed, inner = rest[1:].partition("}")
    if _CHAINED.match(path):
        raise _chained(path, system)
    if not path or not closed or "{" in path or path[:5].lower() == "file:" or (inner and inner[0] != "/"):
        raise _misread(system)
    parts = _inner_parts(inner, system)
    return DatasetName(f"{system}/{{", path, "}" + "/".join(("", *parts)), "file", _IN_BRACES)


def _inner_parts(text: str, system: str) -> list[str]:
    """The names in an archive path. Raises ToolError for `.`, `..`, braces and backslashes."""
    parts = [part for part in text.split("/") if part]
    if any(part in (".", "..") for part in parts) or set(text) & frozenset("{}\\"):
        raise _misread(system)
    return parts


def _chained(rest: str, system: str) -> ToolError:
    if _NETWORK_INSIDE.match(rest):
        return _NETWORK.error("/" + rest.strip("/").partition("/")[0])
    return refused(
        f"{system}/ is only accepted around a plain path, not around another virtual file system.",
        "Unpack the outer archive into a workspace first.",
    )


def _misread(system: str) -> ToolError:
    return refused(
        f"what stands behind {system}/ is no plain path, goes up with .. or holds a brace or a backslash.",
        f"Write {system}/PATH, for a file in an archive with the name inside: {system}/{{PATH}}/NAME.",
    )


def _never(text: str, start: str) -> ToolError:
    """The error for a name without an accepted form."""
    known = table().refusals.get(start.upper())
    if known is not None:
        return known.error(start)
    if _URL.match(text) or _NETWORK_INSIDE.search(text):
        return _NETWORK.error(start)
    if start in ("<", "{"):
        return refused(
            "an inline document is not accepted as a dataset name.",
            "Save the document as a file in a workspace, then give its path.",
        )
    return refused(
        f"no dataset of that name is in a workspace, and names that start with {start} are not known here.",
        "Give the plain path of a file in a workspace, or a subdataset's name as the info tools list it.",
    )


def refused(message: str, suggestion: str) -> ToolError:
    return ToolError(Code.PATH_NOT_ALLOWED, Stage.RESOLVE, message, suggestion)


def invalid(message: str, suggestion: str) -> ToolError:
    return ToolError(Code.INVALID_ARGUMENT, Stage.RESOLVE, message, suggestion)


@lru_cache(maxsize=1)
def table() -> NameTable:
    """The table in names.toml. Raises ValueError if a row is invalid; a test loads the table."""
    read = data_of("gdal_mcp.toolboxes.gdal.catalogue", "names.toml")
    grammars: dict[str, tuple[_Grammar, ...]] = {}
    for form, name in ((row, name) for row in read["form"] for name in row["names"]):
        prefix = name.partition(":")[0].upper()
        grammars[prefix] = (*grammars.get(prefix, ()), *_grammars(form, name))
    refusals = {
        start.upper(): Refusal(row["reason"], row["suggestion"], Code(row.get("code", Code.PATH_NOT_ALLOWED)))
        for row in read["refuse"]
        for start in row["starts"]
    }
    return NameTable(read["form"], grammars, refusals)


def _grammars(form: Mapping[str, Any], name: str) -> Iterator[_Grammar]:
    """The grammars of a name: as written, and for a quoted path also without quotes, which are added for GDAL."""
    head, marker, tail = name.partition("{path}")
    if not marker or "{path}" in tail:
        raise ValueError(f"{name}: a name has exactly one path")
    prefix, _, head = head.partition(":")
    quoted = head.endswith('"')

    def pattern(before: str, path: str, after: str) -> re.Pattern[str]:
        return re.compile(f"(?i:{prefix}):{_fields(before)}(?P<path>{path}){_fields(after)}", re.DOTALL)

    strict = pattern(head, _QUOTED_PATH if quoted else _BARE_PATH, tail)
    yield _Grammar(form, f"{prefix}:", strict, quoted)
    if quoted:
        loose = pattern(head.removesuffix('"'), _BARE_PATH, tail.removeprefix('"'))
        yield _Grammar(form, f"{prefix}:", loose, quoted, bare=True)


def _fields(text: str) -> str:
    """The pattern for a part of a name: its fields and its literal text."""
    pieces = _FIELD.split(text)
    pieces[::2] = map(re.escape, pieces[::2])
    pieces[1::2] = [f"(?:{field if '|' in field else _FIELDS[field]})" for field in pieces[1::2]]
    return "".join(pieces)
