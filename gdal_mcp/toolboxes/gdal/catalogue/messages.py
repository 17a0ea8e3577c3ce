"""The words by which GDAL's messages are recognised (answers/data/warnings.toml), compared with the texts in its libraries. Pure.

GDAL reports some losses only in a message. A release that words a message differently would silently switch our pattern off, so a capture searches the image's libraries for the longest literal text of each pattern.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from gdal_mcp.toolboxes.gdal import data_of

_LEAST_LETTERS: Final = 8  # any library has a shorter text
_BUILT: Final = re.compile(r"[:.] ")  # where libraries put messages together
_ESCAPED: Final = re.compile(r"\\([^\w\s])")  # a sign that stands for itself
_GROUP: Final = re.compile(r"\([^()]*\)")
_PRIVATE: Final = (
    0xE000  # of Unicode's private use: where escaped signs stay until the pattern is taken apart
)
_REPEAT: Final = r"(?:[*+?]|\{[^}]*\})?"
_OPEN: Final = re.compile(
    rf"\{{number\}}|(?:\[[^]]*\]|\\\w|\.|\0){_REPEAT}|\w[*?]"
)  # what stands for other text


@cache
def literals() -> Mapping[str, tuple[str, ...]]:
    """For each code of warnings.toml, the texts that its patterns need. Errors are left out: a call that fails says so anyway."""
    table = data_of("gdal_mcp.toolboxes.gdal.answers", "warnings.toml")
    patterns = {"harmless": table["harmless"]["patterns"]}
    patterns |= {row["code"]: row["patterns"] for row in table["warning"]}
    found = {code: [text for row in rows for text in _literals(row)] for code, rows in patterns.items()}
    return {
        code: tuple(text for text in texts if len(text) >= _LEAST_LETTERS) for code, texts in found.items()
    }


def unrecognised(found: Any) -> Mapping[str, tuple[str, ...]]:
    """By code, the texts that an image's libraries do not have; nothing where the image was not asked for them."""
    if found is None:
        return {}
    absent = {code: tuple(one for one in texts if one not in found) for code, texts in literals().items()}
    return {code: texts for code, texts in absent.items() if texts}


def _literals(pattern: str) -> Iterator[str]:
    """The longest text that every message has, for each alternative of a pattern."""
    text = _ESCAPED.sub(lambda sign: chr(_PRIVATE + ord(sign[1])), pattern)
    while (shorter := _GROUP.sub("\0", text)) != text:
        text = shorter
    for alternative in _OPEN.sub("\0", text).split("|"):
        plain = "".join(chr(ord(one) % _PRIVATE) for one in alternative)
        pieces = (piece for run in plain.split("\0") for piece in _BUILT.split(run))
        yield max(pieces, key=len).strip(" .")
