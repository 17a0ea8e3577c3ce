"""Bounded reading of a file that may hold anything."""

import math
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from sandbox.workspace import Located, open_file

MAX_READS: Final = 160  # the JPEG with the most segments needs 2 for each of the 64 that are looked at
MAX_BYTES: Final = 64 << 10  # in all; the largest part, a TIFF's directory of 512 entries, is 10 kB
MAX_SIDE: Final = (1 << 31) - 1  # pixels; GDAL's own bound


class Unreadable(Exception):
    """The file is not what it began as, or wants more reading than it gets."""


@dataclass(slots=True)
class Window:
    """A file seen through a limited number of reads. `located` names it and where its siblings are."""

    file: int
    size: int  # bytes
    located: Located
    _reads: int = field(default=MAX_READS)
    _bytes: int = field(default=MAX_BYTES)

    def at(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes. Raises Unreadable beyond the end, or when the file has had its share."""
        self._reads -= 1
        self._bytes -= length
        if self._reads < 0 or self._bytes < 0 or length < 0 or not 0 <= offset <= self.size - length:
            raise Unreadable
        data = os.pread(self.file, length, offset)
        if len(data) != length:
            raise Unreadable
        return data

    def unpack(self, layout: str, offset: int) -> tuple[Any, ...]:
        return struct.unpack(layout, self.at(offset, struct.calcsize(layout)))

    def upto(self, length: int) -> bytes:
        """The beginning of the file, as much of `length` as there is."""
        return self.at(0, min(length, self.size))


@contextmanager
def window_of(located: Located) -> Iterator[Window]:
    """Raises PathRefused, PathMissing, OSError."""
    with open_file(located) as file:
        yield Window(file, os.fstat(file).st_size, located)


def side(pixels: int) -> int:
    """A width or height that a raster can have. Raises Unreadable."""
    if not 1 <= pixels <= MAX_SIDE:
        raise Unreadable
    return pixels


def box(west: float, south: float, east: float, north: float) -> tuple[float, float, float, float] | None:
    """The corners as a box with an area, or a point's or line's without; None for what is none."""
    corners = (west, south, east, north)
    return corners if all(map(math.isfinite, corners)) and west <= east and south <= north else None
