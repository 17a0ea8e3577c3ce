"""Parses a client's arguments, JSON values or command-line words, into arguments and their texts. Pure.

Words follow GDAL's grammar without its ambiguities: `--name=value`, `--name value`, `--flag`, `--flag=true`, `-x
value`, `-x`, and bare values for positional arguments. A word that begins like a switch is refused in the place of a
value. JSON values are accepted as `schema` describes them, and also if they can have only one meaning: a list of one
for a single value, a text for a number or a boolean, numbers for a text, and rows of numbers where GDAL separates
values by commas.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused, UnknownArgument
from gdal_mcp.toolboxes.gdal.catalogue.model import PATH_ROLES, Algorithm, Argument, Role

# values of one argument, in any notation; looking up a file takes about 50 microseconds
MAX_VALUES: Final = 1024
ELEMENT_BYTES: Final = 64 << 10  # bytes; the kernel allows 128 KiB for one command-line argument

MAX_BYTES: Final = 512 << 10  # bytes of all texts of one argument

# Checks of KEY=VALUE texts, which a client may pass as an object.
KEYED: Final = frozenset(
    "array-option creation-option layer-option metadata open-option output-open-option pixel-function-argument"
    " transform-option warp-option".split()
)
# Checks of texts that are often numbers.
NUMERIC: Final = frozenset("band by-band level nodata percentage point-count size threads".split())

_SWITCH: Final = re.compile(r"-(?![0-9.])")  # a negative number is a value


@dataclass(frozen=True, slots=True)
class ArgumentTexts:
    """An argument with its texts: as the client wrote them, then checked, then (for a path) resolved."""

    argument: Argument
    values: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.argument.name

    @property
    def role(self) -> Role:
        return self.argument.role


# arguments of other algorithms that are often given, with the algorithm that has them
_ARGUMENTS_OF_OTHERS: Final = {
    **dict.fromkeys(
        ("output-data-type", "ot", "data-type", "dtype"), "`raster set-type` changes the data type."
    ),
    **dict.fromkeys(
        ("output-crs", "dst-crs", "t_srs", "t-srs", "crs", "a_srs", "a-srs"),
        "`reproject` transforms to another CRS, and `edit` declares one (raster and vector).",
    ),
}


def read_words(algorithm: Algorithm, words: Sequence[str]) -> tuple[ArgumentTexts, ...]:
    """The arguments in command-line words, as GDAL parses them: switches by name, other words by position.

    Raises ArgumentRefused, UnknownArgument.
    """
    collected: dict[str, tuple[Argument, list[str]]] = {}
    for argument, text in _pairs(algorithm, words):
        if argument.name in collected and not (argument.is_list and argument.repeatable):
            raise ArgumentRefused(f"--{argument.name} is given twice.", "Give it once.")
        values = collected.setdefault(argument.name, (argument, []))[1]
        packed = argument.is_list and argument.packed and argument.element_type != "dataset"
        values += split_packed(argument, text) if packed else [text]
    return tuple(ArgumentTexts(argument, tuple(values)) for argument, values in collected.values())


def find_argument(algorithm: Algorithm, name: str) -> Argument:
    """The argument with this canonical name or alias. Raises UnknownArgument, also for hidden arguments."""
    argument = algorithm.long_names.get(name)
    if argument is None or argument.hidden:
        shown = [long_name for long_name, candidate in algorithm.long_names.items() if not candidate.hidden]
        # `layer` for `input-layer`, or a typing error; less similar names mean something else
        near = [long_name for long_name in shown if name in long_name.split("-")][:3]
        if not near and name not in _ARGUMENTS_OF_OTHERS:
            near = get_close_matches(name, shown, 1, 0.75)
        meant = " or ".join(f"--{long_name}" for long_name in near)
        hint = f"Did you mean {meant}?" if near else f"gdal_describe `{algorithm.path}` lists its arguments."
        hint = f"{_ARGUMENTS_OF_OTHERS.get(name, '')} {hint}".strip()
        raise UnknownArgument(f"gdal {algorithm.path} has no argument --{name[:64]}.", hint)
    return argument


def _pairs(algorithm: Algorithm, words: Sequence[str]) -> Iterator[tuple[Argument, str]]:
    rest = iter(words)
    loose: list[str] = []
    named: set[str] = set()
    for word in rest:
        if not _SWITCH.match(word):
            loose.append(word)
            continue
        name, sign, text = word.removeprefix("-").removeprefix("-").partition("=")
        argument = find_argument(algorithm, name)
        if not sign:
            text = "true" if argument.type == "boolean" else next(rest, "-")
            if _SWITCH.match(text):
                raise ArgumentRefused(
                    f"--{argument.name} has no value.", f"Write --{argument.name}=value in one word."
                )
        named.add(argument.name)
        yield argument, text
    free = [
        argument for argument in algorithm.arguments if argument.positional and argument.name not in named
    ]
    for after, argument in zip(reversed(range(len(free))), free, strict=True):
        count = max(1, len(loose) - after) if argument.is_list else 1  # a list takes all remaining words
        yield from ((argument, text) for text in loose[:count])
        loose = loose[count:]
    if loose:
        raise ArgumentRefused(
            f"{loose[0][:60]!r} belongs to no argument of {algorithm.path}.", "Write --name=value."
        )


def split_packed(argument: Argument, text: str) -> list[str]:
    """The values in one text, split at commas as GDAL does for packed lists. Raises ArgumentRefused for a quote."""
    if '"' in text:
        raise ArgumentRefused(
            f"--{argument.name} holds a quote.", "Give the values one by one instead of quoting."
        )
    parts = text.split(",")
    return [part.strip() for part in parts] if argument.element_type in ("integer", "real") else parts


def value_texts(argument: Argument, value: Any) -> tuple[str, ...]:
    """The texts of an argument's value; empty if the value is the same as omitting it. Raises ArgumentRefused."""
    if value is None or (value is False and argument.usage.get("default") is not True):
        return ()
    if isinstance(value, Mapping):
        keyed = argument.rule.check in KEYED or argument.rule.form == "named"
        if not keyed or not argument.is_list:
            raise ArgumentRefused(f"--{argument.name} is not an object.", "See its schema.")
        return tuple(_pair(argument, key, entry) for key, entry in value.items())
    values = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    if argument.rule.check == "kernel":
        values = _matrices(values)
    texts = [
        _text(argument, entry) for entry in (values if argument.is_list or len(values) == 1 else [values])
    ]
    if is_packed(argument) and (isinstance(value, str) or argument.element_type in ("integer", "real")):
        return tuple(part for text in texts for part in split_packed(argument, text))
    if argument.rule.check in KEYED and len(texts) == 1:  # GDAL splits A=B,C=D too
        pairs = texts[0].split(",")
        return tuple(pairs if all("=" in pair for pair in pairs) else texts)
    return tuple(texts)


