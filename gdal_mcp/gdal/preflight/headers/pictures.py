"""PNG and JPEG: size, bands and type. Where they lie is in other files, which are not read."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gdal_mcp.gdal.preflight.header import Header
from gdal_mcp.gdal.preflight.headers.window import Unreadable, Window, side

_PNG: Final = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"
_PNG_BANDS: Final[Mapping[int, int]] = MappingProxyType(
    {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
)  # grey, RGB, palette, with alpha
_MAX_SEGMENTS: Final = 64  # before the frame; pictures with profiles and thumbnails have about 20
_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})  # SOF0 to SOF15 without DHT, JPG, DAC
_BARE: Final = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length


def read_png(window: Window) -> Header:
    """Raises Unreadable."""
    if window.at(0, len(_PNG)) != _PNG:
        raise Unreadable
    width, height, depth, color = window.unpack(">IIBB", len(_PNG))
    bands = _PNG_BANDS.get(color)
    if bands is None or depth not in (1, 2, 4, 8, 16):
        raise Unreadable
    kind = "UInt16" if depth == 16 else "Byte"
    return _picture(window, "PNG", (width, height), (bands, kind))


def read_jpeg(window: Window) -> Header:
    """Goes from segment to segment to the first frame. Raises Unreadable."""
    offset = 2
    for _ in range(_MAX_SEGMENTS):
        sign, marker = window.unpack(">BB", offset)
        if sign != 0xFF:
            raise Unreadable
        if marker in _FRAMES:
            _length, precision, height, width, bands = window.unpack(">HBHHB", offset + 2)
            if bands not in (1, 3, 4):
                raise Unreadable
            kind = "Byte" if precision == 8 else "UInt16"
            return _picture(window, "JPEG", (width, height), (bands, kind))
        offset = _next(window, offset, marker)
    raise Unreadable


def _next(window: Window, offset: int, marker: int) -> int:
    if marker == 0xFF:  # a fill byte
        return offset + 1
    if marker in _BARE:
        return offset + 2
    if marker in (0xD9, 0xDA):  # the end, or the picture itself: the frame should have come before
        raise Unreadable
    (length,) = window.unpack(">H", offset + 2)
    if length < 2:
        raise Unreadable
    return int(offset + 2 + length)


def _picture(window: Window, driver: str, size: tuple[int, int], bands: tuple[int, str]) -> Header:
    width, height = map(side, size)
    return Header(
        driver,
        "raster",
        window.size,
        width,
        height,
        *bands,
        compression="DEFLATE" if driver == "PNG" else driver,
    )
