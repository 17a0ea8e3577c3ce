"""The literal texts of the patterns in answers/data/warnings.toml, to search for in GDAL's libraries. Pure.

GDAL reports some data losses only in a message. If a release rewords a message, its pattern no longer matches. So the
capture searches the image's libraries for the longest literal text of each pattern.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from gdal_mcp.toolboxes.gdal import data_of

_LEAST_LETTERS: Final = 8  # characters; shorter texts occur in any library
_BUILT: Final = re.compile(r"[:.] ")  # separators at which libraries join parts of messages
_ESCAPED: Final = re.compile(r"\\([^\w\s])")  # an escaped character, which stands for itself
_GROUP: Final = re.compile(r"\([^()]*\)")
_PRIVATE: Final = (
    # start of Unicode's private use area, where escaped characters are moved until the pattern is split
    0xE000
)
_REPEAT: Final = r"(?:[*+?]|\{[^}]*\})?"
_OPEN: Final = re.compile(
    rf"\{{number\}}|(?:\[[^]]*\]|\\\w|\.|\0){_REPEAT}|\w[*?]"
)  # parts of a pattern that match variable text


@cache
def literals() -> Mapping[str, tuple[str, ...]]:
    """The literal texts in the patterns of each code in warnings.toml.

    Errors are left out, because a failed call reports its error anyway.
    """
    table = data_of("gdal_mcp.toolboxes.gdal.answers", "warnings.toml")
    patterns = {"harmless": table["harmless"]["patterns"]}
    patterns |= {row["code"]: row["patterns"] for row in table["warning"]}
    by_code = {code: [text for row in rows for text in _literals(row)] for code, rows in patterns.items()}
    return {
        code: tuple(text for text in texts if len(text) >= _LEAST_LETTERS) for code, texts in by_code.items()
    }


def unrecognised(known: Any) -> Mapping[str, tuple[str, ...]]:
    """The texts of each code that an image's libraries do not have; empty if they were not searched."""
    if known is None:
        return {}
    absent = {code: tuple(text for text in texts if text not in known) for code, texts in literals().items()}
    return {code: texts for code, texts in absent.items() if texts}


def _literals(pattern: str) -> Iterator[str]:
    """The longest literal text in each alternative of a pattern."""
    text = _ESCAPED.sub(lambda sign: chr(_PRIVATE + ord(sign[1])), pattern)
    while (shorter := _GROUP.sub("\0", text)) != text:
        text = shorter
    for alternative in _OPEN.sub("\0", text).split("|"):
        plain = "".join(chr(ord(letter) % _PRIVATE) for letter in alternative)
        pieces = (piece for run in plain.split("\0") for piece in _BUILT.split(run))
        yield max(pieces, key=len).strip(" .")
