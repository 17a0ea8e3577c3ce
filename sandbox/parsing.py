"""Parses JSON from untrusted sources in bounded memory. Pure.

Python's parser makes an object of 64 to 230 bytes from every three characters of `[[],[],{}...`, so the length of a
text does not bound the memory that it takes. The values are counted before the parser runs.
"""

import json
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

MAX_DEPTH: Final = 200  # levels; geospatial documents have fewer than 30
_PART: Final = 256 << 10  # bytes
_STEP: Final = {**dict.fromkeys(b"[{", 1), **dict.fromkeys(b"]}", -1)}
_NO_BRACKETS: Final = bytes(sorted(set(range(256)) - set(b"[{]}")))


class TooComplex(ValueError):
    """A JSON text has more values or levels than allowed."""


def require_simple(data: bytes, most_values: int) -> None:
    """Checks the number of values and levels in a JSON text in UTF-8. Needs about as much memory as the text.

    Exact for well-formed JSON. For other text it covers everything before the first error, which is all that a parser
    reads. Raises TooComplex.
    """
    values, level = 1, 0
    for part in _structure(data):
        values += sum(map(part.count, (b"[", b"{", b",")))
        if values > most_values:
            raise TooComplex(f"more than {most_values} values")
        levels = accumulate((_STEP[byte] for byte in part.translate(None, _NO_BRACKETS)), initial=level)
        for level in levels:  # the last character is where the next part begins
            if level > MAX_DEPTH:
                raise TooComplex(f"more than {MAX_DEPTH} levels")


def _structure(data: bytes) -> Iterator[bytes]:
    """A JSON text in parts, without its strings, because brackets and commas in strings are not structure."""
    plain, inside = data.replace(b"\\\\", b"").replace(b'\\"', b""), False
    for start in range(0, len(plain), _PART):
        pieces = plain[start : start + _PART].split(b'"')
        yield b"".join(pieces[inside::2])
        inside ^= len(pieces) % 2 == 0


def parse_json(data: str | bytes, most_values: int, **options: Any) -> Any:
    """The value of a JSON text, in any encoding that `json.loads` reads, with its `options`. Raises ValueError,
    RecursionError.
    """
    text = data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass")
    require_simple(text.encode("utf-8", "surrogatepass"), most_values)
    return json.loads(text, **options)
