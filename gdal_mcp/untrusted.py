"""Cleans text that comes from inside a file or from GDAL before a model or a person sees it.

Removed are characters that hide, reorder or forge text: control characters, zero-width and bidirectional marks, variation
selectors and tag characters. What remains is capped. This makes text harmless to display; it cannot make it true.
"""

import unicodedata
from typing import Any

MAX_TEXT = 20_000  # characters of one string
MAX_ITEMS = 20_000  # entries of one list or object
MAX_DEPTH = 60
CUT = " [cut]"

_KEPT_CONTROLS = "\n\t"
_HIDDEN = frozenset(
    (
        *range(0x200B, 0x2010),  # zero-width and directional marks
        *range(0x2028, 0x202F),  # line separators and directional embeddings
        *range(0x2060, 0x2070),  # joiners and directional isolates
        *range(0xFE00, 0xFE10),  # variation selectors
        *range(0xFFF9, 0xFFFC),  # annotations
        *range(0xE0000, 0xE0200),  # tags and more variation selectors
        *(0x00AD, 0x061C, 0x180E, 0xFEFF),  # soft hyphen, Arabic mark, Mongolian separator, byte order mark
    )
)


def clean_text(text: str, limit: int = MAX_TEXT) -> str:
    """The text without hiding characters, in NFC, at most `limit` characters and a mark where it was cut."""
    if text.isascii() and text.isprintable():
        kept = text
    else:
        normal = unicodedata.normalize("NFC", text[: limit * 2])
        kept = "".join(letter for letter in normal if _visible(letter))
    return kept if len(kept) <= limit else kept[:limit] + CUT


def _visible(letter: str) -> bool:
    if letter in _KEPT_CONTROLS:
        return True
    return unicodedata.category(letter) not in ("Cc", "Cs", "Co", "Cn") and ord(letter) not in _HIDDEN


def clean_value(value: Any, depth: int = 0) -> Any:
    """The same JSON value with every string in it, keys included, cleaned; very deep or long parts are cut."""
    if isinstance(value, str):
        return clean_text(value)
    if depth >= MAX_DEPTH:
        return CUT.strip()
    if isinstance(value, list):
        return [clean_value(item, depth + 1) for item in value[:MAX_ITEMS]]
    if isinstance(value, dict):
        rows = list(value.items())[:MAX_ITEMS]
        return {clean_text(str(key), 500): clean_value(item, depth + 1) for key, item in rows}
    return value
