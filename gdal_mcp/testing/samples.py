"""Small files with known values, written without GDAL, so that a test has something to call the server with."""

import json
import struct
from pathlib import Path
from typing import Final

WIDTH, HEIGHT = 24, 16
PIXEL_METRES = 30.0
ORIGIN: Final = (500_000.0, 4_649_820.0)  # easting and northing of the upper left corner
NODATA = -999
EPSG = 32633  # WGS 84 / UTM zone 33N

_SHORT, _LONG, _DOUBLE, _ASCII = 3, 4, 12, 2
_FORMATS: Final = {_SHORT: "H", _LONG: "I", _DOUBLE: "d"}
_HEADER = struct.Struct("<2sHI")
_ENTRY = struct.Struct("<HHI4s")

Tag = tuple[int, int, tuple[float, ...] | bytes]  # number, type, values


def write_samples(folder: Path) -> None:
    """Puts `dem.tif` and `places.geojson` into an existing folder: the same bytes every time, under 3 kB together."""
    (folder / "dem.tif").write_bytes(geotiff())
    (folder / "places.geojson").write_text(json.dumps(places(), indent=1), encoding="utf-8")


def elevation(column: int, row: int) -> int:
    """The value of a pixel of `dem.tif`, in metres; the upper left one is nodata."""
    return NODATA if (column, row) == (0, 0) else 100 + 10 * row + column


def places() -> dict[str, object]:
    rows = (("Lower", 15.002, 41.999, 120), ("Upper", 15.005, 41.997, 45))
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {"name": name, "inhabitants": inhabitants},
                "geometry": {"type": "Point", "coordinates": [longitude, latitude]},
            }
            for name, longitude, latitude, inhabitants in rows
        ],
    }


def geotiff() -> bytes:
    """A raster of one band, 24 x 16 pixels of 16 bits, in UTM zone 33N, not compressed."""
    pixels = [elevation(column, row) for row in range(HEIGHT) for column in range(WIDTH)]
    data = struct.pack(f"<{len(pixels)}h", *pixels)
    tags: tuple[Tag, ...] = (  # in ascending order, as TIFF asks
        (256, _SHORT, (WIDTH,)),
        (257, _SHORT, (HEIGHT,)),
        (258, _SHORT, (16,)),  # bits
        (259, _SHORT, (1,)),  # no compression
        (262, _SHORT, (1,)),  # black is zero
        (273, _LONG, (_HEADER.size,)),
        (277, _SHORT, (1,)),  # bands
        (278, _SHORT, (HEIGHT,)),  # rows in the only strip
        (279, _LONG, (len(data),)),
        (339, _SHORT, (2,)),  # signed
        (33550, _DOUBLE, (PIXEL_METRES, PIXEL_METRES, 0.0)),
        (33922, _DOUBLE, (0.0, 0.0, 0.0, *ORIGIN, 0.0)),
        # GeoTIFF 1.1: three keys: projected, pixels are areas, the code of the CRS
        (34735, _SHORT, (1, 1, 1, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, EPSG)),
        (42113, _ASCII, f"{NODATA}\0".encode("ascii")),
    )
    entries, above = _directory(tags, _HEADER.size + len(data))
    return _HEADER.pack(b"II", 42, _HEADER.size + len(data)) + data + entries + above


def _directory(tags: tuple[Tag, ...], start: int) -> tuple[bytes, bytes]:
    """The directory that stands at `start`, and the values behind it that do not fit into it."""
    entries, above = [], b""
    behind = start + 2 + _ENTRY.size * len(tags) + 4
    for number, kind, values in tags:
        if isinstance(values, bytes):
            packed = values
        else:
            numbers = values if kind == _DOUBLE else tuple(map(int, values))
            packed = struct.pack(f"<{len(values)}{_FORMATS[kind]}", *numbers)
        if len(packed) > 4:
            place, above = struct.pack("<I", behind + len(above)), above + packed + b"\0" * (len(packed) % 2)
        else:
            place = packed.ljust(4, b"\0")
        entries.append(_ENTRY.pack(number, kind, len(values), place))
    return struct.pack("<H", len(tags)) + b"".join(entries) + struct.pack("<I", 0), above
