"""Texts that a regular expression nearly accepts: texts that pass, with long repeats and an error at one place.

Each repeat in the expression chooses its count once, so an ambiguous expression is always ambiguous: that is what
makes a match that fails take forever.
"""

import functools
import random
import re
from collections.abc import Callable, Mapping
from re import _constants as c
from re import _parser
from typing import Any, Final

MOST: Final = 3000  # letters
_LIKED: Final = "1aA0. ,_-/=("  # letters of a set that other sets usually contain too
_CATEGORIES: Final[Mapping[Any, str]] = {
    c.CATEGORY_DIGIT: "1", c.CATEGORY_NOT_DIGIT: "a", c.CATEGORY_SPACE: " ", c.CATEGORY_NOT_SPACE: "a",
    c.CATEGORY_WORD: "a", c.CATEGORY_NOT_WORD: "-",
}  # fmt: skip


class Maker:
    """Writes texts for one expression; the same seed writes the same text."""

    def __init__(self, pattern: re.Pattern[Any], seed: str) -> None:
        self._tree = _parsed(pattern)
        self._random = random.Random(seed)
        self._counts: dict[int, int] = {}
        self._groups: dict[int, str] = {}
        self._text: list[str] = []
        self._length = 0

    def text(self) -> str:
        self._sequence(self._tree)
        complete = "".join(self._text)[:MOST]
        at = self._random.choice((len(complete), len(complete), self._random.randint(0, len(complete))))
        end = self._random.choice(("", "!", "\0", "x", "=", "\n", '"'))
        return complete[:at] + end + (complete[at:] if self._random.random() < 0.5 else "")

    def _write(self, letters: str) -> None:
        if self._length < MOST:
            self._text.append(letters)
            self._length += len(letters)

    def _sequence(self, nodes: Any) -> None:
        for operation, argument in nodes:
            writer = _WRITERS.get(operation)
            if writer is not None:  # lookarounds write nothing
                writer(self, argument)

    def _literal(self, code: int) -> None:
        self._write(chr(code))

    def _not(self, code: int) -> None:
        self._write("a" if code != ord("a") else "b")

    def _any(self, _: None) -> None:
        self._write("a")

    def _in(self, items: Any) -> None:
        fitting = _fitting(repr(items), items)
        self._write(fitting[0] if self._random.random() < 0.6 else self._random.choice(fitting))

    def _branch(self, argument: Any) -> None:
        self._sequence(self._random.choice(argument[1]))

    def _group(self, argument: Any) -> None:
        before = len(self._text)
        self._sequence(argument[3])
        if argument[0] is not None:
            self._groups[argument[0]] = "".join(self._text[before:])

    def _again(self, number: int) -> None:
        self._write(self._groups.get(number, ""))

    def _repeat(self, argument: Any) -> None:
        least, most, inner = argument
        count = self._counts.setdefault(id(inner), self._count(int(least), int(most)))
        for _ in range(count):
            self._sequence(inner)
            if self._length >= MOST:
                return

    def _count(self, least: int, most: int) -> int:
        wanted = self._random.choice((least, least + 1, 8, 20, 40, MOST))
        return max(least, min(most, wanted))


@functools.cache
def _parsed(pattern: re.Pattern[Any]) -> Any:
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    return _parser.parse(source, pattern.flags & ~re.DEBUG)


_KNOWN: Final[dict[str, str]] = {}


def _fitting(key: str, items: Any) -> str:
    """Some letters of a set, beginning with those that other sets usually contain too."""
    if key not in _KNOWN:
        negated = items[0][0] is c.NEGATE
        pattern = re.compile(f"[{'^' if negated else ''}{''.join(map(_written, items[negated:]))}]")
        own = "".join(chr(value) for kind, value in items if kind is c.LITERAL)
        _KNOWN[key] = "".join(letter for letter in f"{_LIKED}zé€#[{own}" if pattern.match(letter)) or "1"
    return _KNOWN[key]


def _written(item: Any) -> str:
    kind, value = item
    if kind is c.LITERAL:
        return re.escape(chr(value))
    if kind is c.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    return {"1": r"\d", " ": r"\s", "-": r"\W"}.get(_CATEGORIES[value], r"\w")


_WRITERS: Final[Mapping[Any, Callable[[Maker, Any], None]]] = {
    c.LITERAL: Maker._literal, c.NOT_LITERAL: Maker._not, c.ANY: Maker._any, c.IN: Maker._in,
    c.BRANCH: Maker._branch, c.SUBPATTERN: Maker._group, c.GROUPREF: Maker._again,
    c.MAX_REPEAT: Maker._repeat, c.MIN_REPEAT: Maker._repeat, c.POSSESSIVE_REPEAT: Maker._repeat,
    c.ATOMIC_GROUP: Maker._sequence,
}  # fmt: skip
