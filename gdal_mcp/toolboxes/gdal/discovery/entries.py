"""Search entries: algorithms and hand-picked tools, with their effects and the words that are searched. Pure."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from gdal_mcp.toolboxes.gdal.catalogue.model import Algorithm, Catalogue, Role
from gdal_mcp.toolboxes.gdal.discovery import read

# Weight of a word by the field that contains it, chosen by judgement; tests/data/questions.toml has the results.
FIELDS: Final[Mapping[str, float]] = {
    "name": 4.0,
    "called": 3.0,
    "help": 2.0,
    "argument": 1.0,
    "choice": 0.6,
    "argument_help": 0.1,
}
_ISE: Final = re.compile(r"is(e|ed|er|es|ing|ation)$")
_LONG: Final = 8  # characters; `raise` and `noise` are shorter
_WORD: Final = re.compile(r"[a-z0-9]+")

# a hand-picked tool: name, title, description, and True if it writes
Picked = tuple[str, str, str, bool]


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result. `path` is the algorithm for gdal_describe, or empty for a tool that is not an algorithm."""

    path: str
    tool: str
    line: str
    effect: Literal["reads", "may write", "writes"]
    why: tuple[str, ...] = ()
    score: float = 0.0

    def as_dict(self) -> dict[str, object]:
        return {
            **({"algorithm": self.path} if self.path else {}),
            "tool": self.tool,
            "line": self.line,
            "why": "; ".join(self.why),
            "effect": self.effect,
        }


@dataclass(frozen=True, slots=True)
class SearchEntry:
    """One searchable entry. `texts` has the searched texts by the names in FIELDS; a missing text counts as empty."""

    hit: Hit
    texts: Mapping[str, str]
    phrases: tuple[
        str, ...
    ] = ()  # each is a name of the work, or the title of a tool of another program that does it
    factor: float = 1.0  # multiplies the score

    @property
    def names(self) -> tuple[str, ...]:
        """The name as plain words; the name of an algorithm with more than two words also without its first word."""
        name = plain_words(self.hit.path or self.hit.tool)
        return (" ".join(name), " ".join(name[1:])) if len(name) > 2 and self.hit.path else (" ".join(name),)


def tool_name(path: str) -> str:
    return path.replace(" ", "_").replace("-", "_")


def of_algorithm(catalogue: Catalogue, algorithm: Algorithm) -> SearchEntry:
    usable = [argument for argument in algorithm.arguments if argument.is_usable]
    own = [argument for argument in usable if argument.name not in _common(catalogue)]
    possible = effects(algorithm)
    always = possible["creates"] == "always" or possible["updates"] or possible["removes"]
    effect: Literal["reads", "may write", "writes"] = (
        "writes" if always else "reads" if possible["needs_approval"] == "no" else "may write"
    )
    called = read("vocabulary.toml")["algorithms"].get(algorithm.path, ())
    texts = {
        "name": algorithm.path,
        "called": " ".join(called),
        "help": algorithm.description,
        "argument": " ".join(argument.name for argument in own),
        "choice": " ".join(choice for argument in own for choice in argument.choices),
        "argument_help": " ".join(argument.description for argument in own),
    }
    phrases = (
        algorithm.path,
        algorithm.path.partition(" ")[2],
        *called,
        *read("titles.toml").get(algorithm.path, ()),
    )
    hit = Hit(algorithm.path, tool_name(algorithm.path), algorithm.description, effect)
    factor = float(read("vocabulary.toml")["quiet"].get(algorithm.path, 1.0))
    return SearchEntry(hit, texts, phrases, factor)


def effects(algorithm: Algorithm) -> dict[str, Any]:
    """The most that a call can do, from the roles of its arguments and data/effects.toml.

    `creates` is "optional" if the result can be returned instead of written; `replaces` is True if the call may
    replace an existing output, which is kept for undo; `updates` means that it changes a dataset or a folder in
    place; `sql` has the arguments that take an SQL statement, which a server with --no-sql refuses. Every call reads.
    """
    usable = [argument for argument in algorithm.arguments if argument.is_usable]
    outputs = [argument for argument in usable if argument.role is Role.OUTPUT]
    known = read("effects.toml")
    removes = algorithm.path in known["removes"]
    in_place = any(argument.role is Role.UPDATE for argument in usable) or algorithm.path in known["updates"]
    always_needs_approval = removes or algorithm.path == "vsi sync"  # vsi sync may replace a whole folder
    return {
        "reads": True,
        "creates": "always"
        if any(argument.required for argument in outputs)
        else "optional"
        if outputs
        else "no",
        "replaces": bool(outputs)
        and any(argument.rule.mode == "replace" for argument in algorithm.arguments),
        "updates": in_place and not removes,
        "removes": removes,
        "needs_approval": "always"
        if always_needs_approval
        else "as the server is set"
        if outputs or in_place
        else "no",
        # a condition such as `where` is not a statement
        "sql": [
            argument.name
            for argument in usable
            if argument.role is Role.EXPRESSION and argument.rule.check == "sql"
        ],
    }


@lru_cache(maxsize=4)
def _common(catalogue: Catalogue) -> frozenset[str]:
    """The names of arguments that do not characterize an algorithm, because many algorithms have them."""
    algorithms = catalogue.algorithms.values()
    counts = Counter(argument.name for algorithm in algorithms for argument in algorithm.arguments)
    return frozenset(name for name, count in counts.items() if count > max(8, len(algorithms) // 8))


def plain_words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def words(text: str) -> list[str]:
    """The searched words of a text, in order, with normalized spelling and without stop words."""
    return [_spelled(word) for word in plain_words(text) if not _is_stop(word)]


@lru_cache(maxsize=4096)
def _spelled(word: str) -> str:
    """The word as the index spells it: American, and without other spellings and abbreviations."""
    vocabulary = read("vocabulary.toml")
    for british, american in vocabulary["british"].items():
        word = word.replace(british, american)
    word = _ISE.sub(r"iz\1", word) if len(word) >= _LONG else word
    return str(vocabulary["spelling"].get(word, word))


def _is_stop(word: str) -> bool:
    """True for a stop word and for a number, unless the number is one that names work, such as 8 (bits)."""
    return word in _listed("words") or (word.isdigit() and word not in _listed("numbers"))


@lru_cache(maxsize=2)
def _listed(name: str) -> frozenset[str]:
    return frozenset(read("vocabulary.toml")["stop"][name].split())
