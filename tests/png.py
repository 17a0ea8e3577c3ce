"""PNG images written byte by byte, including images that no library would write."""

import struct
import zlib
from collections.abc import Iterable

GRAY, RGB = 0, 2


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, rows: Iterable[bytes], color: int = GRAY) -> bytes:
    """An image with 8 bits per sample; the rows start at the top."""
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(b"\0" + row) for row in rows) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")
