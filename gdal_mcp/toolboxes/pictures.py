"""Checks pictures from a container, which may contain anything. What is passed on is small and contains only pixels.
Pure.
"""

import struct
from collections.abc import Iterator
from typing import Final

MAX_BYTES: Final = 4 << 20  # bytes; a photograph of 1024 x 1024 pixels stays below that
MAX_SIDE: Final = 2048  # pixels: the maximum of `preview_pixels`, and twice the side of a figure
_START: Final = b"\x89PNG\r\n\x1a\n"
_HEAD: Final = struct.Struct(
    ">I4sIIBBBBBI"
)  # the first chunk: length, kind, width, height, and fields that are not needed here
_FRAME: Final = 12  # bytes of a chunk around its data: length, kind and check sum
# other chunks carry text, profiles and times, which no client needs to show a picture
_PORTABLE_CHUNKS: Final = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")


def checked_png(data: bytes) -> bytes | None:
    """The picture without texts in it. None for data that is not a PNG, or is larger than any picture that was
    requested.

    The pixels are not decoded: clients find out if they are valid.
    """
    if len(data) > MAX_BYTES or not data.startswith(_START):
        return None
    chunks = list(_chunks(data))
    kinds = [kind for kind, _ in chunks]
    if kinds[:1] != [b"IHDR"] or kinds[-1:] != [b"IEND"] or kinds.count(b"IHDR") != 1 or b"IDAT" not in kinds:
        return None
    if len(chunks[0][1]) != _HEAD.size:
        return None
    _, _, width, height, *_ = _HEAD.unpack(chunks[0][1])
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE):
        return None
    return _START + b"".join(chunk for kind, chunk in chunks if kind in _PORTABLE_CHUNKS)


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The kind and the bytes of each chunk, up to the last complete one or the end of the picture."""
    at = len(_START)
    while at + _FRAME <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        end, kind = at + _FRAME + length, data[at + 4 : at + 8]
        if end > len(data):
            return
        yield kind, data[at:end]
        if kind == b"IEND":
            return
        at = end
