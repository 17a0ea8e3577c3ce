"""Which files a tree has: told by the consolidated metadata of Zarr, or by the list of its bucket. Pure.

What a container may ask for is one of these. Free names below a folder would be a way to tell its server something.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

_METADATA: Final = (".zarray", ".zattrs", ".zgroup")
# what a server could take for a way out of the tree's folder, as an address of the caller's may not have it either
_CLIMBS: Final = re.compile(r"(^|/)(\.\.?)?(;|/|$)|[\\%\0-\x1f]")
# folders above a file that are listed: all those above one name take the square of its length
_DEEPEST: Final = 32

# `listed` is there; `maybe` is a file beside another, or a chunk that may never have been written: it is as good as empty then
Held = Literal["listed", "maybe", "folder", "none"]


@dataclass(frozen=True, slots=True)
class Grid:
    """The chunks of one array: how many there are along each of its dimensions, and how their keys look."""

    counts: tuple[int, ...]
    start: str  # such as `c/`
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


@dataclass(frozen=True)
class Keys:
    """The keys of one source. A question of a container takes the same time however many there are."""

    files: frozenset[str]
    grids: Mapping[str, Grid] = field(default_factory=dict)  # by the folder of the array, "" for the top
    maybe: frozenset[str] = frozenset()

    @cached_property
    def _folders(self) -> Mapping[str, set[str]]:
        """What is in each folder above the files."""
        found: dict[str, set[str]] = {"": set()}
        for name in self.files:
            if name.count("/") > _DEEPEST:
                continue
            folder, _, last = name.rpartition("/")
            while last and last not in found.setdefault(folder, set()):
                found[folder].add(last)
                folder, _, last = folder.rpartition("/")
        return found

    def held(self, key: str) -> Held:
        if key in self.files:
            return "listed"
        if key in self._folders:
            return "folder"
        above = ["", *(key[:at] for at, letter in enumerate(key) if letter == "/")]
        arrays = [folder for folder in above if folder in self.grids]
        inside = (self.grids[one].has(key[len(one) :].removeprefix("/")) for one in arrays)
        return "maybe" if key in self.maybe or (not _CLIMBS.search(key) and any(inside)) else "none"

    def first(self) -> list[str]:
        """What every reader of a Zarr begins with, one after another: its group, and coordinates, which are one chunk each."""
        single = [folder for folder, grid in self.grids.items() if grid.counts == (1,)]
        names = [f"{one}/{self.grids[one].start}0".lstrip("/") for one in single]
        return [one for one in (".zgroup", *names) if self.held(one) in ("listed", "maybe")]

    def below(self, folder: str) -> tuple[str, ...]:
        """The names in a folder, without chunks that may not be there."""
        return tuple(sorted(self._folders.get(folder, ())))


def of_zarr(name: str, text: bytes) -> Keys | None:
    """The keys that consolidated metadata tells of, by the name of its file; None where it tells of none."""
    try:
        found = json.loads(text)
        if name == ".zmetadata":
            rows = found["metadata"]
            files = {name, *(key for key in rows if key.rpartition("/")[2] in _METADATA)}
            grids = {
                key.rpartition("/")[0]: _grid(row, row["chunks"], "", row.get("dimension_separator", "."))
                for key, row in rows.items()
                if key.rpartition("/")[2] == ".zarray"
            }
        else:
            rows = {"": found, **found["consolidated_metadata"]["metadata"]}
            files = {f"{folder}/zarr.json".lstrip("/") for folder in rows}
            grids = {folder: _version3(row) for folder, row in rows.items() if row["node_type"] == "array"}
        return Keys(frozenset(one for one in files if not _CLIMBS.search(one)), grids)
    except (ValueError, ArithmeticError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _version3(row: Mapping[str, Any]) -> Grid:
    encoding = row.get("chunk_key_encoding", {"name": "default"})
    own = encoding["name"] == "default"
    separator = encoding.get("configuration", {}).get("separator", "/" if own else ".")
    chunks = row["chunk_grid"]["configuration"]["chunk_shape"]
    return _grid(row, chunks, f"c{separator}" if own else "", separator)


def _grid(row: Mapping[str, Any], chunks: Iterable[int], start: str, separator: str) -> Grid:
    """Raises ValueError for a separator that the format does not know."""
    if separator not in (".", "/"):
        raise ValueError(separator)
    counts = tuple(math.ceil(whole / part) for whole, part in zip(row["shape"], chunks, strict=True))
    return Grid(counts, start, separator)
