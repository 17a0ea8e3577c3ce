"""Shows a person code before it runs: all of it, line by line, coloured, and compared with the last approved code.
Pure.

No line is cut or left out, and none can look like another part of the question: each is shown on one line, with its
number.
"""

import difflib
import keyword
import tokenize
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gdal_mcp.toolboxes.untrusted import shown_text

CONTEXT: Final = 3  # context lines of a difference
_KINDS: Final = {tokenize.STRING: "string", tokenize.COMMENT: "comment", tokenize.NUMBER: "number"}


def describe_code(code: str, before: str | None) -> dict[str, Any]:
    """The part of a question about its code. `before` is the code that the same person approved last, or None.

    `lines` are lists of pieces, each a kind (or "") and a text. `changes` are lines that begin with ` `, `+`, `-` or
    `@@`; None without earlier code.
    """
    lines = [[[kind, _shown(text)] for kind, text in pieces] for pieces in _coloured(code)]
    changes = None
    if before is not None:
        rows = list(difflib.unified_diff(_split(before), _split(code), lineterm="", n=CONTEXT))
        changes = [_shown(line) for line in rows[2:]]  # without the names of the files
    return {"text": code, "lines": lines, "changes": changes}


def code_lines(details: Mapping[str, Any]) -> Iterator[str]:
    """The code and its changes in a question, as lines of plain text."""
    width = len(str(len(details["lines"])))
    yield "Code:"
    for number, pieces in enumerate(details["lines"], 1):
        yield f"  {number:>{width}} | " + "".join(text for _, text in pieces)
    if details["changes"] is not None:
        yield "Changes since the code that was approved last:"
        yield from (f"  {line}" for line in details["changes"] or ["none: it is the same code"])


def _shown(text: str) -> str:
    return shown_text(text.replace("\t", "    "), len(text) * 4 + 1)


def _split(code: str) -> list[str]:
    """Splits at Python's own line ends. Unicode's other line separators do not end lines of Python."""
    return code.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _coloured(code: str) -> Iterator[list[tuple[str, str]]]:
    """The pieces of each line with their kinds; they have no kinds after the point where the code is not valid
    Python.
    """
    lines = _split(code)
    marks: list[list[tuple[int, int, str]]] = [[] for _ in lines]
    for kind, (first, begin), (last, end) in _tokens("\n".join(lines)):
        for number in range(first - 1, min(last, len(lines))):
            start = begin if number == first - 1 else 0
            stop = end if number == last - 1 else len(lines[number])
            marks[number].append((start, stop, kind))
    for line, spans in zip(lines, marks, strict=True):
        pieces, at = [], 0
        for start, stop, kind in spans:
            pieces += [("", line[at:start]), (kind, line[start:stop])]
            at = stop
        yield [piece for piece in (*pieces, ("", line[at:])) if piece[1]]


def _tokens(code: str) -> Iterator[tuple[str, tuple[int, int], tuple[int, int]]]:
    lines = (f"{line}\n" for line in code.split("\n"))
    try:
        for token in tokenize.generate_tokens(lines.__next__):
            kind = _KINDS.get(token.type, "")
            if token.type == tokenize.NAME and keyword.iskeyword(token.string):
                kind = "keyword"
            if kind:
                yield kind, token.start, token.end
    except (tokenize.TokenError, SyntaxError):
        return
