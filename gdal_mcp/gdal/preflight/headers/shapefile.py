"""A shapefile: extent and geometry of the .shp, number of features of the .dbf, CRS of the .prj beside it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeVar

from gdal_mcp.gdal.preflight.header import Header
from gdal_mcp.gdal.preflight.headers.window import Unreadable, Window, box, window_of
from sandbox.errors import PathRefused

T = TypeVar("T")

_HEADER: Final = 100  # bytes
_SHAPES: Final[Mapping[int, str]] = MappingProxyType(
    {
        number + extra: name + ending
        for number, name in ((1, "Point"), (3, "Line String"), (5, "Polygon"), (8, "Multi Point"))
        for extra, ending in ((0, ""), (10, " Z"), (20, " M"))
    }
)
_MAX_PRJ: Final = 4096  # bytes; the longest of EPSG is about 2 kB
# the last one of a WKT1 text is that of the whole
_AUTHORITY: Final = re.compile(rb'AUTHORITY\["EPSG","?([0-9]{4,6})"?\]\]\s*$')


def read_shapefile(window: Window) -> Header:
    """Raises Unreadable."""
    (version, shape) = window.unpack("<II", 28)
    if version != 1000:
        raise Unreadable
    west, south, east, north = window.unpack("<4d", 36)
    header = Header(
        "ESRI Shapefile",
        "vector",
        window.size,
        geometry=_SHAPES.get(shape, ""),
        extent=box(west, south, east, north) if window.size > _HEADER else None,
        features=_features(window),
    )
    return _with_crs(window, header)


def _features(window: Window) -> int | None:
    return _beside(window, ".dbf", _rows)


def _rows(table: Window) -> int | None:
    """The number of rows, which cannot be more than fit into the file."""
    _version, rows, start, width = table.unpack("<IIHH", 0)
    fits = start >= 32 and width >= 1 and rows * width <= table.size - start
    return int(rows) if fits else None


def _with_crs(window: Window, header: Header) -> Header:
    text = _beside(window, ".prj", lambda file: file.upto(_MAX_PRJ).strip())
    if text is None:
        return replace(header, has_crs=False)
    found = _AUTHORITY.search(text)
    code = f"EPSG:{int(found[1])}" if found else None
    degrees = _degrees(text[:20].upper())
    return replace(header, crs=code, has_crs=True, degrees=degrees)


def _degrees(start: bytes) -> bool | None:
    """Whether the text is of a geographic CRS. A few of these count in grads, which are taken for degrees here."""
    if start.startswith((b"GEOGCS", b"GEOGCRS")):
        return True
    return False if start.startswith((b"PROJCS", b"PROJCRS")) else None


def _beside(window: Window, ending: str, read: Callable[[Window], T | None]) -> T | None:
    """What is read of the file of the same name with another ending, in either case; None if there is none."""
    for one in (ending, ending.upper()):
        sibling = replace(window.located, relative=window.located.relative.with_suffix(one))
        try:
            with window_of(sibling) as opened:
                return read(opened)
        except (
            Unreadable,
            PathRefused,
            OSError,
            ValueError,
        ):  # ValueError: a name that is nothing but an ending
            continue
    return None
