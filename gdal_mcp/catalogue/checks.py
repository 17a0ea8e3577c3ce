"""The checks that `roles.toml` names: what a text value of an argument must be. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gdal_mcp.catalogue.crs import check_crs
from gdal_mcp.catalogue.errors import ArgumentRefused
from gdal_mcp.catalogue.formats import input_format, output_format
from gdal_mcp.catalogue.model import Argument, Kind, Scope, Shape
from gdal_mcp.catalogue.options import (
    check_open_option,
    check_option,
    check_transform_option,
    check_warp_option,
)
from gdal_mcp.catalogue.text import check_text, number_of
from gdal_mcp.catalogue.values import check_shape

_NODATA_WORDS: Final = re.compile(r"none|[+-]?(nan|inf)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Situation:
    """What a check needs to know besides the text."""

    argument: Argument
    kind: Kind | None
    input_drivers: tuple[str, ...]  # those that an input format names; empty is any
    output_drivers: tuple[str, ...]  # those that may write the output; empty is unknown
    threads: int

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


def _input_format(situation: Situation, text: str) -> str:
    return input_format(text, situation.kind)


def _output_format(situation: Situation, text: str) -> str:
    return output_format(text, situation.kind)


def _open_option(situation: Situation, text: str) -> str:
    return check_open_option(situation.input_drivers, text).text


def _creation_option(situation: Situation, text: str) -> str:
    return check_option(Scope.CREATION, _writers(situation), text).text


def _layer_option(situation: Situation, text: str) -> str:
    return check_option(Scope.LAYER, _writers(situation), text).text


def _writers(situation: Situation) -> tuple[str, ...]:
    if not situation.output_drivers:
        raise ArgumentRefused(
            f"{situation.what} depends on the output format, and nothing says which it is.",
            "Name the output format, for example GTiff.",
        )
    return situation.output_drivers


def _warp_option(_situation: Situation, text: str) -> str:
    return check_warp_option(text).text


def _transform_option(_situation: Situation, text: str) -> str:
    return check_transform_option(text).text


def _layer(situation: Situation, text: str) -> str:
    """The name of a layer that exists; groups of some formats hold slashes."""
    if not text or text.startswith(("@", "/", "~")) or ".." in text:
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


CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "choice": _choice,
        "crs": _crs,
        "input-format": _input_format,
        "output-format": _output_format,
        "open-option": _open_option,
        "creation-option": _creation_option,
        "layer-option": _layer_option,
        "warp-option": _warp_option,
        "transform-option": _transform_option,
        "layer": _layer,
        "new-layer": _new_layer,
        "nodata": _nodata,
        "threads": _threads,
    }
)
