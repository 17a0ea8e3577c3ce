"""The cost table, as data. Read once; nothing else of this package opens a file of its own."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Cost:
    """One algorithm's row; what the keys mean is said in cost.toml."""

    grid: str = ""
    type: str = "input"
    bands: int | Literal["input", "sum", "burn", "calc"] = "input"
    pixel_ns: float = 0.0
    input_ns: float = 0.0
    feature_ns: float = 0.0
    resampled: str = ""  # the resampling that GDAL takes if none is given; "" where nothing is resampled
    warps: bool = False
    held: float = 0.0
    held_input: int = 0
    needs: tuple[str, ...] = ()  # only with one of these switches is a pixel read
    overviews: bool = False
    tiles: bool = False
    whole: bool = False
    pixel_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Format:
    exact: bool = False
    compression: str = ""
    virtual: bool = False
    copies: float = 1.0
    growth: float = 1.5


@dataclass(frozen=True, slots=True)
class Compression:
    ratio: float = 0.5
    byte_ns: float = 20.0


@dataclass(frozen=True, slots=True)
class General:
    start_seconds: float
    doubt: float
    empty_ns: float
    base_bytes: int
    warp_bytes: int
    tile_ns: float
    tile_bytes: int


@dataclass(frozen=True, slots=True)
class Table:
    general: General
    resampling: Mapping[str, float]
    compression: Mapping[str, Compression]
    format: Mapping[str, Format]
    algorithm: Mapping[str, Cost]

    def cost(self, path: str) -> Cost | None:
        """The row of an algorithm, else of the group it belongs to."""
        words = path.split()
        names = (" ".join(words[:count]) for count in range(len(words), 0, -1))
        return next((self.algorithm[name] for name in names if name in self.algorithm), None)


@lru_cache(maxsize=1)
def table() -> Table:
    """The packaged table."""
    text = files("gdal_mcp.gdal.preflight").joinpath("cost.toml").read_text(encoding="utf-8")
    return table_of(tomllib.loads(text))


def table_of(data: Mapping[str, Any]) -> Table:
    """A table of TOML's values. Raises TypeError for a key that does not exist, KeyError for a part that is missing."""
    return Table(
        General(**data["general"]),
        MappingProxyType(dict(data["resampling"])),
        MappingProxyType({name: Compression(**row) for name, row in data["compression"].items()}),
        MappingProxyType({name: Format(**row) for name, row in data["format"].items()}),
        MappingProxyType({name: _cost(row) for name, row in data["algorithm"].items()}),
    )


def _cost(row: Mapping[str, Any]) -> Cost:
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in row.items()
    }
    return Cost(**values)
