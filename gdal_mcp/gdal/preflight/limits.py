"""Which limit a call would break for certain. Pure. A limit that only might be broken is left to the container."""

from dataclasses import dataclass
from typing import Final, Literal

from gdal_mcp.gdal.preflight.estimate import Estimate
from sandbox.template import Limits

What = Literal["output bytes", "bytes of one file", "files", "memory bytes", "seconds"]

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


@dataclass(frozen=True, slots=True)
class LimitViolation:
    """A limit and the number, of bytes, files or seconds, that the call cannot stay below."""

    what: What
    number: float
    limit: float
    setting: str  # the option of `gdal-mcp serve`

    @property
    def message(self) -> str:
        number, limit = self._said(self.number), self._said(self.limit)
        match self.what:
            case "output bytes" | "bytes of one file":
                return f"the output would have at least {number}; the limit is {limit}."
            case "files":
                return f"the call would write at least {number} files; the limit is {limit}."
            case "memory bytes":
                return f"the call would need at least {number} of memory; the limit is {limit}."
            case _:
                return f"the call would take at least {number}, by a cautious estimate; the limit is {limit}."

    @property
    def suggestion(self) -> str:
        less = (
            "Ask for less: fewer zoom levels"
            if self.what == "files"
            else "Ask for less: a coarser resolution, a smaller size"
        )
        return f"{less} or a smaller extent. Whoever runs the server can allow it with {self.setting}."

    def _said(self, number: float) -> str:
        if self.what == "files":
            return f"{number:,.0f}"
        return f"{number:,.0f} seconds" if self.what == "seconds" else _size(number)


def violation(foreseen: Estimate, limits: Limits) -> LimitViolation | None:
    """The first limit that a call is certain to break; None if it may stay within all of them."""
    sure = foreseen.sure
    rows: tuple[tuple[What, float, float, str], ...] = (
        ("files", sure.files, limits.staging_files, "--staging-files"),
        ("bytes of one file", sure.bytes, limits.file_bytes, "--file-size"),
        ("output bytes", sure.bytes, limits.staging_bytes, "--staging-size"),
        ("memory bytes", sure.memory_bytes, limits.memory_bytes, "--memory"),
        ("seconds", sure.seconds, limits.wall_seconds, "--timeout-seconds"),
    )
    return next((LimitViolation(*row) for row in rows if row[1] > row[2]), None)


def _size(number: float) -> str:
    power = 0
    while number >= 1024 and power < len(_UNITS) - 1:
        number, power = number / 1024, power + 1
    return f"{number:.1f} {_UNITS[power]}" if power else f"{number:.0f} B"
