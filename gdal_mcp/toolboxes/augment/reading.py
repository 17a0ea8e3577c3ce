"""Splits a prompt into clauses, each with its numbers and modifiers. Pure.

The text is read once from left to right. A clause has at most one concept (an action); it ends at "and", a comma, "then" and
the like, or where the next concept begins. Modifiers before a concept belong to it, numbers after it as well; a clause without a
concept goes to the one before it.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from gdal_mcp.toolboxes.augment.lexicon import LEXICON, Concept, Meaning, PromptToken, tokens
from gdal_mcp.toolboxes.augment.transforms import TRANSFORMS

Form = Literal["exact", "range", "most", "least", "around", "size", "box"]
_CALL: Final = re.compile(r"([A-Za-z][A-Za-z0-9_]*)[ ]?\(")
_NAMES: Final = {name.lower(): name for name in TRANSFORMS}


@dataclass(frozen=True)
class Quantity:
    """One or two numbers, as in the prompt: "up to 10 degrees" is (10, 10, most, deg)."""

    low: float
    high: float
    form: Form = "exact"
    unit: str = ""  # one of % deg px x bit k rad m
    link: str = ""  # "to", if the number is a target value
    argument: tuple[str, ...] = ()  # the arguments that may be meant, as in "sigma 2"
    rest: tuple[float, float] = (0, 0)  # the right and lower side of a box


@dataclass(frozen=True)
class Item:
    kind: str
    value: Any
    start: int
    end: int


@dataclass
class Clause:
    """A group of related words. `items` are in the order of the prompt."""

    join: str  # the word before the clause: and, then, or, after, before
    items: list[Item] = field(default_factory=list)
    negated: bool = False

    def values(self, kind: str) -> list[Any]:
        return [item.value for item in self.items if item.kind == kind]

    def value(self, kind: str) -> Any:
        """The last value of this kind in the prompt, or None."""
        return next(reversed(self.values(kind)), None)

    @property
    def concept(self) -> Concept | None:
        return self.value("concept")  # type: ignore[no-any-return]

    @property
    def level(self) -> int | None:
        """The degree: 0 weak, 1 medium, 2 strong; None without one."""
        return min(map(("weak", "medium", "strong").index, self.values("level")), default=None)

    @property
    def quantities(self) -> list[Quantity]:
        return [quantity for quantity in self.values("quantity") if "p" not in quantity.argument]

    @property
    def probability(self) -> float | None:
        for quantity in self.values("quantity"):
            if "p" in quantity.argument:
                return float(
                    quantity.high / 100 if quantity.unit == "%" or quantity.high > 1 else quantity.high
                )
        chance = self.value("chance")
        return None if chance is None else float(chance) / 100


def calls(prompt: str) -> tuple[list[Item], str]:
    """`GaussianBlur(blur_limit=5)` as items (name, arguments or None), and the prompt with spaces in their place."""
    called: list[Item] = []
    place = 0
    while (match := _CALL.search(prompt, place)) is not None:
        place = match.end()
        name = _NAMES.get(match[1].lower().replace("_", ""))
        if name is None:
            continue
        end = _closing(prompt, match.end())
        if end is None:
            break
        called.append(Item("call", (name, _arguments(prompt[match.end() : end - 1])), match.start(), end))
        prompt = prompt[: match.start()] + " " * (end - match.start()) + prompt[end:]
        place = end
    return called, prompt


def _closing(text: str, place: int) -> int | None:
    depth = 1
    for end in range(place, len(text)):
        depth += (text[end] == "(") - (text[end] == ")")
        if depth == 0:
            return end + 1
    return None


def _arguments(text: str) -> Mapping[str, Any] | None:
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        if (
            not isinstance(call, ast.Call)
            or call.args
            or any(keyword.arg is None for keyword in call.keywords)
        ):
            return None
        values = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        arguments: Mapping[str, Any] = json.loads(json.dumps(values, allow_nan=False))  # tuples become lists
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    return arguments


def items(prompt: str) -> list[Item]:
    called, rest = calls(prompt)
    words = list(_words(rest))
    result: list[Item] = []
    place = 0
    while place < len(words):
        start = words[place].start
        meaning, length = LEXICON.match(words, place) or (Meaning("unknown", words[place].text), 1)
        number = None
        if length == 1 or meaning.kind in ("argument", "link"):  # "half of the time" is not a half
            number = _quantity(words, place)
        if number is not None:
            quantity, place = number
            result.append(Item("quantity", quantity, start, words[place - 1].end))
            continue
        used = words[place : place + length]
        place += length
        result.append(Item(meaning.kind, meaning.value, start, used[-1].end))
        result += [Item("typo", (word.typo, word.text), word.start, word.end) for word in used if word.typo]
    return sorted([*_named(result), *called], key=lambda item: item.start)


def _words(text: str) -> Iterator[PromptToken]:
    for token in tokens(text, LEXICON.spelling):
        if token.number is not None:
            yield token
            continue
        word = LEXICON.known(token.text)
        if word is None and (near := LEXICON.near(token.text)) is not None:
            yield replace(token, text=near, typo=token.text)
        elif word is None and not token.text[0].isalpha():
            continue  # a mark that means nothing here
        elif (word or token.text) not in LEXICON.fillers:
            yield replace(token, text=word or token.text)


def _number(words: Sequence[PromptToken], place: int) -> tuple[float, str, int] | None:
    """A value, the unit implied by the word ("half" is 50 %), and the position after it."""
    sign = 1
    if place + 1 < len(words) and words[place].text in ("minus", "negative", "-"):
        sign, place = -1, place + 1
    if place >= len(words):
        return None
    if words[place].text in ("x", "factor"):  # "x2", "by a factor of 2"
        after = place + 1 + (words[place + 1 : place + 2] != [] and words[place + 1].text == "of")
        times = words[after].number if after < len(words) else None
        return None if times is None else (times, "x", after + 1)
    share = LEXICON.beside("share", words, place)
    if share is not None:
        value, unit = share[0].split()
        return float(value) / (100 if unit == "x" else 1), unit, place + share[1]
    total, after = words[place].number, place + 1
    if total is None:
        written = LEXICON.beside("number", words, place)
        if written is None:
            return None
        total, after = float(written[0]), place + written[1]
        following = LEXICON.beside("number", words, after)
        if following is not None and total >= 20 and float(following[0]) < 10:  # twenty five
            total, after = total + float(following[0]), after + 1
        elif following is not None and following[0] == "100":  # two hundred
            total, after = total * 100, after + 1
    elif after + 1 < len(words) and words[after].text == "/" and words[after + 1].number:
        total, after = total / (words[after + 1].number or 1), after + 2
    return sign * total, "", after


def _unit(words: Sequence[PromptToken], place: int) -> tuple[str, int]:
    match = LEXICON.beside("unit", words, place)
    if match is None or (match[0] == "x" and place + 1 < len(words) and words[place + 1].number is not None):
        return "", place  # in "512x512" the x is not a unit
    return match[0], place + match[1]


def _quantity(words: Sequence[PromptToken], place: int) -> tuple[Quantity, int] | None:
    bound = LEXICON.beside("bound", words, place)
    form: Any = bound[0] if bound else "exact"
    place += bound[1] if bound else 0
    first = _number(words, place)
    if first is None or (box := _box(words, place)) is not None:
        return box if first else None
    low, unit, after = first
    if unit == "":
        unit, after = _unit(words, after)
    joined, second = _second(words, after, between=form == "between")
    if second is None:
        return None if form == "between" else (Quantity(low, low, form, unit), after)
    high, own, after = second
    second_unit, after = (own, after) if own else _unit(words, after)
    if joined == "size":
        return Quantity(low, high, "size", second_unit), after
    return Quantity(min(low, high), max(low, high), "range", second_unit or unit), after


def _second(
    words: Sequence[PromptToken], place: int, *, between: bool
) -> tuple[str, tuple[float, str, int] | None]:
    """How a number is joined to the next one, and the next number.

    "x 512" and "by 512" join to a size, "to 10" and "- 10" to a range.
    """
    marks = [word.text for word in words[place : place + 2]]
    joined = "size" if marks[:1] in (["x"], ["by"]) else ""
    if marks[:1] in (["to"], ["-"]) or marks == [".", "."] or (between and marks[:1] in (["and"], [","])):
        joined = "range"
    number = _number(words, place + (2 if marks == [".", "."] else 1)) if joined else None
    if number is None or (joined == "size" and (number[1] or _unit(words, number[2])[0] not in ("", "px"))):
        return "", None
    return joined, number


def _box(words: Sequence[PromptToken], place: int) -> tuple[Quantity, int] | None:
    """A box, as in "10, 20 to 200, 220": its upper left and lower right corners."""
    used = words[place : place + 7]
    marks = [word.text for word in used[1::2]]
    numbers = [word.number for word in used[::2] if word.number is not None]
    if len(numbers) != 4 or marks not in ([",", "to", ","], [",", "-", ","]):
        return None
    left, top, right, bottom = numbers
    return Quantity(left, top, "box", rest=(right, bottom)), place + 7


def _named(sequence: Sequence[Item]) -> Iterator[Item]:
    """The items; each number includes the word of an argument before or after it, and "to" before it."""
    taken: set[int] = set()
    for place, item in enumerate(sequence):
        if item.kind != "quantity":
            yield item
            continue
        before = _past(sequence, place - 1, -1)
        after = _past(sequence, place + 1, 1)
        # True if the next word stands before another number, to which it belongs
        own = after is not None and _is(sequence, _past(sequence, after + 1, 1), "quantity")
        wanted = [
            position for position in (before, None if own else after) if _is(sequence, position, "argument")
        ]
        name = next((position for position in wanted if position not in taken), None)
        link = sequence[place - 1].value if _is(sequence, place - 1, "link") else ""
        argument = tuple(sequence[name].value.split()) if name is not None else ()
        taken |= {name} if name is not None else set()
        yield replace(item, value=replace(item.value, link=link, argument=argument))


def _past(sequence: Sequence[Item], place: int, way: int) -> int | None:
    """The next place in this direction that is not a link; None if there is none."""
    while 0 <= place < len(sequence) and sequence[place].kind == "link":
        place += way
    return place if 0 <= place < len(sequence) else None


def _is(sequence: Sequence[Item], place: int | None, kind: str) -> bool:
    return place is not None and place >= 0 and sequence[place].kind == kind


_THINGS: Final = ("concept", "call", "preset", "absent")  # "denoise with a median blur" is one action
_NOUNS: Final = (
    "blur",
    "noise",
    "weather",
    "dropout",
)  # categories whose words are things rather than actions
# kinds of items that say how an action is done
_WAYS: Final = {"axis", "side", "spin", "quantity", "level", "link", "typo"}
_FORWARD: Final = ("level", "sign", "random", "not", "chance", "axis")


def clauses(items: Sequence[Item]) -> list[Clause]:
    """Groups items by action, in the order of execution."""
    parts = [Clause("then")]
    for item in items:
        if item.kind == "join":
            parts.append(Clause(item.value))
        elif item.kind in _THINGS and any(parts[-1].values(kind) for kind in _THINGS[:-1]):
            current = parts[-1].items
            last = next((thing for thing in reversed(current) if thing.kind in _THINGS), item)
            if last.kind == item.kind == "concept":
                if last.value is item.value:  # "cutout with 8 holes" is one action
                    continue
                # "scale the longest side" is one action too
                if last.value.yields and not parts[-1].quantities:
                    current[current.index(last)] = item
                    continue
            keep = len(current)
            while current[keep - 1].kind in (*_FORWARD, "link", "typo"):
                keep -= 1
            parts.append(Clause("and", [*current[keep:], item]))
            del current[keep:]
        else:
            parts[-1].items.append(item)
    return _ordered(
        _with_content([clause for clause in parts if clause.items or clause.join in ("before", "after")])
    )


def _with_content(parts: Sequence[Clause]) -> list[Clause]:
    """Merges clauses without an action into the previous one or, without one, into the next."""
    result: list[Clause] = []
    waiting: list[Item] = []
    for clause in parts:
        first = clause.join in ("before", "after") and not result
        if first or any(clause.values(kind) for kind in (*_THINGS, "vague")):
            result.append(clause)
            if clause.join == "or" and waiting and clause.concept:  # "horizontal or vertical flip"
                result.append(_another(clause, waiting))
            else:
                clause.items[:0] = waiting
            waiting = []
        elif result and clause.join != "or":
            result[-1].items += clause.items
        elif result and result[-1].concept and {item.kind for item in clause.items} <= _WAYS:
            result.append(_another(result[-1], clause.items))  # "flip horizontally or vertically"
        else:
            waiting += clause.items
    result = result or [Clause("then")]
    result[-1].items += waiting
    return _negations([clause for clause in result if clause.items])


def _another(clause: Clause, ways: Sequence[Item]) -> Clause:
    """The action of a clause with other modifiers."""
    return Clause("or", [next(item for item in clause.items if item.kind == "concept"), *ways])


def _negations(parts: list[Clause]) -> list[Clause]:
    """Marks the clauses that "no" or "not" negates, with the list after it, as in "without blur or noise"."""
    before, plain = Clause("then"), {"concept", "link", "typo"}
    for clause in parts:
        # "do not blur or add noise", but not "no blur and add noise"
        kinds = {item.kind for item in clause.items if item.kind != "sign" or clause.join != "or"}
        bare = clause.concept is not None and kinds <= plain
        category = TRANSFORMS[clause.concept.transform].category if clause.concept else ""
        listed = clause.join == "or" or (clause.join == "and" and category in _NOUNS)
        clause.negated = clause.value("not") is not None or (before.negated and bare and listed)
        before = clause
    return parts


def _ordered(parts: list[Clause]) -> list[Clause]:
    """Puts clauses into the order that "B after A" and "before B, A" ask for: A first."""
    result: list[Clause] = []
    waiting: Clause | None = None
    for clause in parts:
        if clause.join == "after" and result:
            result.insert(len(result) - 1, clause)
        elif clause.join == "before" and not result:
            waiting = clause
            continue
        else:
            result.append(clause)
        if waiting is not None:
            result.append(waiting)
            waiting = None
    return [*result, *([waiting] if waiting else [])]
