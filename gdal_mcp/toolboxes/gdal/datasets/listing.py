"""Lists a workspace in pages. A dataset with all its files is one row. Opens no files itself.

File names are untrusted: rows contain cleaned names, and a row is marked if its name cannot be used in a call.
"""

import base64
import binascii
import hashlib
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, Final

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.toolboxes.gdal.datasets.sidecars import SINGLE_DATASETS, Names
from gdal_mcp.toolboxes.untrusted import clean_text, shown_text
from sandbox.browse import EntryKind, Folder, FolderEntry, SkipReason
from sandbox.workspace import WorkspacePath

# enforced by the tool's schema
MAX_ROWS: Final = 500  # rows of one page
MAX_PATTERN: Final = 256  # characters
_MAX_CURSOR: Final = 8192  # characters; more than a path of 4096 bytes in base64
_DIGEST: Final = 8  # bytes of a hash that detects the cursor of another query

Key = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A listing request. `pattern` is a glob for names, or for paths relative to the folder if it contains a slash."""

    folder: WorkspacePath
    pattern: str = "*"
    limit: int = 100

    def matches(self, above: str, name: str) -> bool:
        """True if a name matches; `above` is the path from the folder to it, which ends with a slash."""
        return fnmatchcase(above + name if "/" in self.pattern else name, self.pattern)


@dataclass(frozen=True, slots=True)
class ListedDataset:
    """A dataset, another file, a folder or a link. `bytes` includes the companions; None for a folder."""

    entry: FolderEntry
    companions: tuple[str, ...] = ()
    bytes: int | None = None
    is_dataset: bool = False  # a folder that is one dataset by its name or contents

    @property
    def addressable(self) -> bool:
        path = str(self.entry.relative)
        return path == self.entry.shown and path == shown_text(path)


@dataclass(frozen=True, slots=True)
class ListingPage:
    """One page of a listing. `cursor` requests the next page; `complete` is False if a folder has too many entries."""

    rows: tuple[ListedDataset, ...]
    cursor: str | None
    complete: bool

    @property
    def to_identify(self) -> tuple[WorkspacePath, ...]:
        """The paths for GDAL to identify, see `as_json`, without those that contain a comma: GDAL would split them."""
        fit = (row for row in self.rows if row.entry.kind is EntryKind.FILE or row.is_dataset)
        paths = (row.entry.located for row in fit if row.addressable)
        return tuple(path for path in paths if "," not in str(path))


def page(top: Folder, query: Query, cursor: str | None = None) -> ListingPage:
    """The rows after a cursor, in the order of the names. Raises ToolError for the cursor of another query.

    A page shows the current state: entries that are added or removed between two pages may or may not appear, and no
    entry appears twice. Only the files on the page, and the folders up to its last row, are inspected.
    """
    after = _read_cursor(cursor, query) if cursor else ()
    reader = _ListingReader(query)
    with closing(reader.rows(top, "", after)) as rows:
        some = list(islice(rows, query.limit + 1))
    last = None
    if len(some) > query.limit:
        some.pop()
        last = base64.urlsafe_b64encode(_signature(query) + os.fsencode(some[-1].entry.relative)).decode()
    return ListingPage(tuple(some), last, reader.complete)


def as_json(shown: ListingPage, report: Any = None) -> Mapping[str, Any]:
    """The page as JSON. `report` is GDAL's report on `to_identify`: the drivers by cleaned path."""
    drivers = report if isinstance(report, dict) else {}
    entries = [_entry(row, drivers.get(clean_text(str(row.entry.located)))) for row in shown.rows]
    more = {"next_cursor": shown.cursor} if shown.cursor else {}
    return {"entries": entries, **more, "complete": shown.complete}


