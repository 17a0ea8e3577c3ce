"""Cleans text that comes from inside a file or from GDAL before a model or a person sees it.

Removed are characters that hide, reorder or forge text: control characters, zero-width and bidirectional marks, variation
selectors and tag characters. What remains is capped. This makes text harmless to display; it cannot make it true.
"""

import math
import unicodedata
from itertools import islice
from typing import Any

MAX_TEXT = 20_000  # characters of one string
MAX_ITEMS = 20_000  # entries of one list or object
MAX_DEPTH = 60
CUT = " [cut]"

_KEPT_CONTROLS = "\n\t"
_FORMATS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})  # controls, formats, surrogates, private use, unassigned
_HIDDEN = frozenset(
    (
        *range(0x200B, 0x2010),  # zero-width and directional marks
        *range(0x2028, 0x202F),  # line separators and directional embeddings
        *range(0x2060, 0x2070),  # joiners and directional isolates
        *range(0xFE00, 0xFE10),  # variation selectors
        *range(0xFFF9, 0xFFFC),  # annotations
        *range(0xE0000, 0xE0200),  # tags and more variation selectors
        *(0x00AD, 0x061C, 0x180E, 0xFEFF),  # soft hyphen, Arabic mark, Mongolian separator, byte order mark
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0),  # joiner and fillers that show as nothing
    )
)


def clean_text(text: str, limit: int = MAX_TEXT) -> str:
    """The text without hiding characters, in NFC, at most `limit` characters and a mark where it was cut."""
    if text.isascii() and text.isprintable():
        kept = text
    else:
        normal = unicodedata.normalize("NFC", text[: limit * 2])
        kept = normal.translate(dict.fromkeys(ord(letter) for letter in set(normal) if not _visible(letter)))
    return kept if len(kept) <= limit and len(text) <= limit * 2 else kept[:limit] + CUT


def shown_text(text: str, limit: int = MAX_TEXT) -> str:
    """One line for a person who decides by it: what hides, reorders or breaks lines is shown as an escape."""
    kept = "".join(letter if _shown(letter) else _escape(letter) for letter in text[:limit])
    return kept if len(text) <= limit else kept + CUT


def _visible(letter: str) -> bool:
    if letter in _KEPT_CONTROLS:
        return True
    return unicodedata.category(letter) not in _FORMATS and ord(letter) not in _HIDDEN


def _shown(letter: str) -> bool:
    return _visible(letter) and letter not in _KEPT_CONTROLS


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def clean_value(value: Any, depth: int = 0) -> Any:
    """The same JSON value with every string in it, keys included, cleaned; very deep or long parts are cut."""
    if isinstance(value, str):
        return clean_text(value)
    if depth >= MAX_DEPTH:
        return CUT.strip()
    if isinstance(value, list):
        kept = [clean_value(item, depth + 1) for item in value[:MAX_ITEMS]]
        return kept if len(value) <= MAX_ITEMS else [*kept, CUT.strip()]
    if isinstance(value, dict):
        rows = {
            clean_text(str(key), 500): clean_value(item, depth + 1)
            for key, item in islice(value.items(), MAX_ITEMS)
        }
        return rows if len(value) <= MAX_ITEMS else {**rows, CUT.strip(): True}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number, but Python reads one from 1e999
    return value
