"""TIFF, BigTIFF and GeoTIFF: the first directory, which is the dataset that GDAL opens."""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from gdal_mcp.gdal.preflight.header import Box, Header
from gdal_mcp.gdal.preflight.headers.geokeys import Keys, read_keys
from gdal_mcp.gdal.preflight.headers.window import Unreadable, Window, box, side

_MAX_ENTRIES: Final = 512  # real files have about 20, with EXIF and camera tags 60
_MAX_VALUES: Final = 1024  # of one tag; the rest is not looked at. Geographic keys need 4 each.
_MAX_BANDS: Final = 65_535

WIDTH, HEIGHT, BITS, COMPRESSION, SAMPLES, FORMAT = 256, 257, 258, 259, 277, 339
ROWS, TILE_WIDTH, TILE_HEIGHT = 278, 322, 323
SCALE, TIEPOINTS, TRANSFORM, GEO_KEYS, NODATA = 33550, 33922, 34264, 34735, 42113

# field type -> letter of struct; the others hold nothing that is wanted here
_LETTERS: Final[Mapping[int, str]] = MappingProxyType({1: "B", 2: "s", 3: "H", 4: "I", 12: "d", 16: "Q"})
_COMPRESSIONS: Final[Mapping[int, str]] = MappingProxyType(
    {
        1: "NONE", 2: "CCITTRLE", 3: "CCITTFAX3", 4: "CCITTFAX4", 5: "LZW", 6: "JPEG", 7: "JPEG", 8: "DEFLATE",
        32773: "PACKBITS", 32946: "DEFLATE", 34712: "JPEG2000", 34887: "LERC", 34925: "LZMA", 50000: "ZSTD",
        50001: "WEBP", 50002: "JXL", 52546: "JXL",
    }
)  # fmt: skip
_UNSIGNED, _SIGNED, _FLOAT, _COMPLEX_INT, _COMPLEX = 1, 2, 3, 5, 6
_TYPES: Final[Mapping[tuple[int, int], str]] = MappingProxyType(
    {
        **{(_UNSIGNED, bits): f"UInt{bits}" for bits in (16, 32, 64)},
        **{(_SIGNED, bits): f"Int{bits}" for bits in (8, 16, 32, 64)},
        **{(_FLOAT, bits): f"Float{bits}" for bits in (16, 32, 64)},
        (_FLOAT, 24): "Float32",
        **{(_COMPLEX_INT, 2 * bits): f"CInt{bits}" for bits in (16, 32)},
        **{(_COMPLEX, 2 * bits): f"CFloat{bits}" for bits in (16, 32, 64)},
    }
)


@dataclass(frozen=True, slots=True)
class _Layout:
    """How the two kinds of TIFF write a directory."""

    order: str  # "<" or ">"
    count: str  # letter of the number of entries
    offset: str  # letter of counts and offsets

    @property
    def entry(self) -> str:
        return f"{self.order}HH{self.offset}"


@dataclass(frozen=True, slots=True)
class _Directory:
    """The entries of interest: tag -> field type, number of values, where they are."""

    window: Window
    layout: _Layout
    entries: Mapping[int, tuple[str, int, int]]

    def values(self, tag: int) -> tuple[Any, ...]:
        """The first values of a tag; none if it is not there. Raises Unreadable."""
        if tag not in self.entries:
            return ()
        letter, count, place = self.entries[tag]
        count = min(count, _MAX_VALUES)
        return self.window.unpack(f"{self.layout.order}{count}{letter}", place) if count else ()

    def wholes(self, tag: int) -> tuple[int, ...]:
        values = self.values(tag)
        return values if values and isinstance(values[0], int) else ()

    def number(self, tag: int, default: int = 0) -> int:
        return (self.wholes(tag) or (default,))[0]

    def numbers(self, tag: int) -> tuple[float, ...]:
        values = self.values(tag)
        return tuple(map(float, values)) if values and not isinstance(values[0], bytes) else ()

    def text(self, tag: int) -> str:
        values = self.values(tag)
        if not values or not isinstance(values[0], bytes):
            return ""
        return values[0].partition(b"\0")[0].decode("ascii", "replace").strip()


