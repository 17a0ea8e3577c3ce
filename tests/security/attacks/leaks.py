"""Finds the bait in bytes, in each spelling in which a tool could return it."""

import base64
import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import mcp_types as t

from tests.e2e.mcp.attack_files import HOST
from tests.e2e.mcp.hostile_files import CANARY

_PIECE = 12  # letters of the bait that cannot occur by accident


@lru_cache(maxsize=1)
def _forms() -> tuple[bytes, ...]:
    forms = [CANARY, CANARY.lower(), CANARY.decode().encode("utf-16-le")]
    forms += [CANARY.hex().encode(), CANARY.hex().upper().encode()]
    # base64 of the bait at any position of a longer text
    forms += [base64.b64encode(b"\0" * shift + CANARY)[4:-4] for shift in range(3)]
    forms += [CANARY[-_PIECE:], HOST]
    numbers = [str(letter) for letter in CANARY[-_PIECE:]]
    forms += [separator.join(numbers).encode() for separator in (",", ", ", " ", "\n", ".0, ", ".0,")]
    return tuple(forms)


def leaked(data: bytes) -> bool:
    """True if the bytes contain the bait or a line of a password file."""
    squeezed = b"".join(data.split()) if b"\n" in data else data
    return any(form in data or form in squeezed for form in _forms())


def pixels(png: bytes) -> bytes:
    """The decompressed rows of a PNG; filters are not undone."""
    place, parts = 8, b""
    while place < len(png):
        length, kind = struct.unpack(">I4s", png[place : place + 8])
        parts += png[place + 8 : place + 8 + length] if kind == b"IDAT" else b""
        place += 12 + length
    return zlib.decompress(parts)


def parts(result: t.CallToolResult) -> Iterator[bytes]:
    """Everything that a client receives, with pictures decoded."""
    yield result.model_dump_json().encode()
    for part in result.content:
        if isinstance(part, t.ImageContent):
            yield pixels(base64.b64decode(part.data))


def discreet(result: t.CallToolResult) -> bool:
    return not any(leaked(part) for part in parts(result))


def code(result: t.CallToolResult) -> str:
    """`OK`, or the code of the error."""
    structured: dict[str, Any] = result.structured_content or {}
    return structured["error"]["code"] if result.is_error else "OK"