def _matrices(values: Sequence[Any]) -> list[Any]:
    """Kernels as texts. A list of rows is one kernel; a list of such lists is several kernels."""
    is_one = all(
        isinstance(row, list) and not any(isinstance(number, list) for number in row) for row in values
    )
    return [
        matrix if isinstance(matrix, str) else json.dumps(matrix)
        for matrix in ([values] if is_one else values)
    ]


def refuse_excess(texts: ArgumentTexts) -> None:
    """Raises ArgumentRefused if there are more or longer texts than a command line may have."""
    sizes = [len(text.encode("utf-8", "surrogatepass")) for text in texts.values]
    if len(sizes) > MAX_VALUES or sum(sizes) > MAX_BYTES:
        raise ArgumentRefused(f"--{texts.name} has too many values.", f"The most are {MAX_VALUES}.")
    if any("\0" in text for text in texts.values) or any(size > ELEMENT_BYTES for size in sizes):
        raise ArgumentRefused(
            f"a value of --{texts.name} is too long or holds a NUL.", f"The most is {ELEMENT_BYTES} bytes."
        )


def is_packed(argument: Argument) -> bool:
    """True if one text may hold several values, separated by commas."""
    return argument.is_list and argument.packed and argument.role not in PATH_ROLES


def _pair(argument: Argument, key: Any, value: Any) -> str:
    if not isinstance(key, str) or not key or "=" in key:
        raise ArgumentRefused(f"--{argument.name} has a key that is empty or holds =.", "Write KEY: value.")
    text = ("YES" if value else "NO") if isinstance(value, bool) else _text(argument, value)
    return f"{key}={text}"


def _text(argument: Argument, value: Any) -> str:
    """The text of a JSON value, with numbers as GDAL writes them. Raises ArgumentRefused for other types.

    Texts are checked later, like words, so "10" is as good as 10.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool) and argument.element_type == "boolean":
        return "true" if value else "false"
    numbers = value if isinstance(value, Sequence) else [value]
    plain = all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers)
    if not numbers or not plain or argument.role in PATH_ROLES:
        raise ArgumentRefused(f"--{argument.name} has a value of another type.", "See its schema.")
    return ",".join(number_text(number, f"--{argument.name}") for number in numbers)


def number_text(value: float, what: str = "the value") -> str:
    """The shortest text that reads back as the same finite number. Raises ArgumentRefused."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ArgumentRefused(f"{what} is a finite number.", "Leave it out where there is none.")
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if abs(value) >= 10**18:
        raise ArgumentRefused(f"{what} is out of range.", "Give a smaller number.")
    return repr(value)
