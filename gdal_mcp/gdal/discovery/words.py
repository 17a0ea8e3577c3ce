"""Turns text into the words that are searched: lower case, one spelling, without endings and without filling words. Pure."""

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from gdal_mcp.gdal.discovery.tables import read

_WORD = re.compile(r"[a-z0-9]+")
# longest first; what remains must keep three letters, so that `bands` becomes `band` and `gas` stays
_ENDINGS = (
    "nesses",
    "ations",
    "ation",
    "ness",
    "ings",
    "ing",
    "ies",
    "ied",
    "ed",
    "es",
    "er",
    "ly",
    "s",
    "e",
)
_STEM_LETTERS = 3


@lru_cache(maxsize=1)
def vocabulary() -> Mapping[str, Mapping[str, object]]:
    """The hand-written words, as they are in the file."""
    return MappingProxyType(read("vocabulary.toml"))


@lru_cache(maxsize=1)
def _stop() -> frozenset[str]:
    return frozenset(str(vocabulary()["stop"]["words"]).split())


@lru_cache(maxsize=1)
def _spelling() -> Mapping[str, str]:
    return {word: str(other) for word, other in vocabulary()["spelling"].items()}


def stems(text: str) -> tuple[str, ...]:
    """The words of a text as they are indexed, in their order; filling words are left out."""
    return tuple(stem(word) for word in plain_words(text) if word not in _stop())


def plain_words(text: str) -> list[str]:
    """All words as they are written, in lower case."""
    return _WORD.findall(text.casefold())


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """A word without its English ending. Crude on purpose: it only has to do the same to questions and to texts."""
    plain = _spelling().get(word, word)
    for ending in _ENDINGS:
        if plain.endswith(ending) and len(plain) - len(ending) >= _STEM_LETTERS:
            return plain.removesuffix(ending) + ("y" if ending in ("ies", "ied") else "")
    return plain
