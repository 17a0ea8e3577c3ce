"""Texts with a small language of their own: formulas, kernels, mappings, positions, names of arrays. Pure.

Each is recognised completely; none of them holds a path, and none is run by an engine that knows more than arithmetic:
GDAL's `expression` may also be read by a language with loops (exprtk), so it is passed for muparser alone.
"""

import json
import math
import re
from collections.abc import Sequence
from typing import Any, Final

from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.catalogue.text import check_text, number_of

MAX_FORMULA: Final = 4096  # bytes; GDAL's parser gives up at about this length itself
MAX_DEPTH: Final = 32
MAX_TEXT: Final = 48 << 10  # bytes; one word of a command line has 128 KiB

# one way to read each number: a list of numbers with two ways each takes for ever to fail
_NUMBER: Final = r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE][+-]?[0-9]{1,3})?"
_ENGLISH: Final = re.compile(r"[A-Za-z0-9_ .,()\[\]+\-*/%^<>=!&|?:]+")
_PAIR: Final = rf"[A-Za-z_][A-Za-z0-9_]{{0,31}}=(?:{_NUMBER}|[A-Za-z_]{{1,31}})"
_FUNCTION: Final = re.compile(
    rf"(?P<name>[A-Za-z][A-Za-z0-9_]{{0,63}})(?:\((?:{_PAIR}(?:,{_PAIR}){{0,15}})?\))?"
)
_KERNELS: Final = ("edge1", "edge2", "equal", "gaussian", "sharpen", "u", "unsharp-masking", "v")
_ROW: Final = rf"\[{_NUMBER}(?:,{_NUMBER}){{0,98}}\]"  # GDAL takes up to 99 x 99
_MATRIX: Final = re.compile(rf"\[{_ROW}(?:,{_ROW}){{0,98}}\]")
_END: Final = rf"(?:{_NUMBER}|[+-]?inf)"
_RANGE: Final = rf"(?:[\[(]\s*{_END}\s*,\s*{_END}\s*[\])]|{_NUMBER}|NO_DATA|DEFAULT)"
_ITEM: Final = re.compile(rf"\s*{_RANGE}\s*=\s*(?:{_NUMBER}|NO_DATA|PASS_THROUGH)\s*", re.IGNORECASE)
_GCP: Final = re.compile(rf"{_NUMBER}(?:,{_NUMBER}){{3,4}}")
_DIMENSIONS: Final = re.compile(r"[A-Za-z0-9_ .,:()\[\]/=+\-\"]{1,512}")
_PIXEL_ARGUMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,31})=(.*)", re.DOTALL)
_WORD: Final = re.compile(rf"{_NUMBER}|[A-Za-z_]{{1,31}}")


def check_formula(text: str, dialect: str, what: str) -> str:
    """A formula of `raster calc` for muparser, or the call of a built-in function. Raises ArgumentRefused."""
    plain = check_text(text.strip(), what, limit=MAX_FORMULA)
    if dialect == "builtin":
        match = _FUNCTION.fullmatch(plain)
        if match is None or match["name"].lower() == "expression":
            raise ArgumentRefused(
                f"{what} is no call of a built-in function.",
                "For example mean, or with an argument: mul(k=2).",
            )
        return plain
    return _muparser(plain, what)


def check_pixel_argument(text: str, others: Sequence[str], what: str) -> str:
    """NAME=VALUE of a pixel function. Raises ArgumentRefused."""
    plain = check_text(text, what, limit=MAX_FORMULA)
    match = _PIXEL_ARGUMENT.fullmatch(plain)
    if match is None:
        raise ArgumentRefused(f"{what} is NAME=VALUE.", "For example k=2.")
    name, value = match[1].lower(), match[2]
    if name == "dialect":
        if value.lower() != "muparser":
            raise ArgumentRefused(f"{what} names another engine than muparser.", "Use dialect=muparser.")
        return "dialect=muparser"
    if name == "expression":
        if not any(other.lower() == "dialect=muparser" for other in others):
            raise ArgumentRefused(
                f"{what} holds an expression without its engine.", "Give dialect=muparser as well."
            )
        return f"{match[1]}={_muparser(value, what)}"
    if not _WORD.fullmatch(value):
        raise ArgumentRefused(f"{what} takes a number or a word.", "For example k=2.")
    return plain


def _muparser(text: str, what: str) -> str:
    if not text or not _ENGLISH.fullmatch(text) or ".." in text or "//" in text or text[0] in "/<>=*^%":
        raise ArgumentRefused(
            f"{what} is no formula of bands.",
            "Use names of inputs, numbers, + - * / ^ ( ), comparisons, `condition ? a : b` and functions such as sqrt.",
        )
    _check_depth(text, what)
    return text


