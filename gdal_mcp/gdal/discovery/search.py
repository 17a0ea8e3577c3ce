"""Ranked search over algorithms and hand-picked tools: BM25 over weighted fields. Pure.

Invariants:
* the same question gives the same hits in the same order;
* a question costs at most MAX_WORDS words, however long it is, and nothing of it is kept.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from gdal_mcp.gdal.catalogue.model import Catalogue
from gdal_mcp.gdal.discovery.entries import Entry, Hit, Picked, of_algorithm, of_tool
from gdal_mcp.gdal.discovery.words import plain_words, stem, stems, vocabulary

MAX_WORDS: Final = 32
MAX_LETTERS: Final = 500
MAX_HITS: Final = 50

# How much a word counts by where it stands, by judgement; tests/data/questions.toml holds what they reach.
WEIGHTS: Final[Mapping[str, float]] = {
    "name": 4.0,
    "called": 3.0,
    "help": 2.0,
    "argument": 1.0,
    "choice": 0.6,
    "argument help": 0.3,
}
_K1: Final = 1.2  # the usual constants of BM25: how soon repetition stops to count, and how much length does
_B: Final = 0.4
_RELATED: Final = 0.45  # weight of what a word also means
_NEAREST: Final = 0.6  # weight of the nearest known word for an unknown one
_NAMED: Final = 12.0  # for the name itself, filling words and all
_NEAR_ENOUGH: Final = 0.78
_SHORT: Final = 4  # letters; a shorter unknown word is near to too many


def search(
    catalogue: Catalogue,
    query: str,
    limit: int = 10,
    toolset: str | None = None,
    picked: Sequence[Picked] = (),
) -> tuple[Hit, ...]:
    """The best answers first; none if no word is known. `toolset` is the first word of an algorithm, or "core"."""
    return index(catalogue, tuple(picked)).search(query, min(limit, MAX_HITS), toolset)


@lru_cache(maxsize=4)
def index(catalogue: Catalogue, picked: tuple[Picked, ...]) -> "Index":
    """The index of the catalogue in use and these tools, made at the first question."""
    return Index(
        [*(of_algorithm(catalogue, one) for one in catalogue.algorithms.values()), *map(of_tool, picked)]
    )


class Index:
    """An inverted index: for every word the entries that hold it, with a weight and the place where it counts most."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._postings: dict[str, dict[int, tuple[float, str]]] = {}
        usual = {field: _mean(len(one.fields.get(field, ())) for one in entries) for field in WEIGHTS}
        for number, entry in enumerate(entries):
            for word, weight, field in _weighed(entry, usual):
                self._postings.setdefault(word, {})[number] = (weight, field)

    def search(self, query: str, limit: int, toolset: str | None = None) -> tuple[Hit, ...]:
        """See the function of that name."""
        said = self._said(query)
        scores: dict[int, float] = {}
        reasons: dict[int, dict[str, str]] = {}
        for word, (importance, original) in said.items():
            self._add(word, importance, original, scores, reasons)
        self._add_names(query, scores, reasons)
        kept = [number for number in scores if toolset in (None, self._entries[number].toolset)]
        kept.sort(key=lambda number: (-self._final(number, scores), self._entries[number].hit.tool))
        return tuple(self._hit(number, scores, reasons) for number in kept[: max(limit, 0)])

    def _said(self, query: str) -> dict[str, tuple[float, str]]:
        """The words of a question that the index knows, with their importance and the word that was typed."""
        typed = list(dict.fromkeys(stems(query[:MAX_LETTERS])))[:MAX_WORDS]
        found: dict[str, tuple[float, str]] = {}
        for word in typed:
            for known, importance in self._meant(word):
                if found.get(known, (0.0, ""))[0] < importance:
                    found[known] = (importance, word)
        return found

    def _meant(self, word: str) -> Iterator[tuple[str, float]]:
        related = _related().get(word, ())
        if word in self._postings:
            yield word, 1.0
        elif not related:
            yield from ((near, _NEAREST) for near in self._nearest(word))
        yield from ((other, _RELATED) for other in related if other in self._postings)

    def _nearest(self, word: str) -> list[str]:
        """The most similar known word of about that length; the first letter is taken to be right."""
        if len(word) < _SHORT:
            return []
        alike = [
            known
            for known in sorted(self._postings)
            if known[0] == word[0] and abs(len(known) - len(word)) <= 2
        ]
        return get_close_matches(word, alike, n=1, cutoff=_NEAR_ENOUGH)

    def _add(
        self,
        word: str,
        importance: float,
        original: str,
        scores: dict[int, float],
        reasons: dict[int, dict[str, str]],
    ) -> None:
        for number, (weight, field) in self._postings[word].items():
            scores[number] = scores.get(number, 0.0) + importance * self._rarity(word) * weight * (
                _K1 + 1
            ) / (_K1 + weight)
            text = word if word == original else f"{original} ~ {word}"
            reasons.setdefault(number, {}).setdefault(word, f"{field}: {text}")

    def _rarity(self, word: str) -> float:
        """How much a word tells, by how few entries hold it where it matters."""
        strong = sum(weight >= 1.0 for weight, _ in self._postings[word].values())
        return math.log(1 + (len(self._entries) - strong + 0.5) / (strong + 0.5))

    def _add_names(self, query: str, scores: dict[int, float], reasons: dict[int, dict[str, str]]) -> None:
        said = f" {' '.join(plain_words(query[:MAX_LETTERS]))} "
        for number, entry in enumerate(self._entries):
            name = next((one for one in entry.names if f" {one} " in said), None)
            if name is not None:
                scores[number] = scores.get(number, 0.0) + _NAMED
                reasons[number] = {"": f"name: {name}", **reasons.get(number, {})}

    def _final(self, number: int, scores: dict[int, float]) -> float:
        return round(scores[number] * self._entries[number].factor, 6)

    def _hit(self, number: int, scores: dict[int, float], reasons: dict[int, dict[str, str]]) -> Hit:
        hit = self._entries[number].hit
        why = tuple(list(reasons[number].values())[:4])
        return Hit(hit.path, hit.tool, hit.line, why, hit.effect, self._final(number, scores))


def _weighed(entry: Entry, usual: Mapping[str, float]) -> Iterator[tuple[str, float, str]]:
    """Each word of an entry with its weight over all fields, and the field where it counts most."""
    weights: dict[str, dict[str, float]] = {}
    for field, words in entry.fields.items():
        length = 1 - _B + _B * len(words) / max(usual[field], 1.0)
        for word, count in Counter(words).items():
            weights.setdefault(word, {})[field] = WEIGHTS[field] * count / length
    for word, by_field in weights.items():
        yield word, sum(by_field.values()), max(by_field, key=lambda field: by_field[field])


def _mean(numbers: Iterable[int]) -> float:
    values = list(numbers)
    return sum(values) / len(values) if values else 0.0


@lru_cache(maxsize=1)
def _related() -> Mapping[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for word, others in vocabulary()["words"].items():
        assert isinstance(others, list)
        table[stem(word)] = tuple(stem(other) for other in others)
    return table


__all__ = ["Hit", "Index", "Picked", "search"]
