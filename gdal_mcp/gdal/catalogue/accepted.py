"""The values of one argument as they may be passed on, in the light of the whole call. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gdal_mcp.gdal.catalogue.checks import CHECKS, Situation, extra_formats
from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.catalogue.formats import drivers_for, input_format, output_format
from gdal_mcp.gdal.catalogue.forms import split
from gdal_mcp.gdal.catalogue.model import PATH_ROLES, Algorithm, Argument, Catalogue, Kind, Role, Shape
from gdal_mcp.gdal.catalogue.switches import Given
from gdal_mcp.gdal.catalogue.values import check_shape, choices_text

_INT32: Final = (1 << 31) - 1
# of arguments that name a driver; others of that name choose json or text
_FORMAT_CHECK: Final = "output-format"
_INPUT_CHECKS: Final = frozenset(("input-format", "open-option"))
_KINDS: Final[Mapping[str, Kind]] = {"raster": "raster", "vector": "vector", "multidim_raster": "multidim"}


@dataclass(frozen=True)
class Asked:
    """A call: every argument's values by name, and what the tool has decided."""

    catalogue: Catalogue
    algorithm: Algorithm
    given: Mapping[str, tuple[str, ...]]
    output_name: str = ""
    output_format: str | None = None
    threads: int = 1
    allow_sql: bool = False


def accepted(asked: Asked, given: Given) -> tuple[str, ...]:
    """The values in the form that is passed on. Raises ArgumentRefused."""
    _check_count(given)
    situation = _situation(asked, given.argument)
    return tuple(_value(situation, text) for text in given.values)


def unsplit(argument: Argument, value: str) -> str:
    """The value itself, if GDAL takes it for one: it splits packed lists at commas and has no way to quote one."""
    if argument.is_list and argument.packed and (not value or any(sign in value for sign in ',"')):
        raise ArgumentRefused(
            f"a value of --{argument.name} is empty or holds a comma or a quote.", "Rename it first."
        )
    return value


def _situation(asked: Asked, argument: Argument) -> Situation:
    reads = argument.rule.check in _INPUT_CHECKS
    return Situation(
        asked.catalogue,
        argument,
        _input_kind(asked.algorithm) if reads else _output_kind(asked.algorithm),
        _input_drivers(asked) if reads else (),
        () if reads or argument.rule.check not in _WRITER_CHECKS else _output_drivers(asked),
        asked.threads,
        asked.allow_sql,
    )


_WRITER_CHECKS: Final = frozenset((_FORMAT_CHECK, "creation-option", "layer-option", "output-open-option"))


def _input_kind(algorithm: Algorithm) -> Kind | None:
    source = algorithm.long_names.get("input")
    return algorithm.kind if source is None or not source.dataset_kinds else _kind(source)


def _output_kind(algorithm: Algorithm) -> Kind | None:
    target = algorithm.long_names.get("output")
    return algorithm.kind if target is None or not target.dataset_kinds else _kind(target)


def _kind(argument: Argument) -> Kind | None:
    return _KINDS[argument.dataset_kinds[0]] if len(argument.dataset_kinds) == 1 else None


def _input_drivers(asked: Asked) -> tuple[str, ...]:
    kind = _input_kind(asked.algorithm)
    return tuple(input_format(asked.catalogue, name, kind) for name in asked.given.get("input-format", ()))


def _output_drivers(asked: Asked) -> tuple[str, ...]:
    """The drivers that may write the output: the one that is named, else what the name of the output says."""
    named = asked.given.get("output-format", ())
    if named and asked.output_format is not None:
        raise ArgumentRefused("the output format is given twice.", "Use the tool's own argument.")
    kind = _output_kind(asked.algorithm)
    argument = asked.algorithm.long_names.get("output-format")
    chosen = named[0] if named else asked.output_format or _default_format(argument)
    if chosen is not None and _names_driver(argument, chosen):
        return (output_format(asked.catalogue, chosen, kind),)
    return drivers_for(asked.catalogue, _output_name(asked), kind)


def _names_driver(argument: Argument | None, chosen: str) -> bool:
    if argument is None:
        return True
    reports = (*argument.choices, *extra_formats(argument))
    return argument.rule.check == _FORMAT_CHECK and chosen.lower() not in reports


def _default_format(argument: Argument | None) -> str | None:
    default = argument.usage.get("default") if argument is not None else None
    return default if isinstance(default, str) else None


def _output_name(asked: Asked) -> str:
    """What is made or changed, by the arguments of the call."""
    for role in (Role.OUTPUT, Role.UPDATE):
        for argument in asked.algorithm.arguments:
            if argument.role is role and asked.given.get(argument.name):
                return asked.given[argument.name][0]
    return asked.output_name


def _check_count(given: Given) -> None:
    argument, count = given.argument, len(given.values)
    most = argument.max_count if argument.is_list else 1
    least = max(1, argument.min_count)
    if count < least or (most is not None and count > most):
        bounds = f"{least}" if least == most else f"{least} to {'any number of' if most is None else most}"
        raise ArgumentRefused(f"--{argument.name} has {count} values.", f"It takes {bounds}.")


def _value(situation: Situation, text: str) -> str:
    argument = situation.argument
    if argument.role in PATH_ROLES:
        split(argument.rule.form, text, situation.what)
        return text
    kind = argument.element_type
    if kind == "boolean":
        return _boolean(situation.what, text)
    if kind == "string":
        return _text(situation, text)
    return _number(situation, text)


def _text(situation: Situation, text: str) -> str:
    checked = CHECKS[situation.argument.rule.check](situation, text)
    if checked == "?" or checked.endswith("=?"):
        raise ArgumentRefused(f"{situation.what} asks GDAL for completions.", "Give the value itself.")
    return unsplit(situation.argument, checked)


def _boolean(what: str, text: str) -> str:
    if text.lower() not in ("true", "false"):
        raise ArgumentRefused(f"{what} is true or false.", "Write the switch alone, or with =true or =false.")
    return text.lower()


def _number(situation: Situation, text: str) -> str:
    argument = situation.argument
    limit = _INT32 if argument.element_type == "integer" else None
    low = argument.minimum if argument.minimum is not None else (-_INT32 if limit else None)
    high = argument.maximum if argument.maximum is not None else limit
    checked = check_shape(Shape(argument.element_type, minimum=low, maximum=high), text, situation.what)
    _check_open_bounds(argument, float(checked))
    if argument.choices and checked not in argument.choices:
        raise ArgumentRefused(f"{situation.what} does not take that value.", choices_text(argument.choices))
    return checked


def _check_open_bounds(argument: Argument, value: float) -> None:
    below = argument.minimum is not None and not argument.min_included and value <= argument.minimum
    above = argument.maximum is not None and not argument.max_included and value >= argument.maximum
    if below or above:
        raise ArgumentRefused(
            f"--{argument.name} is out of range.", "The bound itself does not belong to the range."
        )
