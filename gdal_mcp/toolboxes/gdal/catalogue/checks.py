"""Checks the values of an argument by the rule in `roles.toml` and the other arguments of the call. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gdal_mcp.toolboxes.gdal.catalogue.crs import check_crs
from gdal_mcp.toolboxes.gdal.catalogue.documents import check_geometry
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.formats import (
    drivers_for,
    input_format,
    output_format,
    refuse_absent,
    refuse_unknown_extension,
)
from gdal_mcp.toolboxes.gdal.catalogue.forms import split
from gdal_mcp.toolboxes.gdal.catalogue.model import (
    DATASET_KINDS,
    PATH_ROLES,
    Algorithm,
    Argument,
    Catalogue,
    Kind,
    Role,
    Scope,
    ValueSpec,
)
from gdal_mcp.toolboxes.gdal.catalogue.options import check_option
from gdal_mcp.toolboxes.gdal.catalogue.plain import PLAIN
from gdal_mcp.toolboxes.gdal.catalogue.profiles import expand_profile
from gdal_mcp.toolboxes.gdal.catalogue.sql import (
    check_allowed,
    check_condition,
    check_dialect,
    check_statement,
)
from gdal_mcp.toolboxes.gdal.catalogue.values import check_shape, check_text, choices_text, number_of

_INT32: Final = (1 << 31) - 1
_TEMPLATE: Final = re.compile(r"\{(?:AUTO_NAME|DS_BASENAME|DS_INDEX|LAYER_NAME|LAYER_INDEX)\}")
_NODATA_WORDS: Final = re.compile(r"none|[+-]?(nan|inf)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Context:
    """Values that the tool has already set for the call."""

    catalogue: Catalogue
    output_name: str = ""  # file name of the output; its extension selects the driver if no format is given
    threads: int = 1  # upper limit in the container
    taken: frozenset[str] = frozenset()  # canonical names that the tool passes itself
    allow_sql: bool = False


@dataclass(frozen=True, slots=True)
class ArgumentContext:
    """One argument and the whole call: `values` has the values of every argument by name."""

    context: Context
    algorithm: Algorithm
    values: Mapping[str, tuple[str, ...]]
    argument: Argument

    @property
    def what(self) -> str:
        return f"--{self.argument.name}"

    @property
    def kind(self) -> Kind | None:
        """The kind of data that the argument applies to; None if there are several."""
        side = "input" if self.argument.rule.check in ("input-format", "open-option") else "output"
        place = self.algorithm.long_names.get(side)
        if place is None or not place.dataset_kinds:
            return self.algorithm.kind
        return DATASET_KINDS[place.dataset_kinds[0]] if len(place.dataset_kinds) == 1 else None

    @property
    def input_drivers(self) -> tuple[str, ...]:
        """The drivers that the input format names; empty means any."""
        named = self.values.get("input-format", ())
        return tuple(input_format(self.context.catalogue, name, self.kind) for name in named)

    @property
    def output_drivers(self) -> tuple[str, ...]:
        """The drivers that may write the output, by its format or else its file name; empty means unknown."""
        argument, named = self.algorithm.long_names.get("output-format"), self.values.get("output-format")
        chosen = named[0] if named else argument and argument.usage.get("default")
        if argument is not None and isinstance(chosen, str):
            # in other algorithms, an argument of this name chooses between json and text
            reports = (*argument.choices, *extra_formats(argument))
            if argument.rule.check == "output-format" and chosen.lower() not in reports:
                return (output_format(self.context.catalogue, chosen, self.kind),)
        outputs = (
            argument
            for role in (Role.OUTPUT, Role.UPDATE)
            for argument in self.algorithm.arguments
            if argument.role is role
        )
        texts = (self.values[output.name][0] for output in outputs if self.values.get(output.name))
        return drivers_for(self.context.catalogue, next(texts, self.context.output_name), self.kind)

    def option(self, scope: Scope, drivers: tuple[str, ...], text: str) -> str:
        return check_option(self.context.catalogue, scope, drivers, text)

    def written_option(self, scope: Scope, text: str) -> str:
        drivers = self.output_drivers
        if not drivers:
            raise ArgumentRefused(
                f"{self.what} depends on the output format, and nothing says which it is.",
                "Name the output format, for example GTiff.",
            )
        return self.option(scope, drivers, text)


Check = Callable[[ArgumentContext, str], str]


def extra_formats(argument: Argument) -> tuple[str, ...]:
    """The report formats that an argument accepts in addition to drivers."""
    metadata = argument.usage.get("metadata")
    extra = metadata.get("extra_formats", ()) if isinstance(metadata, dict) else ()
    return tuple(str(name) for name in extra)


def _choice(arg: ArgumentContext, text: str) -> str:
    choices = (*arg.argument.choices, *arg.argument.hidden_choices)
    if text.lower() == "byte" and "UInt8" in choices:  # the older name, which GDAL accepts but does not list
        return "UInt8"
    return check_shape(ValueSpec("choice", choices=choices), text, arg.what)


def _output_format(arg: ArgumentContext, text: str) -> str:
    if arg.argument.choices:  # formats of a report, not drivers
        return _choice(arg, text)
    if text.lower() in extra_formats(arg.argument):
        return text.lower()
    return output_format(arg.context.catalogue, text, arg.kind)


def _crs_or(*words: str) -> Check:
    """A check that accepts a CRS or one of these words, which GDAL only accepts in lower case."""
    return lambda _situation, text: text if text in words else check_crs(text)


def _layer(arg: ArgumentContext, text: str) -> str:
    """The name of an existing layer, which may contain slashes in formats with groups. Raises ArgumentRefused."""
    if not text or text.startswith(("@", "/", "~", "<")) or ".." in text:
        raise ArgumentRefused(f"{arg.what} is the name of a layer.", "Give the name as info shows it.")
    return check_text(text, arg.what)


def _new_layer(arg: ArgumentContext, text: str) -> str:
    if not text:
        raise ArgumentRefused(f"{arg.what} is the name of a layer.", "Give a name.")
    plain = _TEMPLATE.sub("x", text) if "template" in arg.argument.description else text
    check_shape(ValueSpec("label", max_letters=128), plain, arg.what)
    return text


def _nodata(arg: ArgumentContext, text: str) -> str:
    if number_of(text) is None and not _NODATA_WORDS.fullmatch(text):
        raise ArgumentRefused(
            f"{arg.what} is a number, nan or None.", "Give one value, or one for each band."
        )
    return text


def _threads(arg: ArgumentContext, text: str) -> str:
    requested, most = check_shape(ValueSpec("threads"), text, arg.what), arg.context.threads
    return str(most if requested == "ALL_CPUS" else min(int(requested), most))


def _sql(arg: ArgumentContext, text: str) -> str:
    check_allowed(arg.context.allow_sql, arg.what)
    return check_statement(text, arg.what)


def _pipeline(arg: ArgumentContext, _text: str) -> str:
    raise ArgumentRefused(
        f"{arg.what} is read step by step, never as one text.",
        "Use the tool `pipeline` with its steps.",
    )


def _of_text(check: Callable[[str, str], str]) -> Check:
    return lambda arg, text: check(text, arg.what)


CHECKS: Final[Mapping[str, Check]] = {
    "choice": _choice,
    "crs": _crs_or(),
    "crs-or-none": _crs_or("none", "null"),
    "position-crs": _crs_or("pixel", "dataset"),
    "input-format": lambda arg, text: input_format(arg.context.catalogue, text, arg.kind),
    "output-format": _output_format,
    "open-option": lambda arg, text: arg.option(Scope.OPEN, arg.input_drivers, text),
    "output-open-option": lambda arg, text: arg.option(Scope.OPEN, arg.output_drivers, text),
    "creation-option": lambda arg, text: arg.written_option(Scope.CREATION, text),
    "layer-option": lambda arg, text: arg.written_option(Scope.LAYER, text),
    "warp-option": lambda arg, text: arg.option(Scope.WARP, (), text),
    "transform-option": lambda arg, text: arg.option(Scope.TRANSFORM, (), text),
    "layer": _layer,
    "new-layer": _new_layer,
    "nodata": _nodata,
    "threads": _threads,
    "sql": _sql,
    "where": _of_text(check_condition),
    "sql-dialect": _of_text(check_dialect),
    "pipeline": _pipeline,
    "geometry": _of_text(check_geometry),
    **{name: _of_text(plain.check) for name, plain in PLAIN.items()},
}


def check_values(arg: ArgumentContext, values: Sequence[str]) -> tuple[str, ...]:
    """The values in the form that is passed to GDAL. Raises ArgumentRefused."""
    argument = arg.argument
    if argument.rule.check == "creation-option":
        values = expand_profile(arg.output_drivers, values)
    count = len(values)
    most = argument.max_count if argument.is_list else 1
    least = max(1, argument.min_count)
    if count < least or (most is not None and count > most):
        bounds = f"{least}" if least == most else f"{least} to {'any number of' if most is None else most}"
        raise ArgumentRefused(f"--{argument.name} has {count} values.", f"It takes {bounds}.")
    return tuple(_value(arg, text) for text in values)


def require_single(argument: Argument, value: str) -> str:
    """The unchanged value. Raises ArgumentRefused if GDAL would split it, or if it is empty.

    This is for packed lists, which GDAL splits at commas that cannot be quoted.
    """
    if argument.is_list and argument.packed and (not value or any(sign in value for sign in ',"')):
        raise ArgumentRefused(
            f"a value of --{argument.name} is empty or holds a comma or a quote.", "Rename it first."
        )
    return value


# arguments for an existing output, whose format GDAL finds by opening it
_CHANGES_OUTPUT: Final = frozenset({"append", "update", "upsert", "overwrite-layer"})


def refuse_absent_output(
    context: Context, algorithm: Algorithm, values: Mapping[str, tuple[str, ...]]
) -> None:
    """Raises ArgumentRefused if only the output's name determines its format, and the image cannot write it."""
    if "output-format" not in algorithm.long_names or values.get("output-format"):
        return
    outputs = [
        argument.name
        for argument in algorithm.arguments
        if argument.role is Role.OUTPUT and argument.dataset_kinds
    ]
    named = [text for name in outputs for text in values.get(name, ())]
    for text in (context.output_name, *named):
        refuse_absent(context.catalogue, text)
    has_default = "default" in algorithm.long_names["output-format"].usage
    if outputs and not has_default and not _CHANGES_OUTPUT & values.keys():
        for text in named or [context.output_name]:
            refuse_unknown_extension(context.catalogue, text)


