"""What can be found: algorithms and hand-picked tools, with the words under which they are searched. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from gdal_mcp.gdal.catalogue.model import Algorithm, Catalogue, Role
from gdal_mcp.gdal.discovery.effects import effects
from gdal_mcp.gdal.discovery.words import plain_words, stems, vocabulary

CORE: Final = "core"  # the toolset of hand-picked tools

Picked = tuple[str, str, str]  # name, title and description of a hand-picked tool


@dataclass(frozen=True, slots=True)
class Hit:
    """Something to call. `path` is the algorithm's for gdal_describe, empty for a tool that is no algorithm of its own."""

    path: str
    tool: str
    line: str
    why: tuple[str, ...]
    effect: Literal["reads", "may write", "writes"]
    score: float

    def as_dict(self) -> dict[str, object]:
        """As a client sees it."""
        named = {"algorithm": self.path} if self.path else {}
        return {
            **named,
            "tool": self.tool,
            "line": self.line,
            "why": "; ".join(self.why),
            "effect": self.effect,
        }


def tool_name(path: str) -> str:
    """The name of the direct tool of an algorithm."""
    return path.replace(" ", "_").replace("-", "_")


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that can be found. Fields are named as `search.WEIGHTS` weighs them; an absent one is empty."""

    hit: Hit
    toolset: str
    fields: Mapping[str, tuple[str, ...]]  # what is searched, as stems
    names: tuple[str, ...] = ()  # its name as plain words; a longer one also without the group
    factor: float = 1.0


def of_algorithm(catalogue: Catalogue, algorithm: Algorithm) -> Entry:
    usable = [one for one in algorithm.arguments if not one.hidden and one.role is not Role.FORBIDDEN]
    own = [one for one in usable if one.name not in _common(catalogue)]
    phrases = _phrases().get(algorithm.path, ())
    hit = Hit(
        algorithm.path,
        tool_name(algorithm.path),
        algorithm.description,
        (),
        _effect(algorithm),
        0.0,
    )
    fields = {
        "name": stems(algorithm.path),
        "called": stems(" ".join(phrases)),
        "help": stems(algorithm.description),
        "argument": stems(" ".join(one.name for one in own)),
        "choice": stems(" ".join(choice for one in own for choice in one.choices)),
        "argument help": stems(" ".join(one.description for one in own)),
    }
    factor = _quiet().get(algorithm.path, 1.0)
    first = algorithm.path.split(" ")[0]
    return Entry(hit, first, fields, _names(algorithm.path), factor)


def _names(path: str) -> tuple[str, ...]:
    words = plain_words(path)
    long = " ".join(words)
    return (long, " ".join(words[1:])) if len(words) > 2 else (long,)


def _effect(algorithm: Algorithm) -> Literal["reads", "may write", "writes"]:
    found = effects(algorithm)
    if found.creates == "always" or found.updates or found.removes:
        return "writes"
    return "may write" if found.writes else "reads"


def of_tool(tool: Picked) -> Entry:
    name, title, description = tool
    hit = Hit("", name, title, (), "reads", 0.0)
    fields = {
        "name": stems(name),
        "called": stems(title),
        "help": stems(description),
    }
    return Entry(hit, CORE, fields, (" ".join(plain_words(name)),))


@lru_cache(maxsize=4)
def _common(catalogue: Catalogue) -> frozenset[str]:
    """The arguments that say nothing of their algorithm, because many have them."""
    algorithms = catalogue.algorithms.values()
    counts = Counter(argument.name for one in algorithms for argument in one.arguments)
    return frozenset(name for name, count in counts.items() if count > max(8, len(algorithms) // 8))


@lru_cache(maxsize=1)
def _phrases() -> Mapping[str, tuple[str, ...]]:
    return {path: tuple(map(str, _list(lines))) for path, lines in vocabulary()["algorithms"].items()}


@lru_cache(maxsize=1)
def _quiet() -> Mapping[str, float]:
    return {path: float(str(factor)) for path, factor in vocabulary()["quiet"].items()}


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value