def _entry(row: ListedDataset, driver: Any) -> dict[str, Any]:
    folder_entry = row.entry
    entry: dict[str, Any] = {
        "path": shown_text(f"{folder_entry.workspace.root}/{folder_entry.shown}"),
        "kind": folder_entry.kind,
    }
    if isinstance(driver, str):
        entry["driver"] = clean_text(driver, 100)
    if row.bytes is not None:
        entry["bytes"] = row.bytes
    at = folder_entry.identity.modified
    entry["modified"] = None if at is None else datetime.fromtimestamp(at // 1, UTC).isoformat()
    if row.companions:
        entry["files"] = [shown_text(name, 255) for name in row.companions]
    if folder_entry.leads is not None:
        entry["leads"] = folder_entry.leads
    if not row.addressable:
        entry["addressable"] = False
    return entry


@dataclass(slots=True)
class _ListingReader:
    """Reads rows. Companions and the contents of a folder that is a dataset belong to another row and are left out."""

    query: Query
    complete: bool = True

    def rows(self, folder: Folder, above: str, after: Key) -> Generator[ListedDataset]:
        """The rows of a folder and everything below it, after the relative path `after`."""
        self.complete &= folder.complete
        owners = Names(name for name, kind in folder.names.items() if kind is EntryKind.FILE).owners
        families: dict[str, list[str]] = {}
        for name in folder.names:
            if (owner := owners.get(name)) is not None:
                families.setdefault(owner, []).append(name)
        for name, kind in folder.names.items():
            raw = os.fsencode(name)
            if name in owners or (after and raw < after[0]):
                continue
            resumes = bool(after) and raw == after[0]
            if kind is EntryKind.FOLDER:
                yield from self._folder(folder, name, above, None if not resumes else after[1:])
            elif (
                not resumes
                and self.query.matches(above, name)
                and (folder_entry := folder.look(name)) is not None
            ):
                is_file = folder_entry.kind is EntryKind.FILE
                family = families.get(name, ()) if is_file else ()
                beside = [companion for companion in map(folder.look, family) if companion is not None]
                size = sum(file.identity.size for file in (folder_entry, *beside)) if is_file else None
                yield ListedDataset(folder_entry, tuple(companion.name for companion in beside), size)

    def _folder(self, folder: Folder, name: str, above: str, after: Key | None) -> Iterator[ListedDataset]:
        """A row for the folder unless an earlier page had it, and the rows below it unless the folder is one dataset."""
        folder_entry = folder.look(name) if after is None and self.query.matches(above, name) else None
        if PurePosixPath(name).suffix.lower() in SINGLE_DATASETS["folders"]:
            yield from (
                [ListedDataset(folder_entry, is_dataset=folder_entry.kind is EntryKind.FOLDER)]
                if folder_entry
                else []
            )
            return
        with folder.enter(name) as inner:
            is_dataset = isinstance(inner, Folder) and any(
                mark in inner.names for mark in SINGLE_DATASETS["marks"]
            )
            if folder_entry is not None and inner is not SkipReason.GONE:
                yield ListedDataset(folder_entry, is_dataset=is_dataset)
            if isinstance(inner, Folder) and not is_dataset:
                yield from self.rows(inner, f"{above}{name}/", after or ())


def _read_cursor(cursor: str, query: Query) -> Key:
    try:
        raw = base64.b64decode(cursor[:_MAX_CURSOR].encode(), b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise _invalid("the cursor is none of ours.") from error
    if raw[:_DIGEST] != _signature(query):
        raise _invalid("the cursor belongs to another question.")
    key = tuple(raw[_DIGEST:].split(b"/"))
    above = tuple(map(os.fsencode, query.folder.relative.parts))
    if key[: len(above)] != above:
        raise _invalid("the cursor is none of ours.")
    return key[len(above) :]


def _signature(query: Query) -> bytes:
    question = f"{query.folder}\0{query.pattern}".encode(errors="surrogateescape")
    return hashlib.sha256(question).digest()[:_DIGEST]


def _invalid(message: str) -> ToolError:
    fix = "Give the cursor of the last page with the same path and pattern, or none to start anew."
    return ToolError(Code.INVALID_ARGUMENT, Stage.VALIDATE, message, fix)
