"""The words of a prompt and what each phrase of them means, from data/lexicon.toml and the names in the catalogue. Pure."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

from gdal_mcp.augment.transforms import TRANSFORMS

LONGEST_WORD: Final = 24  # nothing longer is in the lexicon: it is not compared with what is
HIGHEST: Final = 1e9  # a number beyond is read as this, which no argument takes
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TOKEN: Final = re.compile(
    r"(?P<number>(?:(?<![\w.)%°])[-+−])?(?:\d{1,3}(?:,\d{3})+(?![\d])|\d+(?:\.\d+)?|\.\d+))"  # noqa: RUF001 - a minus sign
    r"|(?P<word>[^\W\d_]+(?:['’][^\W\d_]+)?)|(?P<mark>[^\w\s])"  # noqa: RUF001 - an apostrophe as it is typeset
)
_MARKS: Final = {"×": "x", "*": "x", "–": "-", "—": "-", "−": "-", "…": "-", "’": "'"}  # noqa: RUF001 - what they stand for


@dataclass(frozen=True)
class Token:
    text: str  # in small letters, as the lexicon spells it
    start: int
    end: int
    number: float | None = None
    typo: str = ""  # what stood there, where it was read as another word


@dataclass(frozen=True)
class Concept:
    """One thing to ask for, and how degrees and numbers become arguments; the fields are told in lexicon.toml."""

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
    yields: bool = False  # is what a following concept does: "scale the longest side"


@dataclass(frozen=True)
class Meaning:
    kind: str
    value: Any


def tokens(text: str, spelling: Mapping[str, str]) -> Iterator[Token]:
    """Words, numbers and marks in order; in linear time."""
    for found in _TOKEN.finditer(text):
        raw, start, end = found[0], found.start(), found.end()
        if found["number"]:
            value = float(raw.replace(",", "").replace("−", "-"))  # noqa: RUF001
            yield Token(raw, start, end, max(-HIGHEST, min(HIGHEST, value)))
            continue
        for part in _CAMEL.split(raw):
            word = part.lower().replace("'", "").replace("’", "")  # noqa: RUF001
            yield Token(spelling.get(word, _MARKS.get(word, word)), start, start + len(part))
            start += len(part)


def shortened(word: str) -> set[str]:
    """The word with one letter less, in each way."""
    return {word[:place] + word[place + 1 :] for place in range(len(word))}


class Lexicon:
    """All phrases, as tuples of words; built once and never changed."""

    def __init__(self, read: Mapping[str, Any]) -> None:
        self.fillers = frozenset(read["fillers"].split())
        self.spelling: Mapping[str, str] = read["same"]
        self.concepts = dict(self._concepts(read["concept"]))
        self.presets: Mapping[str, Sequence[Mapping[str, Any]]] = {
            name: one["steps"] for name, one in read["preset"].items()
        }
        self.phrases: dict[tuple[str, ...], Meaning] = {}
        self.plain: dict[
            str, dict[tuple[str, ...], str]
        ] = {}  # what stands beside numbers: bound, number, share, unit
        for kind in (
            "idle",
            "level",
            "sign",
            "side",
            "axis",
            "spin",
            "chance",
            "random",
            "not",
            "join",
            "argument",
        ):
            self._add(kind, read[kind])
        for kind in ("bound", "number", "share", "unit"):
            self.plain[kind] = {
                one: value for value, words in read[kind].items() for one in self._split(words)
            }
        self._add("absent", read["absent"])
        for words, meanings in read["ambiguous"].items():
            self._enter("vague", words, tuple(meanings))
        for name, preset in read["preset"].items():
            self._enter("preset", preset["words"], name)
        for key, concept in read["concept"].items():
            self._enter("concept", concept.get("words", ""), self.concepts[key])
        for name, transform in TRANSFORMS.items():
            self._enter("concept", ";".join([name, name.lower(), *transform.aliases]), self.concepts[name])
        for one in read["links"].split():
            self.phrases.setdefault((one,), Meaning("link", one))
        words = [
            word
            for phrase in (*self.phrases, *(p for kind in self.plain.values() for p in kind))
            for word in phrase
        ]
        self.words = frozenset(words) | self.fillers
        aliases = ";".join(alias for transform in TRANSFORMS.values() for alias in transform.aliases)
        self.names = frozenset(
            word for phrase in self._split(aliases) for word in phrase
        )  # the likelier reading of a typo
        self.longest = max(map(len, self.phrases))
        self._near: dict[str, list[str]] = {}
        idle = self.fillers | set(read["links"].split())
        for word in sorted(self.words - idle):
            if len(word) >= 4:  # shorter ones are near to too much
                for key in {word, *shortened(word)}:
                    self._near.setdefault(key, []).append(word)

    def _concepts(self, entries: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Concept]]:
        for key, entry in entries.items():
            given = {name: value for name, value in entry.items() if name != "words"}
            yield key, Concept(**{"key": key, "transform": key, **given})
        for name in TRANSFORMS.keys() - entries.keys():
            yield name, Concept(name, name)

    def _add(self, kind: str, table: Mapping[str, str]) -> None:
        for value, words in table.items():
            self._enter(kind, value if kind == "absent" else words, words if kind == "absent" else value)

    def _enter(self, kind: str, words: str, value: Any) -> None:
        for phrase in self._split(words):
            self.phrases.setdefault(phrase, Meaning(kind, value))

    def _split(self, words: str) -> Iterator[tuple[str, ...]]:
        given = [";" if one == "semicolon" else one for one in words.split(";")]
        for phrase in given:
            found = tuple(one.text for one in tokens(phrase, self.spelling) if one.text not in self.fillers)
            if found:
                yield found

    def known(self, word: str) -> str | None:
        """The lexicon's form of a word: itself, or its stem without a plural or a verb's ending."""
        if word in self.words:
            return word
        stems = [word[: -len(end)] for end in ("ing", "ed", "es", "s", "d", "er") if word.endswith(end)]
        stems += [stem[:-1] for stem in stems if stem[-2:-1] == stem[-1:]] + [f"{stem}e" for stem in stems]
        return next((stem for stem in stems if len(stem) > 2 and stem in self.words), None)

    def near(self, word: str) -> str | None:
        """A word of the lexicon that one edit makes of this one (or two letters that changed places), with the same first letter."""
        if not 4 <= len(word) <= LONGEST_WORD:
            return None
        found = {one for key in sorted({word, *shortened(word)}) for one in self._near.get(key, ())}
        close = (one for one in found if one[0] == word[0] and _one_edit(one, word))
        return min(close, key=lambda one: (one not in self.names, one), default=None)

    def match(self, given: Sequence[Token], place: int) -> tuple[Meaning, int] | None:
        """The longest phrase that begins at this place, and how many tokens it has."""
        for length in range(min(self.longest, len(given) - place), 0, -1):
            meaning = self.phrases.get(tuple(one.text for one in given[place : place + length]))
            if meaning is not None:
                return meaning, length
        return None

    def beside(self, kind: str, given: Sequence[Token], place: int) -> tuple[str, int] | None:
        """As `match`, among the words that stand beside numbers."""
        for length in range(min(4, len(given) - place), 0, -1):
            value = self.plain[kind].get(tuple(one.text for one in given[place : place + length]))
            if value is not None:
                return value, length
        return None


def _one_edit(one: str, other: str) -> bool:
    if len(one) == len(other):
        wrong = [place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
        swapped = (
            len(wrong) == 2
            and wrong[1] == wrong[0] + 1
            and one[wrong[0]] == other[wrong[1]]
            and one[wrong[1]] == other[wrong[0]]
        )
        return len(wrong) == 1 or swapped
    short, long = sorted((one, other), key=len)
    return len(long) == len(short) + 1 and short in shortened(long)


LEXICON: Final = Lexicon(
    tomllib.loads(files("gdal_mcp.augment").joinpath("data", "lexicon.toml").read_text(encoding="utf-8"))
)
