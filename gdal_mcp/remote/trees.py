"""The files of a tree, from consolidated Zarr metadata or the list of its bucket. Pure.

A container may only request these files: with arbitrary names, it could send data to the server.
"""

import math
import re
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gdal_mcp.remote.budgets import ReadFailed
from sandbox.parsing import TooComplex, parse_json

_METADATA: Final = (".zarray", ".zattrs", ".zgroup")
# what a server could interpret as a path out of the tree's folder; addresses of callers may not contain it either
_CLIMBS: Final = re.compile(r"(^|/)(\.\.?)?(;|/|$)|[\\%\0-\x1f]")
# members and elements of consolidated metadata; an array with its attributes has about 40
_MAX_VALUES: Final = 1_000_000
_MAX_NAMES: Final = 64 << 20  # bytes of memory for the names of one tree
_AFTER_SLASH: Final = chr(ord("/") + 1)  # sorts after all names in a folder

# `listed` exists; `maybe` is a sidecar file or a chunk that may not exist, and then counts as empty
Presence = Literal["listed", "maybe", "folder", "none"]


@dataclass(frozen=True, slots=True)
class Grid:
    """The chunks of one array: their number along each dimension, and the form of their keys."""

    counts: tuple[int, ...]
    start: str  # prefix of the keys, such as `c/`
    separator: str

    def has(self, key: str) -> bool:
        if not self.counts:
            return key == (self.start.rstrip("/") or "0")
        if not key.startswith(self.start):
            return False
        parts = key[len(self.start) :].split(self.separator)
        plain = all(part.isascii() and part.isdecimal() and str(int(part[:18])) == part for part in parts)
        fits = plain and len(parts) == len(self.counts)
        return fits and all(int(a) < b for a, b in zip(parts, self.counts, strict=True))


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """The keys of one source. The time of a lookup hardly depends on their number.

    `files` is sorted and has no duplicates. Folders are found by bisection, so that only the names need memory.
    """

    files: Sequence[str]
    grids: Mapping[str, Grid] = field(default_factory=dict)  # by the array's folder; "" is the top
    maybe: frozenset[str] = frozenset()

    def presence(self, key: str) -> Presence:
        if _at(self.files, key) == key:
            return "listed"
        if not key or _at(self.files, f"{key}/").startswith(f"{key}/"):
            return "folder"
        above = ["", *(key[:at] for at, letter in enumerate(key) if letter == "/")]
        arrays = [folder for folder in above if folder in self.grids]
        inside = (self.grids[folder].has(key[len(folder) :].removeprefix("/")) for folder in arrays)
        return "maybe" if key in self.maybe or (not _CLIMBS.search(key) and any(inside)) else "none"

    def first(self) -> list[str]:
        """The files that Zarr readers read first: the group's metadata, and coordinates, which have one chunk each."""
        single = [folder for folder, grid in self.grids.items() if grid.counts == (1,)]
        names = [f"{folder}/{self.grids[folder].start}0".lstrip("/") for folder in single]
        return [name for name in (".zgroup", *names) if self.presence(name) in ("listed", "maybe")]

    def list_dir(self, folder: str) -> tuple[str, ...]:
        """The names in a folder, without chunks that may not exist."""
        return tuple(sorted(set(self._children(f"{folder}/" if folder else ""))))

    def _children(self, prefix: str) -> Iterator[str]:
        """The names in a folder, found by jumping from each one past everything below it."""
        at = bisect_left(self.files, prefix)
        while at < len(self.files) and self.files[at].startswith(prefix):
            name, slash, _ = self.files[at][len(prefix) :].partition("/")
            if name:
                yield name
            at = bisect_left(self.files, f"{prefix}{name}{_AFTER_SLASH}", at) if slash else at + 1


def _at(names: Sequence[str], key: str) -> str:
    """The first name that does not sort before the key; "" if there is none."""
    at = bisect_left(names, key)
    return names[at] if at < len(names) else ""


def index_of_names(names: Iterable[str], grids: Mapping[str, Grid] | None = None) -> KeyIndex:
    """An index of these names. Raises ReadFailed if they take too much memory."""
    distinct: set[str] = set()
    left = _MAX_NAMES
    for name in names:
        left -= sys.getsizeof(name)
        if left < 0:
            raise ReadFailed(f"the names in the tree take more than {_MAX_NAMES >> 20} MiB")
        distinct.add(name)
    return KeyIndex(sorted(distinct), grids or {})


def index_of_zarr(name: str, text: bytes) -> KeyIndex | None:
    """An index of the keys in consolidated metadata; None if the file contains none. Raises ReadFailed.

    `name` is the file's name, which decides the Zarr version.
    """
    try:
        metadata = parse_json(text, _MAX_VALUES)
        if name == ".zmetadata":
            rows = metadata["metadata"]
            files = {name, *(key for key in rows if key.rpartition("/")[2] in _METADATA)}
            grids = {
                key.rpartition("/")[0]: _grid(row, row["chunks"], "", row.get("dimension_separator", "."))
                for key, row in rows.items()
                if key.rpartition("/")[2] == ".zarray"
            }
        else:
            rows = {"": metadata, **metadata["consolidated_metadata"]["metadata"]}
            files = {f"{folder}/zarr.json".lstrip("/") for folder in rows}
            grids = {folder: _version3(row) for folder, row in rows.items() if row["node_type"] == "array"}
        return index_of_names((key for key in files if not _CLIMBS.search(key)), grids)
    except TooComplex as error:
        raise ReadFailed(f"the metadata of the tree cannot be read: it has {error}") from error
    except (ValueError, ArithmeticError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _version3(row: Mapping[str, Any]) -> Grid:
    encoding = row.get("chunk_key_encoding", {"name": "default"})
    own = encoding["name"] == "default"
    separator = encoding.get("configuration", {}).get("separator", "/" if own else ".")
    chunks = row["chunk_grid"]["configuration"]["chunk_shape"]
    return _grid(row, chunks, f"c{separator}" if own else "", separator)


def _grid(row: Mapping[str, Any], chunks: Iterable[int], start: str, separator: str) -> Grid:
    """The chunks of an array. Raises ValueError if the format does not define the separator."""
    if separator not in (".", "/"):
        raise ValueError(separator)
    counts = tuple(math.ceil(size / part) for size, part in zip(row["shape"], chunks, strict=True))
    return Grid(counts, start, separator)
