"""The formats that can be read and written, and the options of one of them that may be set. Pure."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.catalogue.model import Catalogue, Driver, Kind, OptionSpec, Scope, Shape
from gdal_mcp.gdal.catalogue.options import decide, options_of

_KINDS: Final[tuple[Kind, ...]] = ("raster", "vector", "multidim")
_SCOPES: Final = (Scope.CREATION, Scope.LAYER, Scope.OPEN)
_HELP_LETTERS: Final = 160


def formats(catalogue: Catalogue, kind: Kind | None = None, name: str | None = None) -> dict[str, Any]:
    """A table of all formats, or of those for one kind of data; with `name` everything about that one.

    Raises ArgumentRefused for a name that is no format.
    """
    if name is not None:
        return one_format(catalogue, _named(catalogue, name))
    rows = [
        _row(catalogue, driver, kind)
        for driver in catalogue.drivers
        if _does(catalogue, driver, kind) and driver.name != "MEM"
    ]
    return {
        "gdal_version": catalogue.gdal_version,
        "columns": ["name", "can", "extensions"],
        "legend": "can: for raster (r), vector (v) and multidimensional (m) data the letters r reads, w writes, u updates",
        "formats": rows,
        "switched_off": "formats of networks, databases and other programs do not exist here",
    }


def one_format(catalogue: Catalogue, driver: Driver) -> dict[str, Any]:
    """What one format can do, its options that may be set, and those that are refused with the reason."""
    return {
        "name": driver.name,
        "long_name": driver.long_name,
        "extensions": list(driver.extensions),
        "can": {
            kind: _abilities(catalogue, driver, kind)
            for kind in _KINDS
            if _abilities(catalogue, driver, kind)
        },
        **_never(catalogue, driver),
        "options": {
            scope.value: _allowed(catalogue, driver, scope) for scope in _SCOPES if options_of(driver, scope)
        },
        "refused_options": {
            scope.value: refused for scope in _SCOPES if (refused := _refused(catalogue, driver, scope))
        },
    }


def _row(catalogue: Catalogue, driver: Driver, kind: Kind | None) -> list[str]:
    kinds = _KINDS if kind is None else (kind,)
    can = [f"{one[0]}:{letters}" for one in kinds if (letters := _letters(catalogue, driver, one))]
    return [driver.name, " ".join(can), " ".join(driver.extensions)]


def _does(catalogue: Catalogue, driver: Driver, kind: Kind | None) -> bool:
    kinds = _KINDS if kind is None else (kind,)
    return any(_letters(catalogue, driver, one) for one in kinds)


def _letters(catalogue: Catalogue, driver: Driver, kind: Kind) -> str:
    return "".join(ability[0] for ability in _abilities(catalogue, driver, kind))


def _abilities(catalogue: Catalogue, driver: Driver, kind: Kind) -> list[str]:
    """Of reads, writes and updates those that hold for one kind of data."""
    has = driver.capabilities
    multidim = kind == "multidim" and bool({"multidim", "multidim_raster", "create_multidim"} & has)
    if kind not in has and not multidim and not driver.writes(kind):
        return []
    known = {
        "reads": "open" in has and (kind in has or multidim),
        "writes": driver.writes(kind) and driver.name.lower() not in catalogue.unwritten,
        "updates": "update" in has and kind in has,
    }
    return [name for name, holds in known.items() if holds]


def _never(catalogue: Catalogue, driver: Driver) -> Mapping[str, str]:
    reason = catalogue.unwritten.get(driver.name.lower())
    return {"never_written": reason} if reason else {}


def _allowed(catalogue: Catalogue, driver: Driver, scope: Scope) -> list[dict[str, Any]]:
    found = ((spec, decide(catalogue, driver.name, scope, spec).shape) for spec in options_of(driver, scope))
    return [_option(spec, shape) for spec, shape in found if shape is not None]


def _refused(catalogue: Catalogue, driver: Driver, scope: Scope) -> dict[str, str]:
    found = ((spec.name, decide(catalogue, driver.name, scope, spec)) for spec in options_of(driver, scope))
    return {name: rule.reason for name, rule in found if rule.shape is None}


def _option(spec: OptionSpec, shape: Shape) -> dict[str, Any]:
    """What may be said; empty parts are left out."""
    told = {
        "name": spec.name,
        "type": shape.kind,
        "choices": list(shape.choices),
        "minimum": shape.minimum,
        "maximum": shape.maximum,
        "help": _short(spec.description),
    }
    return {key: value for key, value in told.items() if value not in (None, [], "")}


def _short(text: str) -> str:
    return text if len(text) <= _HELP_LETTERS else f"{text[: _HELP_LETTERS - 1].rstrip()}…"


def _named(catalogue: Catalogue, name: str) -> Driver:
    known = catalogue.driver_names
    driver = known.get(name.lower())
    if driver is not None:
        return driver
    if name.lower() in {skipped.lower() for skipped in catalogue.skipped}:
        raise ArgumentRefused(
            "that format reaches a network, a database or another program, and is switched off.",
            "Use a file format such as GTiff or GPKG.",
        )
    near = get_close_matches(name.lower()[:64], list(known), n=3, cutoff=0.6)
    meant = ", ".join(known[one].name for one in near) or "GTiff, COG, GPKG, GeoJSON"
    raise ArgumentRefused(
        "GDAL has no format of that name.", f"Names are GDAL's short names, for example {meant}."
    )