def read_tiff(window: Window) -> Header:
    """Raises Unreadable."""
    directory = _directory(window)
    width, height = side(directory.number(WIDTH)), side(directory.number(HEIGHT))
    bands = directory.number(SAMPLES, 1)
    if not 1 <= bands <= _MAX_BANDS:
        raise Unreadable
    keys = read_keys(directory.wholes(GEO_KEYS))
    return Header(
        "GTiff",
        "raster",
        window.size,
        width,
        height,
        bands,
        _data_type(directory),
        nodata=_nodata(directory.text(NODATA)),
        crs=keys.code,
        has_crs=keys.has_crs,
        degrees=keys.degrees,
        extent=_extent(directory, keys, width, height),
        compression=_COMPRESSIONS.get(directory.number(COMPRESSION, 1), ""),
        block=_block(directory, width, height),
    )


def _directory(window: Window) -> _Directory:
    order = "<" if window.at(0, 2) == b"II" else ">"
    (magic,) = window.unpack(f"{order}H", 2)
    if magic == 43:
        layout = _Layout(order, "Q", "Q")
        size, _zero, start = window.unpack(f"{order}HHQ", 4)
        if size != 8:
            raise Unreadable
    else:
        layout = _Layout(order, "H", "I")
        (start,) = window.unpack(f"{order}I", 4)
    (count,) = window.unpack(order + layout.count, start)
    if count > _MAX_ENTRIES:
        raise Unreadable
    return _Directory(window, layout, _entries(window, layout, start, count))


def _entries(window: Window, layout: _Layout, start: int, count: int) -> Mapping[int, tuple[str, int, int]]:
    head, room = struct.calcsize(layout.entry), struct.calcsize(layout.order + layout.offset)
    begin = start + struct.calcsize(layout.order + layout.count)
    table = window.at(begin, count * (head + room))
    found: dict[int, tuple[str, int, int]] = {}
    for index in range(count):
        at = index * (head + room)
        tag, kind, number = struct.unpack_from(layout.entry, table, at)
        letter = _LETTERS.get(kind)
        if letter is None or tag in found:
            continue
        place = begin + at + head
        if number * struct.calcsize(f"={letter}") > room:
            (place,) = struct.unpack_from(layout.order + layout.offset, table, at + head)
        found[tag] = (letter, number, place)
    return found


def _data_type(directory: _Directory) -> str:
    """By GDAL's name; integers of odd sizes are kept in the next larger type."""
    bits, kind = directory.number(BITS, 1), directory.number(FORMAT, _UNSIGNED)
    if kind not in (_SIGNED, _FLOAT, _COMPLEX_INT, _COMPLEX):
        kind = _UNSIGNED
    if kind == _UNSIGNED and bits <= 32:
        bits = next(size for size in (8, 16, 32) if bits <= size)
        return "Byte" if bits == 8 else f"UInt{bits}"
    return _TYPES.get((kind, bits), "")


def _nodata(text: str) -> float | None:
    try:
        return float(text) if len(text) <= 64 else None
    except ValueError:
        return None


def _block(directory: _Directory, width: int, height: int) -> tuple[int, int] | None:
    tile = directory.number(TILE_WIDTH), directory.number(TILE_HEIGHT)
    if min(tile) > 0:
        return tile
    rows = directory.number(ROWS, height)
    return (width, min(rows, height)) if rows > 0 else None


def _extent(directory: _Directory, keys: Keys, width: int, height: int) -> Box | None:
    """The box around the four corners; None without a geotransform, or with one that is not a number."""
    transform = _transform(directory)
    if transform is None:
        return None
    x, dx, skew_x, y, skew_y, dy = transform
    shift = -0.5 if keys.pixel_is_point else 0.0
    corners = [(shift + i, shift + j) for i in (0, width) for j in (0, height)]
    xs = [x + dx * i + skew_x * j for i, j in corners]
    ys = [y + skew_y * i + dy * j for i, j in corners]
    return box(min(xs), min(ys), max(xs), max(ys))


def _transform(directory: _Directory) -> tuple[float, ...] | None:
    """As GDAL orders it: x, width and skew of a pixel, y, skew and height."""
    matrix = directory.numbers(TRANSFORM)
    if len(matrix) >= 16:
        made = (matrix[3], matrix[0], matrix[1], matrix[7], matrix[4], matrix[5])
    else:
        scale, tie = directory.numbers(SCALE), directory.numbers(TIEPOINTS)
        if len(scale) < 2 or len(tie) != 6:  # with more, these are ground control points
            return None
        made = (tie[3] - tie[0] * scale[0], scale[0], 0.0, tie[4] + tie[1] * scale[1], 0.0, -scale[1])
    return made if all(map(math.isfinite, made)) else None
