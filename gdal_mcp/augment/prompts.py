"""What a prompt asks for, as a pipeline of transforms: rules and a lexicon, the same answer each time. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Step:
    """One transform, with exactly the constructor's arguments as JSON (lists for tuples)."""

    name: str
    parameters: Mapping[str, Any]
    probability: float = 1.0
    confidence: float = 1.0
    text: str = ""  # the words it came from
    group: int | None = (
        None  # steps with the same number are one act (a quarter turn): drawn together, with `probability`
    )


@dataclass(frozen=True)
class Problem:
    message: str
    severity: Literal["warning", "error"]
    suggestion: str


@dataclass(frozen=True)
class Ambiguity:
    text: str
    interpretations: tuple[str, ...]


@dataclass(frozen=True)
class Parsed:
    """Steps in the order in which they run, and all that was not taken at its word."""

    steps: tuple[Step, ...] = ()
    errors: tuple[Problem, ...] = ()
    suggestions: tuple[str, ...] = ()
    ambiguities: tuple[Ambiguity, ...] = ()
    preset: str | None = None


def parse(prompt: str) -> Parsed:
    """Nothing is understood so far but the interface."""
    return Parsed(errors=(Problem(f"{prompt!r} was not understood", "error", "name a transform"),))
