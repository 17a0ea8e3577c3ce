"""What all tables are made with: rows of Markdown, first sentences, and the TOML files of the documentation."""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from docs.promises import ROOT, Drift

Lines = Iterator[str]
Parts = Mapping[str, Callable[[], Iterable[str]]]
_ABBREVIATED = re.compile(r"\b(e\.g|i\.e)\. ")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Lines:
    for cells in (header, ["---"] * len(header), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def first_sentence(text: str) -> str:
    """The text up to the end of its first sentence."""
    guarded = _ABBREVIATED.sub(lambda match: match[0].replace(". ", ".\0"), text)
    return sentence(guarded.partition(". ")[0].replace("\0", " "))


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def rows_of(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / "docs" / name).read_text(encoding="utf-8"))


def words(what: str, subjects: Iterable[object]) -> dict[str, str]:
    """The sentences of docs/words.toml for these subjects. Raises Drift unless the subjects and the sentences match
    exactly.
    """
    sentences, needed = rows_of("words.toml")[what], set(map(str, subjects))
    if missing := sorted(needed - set(sentences)):
        raise Drift(f"without a sentence in [{what}] of docs/words.toml: {', '.join(missing)}")
    if extra := sorted(set(sentences) - needed):
        raise Drift(f"in [{what}] of docs/words.toml and not in the code: {', '.join(extra)}")
    return dict(sentences)
