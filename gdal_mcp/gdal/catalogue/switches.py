"""Reads a list of GDAL switches, as a command line would hold them, into arguments and their texts. Pure.

The grammar is GDAL's own without what makes it ambiguous: `--name=value`, `--name value`, `--flag`, `--flag=true`,
`-x value`, `-x`. A text in the place of a value that begins like a switch is refused, not guessed at.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from gdal_mcp.gdal.catalogue.errors import ArgumentRefused, UnknownArgument
from gdal_mcp.gdal.catalogue.model import Algorithm, Argument

MAX_SWITCHES: Final = 256
# of one argument, however it is written; each file among them is looked up, some 50 microseconds
MAX_VALUES: Final = 1024
ELEMENT_BYTES: Final = 64 << 10  # the kernel takes 128 KiB for one word of a command line

_NUMBER_LIKE: Final = re.compile(r"-[0-9.].*")
_NUMERIC: Final = frozenset(("integer", "real"))


@dataclass(frozen=True, slots=True)
class GivenArgument:
    argument: Argument
    values: tuple[str, ...]


def read_switches(algorithm: Algorithm, switches: Sequence[str]) -> tuple[GivenArgument, ...]:
    """The arguments in the order of their first mention. Raises ArgumentRefused, UnknownArgument."""
    if len(switches) > MAX_SWITCHES:
        raise ArgumentRefused(f"there are more than {MAX_SWITCHES} extra arguments.", "Send fewer.")
    for text in switches:
        if "\0" in text or len(text.encode("utf-8", "surrogatepass")) > ELEMENT_BYTES:
            raise ArgumentRefused(
                "an extra argument is too long or holds a NUL.", f"The most is {ELEMENT_BYTES} bytes."
            )
    return collected(_pairs(algorithm, switches))


def collected(pairs: Iterable[tuple[Argument, str]]) -> tuple[GivenArgument, ...]:
    """Texts with their arguments, by argument. Raises ArgumentRefused."""
    found: dict[str, tuple[Argument, list[str]]] = {}
    for argument, text in pairs:
        if argument.name in found and not (argument.is_list and argument.repeatable):
            raise ArgumentRefused(f"--{argument.name} is given twice.", "Give it once.")
        values = found.setdefault(argument.name, (argument, []))[1]
        packed = argument.is_list and argument.packed and argument.element_type != "dataset"
        values += split_packed(argument, text) if packed else [text]
        if len(values) > MAX_VALUES:
            raise ArgumentRefused(f"--{argument.name} has too many values.", f"The most are {MAX_VALUES}.")
    return tuple(GivenArgument(argument, tuple(values)) for argument, values in found.values())


def argument_named(algorithm: Algorithm, name: str) -> Argument:
    """The argument of a canonical name or an alias. Raises UnknownArgument."""
    argument = algorithm.long_names.get(name)
    if argument is None:
        near = get_close_matches(
            name, [one for one in algorithm.long_names if not algorithm.long_names[one].hidden], 1
        )
        hint = (
            f"Did you mean --{near[0]}?" if near else f"gdal_describe `{algorithm.path}` lists its arguments."
        )
        raise UnknownArgument(f"gdal {algorithm.path} has no argument --{name[:64]}.", hint)
    return argument


def _pairs(algorithm: Algorithm, switches: Sequence[str]) -> Iterator[tuple[Argument, str]]:
    rest = iter(switches)
    for switch in rest:
        argument, text = read_switch(algorithm, switch)
        if text is None and argument.type == "boolean":
            text = "true"
        if text is None:
            text = next(rest, None)
            if text is None or (text.startswith("-") and not _NUMBER_LIKE.fullmatch(text)):
                raise ArgumentRefused(
                    f"--{argument.name} has no value.", f"Write --{argument.name}=value in one element."
                )
        yield argument, text


def read_switch(algorithm: Algorithm, switch: str) -> tuple[Argument, str | None]:
    """The argument of one element, and its text if it stands in the same element."""
    if switch.startswith("--") and len(switch) > 2:
        name, sign, text = switch[2:].partition("=")
        return argument_named(algorithm, name), text if sign else None
    if switch.startswith("-") and len(switch) == 2 and switch != "--":
        argument = algorithm.short_names.get(switch[1])
        if argument is None:
            raise UnknownArgument(f"gdal {algorithm.path} has no argument {switch}.", "Use the long name.")
        return argument, None
    raise ArgumentRefused(
        f"{switch[:64]!r} is not a switch.",
        "Write --name=value; what the tool or step names itself is not named again.",
    )


def split_packed(argument: Argument, text: str) -> list[str]:
    """The single values in a text. GDAL splits at commas where the argument packs several into one. Raises ArgumentRefused."""
    if '"' in text:
        raise ArgumentRefused(
            f"--{argument.name} holds a quote.", "Give the values one by one instead of quoting."
        )
    parts = text.split(",")
    return [part.strip() for part in parts] if argument.element_type in _NUMERIC else parts
