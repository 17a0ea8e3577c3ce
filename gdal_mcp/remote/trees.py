"""Which files a tree has: told by the consolidated metadata of Zarr, or by the list of its bucket. Pure.

What a container may ask for is one of these. Free names below a folder would be a way to tell its server something.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

_METADATA: Final = (".zarray", ".zattrs", ".zgroup")

# `listed` is there; a `chunk` may never have been written, and is then as good as empty
Held = Literal["listed", "chunk", "folder", "none"]


@dataclass(frozen=True, slots=True)
class Grid:
    """The chunks of one array: how many there are along each of its dimensions, and how their keys look."""

    counts: tuple[int, ...]
    start: str  # such as `c/`
    separator: str

    def has(self, key: str) -> bool:
        if not key.startswith(self.start):
            return False
        parts = key[len(self.start) :].split(self.separator)
        if not self.counts:
            return key == (self.start.rstrip("/") or "0")
        plain = all(part.isascii() and part.isdecimal() and str(int(part[:18])) == part for part in parts)
        return (
            len(parts) == len(self.counts)
            and plain
            and all(int(a) < b for a, b in zip(parts, self.counts, strict=True))
        )


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one tree."""

    files: frozenset[str]
    grids: Mapping[str, Grid] = field(
        default_factory=dict
    )  # by the folder of the array, "" or with a slash at its end
    folders: frozenset[str] = frozenset()

    def held(self, key: str) -> Held:
        if key in self.files:
            return "listed"
        if key in self.folders or not key:
            return "folder"
        for folder, grid in self.grids.items():
            if key.startswith(folder) and grid.has(key[len(folder) :]):
                return "chunk"
        return "none"

    def below(self, folder: str) -> tuple[str, ...]:
        """The names in a folder, without chunks that may not be there."""
        start = f"{folder}/" if folder else ""
        names = (
            one[len(start) :].partition("/")[0]
            for one in (*self.files, *self.folders)
            if one.startswith(start)
        )
        return tuple(sorted({name for name in names if name}))


def of_list(names: Iterable[str]) -> Keys:
    files = frozenset(names)
    return Keys(files, folders=_folders(files))


def of_zarr(name: str, text: bytes) -> Keys | None:
    """The keys that consolidated metadata tells of, by the name of its file; None where it tells of none."""
    try:
        found = json.loads(text)
        version2 = name == ".zmetadata"
        rows = found["metadata"] if version2 else found["consolidated_metadata"]["metadata"]
        return _version2(rows) if version2 else _version3({"": found, **rows})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _version2(rows: Mapping[str, Any]) -> Keys:
    grids = {}
    for key, row in rows.items():
        folder, _, last = key.rpartition("/")
        if last == ".zarray":
            counts = _counts(row["shape"], row["chunks"])
            grids[f"{folder}/" if folder else ""] = Grid(counts, "", row.get("dimension_separator", "."))
    files = {key for key in rows if key.rpartition("/")[2] in _METADATA}
    return Keys(frozenset({".zmetadata", *files}), grids, _folders(files))


def _version3(rows: Mapping[str, Any]) -> Keys:
    grids = {}
    for folder, row in rows.items():
        if row["node_type"] == "array":
            encoding = row.get("chunk_key_encoding", {"name": "default"})
            own = encoding["name"] == "default"
            separator = encoding.get("configuration", {}).get("separator", "/" if own else ".")
            counts = _counts(row["shape"], row["chunk_grid"]["configuration"]["chunk_shape"])
            grids[f"{folder}/" if folder else ""] = Grid(counts, f"c{separator}" if own else "", separator)
    files = {f"{folder}/zarr.json" if folder else "zarr.json" for folder in rows}
    return Keys(frozenset(files), grids, _folders(files))


def _counts(shape: Iterable[int], chunks: Iterable[int]) -> tuple[int, ...]:
    return tuple(math.ceil(whole / part) for whole, part in zip(shape, chunks, strict=True))


def _folders(files: Iterable[str]) -> frozenset[str]:
    """All folders above the files."""
    found: set[str] = set()
    for name in files:
        while (name := name.rpartition("/")[0]) and name not in found:
            found.add(name)
    return frozenset(found)
