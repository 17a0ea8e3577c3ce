"""Cheap checks of layer outputs: their content, and what the command must preserve of its input."""

import itertools
from typing import NamedTuple

from osgeo import ogr

from gdal_mcp.toolboxes.gdal.inside.parts.datasets import opened
from gdal_mcp.toolboxes.gdal.inside.parts.extents import crs_checks
from gdal_mcp.toolboxes.gdal.inside.parts.pair import Pair
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import part, quiet, skip
from gdal_mcp.toolboxes.gdal.inside.parts.survey import Clock, Survey
from gdal_mcp.toolboxes.gdal.inside.parts.tables import NUMBERS, fields, layers_of

MAX_LAYERS = 20
MAX_BYTES = 64 << 20
MAX_FEATURES = 20_000
INDEXED = ("GPKG", "FlatGeobuf", "ESRI Shapefile", "SQLite", "Parquet", "OpenFileGDB", "CSV")
DECLARED = ("GPKG", "FlatGeobuf", "SQLite", "Parquet")  # formats that declare the geometry type of a layer
OWN_LAYERS = ("GPX",)  # formats whose layers exist even if they are empty
KEEP_ALL = ("GPKG", "SQLite")
AGAIN = ("features", "fields", "values", "coordinates")  # what a file must preserve of a result in memory


class OutputOrigin(NamedTuple):
    """The inputs of an output, and what the command must preserve of them or may create.

    `sources` are pairs of a path and its description, or None.
    """

    sources: list
    expected: tuple
    clock: Clock  # shared by all outputs of a call
    compared: tuple = ()  # numbers of the inputs with which the output is compared
    updates: bool = False  # True if the output existed before, and has more than the inputs
    cutting_shape: object = None  # a shape from the call that cuts a raster, and the name of its CRS or ""
    options: tuple = ()  # the words of the command
    again: object = None  # creates the output a second time, in memory; None if that takes too long


def layer_checks(dataset, rows, origin):
    """Checks the layers of an output. `rows` describe the layers."""
    if rows and all(row["features"] == 0 for row in rows):
        if "nothing" not in origin.expected:
            yield {"code": "zero_features"}
        return
    clock, driver = origin.clock, dataset.GetDriver().ShortName
    clock.limit(row["features"] for row in rows)
    readable = opened_sources(origin)
    source_layers = [layer for dataset in readable for layer in layers_of(dataset, MAX_LAYERS)]
    keeps, sources = origin.expected, readable
    if "fields" not in keeps and origin.again and not origin.updates and driver not in KEEP_ALL:
        with quiet():
            sources = [dataset for dataset in [origin.again()] if dataset is not None]
        keeps = (*keeps, *AGAIN)
    joins = "concat" in origin.options and "--mode=stack" not in origin.options  # one layer of several
    for number, row in enumerate(rows[:MAX_LAYERS]):
        if row["features"] == 0 and driver in OWN_LAYERS:
            continue
        layer = dataset.GetLayer(number)
        if row["features"] == 0 and not was_empty(layer.GetName(), readable):
            yield {"code": "empty_layer", "layer": number}
        checks = list(crs_checks(row, layer.GetSpatialRef()))
        source = paired(layer, rows, sources) if "fields" in keeps else None
        empty = 0
        if source is None:
            after = Survey(layer, clock, valid=True)
        else:
            pair = Pair(layer, source, driver, clock, keeps)
            checks += pair.checks()
            checks += pair.ids() if sources is readable else ()
            after, empty = pair.after, pair.before.empty
        if after.empty and (sources is not readable or source is None):
            empty = max((Survey(layer, clock, kinds=()).empty for layer in source_layers), default=0)
        checks += content(row, after, after.empty if "gaps" in keeps else empty)
        checks += () if origin.updates else part("measured_fields").field_checks(layer, source_layers)
        checks += part("digits").digit_checks(layer, after, source_layers, clock, driver)
        checks += type_checks(layer, source_layers) if joins else ()
        checks += emptied_fields(layer, source_layers) if "set-field-type" in origin.options else ()
        undeclared = row["geometry"] == "Unknown (any)" and after.is_complete and len(after.geometries) == 1
        # other commands declare all types that they may create: a hull is a point, a line or a polygon
        by_sql = any(word == "sql" or word.startswith("--sql=") for word in origin.options)
        if driver in DECLARED and undeclared and by_sql:
            kind = ogr.GeometryTypeToName(after.geometries.pop()).upper().replace(" ", "")
            kind += "Z" * after.has_z + "M" * after.has_m
            checks.append({"code": "geometry_type_undeclared", "geometry": kind})
        yield from ({**check, "layer": number} for check in checks)


def opened_sources(origin):
    """The inputs with layers, opened a second time, without those that must first be read completely and are large."""
    with quiet() as aside:  # messages about the inputs are not messages of the command
        facts = [(path, row["facts"]) for path, row in origin.sources if row and "layers" in row["facts"]]
        quick = (
            path
            for path, description in facts
            if description["driver"] in INDEXED or description["bytes"] <= MAX_BYTES
        )
        readable = [dataset for dataset in (opened(path, aside) for path in quick) if dataset is not None]
    if len(readable) < len(facts) and "fields" in origin.expected:
        skip("features_lost", "fields_lost", "value_lost", "coordinates_changed")
    return readable


