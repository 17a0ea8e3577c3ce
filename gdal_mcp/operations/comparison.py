"""Whether two sets of outputs are the same: by their bytes, else by what they hold. Pure.

Some formats hold the time they were written (GeoPackage, dBASE): there equal content is what counts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Sameness = Literal["same_bytes", "same_content", "differs", "unknown"]
MAX_DIFFERENCES: Final = 20
_DEEP: Final = 6  # levels of the container's answer that are compared


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one output. `differences` are paths such as `bands[0].pixels`, never text from a file."""

    path: str
    sameness: Sameness
    differences: tuple[str, ...] = ()
    reason: str = ""

    @property
    def same(self) -> bool:
        return self.sameness in ("same_bytes", "same_content")

    def as_dict(self) -> dict[str, Any]:
        row: dict[str, Any] = {"path": self.path, "verdict": self.sameness}
        if self.differences:
            row["differences"] = list(self.differences)
        return {**row, "reason": self.reason} if self.reason else row


def own_files(name: str, names: set[str], files: Mapping[str, str | None]) -> dict[str, str | None]:
    """The digests, by file name, of one output's files; `names` are those of all outputs of the call."""
    found: dict[str, str | None] = {}
    for file, digest in files.items():
        # a companion such as `a.tif.aux.xml` belongs to `a.tif`; else one such as `a.hdr` does
        appended = [one for one in names if file.startswith(f"{one}.")]
        stems = [one for one in names if file.startswith(f"{one.rpartition('.')[0] or one}.")]
        owners = [file] if file in names else sorted(appended, key=len, reverse=True) or sorted(stems)
        if owners[:1] == [name]:
            found[file] = digest
    return found


def by_content(path: str, parsed: object) -> Verdict:
    """The verdict on an output by what the container said of the recorded and of the new one, which may be anything."""
    rows = parsed if isinstance(parsed, list) and len(parsed) == 2 else [None, None]
    old, new = rows
    if not isinstance(old, dict) or not isinstance(new, dict) or "problem" in old:
        return Verdict(path, "unknown", reason="what it holds could not be read")
    found = tuple(_differences(old, new, "", _DEEP))[:MAX_DIFFERENCES]
    return Verdict(path, "differs" if found else "same_content", found)


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
