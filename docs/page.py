"""What the parts share: a part's place in a page, tables, sentences, and the rule that subjects and sentences are complete.

A part lies between `<!-- generated: NAME -->` and `<!-- end -->` in README.md, SECURITY.md, CONTRIBUTING.md or docs/.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
END = "<!-- end -->"
_BEGIN = re.compile(r"<!-- generated: (.*?) -->")
_ABBREVIATED = re.compile(r"\b(e\.g|i\.e)\. ")

Parts = Mapping[str, Callable[[], Iterable[str]]]


class Drift(Exception):
    """Documentation and code do not fit together."""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for cells in (header, ["---"] * len(header), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def first_sentence(text: str) -> str:
    """Up to the first full stop that ends a sentence."""
    guarded = _ABBREVIATED.sub(lambda found: found[0].replace(". ", ".\0"), text)
    return sentence(guarded.partition(". ")[0].replace("\0", " "))


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def complete(what: str, needed: set[Any], given: set[Any]) -> None:
    if missing := sorted(map(str, needed - given)):
        raise Drift(f"{what} without a sentence in docs/: {', '.join(missing)}")
    if extra := sorted(map(str, given - needed)):
        raise Drift(f"{what} in docs/ that the code does not have: {', '.join(extra)}")


def filled(text: str, parts: Parts) -> str:
    """The text with every generated part written anew. Raises Drift for a part that is unknown or does not end."""
    pieces, position = [], 0
    while found := _BEGIN.search(text, position):
        name, end = found[1], text.find(END, found.end())
        following = _BEGIN.search(text, found.end())
        if name not in parts:
            raise Drift(f"there is no generated part {name!r}; there are {', '.join(sorted(parts))}")
        if end < 0 or (following and following.start() < end):
            raise Drift(f"the generated part {name!r} has no {END}")
        pieces += [text[position : found.end()], "\n", *(f"{line}\n" for line in parts[name]()), END]
        position = end + len(END)
    return "".join([*pieces, text[position:]])


def pages(root: Path = ROOT) -> list[Path]:
    """Where generated parts may be."""
    named = [root / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")]
    return [page for page in named if page.exists()] + sorted((root / "docs").rglob("*.md"))
