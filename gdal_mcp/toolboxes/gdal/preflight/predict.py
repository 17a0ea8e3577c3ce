"""Predicts the facts of a call's output from its arguments and the facts of its inputs. Pure.

Nothing is guessed: the output is unknown if the algorithm is not listed here and `estimate` cannot predict its
raster. Every predicted fact is certain except the size, which may be off by a pixel after a change of CRS.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, Literal

from gdal_mcp.toolboxes.gdal.preflight.algorithms import (
    INDEXES,
    KEEPS_CRS,
    KEEPS_NODATA,
    LAYERS_OF_PIXELS,
    SAME_GRID,
    STORES,
)
from gdal_mcp.toolboxes.gdal.preflight.call import AlgorithmCall, forwarded_facts, number_of
from gdal_mcp.toolboxes.gdal.preflight.estimate import output_raster, table
from gdal_mcp.toolboxes.gdal.preflight.facts import TYPE_RANGE, DatasetFacts, LayerSchema
from gdal_mcp.toolboxes.gdal.preflight.layers import LINE, POINT, POLYGON, dimensions, family, with_dimensions
from gdal_mcp.toolboxes.gdal.preflight.sql.result import GEOMETRY, output_layer

_PIXEL_GEOMETRY: Final[Mapping[str, str]] = {"": "None", "none": "None", "point": POINT, "polygon": POLYGON}
# formats that store field names unchanged, and read no geometry from a field
_KEEPS_NAMES: Final = frozenset({"GPKG", "GeoJSON", "FlatGeobuf", "Parquet", "SQLite", "MEM"})
# names that these formats give to an unnamed geometry column
_GEOMETRY_NAMES: Final = ("geom", "geometry", "_ogr_geometry_")
_KEEPS_CRS: Final = _KEEPS_NAMES | {"ESRI Shapefile", "MapInfo File", "GML", "Arrow"}


def predicted(calls: Sequence[AlgorithmCall]) -> DatasetFacts | None:
    """The facts of the output of the last of these calls, which are the steps of a command; None if unknown."""
    last = calls[-1]
    output = _LAYERS.get(last.path, _raster)(last)
    return _as_stored(output, last) if output is not None and output.kind == "vector" else output


def effect(path: str) -> Literal["raster", "layer", ""]:
    """The kind of output that is predicted for an algorithm; "" if none is."""
    cost = table().cost(path)
    return "layer" if path in _LAYERS else "raster" if cost is not None and cost.size else ""


def gaps(facts: DatasetFacts, call: AlgorithmCall) -> tuple[str, ...]:
    """Facts of an input that the checks of a call need and the prediction lacks, as nouns."""
    if facts.kind == "raster":
        lacks = {
            "CRS": facts.has_crs is None,
            "data type": not facts.data_type,
            "pixel values": _narrows(call, facts),
        }
    else:
        lacks = {
            "CRS": facts.has_crs is None,
            "geometry type": not facts.geometry,
            "fields": facts.schema is None,
        }
    return tuple(name for name, is_unknown in lacks.items() if is_unknown)


def _narrows(call: AlgorithmCall, facts: DatasetFacts) -> bool:
    """True if a call stores pixels in a type that may be too narrow for them."""
    raster = output_raster(call) if call.path in STORES else None
    limits, own = TYPE_RANGE.get(raster.data_type if raster else ""), TYPE_RANGE.get(facts.data_type)
    return limits is not None and (own is None or own[0] < limits[0] or own[1] > limits[1])


def _raster(call: AlgorithmCall) -> DatasetFacts | None:
    raster = output_raster(call)
    if raster is None:
        return None
    known = call.input.has_crs if call.input is not None else None
    raster = replace(raster, has_crs=True if raster.crs else known, nodata=_nodata(call, raster.data_type))
    if call.path in SAME_GRID and call.input is not None:
        raster = replace(raster, crs_extents=call.input.crs_extents, changes=call.input.changes)
    return raster


def _nodata(call: AlgorithmCall, data_type: str) -> float | None:
    """The nodata value of the output; None if there is none, or if its data type cannot store the value."""
    texts = [*call.texts("nodata"), *call.texts("output-nodata")]
    value = call.input.nodata if call.path in KEEPS_NODATA and call.input is not None else None
    if texts:
        value = number_of(texts[-1], finite=False)
    limits = TYPE_RANGE.get(data_type)
    if value is None or limits is None:
        return value
    return value if limits[0] <= value <= limits[1] and value == int(value) else None


def _as_stored(layer: DatasetFacts, call: AlgorithmCall) -> DatasetFacts:
    """The layer as it is read back from the output format."""
    named = call.text("output-layer") or (layer.schema.layer if layer.schema else "")
    if call.is_query:
        named = call.output.partition(".")[0]
    keeps = call.driver in _KEEPS_NAMES or (call.driver == "CSV" and layer.geometry == "None")
    schema = None
    if layer.schema and keeps and not _is_id_field(layer.schema.feature_id, layer.schema.fields):
        drawn = (*layer.schema.geometries, *_GEOMETRY_NAMES)
        schema = LayerSchema(named, layer.schema.fields, drawn, is_predicted=True)
    rfc7946 = call.switched_on("RFC7946", "layer-creation-option")
    if layer.geometry != "None" and (call.driver not in _KEEPS_CRS or rfc7946):
        layer = replace(layer, crs=None, has_crs=None, degrees=None, extent=None)
    if layer.geometry != "None" and call.driver == "CSV":  # CSV stores it as text or leaves it out
        layer = replace(layer, geometry="")
    return replace(layer, driver=call.driver, schema=schema, fields=len(schema.fields) if schema else 0)


def _is_id_field(feature_id: str, fields: Sequence[str]) -> bool:
    """True if the column of feature ids is a field too, as the property `id` of GeoJSON. Some commands then make no field of it."""
    return bool(feature_id) and feature_id.lower() in {field.lower() for field in fields}


def _selected(call: AlgorithmCall) -> DatasetFacts | None:
    """The layer that a statement makes; None if it is not in the SQLITE dialect.

    GDAL's own dialect adds the geometry, so only SQLITE statements can be predicted.
    """
    if call.text("dialect").upper() != "SQLITE" or not call.tables:
        return None
    layer = output_layer(call.text("sql"), call.tables, geometries=GEOMETRY if call.is_query else "")
    crs = call.text("output-crs")
    return replace(layer, crs=crs, has_crs=True, degrees=None) if layer and crs else layer


def _forwarded(call: AlgorithmCall) -> DatasetFacts | None:
    facts = forwarded_facts(call)
    return replace(facts, columns={}, looks={}, changes={}) if facts else None


def _layer_of_pixels(call: AlgorithmCall) -> DatasetFacts | None:
    source = call.input
    if source is None:
        return None
    geometry, fields = _pixel_layer(call)
    return DatasetFacts(
        call.driver,
        "vector",
        geometry=geometry,
        schema=LayerSchema(call.path.partition(" ")[2], fields) if fields else None,
        crs=source.crs if geometry != "None" else None,
        has_crs=source.has_crs if geometry != "None" else False,
        degrees=source.degrees,
        extent=source.extent if call.path == "raster polygonize" else None,
        crs_extents=source.crs_extents,
        changes=source.changes,
    )


def _footprint(call: AlgorithmCall) -> DatasetFacts | None:
    source = call.input
    if source is None:
        return None
    crs = call.text("output-crs")
    in_pixels = call.text("coordinate-system") == "pixel"
    fields = () if call.flag("no-location-field") else (call.text("location-field") or "location",)
    return DatasetFacts(
        call.driver,
        "vector",
        geometry=POLYGON,
        schema=LayerSchema("footprint", fields),
        crs=None if in_pixels else crs or source.crs,
        has_crs=False if in_pixels else True if crs else source.has_crs,
        degrees=None if crs or in_pixels else source.degrees,
    )


def _points(call: AlgorithmCall) -> DatasetFacts | None:
    """The layer that `vector make-point` creates. Only the argument determines its CRS."""
    facts = _forwarded(call)
    if facts is None:
        return None
    plain = replace(facts, crs_extents={})
    return plain if call.text("output-crs") else replace(plain, crs=None, has_crs=False, degrees=None)


def _concatenated(call: AlgorithmCall) -> DatasetFacts | None:
    """The layer that `vector concat` makes of all inputs. Unknown if it makes several layers or if an input is unknown."""
    known = [dataset for dataset in call.inputs if dataset is not None and dataset.kind == "vector"]
    schemas = [dataset.schema for dataset in known if dataset.schema is not None]
    if not known or len(schemas) != len(call.inputs) or call.texts("input-layer"):
        return None
    names = {schema.layer for schema in schemas}
    is_single = call.text("mode") == "single"
    if not is_single and (call.text("mode") == "stack" or len(names) > 1 or call.text("output-layer")):
        return None
    layer = (call.text("output-layer") or "merged") if is_single else names.pop()
    fields = _joined_fields(call, schemas)
    types = {dataset.geometry for dataset in known}
    crs, first = call.text("output-crs"), known[0]
    is_same_crs = (
        bool(first.crs) and {dataset.crs for dataset in known} == {first.crs} and not call.text("input-crs")
    )
    return DatasetFacts(
        call.driver,
        "vector",
        geometry=types.pop() if len(types) == 1 else _common_type(types),
        schema=LayerSchema(layer, fields) if fields else None,
        crs=crs or (first.crs if is_same_crs else None),
        has_crs=True if crs or is_same_crs else None,
        degrees=first.degrees if is_same_crs and not crs else None,
    )


def _common_type(types: set[str]) -> str:
    """The type of a layer with features of these types; "" if they are not of one family with the same dimensions."""
    families, axes = {family(geometry) for geometry in types}, {dimensions(geometry) for geometry in types}
    return (
        with_dimensions(families.pop(), axes.pop())
        if len(families) == len(axes) == 1 and "" not in families
        else ""
    )


def _joined_fields(call: AlgorithmCall, schemas: Sequence[LayerSchema]) -> tuple[str, ...]:
    """The fields of a layer made of several; empty if unknown."""
    names = tuple(dict.fromkeys(chain.from_iterable(schema.fields for schema in schemas)))
    if len({name.lower() for name in names}) < len(names) or any(
        _is_id_field(schema.feature_id, names) for schema in schemas
    ):
        return ()
    if call.text("field-strategy") == "intersection":
        names = tuple(name for name in names if all(name in schema.fields for schema in schemas))
    source = call.text("source-layer-field-name")
    return (source, *names) if source else () if call.text("source-layer-field-content") else names


def _created(call: AlgorithmCall) -> DatasetFacts | None:
    """The empty layer of `vector create`, if its arguments describe it."""
    definitions = call.arguments.get("field", ())
    if (
        call.inputs
        or call.text("schema")
        or not definitions
        or any("," in definition for definition in definitions)
    ):
        return None
    fields = tuple(definition.partition(":")[0] for definition in definitions)
    crs, wanted = call.text("crs"), call.text("geometry-type").upper()
    geometry = (
        "None" if wanted == "NONE" else with_dimensions(family(wanted), wanted[len(wanted.rstrip("ZM")) :])
    )
    return DatasetFacts(
        call.driver,
        "vector",
        features=0,
        geometry=geometry if family(wanted) or wanted == "NONE" else "",
        schema=LayerSchema(call.text("output-layer"), fields),
        crs=crs or None,
        has_crs=True if crs else None,
    )


def _index(call: AlgorithmCall) -> DatasetFacts:
    first, crs = call.input, call.text("output-crs")
    adds = any(
        call.arguments.get(name) for name in ("metadata", "profile", "source-crs-field-name", "id-method")
    )
    fields = () if adds else (call.text("location-name") or "location",)
    same = first is not None and all(
        dataset is not None and dataset.crs == first.crs for dataset in call.inputs
    )
    return DatasetFacts(
        call.driver,
        "vector",
        geometry=POLYGON,
        schema=LayerSchema("index", fields) if fields and call.path == "raster index" else None,
        crs=crs or (first.crs if first is not None and same else None),
        has_crs=True if crs else first.has_crs if first is not None and same else None,
    )


def _pixel_layer(call: AlgorithmCall) -> tuple[str, tuple[str, ...]]:
    """The geometry type and the fields of a layer made from pixels; the fields are empty if unknown."""
    if call.path == "raster polygonize":
        return POLYGON, (call.text("attribute-name") or "DN",)
    if call.path == "raster contour":
        names = ("min-name", "max-name") if call.flag("polygonize") else ("elevation-name",)
        named = tuple(text for name in names if (text := call.text(name)))
        line = with_dimensions(LINE, "Z" if call.flag("3d") else "")
        return POLYGON if call.flag("polygonize") else line, ("ID", *named)
    return _PIXEL_GEOMETRY.get(call.text("geometry-type").lower(), ""), ()


def _zonal(call: AlgorithmCall) -> DatasetFacts | None:
    """The layer of `raster zonal-stats`: a feature for each zone, with the zone's geometry if requested."""
    zones, raster = call.others.get("zones"), call.input
    if zones is None or zones.kind != "vector":
        return None
    schema = None
    if zones.schema is not None and raster is not None and raster.bands == 1:
        included = call.texts("include-field")
        own = (
            zones.schema.fields if included == ["ALL"] else tuple(name for name in included if name != "NONE")
        )
        schema = LayerSchema("stats", (*own, *call.texts("stat")))
    if not call.flag("include-geom"):
        none = DatasetFacts(call.driver, "vector", features=zones.features, has_crs=False, geometry="None")
        return replace(none, schema=schema)
    return replace(zones, driver=call.driver, columns={}, looks={}, disk_bytes=0, schema=schema)


# the prediction of each algorithm that makes a layer
_LAYERS: Final[Mapping[str, Callable[[AlgorithmCall], DatasetFacts | None]]] = {
    **dict.fromkeys(KEEPS_CRS, _forwarded),
    **dict.fromkeys(LAYERS_OF_PIXELS, _layer_of_pixels),
    **dict.fromkeys(INDEXES, _index),
    "raster footprint": _footprint,
    "raster zonal-stats": _zonal,
    "vector concat": _concatenated,
    "vector create": _created,
    "vector make-point": _points,
    "vector sql": _selected,
}
