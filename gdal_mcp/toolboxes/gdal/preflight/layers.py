"""The fields and geometry types of the output of vector commands, and the tables of a statement. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gdal_mcp.plan import Draft
from gdal_mcp.toolboxes.gdal.preflight.algorithms import KEEPS_FIELDS
from gdal_mcp.toolboxes.gdal.preflight.facts import DatasetFacts, LayerSchema

if TYPE_CHECKING:
    from gdal_mcp.toolboxes.gdal.preflight.call import AlgorithmCall

POINT: Final = "Point"
LINE: Final = "Line String"
POLYGON: Final = "Polygon"
# geometry type of the output of commands that change it; "" if it depends on the values
_GEOMETRY: Final[Mapping[str, str]] = {
    "vector buffer": POLYGON,
    "vector check-coverage": LINE,
    "vector check-geometry": POINT,
    **dict.fromkeys(
        [f"vector {name}" for name in "concave-hull convex-hull layer-algebra sql concat".split()], ""
    ),
}
_FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    POINT: ("point",),
    LINE: ("line string", "linestring", "circular string", "compound curve", "multi curve", "linear ring"),
    POLYGON: ("polygon", "multi surface", "triangle", "tin"),
}


def family(geometry: str) -> str:
    """Point, Line String or Polygon for a single or multi geometry type in any dimension; "" for other types."""
    low = geometry.lower()
    return next((name for name, words in _FAMILIES.items() if any(word in low for word in words)), "")


def dimensions(geometry: str) -> str:
    """The coordinates of a geometry type in addition to X and Y: "", "Z", "M" or "ZM"."""
    low = geometry.lower()
    return ("Z" if "3d" in low else "") + ("M" if "measured" in low else "")


def with_dimensions(name: str, more: str) -> str:
    """GDAL's name of a geometry type with further coordinates, as `dimensions` names them."""
    return f"{'3D ' if 'Z' in more else ''}{'Measured ' if 'M' in more else ''}{name}"


def output_geometry(call: "AlgorithmCall", before: str) -> str:
    """The geometry type of a command's output for an input of type `before`.

    "None" for no geometry, "" if the type is unknown.
    """
    if call.path == "vector select":
        return _geometry_selected(call, before)
    if call.path == "vector make-point":
        return with_dimensions(POINT, "".join(axis for axis in "ZM" if call.text(axis.lower())))
    if call.path == "vector set-geom-type":
        return _geometry_set(call, before)
    if call.text("geometry-type"):
        return ""
    if call.path == "vector combine" and before in (POINT, LINE, POLYGON):
        return f"Multi {before}"
    return _GEOMETRY.get(call.path, before)


def _geometry_set(call: "AlgorithmCall", before: str) -> str:
    if call.flag("feature-only") or call.flag("layer-only"):
        return ""  # the type of the layer and those of its features may differ
    wanted = call.text("geometry-type").upper()
    name = family(wanted or before)
    more = wanted[len(wanted.rstrip("ZM")) :] if wanted else dimensions(before)
    if call.text("dim"):
        more = call.text("dim").upper().removeprefix("XY")
    return with_dimensions(name, "Z" if wanted.endswith("25D") else more) if name else ""


def output_schema(call: "AlgorithmCall", before: LayerSchema | None) -> LayerSchema | None:
    """The schema of a command's output for an input with the schema `before`; None if it is unknown."""
    if before is None or call.flag("ignore-missing-fields"):
        return None
    if call.path == "vector combine" and call.text("add-extra-fields") in ("", "no"):
        return replace(before, fields=tuple(call.texts("group-by")))
    if call.path == "vector select":
        wanted = {name.lower() for name in call.texts("fields")}
        fields = (field for field in before.fields if (field.lower() in wanted) != call.flag("exclude"))
        return replace(before, fields=tuple(fields))
    return before if call.path in KEEPS_FIELDS else None


def _geometry_selected(call: "AlgorithmCall", before: str) -> str:
    schema = call.vector.schema if call.vector else None
    names = {"_ogr_geometry_", *(name.lower() for name in (schema.geometries if schema else ()))}
    if bool({name.lower() for name in call.texts("fields")} & names) != call.flag("exclude"):
        return before
    return "None" if schema is not None else ""  # a field may be a geometry


def tables_of(draft: Draft, inputs: Sequence[DatasetFacts | None]) -> Mapping[str, DatasetFacts]:
    """The tables of a statement by lower-case name. A name that several layers have is left out."""
    if len(draft.work.chain) > 1:  # the statement reads the result of the previous step
        return {}
    known = [(facts, facts.schema) for facts in inputs if facts and facts.schema]
    own = [schema.layer.lower() for _, schema in known]
    is_whole = len(known) == len(inputs)  # otherwise another file may have a layer of the same name
    tables = {
        name: facts for name, (facts, _) in zip(own, known, strict=True) if is_whole and own.count(name) == 1
    }
    if draft.command.program == "query":
        aliases = (alias.lower() for alias, _ in draft.command.extra["tables"])
        tables |= {
            alias: facts for alias, facts in zip(aliases, inputs, strict=True) if facts and facts.schema
        }
    return tables
