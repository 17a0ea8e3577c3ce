"""Checks values by their kind. Pure.

Invariants of accepted values:
* they are valid Unicode of bounded length without control characters;
* a command-line word `--name=value` does not end in `=?`, which asks GDAL for a list of completions;
* free text cannot name a file: it has no slash, backslash or `..`, and does not begin with `@`, `~`, `<` or `{`. Only
  tuples may begin with a brace, around whole numbers.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Final

from gdal_mcp.toolboxes.gdal.catalogue.crs import check_crs
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.model import ValueSpec

VALUE_BYTES: Final = 1024
MAX_SHOWN: Final = 24  # a message with more choices is too long to read

_REAL: Final = re.compile(r"[+-]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][+-]?[0-9]{1,4})?")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_BOOLEANS: Final = frozenset({"YES", "NO", "TRUE", "FALSE", "ON", "OFF", "1", "0"})
# kind -> a pattern for the whole text, and a hint for the error message
_PATTERNS: Final[Mapping[str, tuple[re.Pattern[str], str]]] = {
    "tuples": (
        re.compile(r"(?!.*\.\.)(?=.{1,512}\Z)(?:\([0-9.,eE+\- ]++\)|\{[0-9, ]++\}|[0-9.,eE+\- ]++)+"),
        "For example (255,255,255),(0,0,0).",
    ),
    "word": (re.compile(r"(?!.*\.\.)[A-Za-z0-9_.:+-]{0,64}"), "Use letters, digits and . _ : + - only."),
    "encoding": (
        re.compile(
            r"|UTF-?8|(US-)?ASCII|ISO-?8859-[0-9]{1,2}|LATIN-?[0-9]{1,2}|(CP|IBM|WINDOWS-)[0-9]{3,5}|LDID/[0-9]{1,3}"
            r"|GB2312|GBK|GB18030|BIG-?5|SHIFT_?JIS|SJIS|EUC-?(JP|KR|CN|TW)|KOI8-[RU]",
            re.IGNORECASE,
        ),
        "For example UTF-8 or ISO-8859-1.",
    ),
}


def check_text(text: str, what: str, max_letters: int | None = None, limit: int = VALUE_BYTES) -> str:
    """The unchanged text. Raises ArgumentRefused for invalid Unicode, control characters or excess length.

    `max_letters` is in characters, `limit` in bytes.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ArgumentRefused(f"{what} is not valid Unicode.", "Send plain text.") from error
    if not text.isprintable():
        raise ArgumentRefused(
            f"{what} holds a control or invisible character.", "Send plain text on one line."
        )
    if size > limit or (max_letters is not None and len(text) > max_letters):
        most = f"{limit} bytes" if size > limit else f"{max_letters} characters"
        raise ArgumentRefused(f"{what} is too long.", f"The most that it may have is {most}.")
    if text == "?" or text.endswith("=?"):
        raise ArgumentRefused(f"{what} asks GDAL for completions.", "Give the value itself.")
    return text


def refuse_path(text: str, what: str) -> str:
    """The unchanged text. Raises ArgumentRefused if it could be taken for a file name or a URL."""
    if any(sign in text for sign in ("/", "\\", "..")) or text.startswith(("@", "~", "<", "{")):
        raise ArgumentRefused(
            f"{what} looks like a path, a file reference or a document.",
            "Give a plain value; files are named only by the arguments made for them.",
        )
    return text


def number_of(text: str) -> float | None:
    """The finite number in a text; None if the text is not one."""
    value = float(text) if _REAL.fullmatch(text) else math.inf
    return value if math.isfinite(value) else None


def choices_text(choices: tuple[str, ...]) -> str:
    """A list of the choices for an error message, cut after MAX_SHOWN."""
    rest = "." if len(choices) <= MAX_SHOWN else ", ..."
    return f"Use one of: {', '.join(choices[:MAX_SHOWN])}{rest}"


def check_shape(shape: ValueSpec, text: str, what: str) -> str:
    """The value in the form that is passed to GDAL. `what` names it in messages. Raises ArgumentRefused."""
    plain = check_text(text, what, shape.max_letters)
    if shape.kind in _PATTERNS:
        pattern, hint = _PATTERNS[shape.kind]
        if not pattern.fullmatch(plain):
            raise ArgumentRefused(f"{what} is not of the expected form.", hint)
        return plain
    return _KINDS[shape.kind](shape, plain, what)


def _boolean(_shape: ValueSpec, text: str, what: str) -> str:
    if text.upper() not in _BOOLEANS:
        raise ArgumentRefused(f"{what} is YES or NO.", "Use YES or NO.")
    return text.upper()


def _choice(shape: ValueSpec, text: str, what: str) -> str:
    for choice in shape.choices:
        if choice.upper() == text.upper():
            return choice
    raise ArgumentRefused(f"{what} does not take {text[:60]!r}.", choices_text(shape.choices))


def _integer(shape: ValueSpec, text: str, what: str) -> str:
    if not _INTEGER.fullmatch(text):
        raise ArgumentRefused(f"{what} is a whole number.", "Give digits only.")
    return _in_range(shape, int(text), text, what)


def _real(shape: ValueSpec, text: str, what: str) -> str:
    value = number_of(text)
    if value is None:
        raise ArgumentRefused(f"{what} is a number.", "Give a finite decimal number.")
    return _in_range(shape, value, text, what)


def _in_range(shape: ValueSpec, value: float, text: str, what: str) -> str:
    low, high = shape.minimum, shape.maximum
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"from {'any' if low is None else f'{low:g}'} to {'any' if high is None else f'{high:g}'}"
        raise ArgumentRefused(f"{what} is out of range.", f"Use a number {bounds}.")
    return text


def _threads(_shape: ValueSpec, text: str, what: str) -> str:
    if text.upper() == "ALL_CPUS":
        return "ALL_CPUS"
    return _integer(ValueSpec("integer", minimum=1, maximum=1024), text, what)


def _name(_shape: ValueSpec, text: str, what: str) -> str:
    if any(sign in text for sign in "\"'`;"):
        raise ArgumentRefused(f"{what} is a name without quotes or semicolons.", "Give the plain name.")
    return refuse_path(text, what)


def _pattern(shape: ValueSpec, text: str, what: str) -> str:
    if not re.fullmatch(shape.pattern, text, re.IGNORECASE):
        raise ArgumentRefused(f"{what} is not of the expected form.", f"It must match {shape.pattern}")
    return refuse_path(text, what)


def _each(check: Callable[[ValueSpec, str, str], str]) -> Callable[[ValueSpec, str, str], str]:
    """A check for several values separated by commas."""
    return lambda shape, text, what: ",".join(check(shape, part.strip(), what) for part in text.split(","))


_KINDS: Final[Mapping[str, Callable[[ValueSpec, str, str], str]]] = {
    "boolean": _boolean,
    "choice": _choice,
    "choices": _each(_choice),
    "integer": _integer,
    "real": _real,
    "numbers": _each(_real),
    "threads": _threads,
    "label": lambda _shape, text, what: refuse_path(text, what),
    "name": _name,
    "pattern": _pattern,
    "crs": lambda _shape, text, _what: check_crs(text),
}
KINDS: Final = frozenset((*_KINDS, *_PATTERNS))
