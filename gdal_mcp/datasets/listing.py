"""What is in a workspace as pages of rows: a dataset with all its files is one row. Pure.

The names are made up by whoever made the files: in a row they are cleaned for display, and a row whose name cannot be
written in a call says so.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, Final

from gdal_mcp.answers.untrusted import clean_text, shown_text
from gdal_mcp.datasets.files import FOLDER_ENDINGS, FOLDER_MARKS
from gdal_mcp.errors import Code, Stage, ToolError
from sandbox.files.browse import Found, Kind, TreeTooLarge
from sandbox.files.companions import grouped
from sandbox.workspace import Located

MAX_ROWS: Final = 500  # of one page
MAX_PATTERN: Final = 256  # characters
_MAX_CURSOR: Final = 8192  # characters; a path of 4096 bytes in base64, and more
_DIGEST: Final = 8  # bytes that tell a cursor of another question

Key = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """One question. `pattern` is a glob for names, or for paths from the folder if it has a slash."""

    folder: Located
    pattern: str = "*"
    limit: int = 100

    def matches(self, found: Found) -> bool:
        relative = PurePosixPath(*found.relative.parts[len(self.folder.relative.parts) :])
        return fnmatchcase(str(relative) if "/" in self.pattern else found.name, self.pattern)


@dataclass(frozen=True, slots=True)
class Row:
    """A dataset, another file, a folder or a link. `bytes` counts the companions too; of a folder it is unknown."""

    found: Found
    companions: tuple[str, ...] = ()
    bytes: int | None = None
    is_dataset: bool = False  # a folder whose name or contents say that it is one dataset

    @property
    def addressable(self) -> bool:
        """Whether a call can name it."""
        path = str(self.found.relative)
        return path == self.found.shown and path == shown_text(path)

    @property
    def askable(self) -> bool:
        """Whether GDAL can be asked for its driver; it would take a comma for the end of the name."""
        fits = self.found.kind is Kind.FILE or self.is_dataset
        return fits and self.addressable and "," not in str(self.found.located)


@dataclass(frozen=True, slots=True)
class Page:
    """`cursor` asks for the next page. Not `complete`: the folder holds more than is looked at at once."""

    rows: tuple[Row, ...]
    cursor: str | None
    complete: bool

    @property
    def to_identify(self) -> tuple[Located, ...]:
        """What to ask GDAL about, see `told`."""
        return tuple(row.found.located for row in self.rows if row.askable)


def page(found: Iterable[Found], query: Query, cursor: str | None = None) -> Page:
    """The rows after a cursor, in the order of the walk. Raises ToolError for a cursor that is not of this question.

    A page is made of what is there now: what comes and goes between two pages shows or not, and nothing shows twice.
    """
    if len(query.pattern) > MAX_PATTERN or not 1 <= query.limit <= MAX_ROWS:
        raise _invalid("the pattern is too long, or the limit too large.")
    after = _read_cursor(cursor, query) if cursor else ()
    everything, complete = _all(found)
    rows = (
        row for row in _rows(everything, query.folder) if _key(row.found) > after and query.matches(row.found)
    )
    some = [row for row, _ in zip(rows, range(query.limit + 1), strict=False)]
    more = len(some) > query.limit
    some = some[: query.limit]
    return Page(tuple(some), _cursor(some[-1], query) if more else None, complete)


def told(shown: Page, report: Any = None) -> Mapping[str, Any]:
    """A page as JSON, with the drivers of GDAL's report: the JSON of `dataset identify` on `to_identify`, cleaned."""
    rows = report if isinstance(report, list) else []
    drivers = {row.get("name"): row.get("driver") for row in rows if isinstance(row, dict)}
    entries = [_entry(row, drivers.get(clean_text(str(row.found.located)))) for row in shown.rows]
    more = {"next_cursor": shown.cursor} if shown.cursor else {}
    return {"entries": entries, **more, "complete": shown.complete}


def _entry(row: Row, driver: Any) -> dict[str, Any]:
    found = row.found
    entry: dict[str, Any] = {
        "path": shown_text(f"{found.workspace.root}/{found.shown}"),
        "kind": found.kind,
    }
    if isinstance(driver, str):
        entry["driver"] = clean_text(driver, 100)
    if row.bytes is not None:
        entry["bytes"] = row.bytes
    entry["modified"] = _time(found.mtime_ns)
    if row.companions:
        entry["files"] = [shown_text(name, 255) for name in row.companions]
    if found.leads is not None:
        entry["leads"] = found.leads
    if not row.addressable:
        entry["addressable"] = False
    return entry


def _time(nanoseconds: int) -> str | None:
    """A file's time may be anything that its owner wrote there."""
    try:
        return datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def _all(found: Iterable[Found]) -> tuple[list[Found], bool]:
    everything: list[Found] = []
    try:
        for one in found:
            everything += [one]  # what came before the exception is kept
    except TreeTooLarge:
        return everything, False
    return everything, True


def _rows(everything: list[Found], folder: Located) -> Iterator[Row]:
    """Without what belongs to another row: the inside of a folder that is a dataset, and companions."""
    folders = [one.relative for one in everything if one.kind is Kind.FOLDER]
    whole = {one for one in folders if one.suffix.lower() in FOLDER_ENDINGS}
    whole |= {one.relative.parent for one in everything if one.name in FOLDER_MARKS} - {folder.relative}
    outside = [one for one in everything if whole.isdisjoint(one.relative.parents)]
    owners = _owners(outside)
    family: dict[PurePosixPath, list[Found]] = {}
    for one in outside:
        if (owner := owners.get(one.relative)) is not None:
            family.setdefault(owner, []).append(one)
    for one in outside:
        if one.relative not in owners:
            row = _row(one, family.get(one.relative, []))
            yield replace(row, is_dataset=True) if one.relative in whole else row


def _owners(outside: list[Found]) -> dict[PurePosixPath, PurePosixPath]:
    folders: dict[PurePosixPath, list[str]] = {}
    for one in outside:
        if one.kind is Kind.FILE:
            folders.setdefault(one.relative.parent, []).append(one.name)
    return {
        folder / name: folder / main
        for folder, names in folders.items()
        for name, main in grouped(names).items()
    }


def _row(found: Found, companions: list[Found]) -> Row:
    if found.kind is not Kind.FILE:
        return Row(found)
    return Row(found, tuple(one.name for one in companions), sum(one.size for one in (found, *companions)))


def _key(found: Found) -> Key:
    """The place in the order of a walk."""
    return tuple(found.raw.split(b"/"))


def _cursor(row: Row, query: Query) -> str:
    return base64.urlsafe_b64encode(_signature(query) + row.found.raw).decode()


def _read_cursor(cursor: str, query: Query) -> Key:
    try:
        raw = base64.b64decode(cursor[:_MAX_CURSOR].encode(), b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise _invalid("the cursor is none of ours.") from error
    if raw[:_DIGEST] != _signature(query):
        raise _invalid("the cursor belongs to another question.")
    return tuple(raw[_DIGEST:].split(b"/"))


def _signature(query: Query) -> bytes:
    question = f"{query.folder}\0{query.pattern}".encode(errors="surrogateescape")
    return hashlib.sha256(question).digest()[:_DIGEST]


def _invalid(message: str) -> ToolError:
    fix = "Give the cursor of the last page with the same path and pattern, or none to start anew."
    return ToolError(Code.INVALID_ARGUMENT, Stage.VALIDATE, message, fix)
