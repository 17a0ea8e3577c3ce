"""Ranked search over algorithms and hand-picked tools, with an in-memory full-text index of SQLite.

Invariants:
* the same query returns the same hits in the same order;
* at most MAX_WORDS words of a query are searched, and no part of the query is stored.
"""

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final

from gdal_mcp.toolboxes.gdal.catalogue.model import Catalogue
from gdal_mcp.toolboxes.gdal.discovery import read
from gdal_mcp.toolboxes.gdal.discovery.entries import (
    FIELDS,
    Hit,
    Picked,
    SearchEntry,
    of_algorithm,
    plain_words,
    words,
)

MAX_WORDS: Final = 32
MAX_LETTERS: Final = 500
MAX_HITS: Final = 50

_RELATED: Final = 0.45  # weight of a synonym
_NEAREST: Final = 0.6  # weight of the nearest known word for an unknown one
_NAMED: Final = 12.0  # score if the query contains the full name, stop words included
_FAR_BEHIND: Final = 0.12  # fraction of the best score; hits below this are left out
_NEAR_ENOUGH: Final = 0.78
_SHORT: Final = 4  # characters; a shorter unknown word is similar to too many words
# The SQL text is ours, and words are bound parameters. rowid starts at 1, entry numbers start at 0.
_RANKED: Final = f"SELECT rowid - 1, -bm25(entries, {', '.join(map(str, FIELDS.values()))}) FROM entries WHERE entries MATCH ?"  # noqa: S608
_PHRASES: Final = "SELECT number, phrase, -bm25(phrases) FROM phrases WHERE phrases MATCH ?"
_SYNONYMS: Final = "SELECT meant FROM synonyms WHERE word MATCH ?"

# A word to search for: its weight, and the typed word that means it.
Meanings = dict[str, tuple[float, str]]
# The phrase of an entry that is most like the query: its score, and its words that were searched.
Phrase = tuple[float, tuple[str, ...]]


def search(
    catalogue: Catalogue, query: str, limit: int = 10, picked: Sequence[Picked] = ()
) -> tuple[Hit, ...]:
    """The hits for a query, best first; empty if no word is known."""
    return index(catalogue, tuple(picked)).search(query[:MAX_LETTERS], min(limit, MAX_HITS))


def absent(query: str) -> list[str]:
    """Advice for work that no algorithm does: what can be used instead. Empty if the query names no such work."""
    padded = f" {' '.join(plain_words(query[:MAX_LETTERS]))}"
    rows = read("vocabulary.toml")["absent"]
    return [row["text"] for row in rows if any(f" {phrase}" in padded for phrase in row["phrases"])]


@lru_cache(maxsize=4)
def index(catalogue: Catalogue, picked: tuple[Picked, ...]) -> "Index":
    """The index of a catalogue and these tools, created for the first query."""
    entries = [of_algorithm(catalogue, algorithm) for algorithm in catalogue.algorithms.values()]
    for name, title, description, writes in picked:
        hit = Hit("", name, title, "writes" if writes else "reads")
        entries.append(SearchEntry(hit, {"name": name, "called": title, "help": description}, (name, title)))
    return Index(entries)


