"""GDAL's own notation of pipelines, `read dem.tif ! hillshade ! write shade.tif`, read exactly or not at all. Pure.

Words are separated by blanks; double quotes hold blanks together, and a backslash before a quote or a backslash within them
stands for that character; `!`, `[` and `]` are words of their own. Nothing is expanded. Nested pipelines are those of `tee`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.catalogue.model import Algorithm, Argument
from gdal_mcp.gdal.catalogue.switches import MAX_VALUES, argument_named

MAX_LETTERS: Final = 32 << 10
MAX_DEPTH: Final = 4
_SIGNS: Final = ("!", "[", "]")


@dataclass(frozen=True, slots=True)
class Words:
    """The words behind the name of a step."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParsedStep:
    name: str
    words: Words
    branches: tuple[tuple["ParsedStep", ...], ...] = ()


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    quoted: bool = False

    @property
    def sign(self) -> str:
        return self.text if not self.quoted and self.text in _SIGNS else ""


@dataclass(slots=True)
class _Reader:
    tokens: list[_Token]
    position: int = 0
    depth: int = field(default=0)

    def peek(self) -> _Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def take(self) -> _Token | None:
        token = self.peek()
        self.position += 1
        return token


def parse_notation(text: str) -> tuple[ParsedStep, ...]:
    """The steps of a pipeline. Raises ArgumentRefused for a text that is not one exactly."""
    if len(text) > MAX_LETTERS:
        raise ArgumentRefused(f"the pipeline is longer than {MAX_LETTERS} letters.", "Split it.")
    reader = _Reader(_tokens(text))
    steps = _steps(reader)
    if reader.peek() is not None:
        raise ArgumentRefused("the pipeline closes a bracket that it did not open.", "Balance [ and ].")
    return steps


def named_values(algorithm: Algorithm, words: Words) -> Mapping[str, tuple[str, ...]]:
    """The values by argument: switches by their names, the other words by their places, as GDAL reads them."""
    values: dict[str, list[str]] = {}
    loose: list[str] = []
    pending = iter(words.texts)
    for word in pending:
        if not word.startswith("-") or _is_number(word):
            loose.append(word)
            continue
        argument, text = _switch(algorithm, word)
        if text is None and argument.type != "boolean":
            text = next(pending, None)
            if text is None:
                raise ArgumentRefused(f"{word[:60]} has no value.", f"Write {word[:60]}=VALUE.")
        _add(values, argument, "true" if text is None else text)
    for argument, texts in _placed(algorithm, loose, values):
        for text in texts:
            _add(values, argument, text)
    many = next((name for name, texts in values.items() if len(texts) > MAX_VALUES), None)
    if many is not None:
        raise ArgumentRefused(f"--{many} has too many values.", f"The most are {MAX_VALUES}.")
    return {name: tuple(texts) for name, texts in values.items()}


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    letters: list[str] = []
    inside = quoted = started = False
    escaped = False
    for letter in text:
        if inside and escaped:
            letters.append(letter if letter in '"\\' else f"\\{letter}")
            escaped = False
        elif inside and letter == "\\":
            escaped = True
        elif letter == '"':
            inside = not inside
            quoted = started = True
        elif letter in " \t\n" and not inside:
            if started:
                tokens.append(_Token("".join(letters), quoted))
            letters, quoted, started = [], False, False
        else:
            letters.append(letter)
            started = True
    if inside:
        raise ArgumentRefused("a quote in the pipeline is not closed.", 'Close every " in it.')
    if started:
        tokens.append(_Token("".join(letters), quoted))
    return tokens


def _steps(reader: _Reader) -> tuple[ParsedStep, ...]:
    steps = [_step(reader)]
    while (token := reader.peek()) is not None and token.sign == "!":
        reader.take()
        steps.append(_step(reader))
    return tuple(steps)


def _step(reader: _Reader) -> ParsedStep:
    name = reader.take()
    if name is None or name.sign or name.quoted or name.text.startswith("-"):
        raise ArgumentRefused(
            "a step of the pipeline has no name.", "Write `read in.tif ! STEP ... ! write out.tif`."
        )
    words: list[str] = []
    branches: list[tuple[ParsedStep, ...]] = []
    while (token := reader.peek()) is not None and token.sign not in ("!", "]"):
        reader.take()
        if token.sign == "[":
            branches.append(_branch(reader))
        else:
            words.append(token.text)
    return ParsedStep(name.text, Words(tuple(words)), tuple(branches))


def _branch(reader: _Reader) -> tuple[ParsedStep, ...]:
    if reader.depth == MAX_DEPTH:
        raise ArgumentRefused("the pipeline is nested too deeply.", f"Nest at most {MAX_DEPTH} times.")
    reader.depth += 1
    steps = _steps(reader)
    reader.depth -= 1
    closing = reader.take()
    if closing is None or closing.sign != "]":
        raise ArgumentRefused("a bracket in the pipeline is not closed.", "Balance [ and ].")
    return steps


def _is_number(word: str) -> bool:
    return len(word) > 1 and (word[1].isdecimal() or word[1] == ".")


def _switch(algorithm: Algorithm, word: str) -> tuple[Argument, str | None]:
    if word.startswith("--") and len(word) > 2:
        name, sign, text = word[2:].partition("=")
        return argument_named(algorithm, name), text if sign else None
    if len(word) == 2 and word[1] in algorithm.short_names:
        return algorithm.short_names[word[1]], None
    raise ArgumentRefused(f"{word[:60]!r} is no switch of the step {algorithm.path}.", "Write --name=value.")


def _add(values: dict[str, list[str]], argument: Argument, text: str) -> None:
    given = values.setdefault(argument.name, [])
    if given and not (argument.is_list and argument.repeatable):
        raise ArgumentRefused(f"--{argument.name} is given twice.", "Give it once.")
    packs = argument.is_list and argument.packed and argument.element_type != "dataset"
    if packs and '"' in text:
        raise ArgumentRefused(f"--{argument.name} holds a quote.", "Repeat the switch instead of quoting.")
    given.extend(part.strip() for part in text.split(",")) if packs else given.append(text)


def _placed(
    algorithm: Algorithm, loose: list[str], values: Mapping[str, list[str]]
) -> list[tuple[Argument, list[str]]]:
    """Words without a switch go to the positional arguments that were not named, in order; a list takes all that are left."""
    free = [one for one in algorithm.arguments if one.positional and one.name not in values]
    placed: list[tuple[Argument, list[str]]] = []
    rest = list(loose)
    for number, argument in enumerate(free):
        if not rest:
            break
        after = len(free) - number - 1
        count = max(1, len(rest) - after) if argument.is_list else 1
        placed.append((argument, rest[:count]))
        rest = rest[count:]
    if rest:
        raise ArgumentRefused(
            f"{rest[0][:60]!r} belongs to no argument of the step {algorithm.path}.", "Write --name=value."
        )
    return placed
