"""The text rules that every value obeys. Pure.

Invariants of what is let through:
* valid Unicode without control characters, of bounded length;
* nothing that ends in `=?` once it stands behind its name, which GDAL answers with a list of completions.
"""

import math
import re
from typing import Final

from gdal_mcp.gdal.catalogue.errors import ArgumentRefused

VALUE_BYTES: Final = 1024
MAX_SHOWN: Final = 24  # more choices than this make a message nobody reads

_REAL = re.compile(r"[+-]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][+-]?[0-9]{1,4})?")


def check_text(text: str, what: str, max_letters: int | None = None, limit: int = VALUE_BYTES) -> str:
    """The text itself, if it is valid Unicode without control characters and not too long (bytes)."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ArgumentRefused(f"{what} is not valid Unicode.", "Send plain text.") from error
    if not text.isprintable():
        raise ArgumentRefused(
            f"{what} holds a control or invisible character.", "Send plain text on one line."
        )
    if size > limit or (max_letters is not None and len(text) > max_letters):
        most = f"{max_letters} letters" if max_letters is not None else f"{limit} bytes"
        raise ArgumentRefused(f"{what} is too long.", f"The most it may have is {most}.")
    if text == "?" or text.endswith("=?"):
        raise ArgumentRefused(f"{what} asks GDAL for completions.", "Give the value itself.")
    return text


def refuse_path(text: str, what: str) -> str:
    """The text itself, unless something could take it for the name of a file or a URL."""
    if any(sign in text for sign in ("/", "\\", "..")) or text.startswith(("@", "~", "<", "{")):
        raise ArgumentRefused(
            f"{what} looks like a path, a file reference or a document.",
            "Give a plain value; files are named only by the arguments made for them.",
        )
    return text


def number_of(text: str) -> float | None:
    """The finite number that a text says, or None."""
    if not _REAL.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def choices_text(choices: tuple[str, ...]) -> str:
    shown = ", ".join(choices[:MAX_SHOWN])
    return f"Use one of: {shown}." if len(choices) <= MAX_SHOWN else f"Use one of: {shown}, ..."
