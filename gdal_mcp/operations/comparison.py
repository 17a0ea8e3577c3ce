"""Whether two sets of outputs are the same: by their bytes, else by what they hold. Pure.

Some formats hold the time they were written (GeoPackage, dBASE): there equal content is what counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Sameness = Literal["same_bytes", "same_content", "differs", "unknown"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one output."""

    path: str
    sameness: Sameness
    reason: str = ""

    @property
    def same(self) -> bool:
        return self.sameness in ("same_bytes", "same_content")

    def as_dict(self) -> dict[str, Any]:
        row: dict[str, Any] = {"path": self.path, "verdict": self.sameness}
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
    old, new = parsed if isinstance(parsed, list) and len(parsed) == 2 else (None, None)
    if not isinstance(old, dict) or not isinstance(new, dict) or "problem" in old:
        return Verdict(path, "unknown", reason="what it holds could not be read")
    return Verdict(path, "same_content" if old == new else "differs")