class Index:
    """Full-text index of the entries. SQLite stems words (porter) and ranks hits (bm25). Thread-safe."""

    def __init__(self, entries: Sequence[SearchEntry]) -> None:
        self._entries = entries
        rows = [[" ".join(words(entry.texts.get(field, ""))) for field in FIELDS] for entry in entries]
        phrases = [
            (number, " ".join(words(text))) for number, entry in enumerate(entries) for text in entry.phrases
        ]
        texts = [text for row in rows for text in row] + [phrase for _, phrase in phrases]
        self._known = sorted({word for text in texts for word in text.split()})
        vocabulary = read("vocabulary.toml")
        meant = [(word, " ".join(related)) for word, related in vocabulary["words"].items()]
        meant += [(word, kinds) for kinds, things in vocabulary["things"].items() for word in things.split()]
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._fill("entries", ", ".join(FIELDS), rows)
        self._fill("phrases", "number UNINDEXED, phrase", phrases)
        self._fill("synonyms", "word, meant UNINDEXED", meant)

    def _fill(self, table: str, columns: str, rows: Sequence[Sequence[object]]) -> None:
        self._database.execute(f"CREATE VIRTUAL TABLE {table} USING fts5({columns}, tokenize = 'porter')")
        places = ", ".join("?" * (columns.count(",") + 1))
        self._database.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608 - names of ours

    def search(self, query: str, limit: int) -> tuple[Hit, ...]:
        meanings = self._search_terms(self._separated(words(query)[:MAX_WORDS]))
        matches, phrases, named = self._matches(meanings), self._best_phrases(meanings), self._named(query)
        hits = [
            self._hit(
                number, meanings, matches.get(number, {}), phrases.get(number, (0.0, ())), named.get(number)
            )
            for number in matches.keys() | phrases.keys() | named.keys()
        ]
        lowest = _FAR_BEHIND * max((hit.score for hit in hits), default=0.0)
        near = sorted((hit for hit in hits if hit.score >= lowest), key=lambda hit: (-hit.score, hit.tool))
        return tuple(near[: max(limit, 0)])

    def _hit(
        self, number: int, meanings: Meanings, matched: Mapping[str, float], phrase: Phrase, name: str | None
    ) -> Hit:
        """The hit for an entry: its score is that of its words and of its best phrase, times the share of found
        words.
        """
        entry, (phrase_score, phrase_words) = self._entries[number], phrase
        found = {word: meanings[word][1] for word in [*matched, *phrase_words]}
        understood = {typed for _, typed in meanings.values()}
        share = len(set(found.values())) / max(len(understood), 1)
        score = (sum(matched.values()) + phrase_score) * share + (_NAMED if name else 0.0)
        reasons = [f"name: {name}"] if name else []
        reasons += [word if word == typed else f"{typed} ~ {word}" for word, typed in found.items()]
        return replace(entry.hit, why=tuple(reasons[:4]), score=round(score * entry.factor, 6))

    def _named(self, query: str) -> dict[int, str]:
        """The entries whose full name is in the query, and that name."""
        plain = " ".join(plain_words(query))
        return {
            number: name
            for number, entry in enumerate(self._entries)
            for name in reversed(entry.names)
            # a name of one word must be the whole query: `convert` and `query` are also plain verbs
            if name == plain or (" " in name and f" {name} " in f" {plain} ")
        }

    def _matches(self, meanings: Meanings) -> dict[int, dict[str, float]]:
        """The score of each of these words, for each entry that has one of them."""
        scores: dict[int, dict[str, float]] = {}
        for word, (importance, _) in meanings.items():
            for number, score in self._rows(_RANKED, word):
                scores.setdefault(number, {})[word] = importance * score
        return scores

    def _best_phrases(self, meanings: Meanings) -> dict[int, Phrase]:
        """The score and the found words of the phrase that is most like the query, for each entry."""
        scores: dict[tuple[int, str], dict[str, float]] = {}
        for word, (importance, _) in meanings.items():
            for number, phrase, score in self._rows(_PHRASES, word):
                scores.setdefault((number, phrase), {})[word] = importance * score
        best: dict[int, Phrase] = {}
        for (number, phrase), found in scores.items():
            share = min(1.0, len(found) / len(set(phrase.split())))
            best[number] = max(best.get(number, (0.0, ())), (sum(found.values()) * share, tuple(found)))
        return best

    def _separated(self, typed: Sequence[str]) -> list[str]:
        """The words with compounds as they are known: `hill shade` as `hillshade`, `makepoint` as `make point`."""
        separated: list[str] = []
        for word, following in zip(typed, [*typed[1:], ""], strict=False):
            joined = word + following
            separated += [joined] if following and joined in self._known else []
            separated += [word] if self._is_known(word) else self._halves(word)
        return separated

    def _halves(self, word: str) -> list[str]:
        halves = ([word[:place], word[place:]] for place in range(3, len(word) - 2))
        return next((pair for pair in halves if all(map(self._is_known, pair))), [word])

    def _is_known(self, word: str) -> bool:
        return any(self._rows(query, word) for query in (_RANKED, _PHRASES, _SYNONYMS))

    def _search_terms(self, typed: Sequence[str]) -> Meanings:
        """The words to search for, each with its weight and the typed word."""
        meanings: Meanings = {}
        for word in typed:
            related = [synonym for (synonyms,) in self._rows(_SYNONYMS, word) for synonym in synonyms.split()]
            meant = [(synonym, _RELATED) for synonym in related]
            if self._rows(_RANKED, word) or self._rows(_PHRASES, word):
                meant.append((word, 1.0))
            elif not related and len(word) >= _SHORT:
                meant += [(near, _NEAREST) for near in self._nearest(word)]
            for meaning, importance in meant:
                if meanings.get(meaning, (0.0, ""))[0] < importance:
                    meanings[meaning] = (importance, word)
        return meanings

    def _nearest(self, word: str) -> list[str]:
        """The known word that is most like this one. The first letter is assumed to be correct."""
        candidates = [
            known for known in self._known if known[0] == word[0] and abs(len(known) - len(word)) <= 2
        ]
        return get_close_matches(word, candidates, n=1, cutoff=_NEAR_ENOUGH)

    def _rows(self, query: str, word: str) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(query, [f'"{word}"']).fetchall()
