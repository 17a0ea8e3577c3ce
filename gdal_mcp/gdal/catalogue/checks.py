"""The checks that `roles.toml` names: what a text value of an argument must be. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gdal_mcp.gdal.catalogue.crs import check_crs
from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.catalogue.expressions import (
    check_formula,
    check_gcp,
    check_kernel,
    check_level,
    check_mapping,
    check_multidim,
    check_pixel_argument,
)
from gdal_mcp.gdal.catalogue.formats import input_format, output_format
from gdal_mcp.gdal.catalogue.geometry import check_geometry
from gdal_mcp.gdal.catalogue.model import Argument, Catalogue, Kind, Scope, Shape
from gdal_mcp.gdal.catalogue.options import (
    check_open_option,
    check_option,
    check_transform_option,
    check_warp_option,
)
from gdal_mcp.gdal.catalogue.plain import PLAIN
from gdal_mcp.gdal.catalogue.sql import check_condition, check_dialect, check_statement
from gdal_mcp.gdal.catalogue.text import check_text, number_of
from gdal_mcp.gdal.catalogue.values import check_shape

_NODATA_WORDS: Final = re.compile(r"none|[+-]?(nan|inf)", re.IGNORECASE)
_POSITION_WORDS: Final = ("pixel", "dataset")
_NO_CRS: Final = ("none", "null")  # GDAL knows them in small letters alone


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
    given: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # all values of the call by name

    @property
    def what(self) -> str:
        return f"--{self.argument.name}"


Check = Callable[[Situation, str], str]


def _choice(situation: Situation, text: str) -> str:
    argument = situation.argument
    return check_shape(
        Shape("choice", choices=(*argument.choices, *argument.hidden_choices)), text, situation.what
    )


def _crs(_situation: Situation, text: str) -> str:
    return check_crs(text)


def _crs_or_none(_situation: Situation, text: str) -> str:
    return text if text in _NO_CRS else check_crs(text)


def _position_crs(_situation: Situation, text: str) -> str:
    return text if text in _POSITION_WORDS else check_crs(text)


def _input_format(situation: Situation, text: str) -> str:
    return input_format(situation.catalogue, text, situation.kind)


def _output_format(situation: Situation, text: str) -> str:
    if situation.argument.choices:
        return _choice(situation, text)
    reports = extra_formats(situation.argument)
    return (
        text.lower() if text.lower() in reports else output_format(situation.catalogue, text, situation.kind)
    )


def extra_formats(argument: Argument) -> tuple[str, ...]:
    """The formats of a report that an argument takes besides those of drivers."""
    metadata = argument.usage.get("metadata")
    extra = metadata.get("extra_formats", ()) if isinstance(metadata, dict) else ()
    return tuple(str(one) for one in extra)


def _open_option(situation: Situation, text: str) -> str:
    return check_open_option(situation.catalogue, situation.input_drivers, text).text


def _output_open_option(situation: Situation, text: str) -> str:
    return check_open_option(situation.catalogue, situation.output_drivers, text).text


def _creation_option(situation: Situation, text: str) -> str:
    return check_option(situation.catalogue, Scope.CREATION, _writers(situation), text).text


def _layer_option(situation: Situation, text: str) -> str:
    return check_option(situation.catalogue, Scope.LAYER, _writers(situation), text).text


def _writers(situation: Situation) -> tuple[str, ...]:
    if not situation.output_drivers:
        raise ArgumentRefused(
            f"{situation.what} depends on the output format, and nothing says which it is.",
            "Name the output format, for example GTiff.",
        )
    return situation.output_drivers


def _warp_option(situation: Situation, text: str) -> str:
    return check_warp_option(situation.catalogue, text).text


def _transform_option(situation: Situation, text: str) -> str:
    return check_transform_option(situation.catalogue, text).text


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


def _where(situation: Situation, text: str) -> str:
    return check_condition(text, situation.what)


def _sql_dialect(situation: Situation, text: str) -> str:
    return check_dialect(text, situation.what)


def _calc(situation: Situation, text: str) -> str:
    dialect = situation.given.get("dialect", ("muparser",))[0]
    return check_formula(text, dialect.lower(), situation.what)


def _pixel_argument(situation: Situation, text: str) -> str:
    return check_pixel_argument(text, situation.given.get(situation.argument.name, ()), situation.what)


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
        "crs": _crs,
        "crs-or-none": _crs_or_none,
        "position-crs": _position_crs,
        "input-format": _input_format,
        "output-format": _output_format,
        "open-option": _open_option,
        "output-open-option": _output_open_option,
        "creation-option": _creation_option,
        "layer-option": _layer_option,
        "warp-option": _warp_option,
        "transform-option": _transform_option,
        "layer": _layer,
        "new-layer": _new_layer,
        "nodata": _nodata,
        "threads": _threads,
        "sql": _sql,
        "where": _where,
        "sql-dialect": _sql_dialect,
        "calc": _calc,
        "pixel-function-argument": _pixel_argument,
        "pipeline": _pipeline,
        "geometry": _of_text(check_geometry),
        "kernel": _of_text(check_kernel),
        "mapping": _of_text(check_mapping),
        "gcp": _of_text(check_gcp),
        "multidim": _of_text(check_multidim),
        "level": _of_text(check_level),
        **{name: _of_text(one.check) for name, one in PLAIN.items()},
    }
)
