"""The header of a dataset as a container described it in an earlier call. Pure.

A container's answer may be anything: every value is checked for its type, and a number that cannot be is left out.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gdal_mcp.gdal.preflight.crs import degrees_of
from gdal_mcp.gdal.preflight.header import TYPE_BYTES, Box, Header

_MAX_COUNT: Final = 1 << 53  # what JSON's numbers hold exactly
_MAX_SIDE: Final = (1 << 31) - 1
_MAX_LAYERS: Final = 1000


def header_of_description(description: Mapping[str, Any], disk_bytes: int = 0) -> Header | None:
    """From the keys driver, size, band_count, bands, crs, extent, compression, block_size or layers; None if it is no dataset."""
    driver = _text(description.get("driver"))
    size = _pair(description.get("size"))
    if driver and size:
        return _raster(description, driver, size, disk_bytes)
    layers = description.get("layers")
    if driver and isinstance(layers, list) and layers:
        return _vector([one for one in layers[:_MAX_LAYERS] if isinstance(one, Mapping)], driver, disk_bytes)
    return None


def _raster(description: Mapping[str, Any], driver: str, size: tuple[int, int], disk_bytes: int) -> Header:
    bands = description.get("bands")
    first = bands[0] if isinstance(bands, list) and bands and isinstance(bands[0], Mapping) else {}
    kind = _text(first.get("type"))
    return Header(
        driver,
        "raster",
        disk_bytes,
        *size,
        bands=_count(description.get("band_count")) or 1,
        data_type=kind if kind in TYPE_BYTES else "",
        nodata=_number(first.get("nodata")),
        **_crs(description.get("crs")),
        extent=_box(description.get("extent")),
        compression=_text(description.get("compression")).upper(),
        block=_pair(description.get("block_size")),
    )


def _vector(layers: Sequence[Mapping[str, Any]], driver: str, disk_bytes: int) -> Header | None:
    if not layers:
        return None
    counts = [_count(layer.get("features")) for layer in layers]
    crs = [_crs(layer.get("crs")) for layer in layers]
    alike = all(one == crs[0] for one in crs)  # one extent for layers of several CRSs would be of none
    return Header(
        driver,
        "vector",
        disk_bytes,
        **(crs[0] if alike else {}),
        extent=_around([_box(layer.get("extent")) for layer in layers]) if alike else None,
        features=None if None in counts else sum(filter(None, counts)),
        geometry=_text(layers[0].get("geometry")),
    )


def _crs(value: Any) -> dict[str, Any]:
    if value is None:
        return {"has_crs": False}
    facts = value if isinstance(value, Mapping) else {}
    code, degrees = _text(facts.get("code")) or None, facts.get("degrees")
    return {
        "crs": code,
        "has_crs": True,
        "degrees": degrees if isinstance(degrees, bool) else degrees_of(code),
    }


def _around(boxes: Sequence[Box | None]) -> Box | None:
    known = [one for one in boxes if one is not None]
    if not known or len(known) != len(boxes):
        return None
    west, south, east, north = zip(*known, strict=True)
    return min(west), min(south), max(east), max(north)


def _text(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= 80 and value.isprintable() else ""


def _count(value: Any) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_COUNT
    return value if good else None


def _pair(value: Any) -> tuple[int, int] | None:
    counts = [_count(one) for one in value] if isinstance(value, list) else []
    if len(counts) != 2 or not all(one is not None and 1 <= one <= _MAX_SIDE for one in counts):
        return None
    return counts[0] or 0, counts[1] or 0


def _number(value: Any) -> float | None:
    """A number, or the name of one that JSON cannot hold."""
    if value in ("nan", "inf", "-inf"):
        return float(value)
    good = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if good and (abs(value) < 1e308 or math.isnan(value)) else None


def _box(value: Any) -> Box | None:
    numbers = [_number(one) for one in value] if isinstance(value, list) else []
    known = [one for one in numbers if one is not None and math.isfinite(one)]
    if len(numbers) != 4 or len(known) != 4 or known[0] > known[2] or known[1] > known[3]:
        return None
    return known[0], known[1], known[2], known[3]
