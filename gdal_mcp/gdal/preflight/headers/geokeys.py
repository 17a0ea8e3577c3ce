"""The GeoTIFF keys that say which CRS it is. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MODEL, RASTER_TYPE, GEOGRAPHIC, ANGULAR_UNITS, PROJECTED = 1024, 1025, 2048, 2054, 3072
_POINT: Final = 2
_DEGREES: Final = 9102
_MAX_KEYS: Final = 128  # GeoTIFF 1.1 has about 60
_CODES: Final = range(1024, 32767)  # 32767 is "user defined"; below are obsolete codes and "undefined"


@dataclass(frozen=True, slots=True)
class Keys:
    """`has_crs` is False without keys that name one; `code` is None for one that is spelled out."""

    code: str | None = None
    has_crs: bool = False
    degrees: bool | None = None
    pixel_is_point: bool = False


def read_keys(values: Sequence[int]) -> Keys:
    """The keys of the directory's values: a head of four, then four for each key."""
    if len(values) < 4:
        return Keys()
    count = min(values[3], _MAX_KEYS, len(values) // 4 - 1)
    rows = [values[4 * row : 4 * row + 4] for row in range(1, count + 1)]
    # a key with a place of its own (second number) has no short value
    keys = {key: value for key, place, _count, value in rows if place == 0}
    point = keys.get(RASTER_TYPE) == _POINT
    match keys.get(MODEL):
        case 1:  # projected
            return Keys(_code(keys.get(PROJECTED)), has_crs=True, degrees=False, pixel_is_point=point)
        case 2:  # geographic
            units = keys.get(ANGULAR_UNITS, _DEGREES)
            return Keys(
                _code(keys.get(GEOGRAPHIC)), has_crs=True, degrees=units == _DEGREES, pixel_is_point=point
            )
        case _:
            return Keys(pixel_is_point=point)


def _code(value: int | None) -> str | None:
    return f"EPSG:{value}" if value in _CODES else None
