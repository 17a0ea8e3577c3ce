"""Finds missing fields, and geometry types that a command does not accept; GDAL would fail on both. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from gdal_mcp.toolboxes.gdal.preflight.call import AlgorithmCall, Finding, make_finding
from gdal_mcp.toolboxes.gdal.preflight.facts import DatasetFacts
from gdal_mcp.toolboxes.gdal.preflight.layers import POLYGON, family
from gdal_mcp.toolboxes.gdal.preflight.sql.result import GEOMETRY, missing_columns

# by command: the argument with field names, and the argument with their dataset; "" is the input
_NAMES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "raster zonal-stats": (("include-field", "zones"),),
    "vector check-geometry": (("include-field", ""),),
    "vector combine": (("group-by", ""),),
    "vector make-point": (("x", ""), ("y", ""), ("z", ""), ("m", "")),
    "vector partition": (("field", ""),),
    "vector rasterize": (("attribute-name", ""),),
    "vector select": (("fields", ""),),
    "vector set-field-type": (("field-name", ""),),
}
# accepted instead of field names, for several fields or for something other than a field
_WORDS: Final = frozenset({"all", "none", "fid", "_ogr_geometry_", "ogr_geometry", "ogr_style"})
# commands that accept only polygons: the argument with their dataset; "" is the input
_POLYGONS: Final[Mapping[str, str]] = {
    "raster zonal-stats": "zones",
    "raster clip": "like",
    "vector clip": "like",
    "vector check-coverage": "",
    "vector clean-coverage": "",
    "vector simplify-coverage": "",
}
_READS_OTHERWISE: Final = ("open-option", "input-layer", "ignore-missing-fields", "like-layer", "zones-layer")


def field_missing(call: AlgorithmCall) -> Iterator[Finding]:
    datasets = [call.vector, *call.others.values(), *call.tables.values()]
    schemas = [dataset.schema for dataset in datasets if dataset and dataset.schema]
    if not call.driver and not any(schema.is_predicted for schema in schemas):
        return  # a call that only reads needs no approval, and GDAL's error comes with the existing names
    missing = [*_named(call), *_of_statement(call), *_of_condition(call)]
    if missing:
        yield make_finding("field_missing", {"field": missing[0][:80]}, refuses=True)


def not_polygons(call: AlgorithmCall) -> Iterator[Finding]:
    argument = _POLYGONS.get(call.path)
    if argument is None or any(call.text(f"{argument}-{name}") for name in ("sql", "where")):
        return
    facts = _dataset(call, argument)
    if facts is not None and facts.kind == "vector" and family(facts.geometry) not in ("", POLYGON):
        yield make_finding("not_polygons", {"geometry": family(facts.geometry)}, refuses=True)


def _dataset(call: AlgorithmCall, argument: str) -> DatasetFacts | None:
    return call.others.get(argument) if argument else call.vector


def _named(call: AlgorithmCall) -> Iterator[str]:
    if any(call.text(name) not in ("", "false") for name in _READS_OTHERWISE):
        return
    for name, argument in _NAMES.get(call.path, ()):
        facts = _dataset(call, argument)
        if facts is None or facts.schema is None:
            continue
        known = {*facts.schema.columns, *map(str.lower, facts.schema.geometries), *_WORDS}
        yield from (
            field for field in call.texts(name) if field.strip() and field.strip().lower() not in known
        )


def _of_statement(call: AlgorithmCall) -> Iterator[str]:
    typed = all(option.upper() == "AUTODETECT_TYPE=YES" for option in call.texts("open-option"))
    if typed and call.path == "vector sql" and call.text("dialect").upper() == "SQLITE":
        yield from missing_columns(
            call.text("sql"), call.tables, geometries=GEOMETRY if call.is_query else ""
        )


def _of_condition(call: AlgorithmCall) -> Iterator[str]:
    facts = call.vector
    condition = call.text("where")
    if condition and facts is not None and not call.text("open-option") and not call.text("input-layer"):
        # a condition is parsed as one on a table with this name
        yield from missing_columns(condition, {"layer": facts})


CHECKS: Final = (field_missing, not_polygons)
