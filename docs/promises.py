"""The rule that the security documents promise nothing without saying which tests show it.

A section of them is a promise unless its heading is in EXPLAINED. In a promise every sentence, and every row of a table that a
person wrote, ends with the ids of its claims: `No container has a network [network.no-interface].`
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from docs.claims import ID

# What is not promised: how to read the page, what it rests on, what it leaves out.
EXPLAINED: Final = (
    "How to read this page",
    "Report",
    "Supported versions",
    "In scope",
    "Out of scope",
    "More",
    "What this rests on",
    "What a file can still do to a model",
    "What a yes cannot mean",
    "Limits",
    "Reports in scope",
    "Reports out of scope",
)

_IDS_AT_END: Final = re.compile(rf"(\s\[{ID.pattern}\])+[.:;|]?\s*\|?$")
_HEADING: Final = re.compile(r"^#{2,} (.*)$", re.MULTILINE)
_GENERATED: Final = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)
_FENCED: Final = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_INDENTED: Final = re.compile(r"^    .*$", re.MULTILINE)
_DASHES: Final = re.compile(r"\|[|\s:-]+\|")
_DEFINITION: Final = re.compile(r"\[[^]]+\]: |<!--")
_SENTENCE_END: Final = re.compile(r"(?<=\.)\s+(?=[A-Z`*\"(])")


@dataclass(frozen=True, slots=True)
class Sentence:
    section: str
    text: str

    @property
    def bears_ids(self) -> bool:
        return bool(_IDS_AT_END.search(self.text))


def sentences(page: str) -> Iterator[Sentence]:
    """Every sentence and table row that a person wrote in the sections of a page that promise something."""
    text = _FENCED.sub("", _GENERATED.sub("", page))
    pieces = _HEADING.split(text)[1:]
    for heading, body in zip(pieces[::2], pieces[1::2], strict=True):
        if heading not in EXPLAINED:
            for one in _of(_INDENTED.sub("", body)):
                yield Sentence(heading, one)


def _of(body: str) -> Iterator[str]:
    blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n|\n(?=[-*] |\|)", body)]
    for text, following in zip(blocks, [*blocks[1:], ""], strict=True):
        if text.startswith("|"):
            if not (_DASHES.fullmatch(text) or _DASHES.fullmatch(following)):  # nor the head of the table
                yield text
        elif text and not _DEFINITION.match(text):
            yield from _SENTENCE_END.split(text.removeprefix("- "))
