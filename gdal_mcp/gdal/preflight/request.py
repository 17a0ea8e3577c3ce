"""What is asked for: a call as far as foresight needs it. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gdal_mcp.gdal.preflight.facts import DatasetFacts
from sandbox.template import Limits

# the classic programs and the shortcut commands, by the algorithm that they are most like
_LIKE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gdalinfo": "raster info",
        "gdal_translate": "raster convert",
        "gdalwarp": "raster reproject",
        "gdalbuildvrt": "raster mosaic",
        "gdal_rasterize": "vector rasterize",
        "gdal_polygonize": "raster polygonize",
    }
)
_SHORTCUTS: Final = frozenset({"convert", "info"})  # of the kind that the input is


@dataclass(frozen=True, slots=True)
class Request:
    """One call. `inputs` are the datasets that it is about, in order, None where nothing is known of one."""

    algorithm: str  # a command path such as `raster resize`, or the name of a classic program
    arguments: Mapping[str, tuple[str, ...]]  # by canonical name, as the catalogue binds them
    inputs: tuple[DatasetFacts | None, ...] = ()
    others: Mapping[str, DatasetFacts] = field(
        default_factory=dict
    )  # of further datasets, by argument: like, zones ...
    driver: str = ""  # GDAL's name of the output's format; "" where nothing is written
    output: str = ""  # name of the output, for its extension
    updates: bool = False  # whether the output is there already and a copy of it is changed
    # part of the inputs' pixels that is certain; of an earlier step, its estimate's `certain`
    trust: float = 1.0
    limits: Limits = field(default_factory=Limits)

    @property
    def path(self) -> str:
        """The algorithm that the call is, or is most like."""
        if self.algorithm in _SHORTCUTS:
            return f"{self.input.kind if self.input else 'raster'} {self.algorithm}"
        return _LIKE.get(self.algorithm, self.algorithm)

    @property
    def input(self) -> DatasetFacts | None:
        return self.inputs[0] if self.inputs else None

    def text(self, name: str) -> str:
        """The first value of an argument; "" if it was not given."""
        values = self.arguments.get(name, ())
        return values[0] if values else ""

    def flag(self, name: str) -> bool:
        return self.text(name) == "true"

    def numbers(self, name: str, count: int = 0) -> tuple[float, ...]:
        """All values of an argument as numbers; none if one of them is no number, or if there are not `count`."""
        texts = [part for value in self.arguments.get(name, ()) for part in value.split(",")]
        try:
            made = tuple(float(text) for text in texts)
        except ValueError:
            return ()
        return made if all(map(math.isfinite, made)) and count in (0, len(made)) else ()

    def whole(self, name: str, default: int) -> int:
        made = self.numbers(name, 1)
        return int(made[0]) if made else default

    def option(self, key: str) -> str:
        """The value of a creation option in capitals; "" if it was not given. The last one counts."""
        found = ""
        for text in self.arguments.get("creation-option", ()):
            name, _, value = text.partition("=")
            if name.strip().upper() == key:
                found = value.strip().upper()
        return found