def _value(arg: ArgumentContext, text: str) -> str:
    argument, what = arg.argument, arg.what
    if argument.role in PATH_ROLES:
        split(argument.rule.form, text, what)
        return text
    if argument.element_type == "boolean":
        if text.lower() not in ("true", "false"):
            raise ArgumentRefused(
                f"{what} is true or false.", "Write the switch alone, or with =true or =false."
            )
        return text.lower()
    if argument.element_type != "string":
        return _number(argument, text, what)
    checked = CHECKS[argument.rule.check](arg, text)
    if checked == "?" or checked.endswith("=?"):
        raise ArgumentRefused(f"{what} asks GDAL for completions.", "Give the value itself.")
    return require_single(argument, checked)


def _number(argument: Argument, text: str, what: str) -> str:
    limit = _INT32 if argument.element_type == "integer" else None
    low = argument.minimum if argument.minimum is not None else (-_INT32 if limit else None)
    high = argument.maximum if argument.maximum is not None else limit
    checked = check_shape(ValueSpec(argument.element_type, minimum=low, maximum=high), text, what)
    value = float(checked)
    below = argument.minimum is not None and not argument.min_included and value <= argument.minimum
    above = argument.maximum is not None and not argument.max_included and value >= argument.maximum
    if below or above:
        raise ArgumentRefused(f"{what} is out of range.", "The bound itself does not belong to the range.")
    if argument.choices and checked not in argument.choices:
        raise ArgumentRefused(f"{what} does not take {text[:60]!r}.", choices_text(argument.choices))
    return checked
