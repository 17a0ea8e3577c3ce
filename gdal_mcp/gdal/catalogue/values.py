"""What each kind of value may look like. Pure.

Invariant: no text of a free kind can name a file: no slash or backslash, no `@`, `~`, `<` or `{` in front, no `..`.
"""

import re
from collections.abc import Callable
from typing import Final

from gdal_mcp.gdal.catalogue.crs import check_crs
from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.catalogue.model import Shape
from gdal_mcp.gdal.catalogue.text import check_text, choices_text, number_of, refuse_path

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_WORD = re.compile(r"[A-Za-z0-9_.:+-]{0,64}")
_TUPLES = re.compile(r"[0-9.,(){}eE+\- ]{1,512}")
_BOOLEANS = frozenset({"YES", "NO", "TRUE", "FALSE", "ON", "OFF", "1", "0"})
_ENCODING = re.compile(
    r"|UTF-?8|(US-)?ASCII|ISO-?8859-[0-9]{1,2}|LATIN-?[0-9]{1,2}|(CP|IBM|WINDOWS-)[0-9]{3,5}|LDID/[0-9]{1,3}"
    r"|GB2312|GBK|GB18030|BIG-?5|SHIFT_?JIS|SJIS|EUC-?(JP|KR|CN|TW)|KOI8-[RU]",
    re.IGNORECASE,
)


def check_shape(shape: Shape, text: str, what: str) -> str:
    """The text as it may be passed on. `what` names the value in messages. Raises ArgumentRefused."""
    plain = check_text(text, what, shape.max_letters)
    return _KINDS[shape.kind](shape, plain, what)


def _boolean(_shape: Shape, text: str, what: str) -> str:
    if text.upper() not in _BOOLEANS:
        raise ArgumentRefused(f"{what} is YES or NO.", "Use YES or NO.")
    return text.upper()


def _choice(shape: Shape, text: str, what: str) -> str:
    for choice in shape.choices:
        if choice.upper() == text.upper():
            return choice
    raise ArgumentRefused(f"{what} does not take that value.", choices_text(shape.choices))


def _choices(shape: Shape, text: str, what: str) -> str:
    return ",".join(_choice(shape, part.strip(), what) for part in text.split(","))


def _integer(shape: Shape, text: str, what: str) -> str:
    if not _INTEGER.fullmatch(text):
        raise ArgumentRefused(f"{what} is a whole number.", "Give digits only.")
    _check_range(shape, int(text), what)
    return text


def _real(shape: Shape, text: str, what: str) -> str:
    value = number_of(text)
    if value is None:
        raise ArgumentRefused(f"{what} is a number.", "Give a finite decimal number.")
    _check_range(shape, value, what)
    return text


def _check_range(shape: Shape, value: float, what: str) -> None:
    low, high = shape.minimum, shape.maximum
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"from {'any' if low is None else f'{low:g}'} to {'any' if high is None else f'{high:g}'}"
        raise ArgumentRefused(f"{what} is out of range.", f"Use a number {bounds}.")


def _numbers(shape: Shape, text: str, what: str) -> str:
    return ",".join(_real(shape, part.strip(), what) for part in text.split(","))


def _tuples(_shape: Shape, text: str, what: str) -> str:
    if not _TUPLES.fullmatch(text) or ".." in text:
        raise ArgumentRefused(f"{what} is a list of number groups.", "For example (255,255,255),(0,0,0).")
    return text


def _threads(_shape: Shape, text: str, what: str) -> str:
    if text.upper() == "ALL_CPUS":
        return "ALL_CPUS"
    return _integer(Shape("integer", minimum=1, maximum=1024), text, what)


def _word(_shape: Shape, text: str, what: str) -> str:
    if not _WORD.fullmatch(text) or ".." in text:
        raise ArgumentRefused(f"{what} is one short word.", "Use letters, digits and . _ : + - only.")
    return text


def _label(_shape: Shape, text: str, what: str) -> str:
    return refuse_path(text, what)


def _name(_shape: Shape, text: str, what: str) -> str:
    if any(sign in text for sign in "\"'`;"):
        raise ArgumentRefused(f"{what} is a name without quotes or semicolons.", "Give the plain name.")
    return refuse_path(text, what)


def _encoding(_shape: Shape, text: str, what: str) -> str:
    if not _ENCODING.fullmatch(text):
        raise ArgumentRefused(f"{what} is not a known text encoding.", "For example UTF-8 or ISO-8859-1.")
    return text


def _pattern(shape: Shape, text: str, what: str) -> str:
    if not re.fullmatch(shape.pattern, text, re.IGNORECASE):
        raise ArgumentRefused(f"{what} is not of the expected form.", f"It must match {shape.pattern}")
    return refuse_path(text, what)


def _crs(_shape: Shape, text: str, _what: str) -> str:
    return check_crs(text)


_KINDS: Final[dict[str, Callable[[Shape, str, str], str]]] = {
    "boolean": _boolean,
    "choice": _choice,
    "choices": _choices,
    "integer": _integer,
    "real": _real,
    "numbers": _numbers,
    "tuples": _tuples,
    "threads": _threads,
    "word": _word,
    "label": _label,
    "name": _name,
    "encoding": _encoding,
    "pattern": _pattern,
    "crs": _crs,
}
KINDS: Final = frozenset(_KINDS)