def type_checks(layer, sources):
    """Reports text fields of a joined layer that are numbers in an input."""
    numeric = {
        field.GetName()
        for source in sources
        for field in fields(source.GetLayerDefn())
        if field.GetType() in NUMBERS
    }
    own = enumerate(fields(layer.GetLayerDefn()))
    merged = [i for i, field in own if field.GetType() == ogr.OFTString and field.GetName() in numeric]
    if merged:
        yield {"code": "types_merged", "fields": merged}


def emptied_fields(layer, sources):
    """Reports fields that have fewer values than a field of the same name in the input, whose texts GDAL cannot convert.

    For numbers GDAL warns itself, and writes 0.
    """
    names = [field.GetName() for field in fields(layer.GetLayerDefn())]
    before, after = (
        [values_of(each, name) for name in names]
        for each in (sources[0] if len(sources) == 1 else layer, layer)
    )
    lost = [a - b for a, b in zip(before, after, strict=True)]
    if max(lost, default=0) > 0:
        yield {
            "code": "values_emptied",
            "count": sum(number for number in lost if number > 0),
            "fields": [i for i, number in enumerate(lost) if number > 0],
        }


def values_of(layer, name):
    """The number of values of a field that are neither NULL nor an empty text."""
    index = layer.GetLayerDefn().GetFieldIndex(name)
    some = itertools.islice(layer, MAX_FEATURES if index >= 0 else 0)
    count = sum(
        feature.IsFieldSetAndNotNull(index) and feature.GetFieldAsString(index).strip() != ""
        for feature in some
    )
    layer.ResetReading()
    return count


def was_empty(name, readable):
    """True if the layer of that name is empty in an input too, such as the routes of a GPX file."""
    layers = (dataset.GetLayerByName(name) for dataset in readable)
    return any(layer is not None and is_empty(layer) for layer in layers)


def is_empty(layer):
    """True if a layer has no features. Some formats, such as OSM, do not count them."""
    count = layer.GetFeatureCount()
    if count < 0:
        layer.ResetReading()
        count = int(layer.GetNextFeature() is not None)
    return count == 0


def changed_shapes(dataset, origin):
    """Checks commands that work on each polygon by itself, such as dissolve and simplify."""
    words = {"dissolve", "simplify", "reproject"} & set(origin.options)
    if not words or origin.updates or dataset.GetLayerCount() != 1:
        return
    with quiet() as aside:
        sources = small_sources(origin, aside, "nothing_dissolved", "borders_torn", "edges_straight")
        layers = [layer for source in sources for layer in layers_of(source, MAX_LAYERS)]
        if len(layers) != 1 or origin.clock.spent:
            return
        checks = part("shape_checks")
        yield from checks.shape_checks(dataset.GetLayer(0), layers[0], origin.options)
        if origin.options[:2] == ("vector", "reproject"):
            yield from checks.edge_checks(dataset.GetLayer(0), layers[0])


def small_sources(origin, aside, *codes):
    """Opens the inputs that are not large a second time. `codes` are the checks that skip large inputs."""
    known = [(path, row["facts"]["bytes"]) for path, row in origin.sources if row]
    paths = [path for path, size in known if size <= MAX_BYTES]
    if len(paths) < len(known):
        skip(*codes)
    return [dataset for dataset in (opened(path, aside) for path in paths) if dataset is not None]


def invalid_sources(origin):
    """Reports invalid polygons in the inputs of a buffer, which preserves only a part of them."""
    if "buffer" not in origin.options:
        return
    with quiet() as aside:
        readable = small_sources(origin, aside, "invalid_input")
        layers = (layer for dataset in readable for layer in layers_of(dataset, MAX_LAYERS))
        surveys = [Survey(layer, origin.clock, kinds=(), valid=True) for layer in layers]
    if invalid := sum(survey.invalid for survey in surveys):
        yield {"code": "invalid_input", "count": invalid, "of": sum(survey.checked for survey in surveys)}


def paired(layer, rows, readable):
    """The layer from which an output layer was made: the only one, or the one with its name; None if uncertain."""
    if len(readable) != 1:
        return None
    if readable[0].GetLayerCount() == 1 == sum(row["features"] != 0 for row in rows):
        return readable[0].GetLayer(0)
    return readable[0].GetLayerByName(layer.GetName())


def content(row, after, empty_before):
    """Checks of one layer by itself, except for features that had no geometry before."""
    sampled = {} if after.is_complete else {"sampled": True}
    if after.invalid:
        yield {"code": "invalid_geometries", "count": after.invalid, "of": after.checked, **sampled}
    if garbled := sum(column.garbled for column in after.columns):
        yield {"code": "characters_lost", "count": garbled, **sampled}
    if row["geometry"] != "None" and after.empty > empty_before:
        yield {"code": "empty_geometries", "count": after.empty, "of": after.features, **sampled}
    if not after.is_complete:
        yield {"code": "values_unexamined", "count": after.features, "of": row["features"]}
