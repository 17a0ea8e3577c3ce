"""Cleans text from inside a file or from GDAL before a model or a person sees it.

Characters that hide, reorder or forge text are removed: control characters (and with them the start of every terminal
escape sequence), zero-width and bidirectional marks, variation selectors, fillers and tag characters. Excess
combining marks on one letter are removed, and the length is limited. This makes text harmless to display; it does not
make it true. Markup such as Markdown or HTML is not changed: it is data, and nothing of ours renders it.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

UNTRUSTED = "untrusted"  # the only key of results and errors with text from files or from GDAL
MAX_TEXT = 20_000  # characters of one string
MAX_ITEMS = 20_000  # entries of one list or object
_INTEGER_BITS = 64
MAX_DEPTH = 60
# combining marks on one letter: Tibetan needs the most, Hebrew four, Vietnamese and Thai two
MAX_MARKS = 6
# consecutive marks that are normalized; the limit of Unicode's Stream-Safe Text Format (UAX #15)
MAX_RUN = 30
_NO_ASCII = re.compile(f"[^\\x00-\\x7f]{{{MAX_RUN + 1},}}")
TRUNCATED = " [truncated]"

_ALLOWED_CONTROLS = "\n\t"
_FORMATS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})  # controls, formats, surrogates, private use, unassigned
_HIDDEN = frozenset(
    (
        *range(0x180B, 0x1810),  # Mongolian variation selectors and vowel separator
        *range(0x200B, 0x2010),  # zero-width and directional marks
        *range(0x2028, 0x202F),  # line separators and directional embeddings
        *range(0x2060, 0x2070),  # joiners and directional isolates
        *range(0xFE00, 0xFE10),  # variation selectors
        *range(0xFFF9, 0xFFFC),  # annotations
        *range(0xE0000, 0xE0200),  # tags and more variation selectors
        *(0x00AD, 0x061C, 0xFEFF),  # soft hyphen, Arabic mark, byte order mark
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0),  # invisible joiner and fillers
        *(0x2800, 0x1D159),  # blank Braille pattern and null notehead
    )
)
_MARKS = frozenset({"Mn", "Me"})  # characters that are drawn on the preceding letter


def clean_text(text: str, limit: int = MAX_TEXT) -> str:
    """The text in NFC without hidden characters, at most `limit` characters long.

    TRUNCATED is appended to a shortened text.
    """
    if text.isascii() and text.isprintable():
        clean = text
    else:
        some = text[: limit * 2]
        hidden = dict.fromkeys(ord(letter) for letter in set(some) if not _visible(letter))
        visible = some.translate(hidden) if hidden else some  # translate visits every character
        clean = visible if visible.isascii() else unicodedata.normalize("NFC", _short_runs(visible))
        clean = clean if clean.isascii() else _shorten_piles(clean, r"\1")
    return clean if len(clean) <= limit and len(text) <= limit * 2 else clean[:limit] + TRUNCATED


def shown_text(text: str, limit: int = MAX_TEXT) -> str:
    """One line for a person who decides based on it: characters that hide, reorder or break text become escapes."""
    shown = "".join(
        letter if _visible(letter) and letter not in _ALLOWED_CONTROLS else _escape(letter)
        for letter in text[:limit]
    )
    shown = _shorten_piles(shown, lambda match: match[1] + "".join(map(_escape, match[2])))
    return shown if len(text) <= limit else shown + TRUNCATED


def locked(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result or an error without any text from files or from GDAL, for servers in lockdown.

    The rest is our own text, the caller's text, or numbers and words of GDAL's own vocabularies.
    """
    return {key: _locked(value) for key, value in result.items() if key != UNTRUSTED}


def _locked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return locked(value)
    return [_locked(item) for item in value] if isinstance(value, list | tuple) else value


def _short_runs(text: str) -> str:
    """The text with at most MAX_RUN consecutive marks, because normalizing takes quadratic time in their number."""

    def shortened(match: re.Match[str]) -> str:
        letters: list[str] = []
        run = 0
        for letter in match[0]:
            run = run + 1 if unicodedata.combining(letter) else 0
            if run <= MAX_RUN:
                letters.append(letter)
        return "".join(letters)

    return _NO_ASCII.sub(shortened, text)  # combining marks are never ASCII


def _shorten_piles(text: str, instead: str | Callable[[re.Match[str]], str]) -> str:
    """Replaces excess marks on one letter. In a match, group 1 has the permitted marks, group 2 the excess ones."""
    marks = "".join(re.escape(letter) for letter in set(text) if unicodedata.category(letter) in _MARKS)
    return re.sub(f"([{marks}]{{{MAX_MARKS}}})([{marks}]+)", instead, text) if marks else text


def _visible(letter: str) -> bool:
    if letter in _ALLOWED_CONTROLS:
        return True
    return unicodedata.category(letter) not in _FORMATS and ord(letter) not in _HIDDEN


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def clean_value(value: Any, depth: int = 0) -> Any:
    """A copy of a JSON value with every string cleaned, including keys. Very deep or long parts are cut."""
    if isinstance(value, str):
        return clean_text(value)
    if depth >= MAX_DEPTH:
        return TRUNCATED.strip()
    if isinstance(value, list):
        entries = [clean_value(item, depth + 1) for item in value[:MAX_ITEMS]]
        return entries if len(value) <= MAX_ITEMS else [*entries, TRUNCATED.strip()]
    if isinstance(value, dict):
        rows = _clean_object(value, depth)
        return rows if len(value) <= MAX_ITEMS else {**rows, TRUNCATED.strip(): True}
    if isinstance(value, int) and value.bit_length() > _INTEGER_BITS:
        return clean_text(str(value))  # JSON parsers refuse it or read another number
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number, but Python reads one from 1e999
    return value


def _clean_object(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    """The cleaned object. Keys that become equal are numbered, so that none replaces another."""
    rows: dict[str, Any] = {}
    numbers: dict[str, int] = {}  # text -> last number; counting from 1 for every key would be quadratic
    for key, item in islice(value.items(), MAX_ITEMS):
        name = plain = clean_text(str(key), 500)
        while name in rows:
            numbers[plain] = numbers.get(plain, 1) + 1
            name = f"{plain} ({numbers[plain]})"
        rows[name] = clean_value(item, depth + 1)
    return rows
