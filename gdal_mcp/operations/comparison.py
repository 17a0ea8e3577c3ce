"""Whether two sets of outputs are the same: by their bytes, else by what they hold. Pure.

Some formats hold the time they were written (GeoPackage, dBASE): there equal content is what counts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Sameness = Literal["same_bytes", "same_content", "differs", "unknown"]
MAX_DIFFERENCES: Final = 20
_DEEP: Final = 6  # levels of what the container told that are looked into


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one output. `differences` name what differs in our own words, such as `bands[0].pixels`."""

    path: str
    sameness: Sameness
    differences: tuple[str, ...] = ()
    reason: str = ""

    @property
    def same(self) -> bool:
        return self.sameness in ("same_bytes", "same_content")

    def as_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"path": self.path, "verdict": self.sameness}
        if self.differences:
            told["differences"] = list(self.differences)
        return {**told, "reason": self.reason} if self.reason else told


def own_files(name: str, names: set[str], files: Mapping[str, str | None]) -> dict[str, str | None]:
    """Of digests by file name those of one output; `names` are the names of all outputs of the call."""
    return {file: digest for file, digest in files.items() if _owner(file, names) == name}


def by_content(path: str, told: object) -> Verdict:
    """The verdict on an output by what the container said of the recorded and of the new one, which may be anything."""
    rows = told if isinstance(told, list) and len(told) == 2 else [None, None]
    old, new = rows
    if not isinstance(old, dict) or not isinstance(new, dict) or "problem" in old:
        return Verdict(path, "unknown", reason="what it holds could not be read")
    found = tuple(_differences(old, new, "", _DEEP))[:MAX_DIFFERENCES]
    return Verdict(path, "differs" if found else "same_content", found)


def _owner(file: str, names: set[str]) -> str | None:
    """The output whose file this is: itself, a companion such as `a.tif.aux.xml`, else one such as `a.hdr`."""
    if file in names:
        return file
    appended = [name for name in names if file.startswith(f"{name}.")]
    stems = [name for name in names if file.startswith(f"{name.rpartition('.')[0] or name}.")]
    return next(iter(sorted(appended, key=len, reverse=True) or sorted(stems)), None)


def _differences(old: Any, new: Any, place: str, depth: int) -> Iterator[str]:
    """Places that differ. Keys are the compare program's; a name from inside a file is never part of one."""
    if isinstance(old, dict) and isinstance(new, dict) and depth:
        for key in sorted({*old, *new} & _KEYS):
            yield from _differences(old.get(key), new.get(key), f"{place}.{key}".strip("."), depth - 1)
        if any(old.get(key) != new.get(key) for key in {*old, *new} - _KEYS):
            yield place or "dataset"
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new) and depth:
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(one, other, f"{place}[{index}]", depth - 1)
    elif old != new:
        yield place or "dataset"


_KEYS: Final = frozenset(
    (
        *("driver", "size", "geotransform", "gcps", "crs", "bands", "layers", "arrays", "problem"),
        *("type", "nodata", "color", "palette", "overviews", "pixels", "mask"),
        *("name", "fields", "geometry", "features", "geometries", "values", "path", "sizes", "data"),
    )
)
