"""JSON values of a call as the texts that GDAL's command line takes for them. Pure.

What is accepted is what `schema` says of an argument; a list of one is also taken where the schema wants the value alone.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.catalogue.model import PATH_ROLES, Argument
from gdal_mcp.gdal.catalogue.switches import ELEMENT_BYTES, MAX_VALUES, split_packed

MAX_BYTES: Final = 512 << 10  # of all texts of one argument

# Checks of KEY=VALUE texts, which a client may give as an object.
KEYED: Final = frozenset(
    "array-option creation-option layer-option metadata open-option output-open-option pixel-function-argument"
    " transform-option warp-option".split()
)
# Checks of texts that are often a number.
NUMERIC: Final = frozenset("band by-band level nodata percentage point-count size threads".split())


def texts_of(argument: Argument, value: Any) -> tuple[str, ...]:
    """The texts of one argument's value; none for what is the same as leaving it out. Raises ArgumentRefused."""
    if value is None or (value is False and argument.usage.get("default") is not True):
        return ()
    texts = _texts(argument, value)
    if len(texts) > MAX_VALUES or sum(len(one.encode("utf-8", "surrogatepass")) for one in texts) > MAX_BYTES:
        raise ArgumentRefused(f"--{argument.name} has too many values.", f"The most are {MAX_VALUES}.")
    if any("\0" in one or len(one.encode("utf-8", "surrogatepass")) > ELEMENT_BYTES for one in texts):
        raise ArgumentRefused(
            f"a value of --{argument.name} is too long or holds a NUL.", f"The most is {ELEMENT_BYTES} bytes."
        )
    return texts


def _texts(argument: Argument, value: Any) -> tuple[str, ...]:
    if isinstance(value, Mapping):
        if argument.rule.check not in KEYED or not argument.is_list:
            raise ArgumentRefused(f"--{argument.name} is no object.", "See its schema.")
        return tuple(_pair(argument, key, one) for key, one in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        if not argument.is_list and len(value) != 1:
            raise ArgumentRefused(f"--{argument.name} takes one value.", "Give it without a list.")
        return tuple(_text(argument, one) for one in value)
    if isinstance(value, str) and is_packed(argument):
        return tuple(split_packed(argument, value))
    return (_text(argument, value),)


def is_packed(argument: Argument) -> bool:
    """Whether one text may hold several values with commas between them, as GDAL's users write them."""
    return argument.is_list and argument.packed and argument.role not in PATH_ROLES


def _pair(argument: Argument, key: Any, value: Any) -> str:
    if not isinstance(key, str) or not key or "=" in key:
        raise ArgumentRefused(f"--{argument.name} has a key that is empty or holds =.", "Write KEY: value.")
    if isinstance(value, bool):
        return f"{key}={'YES' if value else 'NO'}"
    if isinstance(value, int | float):
        return f"{key}={number_text(argument, value)}"
    if isinstance(value, str):
        return f"{key}={value}"
    raise ArgumentRefused(f"--{argument.name} takes texts, numbers and booleans.", "See its schema.")


def _text(argument: Argument, value: Any) -> str:
    kind = argument.element_type
    if kind == "boolean":
        if not isinstance(value, bool):
            raise ArgumentRefused(f"--{argument.name} is true or false.", "Give a JSON boolean.")
        return "true" if value else "false"
    numeric = kind in ("integer", "real") or argument.rule.check in NUMERIC
    if numeric and isinstance(value, int | float) and not isinstance(value, bool):
        return number_text(argument, value)
    if kind in ("integer", "real"):
        raise ArgumentRefused(f"--{argument.name} is a number.", "Give a JSON number.")
    if not isinstance(value, str):
        raise ArgumentRefused(f"--{argument.name} is a text.", "Give a JSON string.")
    return value


def number_text(argument: Argument, value: float) -> str:
    """The shortest text that reads back as the same finite number. Raises ArgumentRefused."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ArgumentRefused(
                f"--{argument.name} is a finite number.", "Leave it out where there is none."
            )
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if abs(value) >= 10**18:
        raise ArgumentRefused(f"--{argument.name} is out of range.", "Give a smaller number.")
    return repr(value)
