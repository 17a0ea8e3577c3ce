"""The checks that `roles.toml` names: what a text value of an argument must be. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gdal_mcp.gdal.catalogue.crs import check_crs
from gdal_mcp.gdal.catalogue.documents import check_geometry
from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.catalogue.formats import input_format, output_format
from gdal_mcp.gdal.catalogue.model import Argument, Catalogue, Kind, Scope, Shape
from gdal_mcp.gdal.catalogue.options import check_option
from gdal_mcp.gdal.catalogue.plain import PLAIN
from gdal_mcp.gdal.catalogue.sql import check_condition, check_dialect, check_statement
from gdal_mcp.gdal.catalogue.values import check_shape, check_text, number_of

_NODATA_WORDS: Final = re.compile(r"none|[+-]?(nan|inf)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Situation:
    """What a check needs to know besides the text."""

    catalogue: Catalogue
    argument: Argument
    kind: Kind | None  # of the data that the argument is about
    input_drivers: tuple[str, ...]  # those that an input format names; empty is any
    output_drivers: tuple[str, ...]  # those that may write the output; empty is unknown
    threads: int
    allow_sql: bool = False

    @property
    def what(self) -> str:
        return f"--{self.argument.name}"

    def option(self, scope: Scope, drivers: tuple[str, ...], text: str) -> str:
        return check_option(self.catalogue, scope, drivers, text).text

    def written_option(self, scope: Scope, text: str) -> str:
        if not self.output_drivers:
            raise ArgumentRefused(
                f"{self.what} depends on the output format, and nothing says which it is.",
                "Name the output format, for example GTiff.",
            )
        return self.option(scope, self.output_drivers, text)


Check = Callable[[Situation, str], str]


def extra_formats(argument: Argument) -> tuple[str, ...]:
    """The formats of a report that an argument takes besides those of drivers."""
    metadata = argument.usage.get("metadata")
    extra = metadata.get("extra_formats", ()) if isinstance(metadata, dict) else ()
    return tuple(str(one) for one in extra)


def _choice(situation: Situation, text: str) -> str:
    choices = (*situation.argument.choices, *situation.argument.hidden_choices)
    return check_shape(Shape("choice", choices=choices), text, situation.what)


def _output_format(situation: Situation, text: str) -> str:
    if situation.argument.choices:
        return _choice(situation, text)
    if text.lower() in extra_formats(situation.argument):
        return text.lower()
    return output_format(situation.catalogue, text, situation.kind)


def _crs_or(*words: str) -> Check:
    """GDAL knows the words in small letters alone."""
    return lambda _situation, text: text if text in words else check_crs(text)


def _layer(situation: Situation, text: str) -> str:
    """The name of a layer that exists; groups of some formats hold slashes."""
    if not text or text.startswith(("@", "/", "~", "<")) or ".." in text:
        raise ArgumentRefused(f"{situation.what} is the name of a layer.", "Give the name as info shows it.")
    return check_text(text, situation.what)


def _new_layer(situation: Situation, text: str) -> str:
    if not text:
        raise ArgumentRefused(f"{situation.what} is the name of a layer.", "Give a name.")
    return check_shape(Shape("label", max_letters=128), text, situation.what)


def _nodata(situation: Situation, text: str) -> str:
    if number_of(text) is None and not _NODATA_WORDS.fullmatch(text):
        raise ArgumentRefused(
            f"{situation.what} is a number, nan or None.", "Give one value, or one for each band."
        )
    return text


def _threads(situation: Situation, text: str) -> str:
    asked = check_shape(Shape("threads"), text, situation.what)
    return str(situation.threads if asked == "ALL_CPUS" else min(int(asked), situation.threads))


def _sql(situation: Situation, text: str) -> str:
    if not situation.allow_sql:
        raise ArgumentRefused(
            f"{situation.what} is SQL, which this server was started without.",
            "Use where, select, filter and the like, or ask the person who runs the server for --allow-sql.",
        )
    return check_statement(text, situation.what)


def _pipeline(situation: Situation, _text: str) -> str:
    raise ArgumentRefused(
        f"{situation.what} is read step by step, never as one text.",
        "Use the tool `pipeline` with its steps.",
    )


def _of_text(check: Callable[[str, str], str]) -> Check:
    """A check that needs to know nothing but the text."""
    return lambda situation, text: check(text, situation.what)


CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "choice": _choice,
        "crs": _crs_or(),
        "crs-or-none": _crs_or("none", "null"),
        "position-crs": _crs_or("pixel", "dataset"),
        "input-format": lambda one, text: input_format(one.catalogue, text, one.kind),
        "output-format": _output_format,
        "open-option": lambda one, text: one.option(Scope.OPEN, one.input_drivers, text),
        "output-open-option": lambda one, text: one.option(Scope.OPEN, one.output_drivers, text),
        "creation-option": lambda one, text: one.written_option(Scope.CREATION, text),
        "layer-option": lambda one, text: one.written_option(Scope.LAYER, text),
        "warp-option": lambda one, text: one.option(Scope.WARP, (), text),
        "transform-option": lambda one, text: one.option(Scope.TRANSFORM, (), text),
        "layer": _layer,
        "new-layer": _new_layer,
        "nodata": _nodata,
        "threads": _threads,
        "sql": _sql,
        "where": _of_text(check_condition),
        "sql-dialect": _of_text(check_dialect),
        "pipeline": _pipeline,
        "geometry": _of_text(check_geometry),
        **{name: _of_text(one.check) for name, one in PLAIN.items()},
    }
)
