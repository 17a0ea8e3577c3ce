"""Lists the formats that can be read and written, and the options of one format that may be set. Pure."""

from typing import Any, Final

from gdal_mcp.toolboxes.gdal.catalogue.formats import advice, known_driver, lacking_by_name, similar_formats
from gdal_mcp.toolboxes.gdal.catalogue.model import Catalogue, Driver, Kind, OptionSpec, ValueSpec
from gdal_mcp.toolboxes.gdal.catalogue.options import decide
from gdal_mcp.toolboxes.gdal.catalogue.profiles import DRIVER, OPTION, PROFILES

_KINDS: Final[tuple[Kind, ...]] = ("raster", "vector", "multidim")
_HELP_LETTERS: Final = 160


def formats(catalogue: Catalogue, kind: Kind | None = None, name: str | None = None) -> dict[str, Any]:
    """A table of all formats, or of those for one kind of data; with `name`, the details of that format.

    Raises ArgumentRefused for an unknown format.
    """
    if name is not None:
        if (lacks := lacking_by_name(catalogue, name)) is None:
            return one_format(catalogue, known_driver(catalogue, name))
        return {
            "name": lacks.name,
            "available": False,
            "extensions": sorted(lacks.extensions),
            "instead": similar_formats(catalogue, lacks.kind),
            "reason": "GDAL has this format, but the image of this server lacks it.",
            "suggestion": advice(catalogue, lacks, reads=False),
        }
    rows = []
    for driver in catalogue.drivers:
        kinds = {
            data_kind: _abilities(catalogue, driver, data_kind)
            for data_kind in (_KINDS if kind is None else (kind,))
        }
        can = [
            f"{data_kind[0]}:{''.join(word[0] for word in known)}"
            for data_kind, known in kinds.items()
            if known
        ]
        if can and driver.name != "MEM":
            rows.append([driver.name, " ".join(can), " ".join(driver.extensions)])
    return {
        "gdal_version": catalogue.gdal_version,
        "columns": ["name", "can", "extensions"],
        "legend": "can: for raster (r), vector (v) and multidimensional (m) data the letters r reads, w writes, u updates",
        "formats": rows,
        "switched_off": "formats of networks, databases and other programs do not exist here",
    }


def one_format(catalogue: Catalogue, driver: Driver) -> dict[str, Any]:
    """The abilities of one format, its permitted options, and its refused options with the reason."""
    allowed: dict[str, list[dict[str, Any]]] = {}
    refused: dict[str, dict[str, str]] = {}
    for scope, specs in driver.options.items():
        for spec in specs:
            rule = decide(catalogue, driver.name, scope, spec)
            options = allowed.setdefault(scope.value, [])
            if rule.shape is None:
                refused.setdefault(scope.value, {})[spec.name] = rule.reason
            else:
                options.append(_option(spec, rule.shape))
    reason = catalogue.unwritten.get(driver.name.lower())
    kinds = {kind: _abilities(catalogue, driver, kind) for kind in _KINDS}
    return {
        "name": driver.name,
        "long_name": driver.long_name,
        "extensions": list(driver.extensions),
        "can": {kind: known for kind, known in kinds.items() if known},
        **({"never_written": reason} if reason else {}),
        **({"profiles": {OPTION: PROFILES}} if driver.name == DRIVER else {}),
        "options": allowed,
        "refused_options": refused,
    }


def _abilities(catalogue: Catalogue, driver: Driver, kind: Kind) -> list[str]:
    """The abilities of a driver for one kind of data: any of reads, writes and updates."""
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


def _option(spec: OptionSpec, shape: ValueSpec) -> dict[str, Any]:
    """A permitted option and its values, without empty entries."""
    text = spec.description
    answer = {
        "name": spec.name,
        "type": shape.kind,
        "choices": list(shape.choices),
        "minimum": shape.minimum,
        "maximum": shape.maximum,
        "help": text if len(text) <= _HELP_LETTERS else f"{text[: _HELP_LETTERS - 1].rstrip()}…",
    }
    return {key: value for key, value in answer.items() if value not in (None, [], "")}
