"""Reads what a file says of itself at its beginning: a few small reads, whatever the file is.

Invariants:
* nothing that a file says is a number of rounds, an amount to read or an amount to keep: all of these are constants here;
* at most `window.MAX_READS` reads and `window.MAX_BYTES` bytes of one file, through `sandbox.workspace.open_file`;
* a file that is damaged, lying or of another format has no header; no exception is a file's to raise;
* a header is hearsay: it is shown and weighed, and never decides what is safe.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from gdal_mcp.gdal.preflight.header import Header
from gdal_mcp.gdal.preflight.headers.pictures import read_jpeg, read_png
from gdal_mcp.gdal.preflight.headers.shapefile import read_shapefile
from gdal_mcp.gdal.preflight.headers.tiff import read_tiff
from gdal_mcp.gdal.preflight.headers.window import Unreadable, Window, window_of
from sandbox.errors import PathRefused
from sandbox.workspace import Located

_SIGNATURES: Final[Mapping[bytes, Callable[[Window], Header]]] = MappingProxyType(
    {
        b"II*\0": read_tiff,
        b"MM\0*": read_tiff,
        b"II+\0": read_tiff,  # BigTIFF
        b"MM\0+": read_tiff,
        b"\x89PNG": read_png,
        b"\xff\xd8\xff\xe0": read_jpeg,
        b"\xff\xd8\xff\xe1": read_jpeg,
        b"\xff\xd8\xff\xdb": read_jpeg,
        b"\xff\xd8\xff\xee": read_jpeg,
        b"\0\0\x27\x0a": read_shapefile,
    }
)


def read_header(located: Located) -> Header | None:
    """What a file is; None for a folder, and for a format or a file that is not understood. Reads some kilobytes.

    It is about the file itself: a caller that means a part of it, or a file in an archive, must not ask.
    """
    if located.identity is None or located.is_folder:
        return None
    try:
        with window_of(located) as window:
            reader = _SIGNATURES.get(window.at(0, 4))
            return reader(window) if reader else None
    except (Unreadable, PathRefused, OSError):
        return None