def _check_depth(text: str, what: str) -> None:
    depth = 0
    for letter in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
        if not 0 <= depth <= MAX_DEPTH:
            raise ArgumentRefused(
                f"{what} has unbalanced brackets, or nests deeper than {MAX_DEPTH}.", "Simplify it."
            )
    if depth:
        raise ArgumentRefused(f"{what} has unbalanced brackets.", "Close every bracket.")


def check_kernel(text: str, what: str) -> str:
    """A kernel's name or its square matrix, such as [[0,1,0],[1,2,1],[0,1,0]]. Raises ArgumentRefused."""
    plain = "".join(check_text(text, what, limit=MAX_TEXT).split())
    if plain in _KERNELS:
        return plain
    if not _MATRIX.fullmatch(plain):
        raise ArgumentRefused(
            f"{what} is no kernel.", f"Use {', '.join(_KERNELS)} or [[0,1,0],[1,2,1],[0,1,0]]."
        )
    rows = [row.count(",") + 1 for row in plain[2:-2].split("],[")]
    if set(rows) != {len(rows)} or len(rows) % 2 == 0:
        raise ArgumentRefused(f"{what} is not square with an odd size.", "Give as many rows as columns.")
    return plain


def check_mapping(text: str, what: str) -> str:
    """Ranges of pixel values with their new values; never a file. Raises ArgumentRefused."""
    items = [one for one in check_text(text, what, limit=MAX_TEXT).split(";") if one.strip()]
    if not items or not all(_ITEM.fullmatch(one) for one in items):
        raise ArgumentRefused(
            f"{what} is no list of ranges and values.",
            "For example [1,3]=10; (3,7]=20; 9=30; NO_DATA=0; DEFAULT=NO_DATA",
        )
    return ";".join(one.strip() for one in items)


def check_gcp(text: str, what: str) -> str:
    """pixel,line,easting,northing and perhaps the elevation. Raises ArgumentRefused."""
    plain = check_text("".join(text.split()), what)
    if not _GCP.fullmatch(plain):
        raise ArgumentRefused(
            f"{what} is no control point.", "Write pixel,line,easting,northing[,elevation]."
        )
    return plain


def check_multidim(text: str, what: str) -> str:
    """Names of arrays, groups and dimensions inside the input with GDAL's own qualifiers. Raises ArgumentRefused."""
    plain = check_text(text, what)
    if not _DIMENSIONS.fullmatch(plain) or ".." in plain or "//" in plain or plain.count('"') % 2:
        raise ArgumentRefused(
            f"{what} is no name of an array, group or dimension.",
            "For example /group/array, name=temp,view=[0:10,::2], time(0,10) or lat(2).",
        )
    return plain


def check_document(text: str, what: str) -> str:
    """A JSON object on one line. Raises ArgumentRefused."""
    value = parse_json(text, what)
    if not isinstance(value, dict):
        raise ArgumentRefused(
            f"{what} is no JSON object.", "Give an object, such as GDAL's export-schema prints."
        )
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def parse_json(text: str, what: str) -> Any:
    """The value of a bounded JSON text. Raises ArgumentRefused."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT:
        raise ArgumentRefused(
            f"{what} is longer than {MAX_TEXT} bytes.", "Put it into a file of the workspace."
        )
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ArgumentRefused(f"{what} is no JSON.", "Check its quotes and brackets.") from error
    _check_nesting(value, what, MAX_DEPTH)
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_constant(text)  # 1e999 is JSON too


def _check_nesting(value: Any, what: str, left: int) -> None:
    if left == 0:
        raise ArgumentRefused(f"{what} nests deeper than {MAX_DEPTH}.", "Simplify it.")
    if isinstance(value, dict):
        for key, inner in value.items():
            check_text(key, f"a key of {what}")
            _check_nesting(inner, what, left - 1)
    elif isinstance(value, list):
        for inner in value:
            _check_nesting(inner, what, left - 1)
    elif isinstance(value, str):
        check_text(value, f"a text of {what}")


def check_level(text: str, what: str) -> str:
    """A contour level: a number, MIN or MAX. Raises ArgumentRefused."""
    if text.upper() in ("MIN", "MAX"):
        return text.upper()
    if number_of(text) is None:
        raise ArgumentRefused(f"{what} is a number, MIN or MAX.", "For example 100.")
    return text
