"""Ranked search over algorithms and hand-picked tools, with an in-memory full-text index of SQLite.

Invariants:
* the same query returns the same hits in the same order;
* at most MAX_WORDS words of a query are searched, and no part of the query is stored.
"""

import sqlite3
import threading
from collections.abc import Sequence
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
_NEAR_ENOUGH: Final = 0.78
_SHORT: Final = 4  # characters; a shorter unknown word is similar to too many words
# The SQL text is ours, and words are bound parameters. rowid starts at 1, entry numbers start at 0.
_RANKED: Final = f"SELECT rowid - 1, -bm25(entries, {', '.join(map(str, FIELDS.values()))}) FROM entries WHERE entries MATCH ?"  # noqa: S608
_SYNONYMS: Final = "SELECT meant FROM synonyms WHERE word MATCH ?"


def search(
    catalogue: Catalogue, query: str, limit: int = 10, picked: Sequence[Picked] = ()
) -> tuple[Hit, ...]:
    """The hits for a query, best first; empty if no word is known."""
    return index(catalogue, tuple(picked)).search(query[:MAX_LETTERS], min(limit, MAX_HITS))


def absent(query: str) -> list[str]:
    """For work that no algorithm does: what can be used instead. Empty if the query names no such work."""
    padded = f" {' '.join(plain_words(query[:MAX_LETTERS]))}"
    rows = read("vocabulary.toml")["absent"]
    return [row["text"] for row in rows if any(f" {phrase}" in padded for phrase in row["phrases"])]


@lru_cache(maxsize=4)
def index(catalogue: Catalogue, picked: tuple[Picked, ...]) -> "Index":
    """The index of a catalogue and these tools, created for the first query."""
    entries = [of_algorithm(catalogue, algorithm) for algorithm in catalogue.algorithms.values()]
    for name, title, description, writes in picked:
        hit = Hit("", name, title, "writes" if writes else "reads")
        entries.append(SearchEntry(hit, {"name": name, "called": title, "help": description}))
    return Index(entries)


class Index:
    """Full-text index of the entries. SQLite stems words (porter) and ranks hits (bm25). Thread-safe."""

    def __init__(self, entries: Sequence[SearchEntry]) -> None:
        self._entries = entries
        rows = [[" ".join(words(entry.texts.get(field, ""))) for field in FIELDS] for entry in entries]
        self._known = sorted({word for row in rows for text in row for word in text.split()})
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        for table, columns in (("entries", ", ".join(FIELDS)), ("synonyms", "word, meant UNINDEXED")):
            self._database.execute(f"CREATE VIRTUAL TABLE {table} USING fts5({columns}, tokenize = 'porter')")
        self._database.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", rows)
        meant = [(word, " ".join(related)) for word, related in read("vocabulary.toml")["words"].items()]
        self._database.executemany("INSERT INTO synonyms VALUES (?, ?)", meant)

    def search(self, query: str, limit: int) -> tuple[Hit, ...]:
        scores: dict[int, float] = {}
        reasons: dict[int, list[str]] = {}
        padded_query = f" {' '.join(plain_words(query))} "
        for number, entry in enumerate(self._entries):
            if name := next((phrase for phrase in entry.names if f" {phrase} " in padded_query), None):
                scores[number], reasons[number] = _NAMED, [f"name: {name}"]
        for word, (importance, typed) in self._search_terms(words(query)[:MAX_WORDS]).items():
            for number, score in self._rows(_RANKED, word):
                scores[number] = scores.get(number, 0.0) + importance * score
                reasons.setdefault(number, []).append(word if word == typed else f"{typed} ~ {word}")
        hits = [
            replace(entry.hit, why=tuple(reasons[number][:4]), score=round(scores[number] * entry.factor, 6))
            for number, entry in enumerate(self._entries)
            if number in scores
        ]
        return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.tool))[: max(limit, 0)])

    def _search_terms(self, typed: Sequence[str]) -> dict[str, tuple[float, str]]:
        """The words to search for, each with its weight and the typed word."""
        meanings: dict[str, tuple[float, str]] = {}
        for word in typed:
            related = [synonym for (synonyms,) in self._rows(_SYNONYMS, word) for synonym in synonyms.split()]
            meant = [(synonym, _RELATED) for synonym in related]
            if self._rows(_RANKED, word):
                meant.append((word, 1.0))
            elif not related and len(word) >= _SHORT:  # the first letter is assumed to be correct
                candidates = [
                    candidate
                    for candidate in self._known
                    if candidate[0] == word[0] and abs(len(candidate) - len(word)) <= 2
                ]
                near = get_close_matches(word, candidates, n=1, cutoff=_NEAR_ENOUGH)
                meant += [(candidate, _NEAREST) for candidate in near]
            for meaning, importance in meant:
                if meanings.get(meaning, (0.0, ""))[0] < importance:
                    meanings[meaning] = (importance, word)
        return meanings

    def _rows(self, query: str, word: str) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(query, [f'"{word}"']).fetchall()
