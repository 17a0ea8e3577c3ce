"""The words of a prompt and what each phrase of them means, from data/lexicon.toml and the names in the catalogue. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from gdal_mcp.toolboxes.augment.transforms import TRANSFORMS
from gdal_mcp.toolboxes.gdal import data_of

Value = TypeVar("Value")
Phrase = tuple[str, ...]
LONGEST_WORD: Final = 24  # the longest word of the lexicon; longer ones are not compared
HIGHEST: Final = 1e9  # a larger number is read as this one, which no argument accepts
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TOKEN: Final = re.compile(
    r"(?P<number>(?:(?<![\w.)%°])[-+−])?(?:\d{1,3}(?:,\d{3})+(?![\d])|\d+(?:\.\d+)?|\.\d+))"  # noqa: RUF001 - a minus sign
    r"|(?P<word>[^\W\d_]+(?:['’][^\W\d_]+)?)|(?P<mark>(?!(?<=[^\W\d_])-[^\W\d_])[^\w\s])"  # noqa: RUF001 - an apostrophe as it is typeset
)
_MARKS: Final = {"×": "x", "*": "x", "–": "-", "—": "-", "−": "-", "…": "-", "’": "'"}  # noqa: RUF001 - what they stand for


@dataclass(frozen=True)
class PromptToken:
    text: str  # in lower case, as the lexicon spells it
    start: int
    end: int
    number: float | None = None
    typo: str = ""  # the original word, if it was read as another one


@dataclass(frozen=True)
class Concept:
    """One possible request, and how degrees and numbers become arguments; lexicon.toml describes the fields."""

    key: str
    transform: str
    amount: str = ""
    levels: Sequence[Any] = ()
    set: Mapping[str, Any] = field(default_factory=dict)
    numbers: Mapping[str, str] = field(default_factory=dict)
    axis: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    relative: Mapping[str, Any] = field(default_factory=dict)
    sign: int | None = None
    base: float = 0
    scale: float = 1
    build: str = "plain"
    family: str = ""
    negates: Sequence[str] = ()
    yields: bool = False  # replaced by a following concept: "scale the longest side"


@dataclass(frozen=True)
class Meaning:
    kind: str
    value: Any


def tokens(text: str, spelling: Mapping[str, str]) -> Iterator[PromptToken]:
    """The words, numbers and marks of a text, in order. Takes linear time."""
    for match in _TOKEN.finditer(text):
        raw, start, end = match[0], match.start(), match.end()
        if match["number"]:
            value = float(raw.replace(",", "").replace("−", "-"))  # noqa: RUF001
            yield PromptToken(raw, start, end, max(-HIGHEST, min(HIGHEST, value)))
            continue
        for part in _CAMEL.split(raw):
            word = part.lower().replace("'", "").replace("’", "")  # noqa: RUF001
            if word:
                yield PromptToken(spelling.get(word, _MARKS.get(word, word)), start, start + len(part))
            start += len(part)


def _one_edit(word: str, other: str) -> bool:
    """True if the words differ by one letter that is missing, added or wrong, or by two letters in the other order."""
    for _ in range(2):  # removes the common beginning, then the common end
        differ = (i for i, (a, b) in enumerate(zip(word, other, strict=False)) if a != b)
        same = next(differ, min(len(word), len(other)))
        word, other = word[same:][::-1], other[same:][::-1]
    return max(len(word), len(other)) < 2 or (len(word) == 2 and word == other[::-1])


def _concepts(entries: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[Concept, str]]:
    """Each concept with its words: those of the lexicon first, then the names of the catalogue."""
    concepts = {}
    for key in dict.fromkeys([*entries, *TRANSFORMS]):
        entry = entries.get(key, {})
        fields = {name: value for name, value in entry.items() if name != "words"}
        concepts[key] = Concept(**{"key": key, "transform": key, **fields})
        yield concepts[key], entry.get("words", "")
    for name, transform in TRANSFORMS.items():
        yield concepts[name], ";".join([name, name.lower(), *transform.aliases])


def _entries(read: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """The kind, value and phrases of each entry. If two entries have the same phrase, it means the first one."""
    kinds = ("idle", "level", "sign", "side", "axis", "spin", "chance", "random", "not", "join", "argument")
    yield from ((kind, value, words) for kind in kinds for value, words in read[kind].items())
    yield from (("absent", value, words) for words, value in read["absent"].items())
    yield from (("vague", tuple(ways), words) for words, ways in read["ambiguous"].items())
    yield from (("preset", name, preset["words"]) for name, preset in read["preset"].items())
    yield from (("concept", concept, words) for concept, words in _concepts(read["concept"]))
    yield from (("link", link, link) for link in read["links"].split())


class Lexicon:
    """All phrases, as tuples of words; built once and never changed."""

    def __init__(self, read: Mapping[str, Any]) -> None:
        self.fillers = frozenset(read["fillers"].split())
        self.spelling: Mapping[str, str] = read["same"]
        self.presets: Mapping[str, Sequence[Mapping[str, Any]]] = {
            name: preset["steps"] for name, preset in read["preset"].items()
        }
        meanings: dict[Phrase, Meaning] = {}
        for kind, value, words in _entries(read):
            for phrase in self._split(words):
                meanings.setdefault(phrase, Meaning(kind, value))
        plain = {
            kind: {phrase: value for value, words in read[kind].items() for phrase in self._split(words)}
            for kind in ("bound", "number", "share", "unit")
        }
        phrases = [*meanings, *(phrase for table in plain.values() for phrase in table)]
        self.words = self.fillers | {word for phrase in phrases for word in phrase}
        self.phrases = self._stemmed(meanings)
        # words that stand beside numbers; and the length of the longest phrase by its first word
        self.plain = {kind: self._stemmed(table) for kind, table in plain.items()}
        self.longest = {phrase[0]: len(phrase) for phrase in sorted(self.phrases, key=len)}
        self.spelt: dict[str, list[str]] = {}  # words by their first letter
        for word in sorted({*self.words, *self.spelling} - self.fillers - set(read["links"].split())):
            if len(word) >= 4:  # shorter words are similar to too many others
                self.spelt.setdefault(word[0], []).append(word)

    def _split(self, words: str) -> Iterator[Phrase]:
        for phrase in words.split(";"):
            text = ";" if phrase.strip() == "semicolon" else phrase
            texts = tuple(
                token.text for token in tokens(text, self.spelling) if token.text not in self.fillers
            )
            if texts:
                yield texts

    def _stemmed(self, table: Mapping[Phrase, Value]) -> dict[Phrase, Value]:
        """The same phrases in the words that `known` returns.

        If two phrases become equal, one that already had this spelling takes precedence.
        """
        stemmed = {
            tuple(self.known(word) or word for word in phrase): value
            for phrase, value in reversed(list(table.items()))
        }
        return stemmed | {phrase: table[phrase] for phrase in stemmed if phrase in table}

    def known(self, word: str) -> str | None:
        """The lexicon's form of a word: its stem without a plural or verb ending, if the lexicon has it; else the
        word itself.
        """
        stems = [word[: -len(end)] for end in ("ing", "ed", "es", "s", "d") if word.endswith(end)]
        stems += [stem[:-1] for stem in stems if stem[-2:-1] == stem[-1:]] + [f"{stem}e" for stem in stems]
        candidates = (stem for stem in stems if len(stem) > 2 and stem in self.words)
        return next(candidates, word if word in self.words else None)

    def near(self, word: str) -> str | None:
        """A word of the lexicon that differs by one edit and has the same first letter."""
        if not 4 <= len(word) <= LONGEST_WORD:
            return None
        nearest = next(
            (candidate for candidate in self.spelt.get(word[0], ()) if _one_edit(candidate, word)), None
        )
        return self.spelling.get(nearest or "", nearest)

    def match(self, tokens: Sequence[PromptToken], place: int) -> tuple[Meaning, int] | None:
        """The longest phrase that begins at this place, and its number of tokens."""
        for length in range(min(self.longest.get(tokens[place].text, 0), len(tokens) - place), 0, -1):
            meaning = self.phrases.get(tuple(token.text for token in tokens[place : place + length]))
            if meaning is not None:
                return meaning, length
        return None

    def beside(self, kind: str, tokens: Sequence[PromptToken], place: int) -> tuple[str, int] | None:
        """Like `match`, among the words that stand next to numbers."""
        for length in range(min(4, len(tokens) - place), 0, -1):
            value = self.plain[kind].get(tuple(token.text for token in tokens[place : place + length]))
            if value is not None:
                return value, length
        return None


LEXICON: Final = Lexicon(data_of("gdal_mcp.toolboxes.augment", "lexicon.toml"))
