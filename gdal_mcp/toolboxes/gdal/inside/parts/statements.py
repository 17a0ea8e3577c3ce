"""Checks statements that GDAL itself ran, and values that a formula or an attribute puts into a raster.

Statements are those of `vector sql` or of a step: their joins and the types of their columns are checked. For these
checks, commands run again in memory.
"""

import itertools
import math
import time

from osgeo import gdal, ogr

from gdal_mcp.toolboxes.gdal.inside.parts.join_keys import alike_keys
from gdal_mcp.toolboxes.gdal.inside.parts.joins import MAX_SECONDS, Counting
from gdal_mcp.toolboxes.gdal.inside.parts.programs import COMPUTING, instantiated
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet, skip
from gdal_mcp.toolboxes.gdal.inside.parts.sql_checks import column_checks, recorded, row_checks
from gdal_mcp.toolboxes.gdal.inside.parts.tables import fields, layers_of

MAX_COLUMNS = 100
NO_RESULT = -1.5e308  # replaces nodata when a formula is run again
ENORMOUS = 1e150  # a larger result was computed from NO_RESULT, for example as its root
# options of `vector rasterize` with which polygons need no pixel, or always have one
CHOOSING = ("--all-touched", "--where", "--sql", "--invert", "--3d")
CONDITIONS = ("--where", "--sql")
MAX_PIXELS = 4 << 20
# checks of the values that a formula or a burned attribute puts into a raster
OF_VALUES = ("not_finite", "values_clamped", "values_rounded", "values_equal_nodata", "results_equal_nodata")
# checks of a statement, besides those of its rows
OF_STATEMENT = (
    "column_unknown",
    "integer_division",
    "case_ignored",
    "several_geometries",
    "type_of_first_row",
)
MAX_FEATURES = 20_000
OF_OUTPUT = ("--output=", "--output-format", "--overwrite", "--creation-option", "--layer-creation-option")
# formats whose layers are tables, and whose statements go to SQLite when no dialect is named
OWN_SQL = ("GPKG", "SQLite")
# SQL tests for values that do not fit the type of their column; in text columns for numbers, which sort as text
LOST = {
    ogr.OFTInteger: "typeof({0}) = 'text' OR (typeof({0}) = 'real' AND {0} <> CAST({0} AS INTEGER)) OR abs({0}) > 2147483647",
    ogr.OFTInteger64: "typeof({0}) = 'text' OR (typeof({0}) = 'real' AND {0} <> CAST({0} AS INTEGER))",
    ogr.OFTReal: "typeof({0}) = 'text'",
    ogr.OFTString: "typeof({0}) IN ('integer', 'real')",
}


def remade(words, kind, *more):
    """Runs a command of the `gdal` program again into an in-memory format; None if that is impossible."""
    algorithm, path, rest = instantiated(words)
    if "[" in rest:
        return None
    if path[-1] == "pipeline":
        at = len(rest) - 1 - rest[::-1].index("!")
        rest = [*rest[: at + 1], "write"]
    else:
        rest = [word for word in rest if not word.startswith(OF_OUTPUT)]
    if not algorithm.ParseCommandLineArguments([*rest, "--output=again", f"--output-format={kind}", *more]):
        return None
    return algorithm.GetActualAlgorithm().GetArg("output").Get().GetDataset() if algorithm.Run() else None


def statement_checks(job):
    """Checks a statement. A slow statement is not run again, and neither are steps with branches."""
    statement = job["statement"]
    if not statement["sql"]:
        return condition_checks(job)
    outline = statement["outline"]
    with quiet():
        dataset = dataset_of(job, "sql") if job["seconds"] <= MAX_SECONDS else None
        if dataset is None:
            skip(*OF_STATEMENT)
            return row_checks(None, outline, MAX_SECONDS)
        findings = list(column_checks(dataset, outline))
        findings += case_checks(dataset, statement["equalled"])
        dialect = statement["dialect"].upper()
        own = not dialect and dataset.GetDriver().ShortName in OWN_SQL
        if dialect != "SQLITE" and not own:
            # GDAL's own dialect rejects such a column
            own_findings = [finding for finding in findings if finding["code"] != "column_unknown"]
            return own_findings + recorded(list(own_joins(dataset, outline)))
        findings += row_checks(dataset, outline, job["seconds"], dialect=dialect)
        computes = outline is not None and outline["computes"]
        return findings + (
            list(type_checks(dataset, statement["sql"], dialect, computes=computes)) if job["outputs"] else []
        )


def dataset_of(job, step):
    """The dataset of a statement or condition: the input, or the result of the steps before it; None if that fails."""
    words = job["options"]
    if "pipeline" in words:
        at = next(i for i, word in enumerate(words) if word == "!" and words[i + 1] == step)
        return remade([*words[:at], "!", "write"], "MEM")
    return gdal.OpenEx(job["sources"][0], gdal.OF_VECTOR, open_options=job["statement"]["open_options"])


def condition_checks(job):
    """Checks a condition without a statement. The features of a slow command are not read again."""
    condition = job["statement"]
    with quiet():
        dataset = dataset_of(job, condition["step"]) if job["seconds"] <= MAX_SECONDS else None
        if condition["unprobed"] or (condition["nulls"] and dataset is None):
            skip("nulls_excluded")
        if dataset is None:
            skip(*(["case_ignored"] if condition["equalled"] else []))
            return []
        return [*case_checks(dataset, condition["equalled"]), *excluded_nulls(dataset, condition)]


def excluded_nulls(dataset, condition):
    """Reports features that a condition leaves out because a value is NULL."""
    names, until = condition["layers"], time.process_time() + MAX_SECONDS
    layers = [layer for layer in layers_of(dataset) if not names or layer.GetName() in names]
    for layer, test in itertools.product(layers, condition["nulls"]):
        if time.process_time() > until or layer.SetAttributeFilter(test) != ogr.OGRERR_NONE:
            skip("nulls_excluded")
            return
        if condition["box"]:
            layer.SetSpatialFilterRect(*condition["box"])
        if count := layer.GetFeatureCount():
            yield {"code": "nulls_excluded", "count": count}
            return


def own_joins(dataset, outline):
    """Checks joins in GDAL's own dialect, which takes only one row of the other table for each row."""
    for select in outline["selects"] if outline is not None else ():
        counting = Counting(dataset, outline, select, "", "SQLITE")
        first = next((item for item in counting.tables if item in counting.items[:1]), None)
        if first is not None and len(counting.items) > 1:
            yield from alike_keys(counting)
            _, several = counting.times(first, filtered=False) or (0, 0)
            if several:
                yield {"code": "joined_once", "count": several}
                return


def case_checks(dataset, equalled):
    """Reports texts that differ from a requested text only in case; GDAL treats them as equal in its own tests."""
    if dataset.GetDriver().ShortName in OWN_SQL:
        return
    wanted = {}
    for name, text in equalled:
        wanted.setdefault(name, set()).add(text)
    for layer in layers_of(dataset):
        named = enumerate(field.GetName().lower() for field in fields(layer.GetLayerDefn()))
        columns = [(i, wanted[name]) for i, name in named if name in wanted]
        if columns and layer.GetFeatureCount() > MAX_FEATURES:
            skip("case_ignored")
        rows = itertools.islice(layer, MAX_FEATURES if columns else 0)
        values = ((feature.GetFieldAsString(i), texts) for feature in rows for i, texts in columns)
        count = sum(
            value not in texts and value.casefold() in map(str.casefold, texts) for value, texts in values
        )
        layer.ResetReading()
        if count:
            yield {"code": "case_ignored", "count": count}
            return


def type_checks(dataset, sql, dialect, *, computes):
    """Checks computed columns: GDAL gives them the type of the first row's value."""
    layer = dataset.ExecuteSQL(sql, None, dialect)
    if layer is None:
        return
    shapes = layer.GetLayerDefn().GetGeomFieldCount()
    if computes and shapes > 1:
        yield {"code": "several_geometries", "count": shapes}
    columns = fields(layer.GetLayerDefn(), MAX_COLUMNS)
    kinds = [('q."{}"'.format(column.GetName().replace('"', '""')), column.GetType()) for column in columns]
    dataset.ReleaseResultSet(layer)
    tests = ", ".join(f"coalesce(max({LOST.get(kind, '0').format(name)}), 0)" for name, kind in kinds)
    counted = tests and dataset.ExecuteSQL(f"SELECT {tests} FROM ({sql}) q", None, dialect)  # noqa: S608 - the host has checked it
    if not counted:
        return
    feature = counted.GetNextFeature()
    places = [i for i in range(len(kinds)) if feature.GetFieldAsInteger(i)]
    dataset.ReleaseResultSet(counted)
    if places:
        yield {"code": "type_of_first_row", "fields": places}


def value_checks(job):
    """Like `checks_of_values`. A slow command is not computed again."""
    if job["seconds"] <= MAX_SECONDS:
        return checks_of_values(job)
    skip(*OF_VALUES)
    return ()


def checks_of_values(job):
    """Checks the values that a formula or a burned attribute puts into a raster, and polygons without a pixel."""
    import numpy

    burns, calculates = (job["options"][:2] == command for command in COMPUTING)
    with quiet():
        output = gdal.OpenEx(job["outputs"][0]["path"], gdal.OF_RASTER)
        if output is None:
            return
        if burns:
            yield from rounded_checks(job)
            yield from unseen_checks(job, output)
            yield from null_checks(job, output)
        raw = numpy.array(burned(job), float) if burns else computed(job, calculates=calculates)
        values, count, band = raw[numpy.isfinite(raw)], {"of": int(raw.size)}, output.GetRasterBand(1)
        if calculates and (none := no_numbers(raw, job["sources"])):
            yield {"code": "not_finite", "count": none, **count}
    if not values.size:
        return
    least, most = job["type_range"] or (-math.inf, math.inf)
    low, high = float(values.min()), float(values.max())
    if low < least or high > most:
        yield {"code": "values_clamped", "minimum": low, "maximum": high}
    chosen = any(word.startswith("--nodata=") for word in job["options"])
    equal = int((values == band.GetNoDataValue()).sum())
    if (burns or (calculates and not chosen)) and 0 < equal < values.size:
        yield {"code": "values_equal_nodata" if burns else "results_equal_nodata", "count": equal, **count}
    # an integer type is a request to round, but shares up to 1 all become zero
    if job["type_range"] and (burns or max(-low, high) <= 1):
        lost = "values_rounded", values != numpy.floor(values)
    elif burns and band.DataType == gdal.GDT_Float32:
        lost = "digits_lost", (values.astype("float32") != values) & (values == numpy.floor(values))
    else:
        return
    if lost[1].any():
        yield {"code": lost[0], "count": int(lost[1].sum()), **count}


def computed(job, *, calculates):
    """The results of a formula as Float64, for pixels where the inputs have data; empty if there are too many."""
    import numpy

    from gdal_mcp.toolboxes.gdal.inside.parts.values import pixels

    options = {"--output-data-type": "Float64", **({"--nodata": repr(NO_RESULT)} if calculates else {})}
    words = [word for word in job["options"] if word.partition("=")[0] not in options]
    dataset = remade(words, "VRT", *map("=".join, options.items()))
    if dataset is None or is_large(dataset):
        skip(*OF_VALUES)
        return numpy.array([])
    bands = (dataset.GetRasterBand(i + 1) for i in range(dataset.RasterCount))
    results = numpy.concatenate([values[valid] for values, valid in map(pixels, bands)])
    # if an input has no nodata value, GDAL computes with that of the output
    return results[~(numpy.isfinite(results) & (abs(results) > ENORMOUS))]


def no_numbers(results, sources):
    """The number of results that are not finite; if the inputs may contain NaN, the number of infinite ones."""
    import numpy

    none = ~numpy.isfinite(results)
    if none.any() and any(map(may_hold_nan, sources)):
        none = numpy.isinf(results)
    return int(none.sum())


def may_hold_nan(path):
    import numpy

    dataset = gdal.OpenEx(path, gdal.OF_RASTER)
    return dataset is None or is_large(dataset) or not numpy.isfinite(dataset.ReadAsArray()).all()


def is_large(dataset):
    return dataset.RasterXSize * dataset.RasterYSize * dataset.RasterCount > MAX_PIXELS


def burned(job):
    """The values to burn: those of `--burn`, or those of the attribute in each layer that has it."""
    words = [word.partition("=") for word in job["options"]]
    values = [float(number) for name, _, value in words if name == "--burn" for number in value.split(",")]
    return values or [feature.GetFieldAsDouble(place) for feature, place in attributes(job)]


def attributes(job, *, nulls=False):
    """Yields each feature with a value to burn, and the index of the field of that value; with `nulls`, those without."""
    words = (word.partition("=") for word in job["options"])
    name = next((value for option, _, value in words if option == "--attribute-name"), "")
    dataset = gdal.OpenEx(job["sources"][0], gdal.OF_VECTOR)
    for layer in layers_of(dataset) if name else ():
        place = layer.GetLayerDefn().GetFieldIndex(name)
        some = itertools.islice(layer, MAX_FEATURES if place >= 0 else 0)
        yield from ((feature, place) for feature in some if nulls != feature.IsFieldSetAndNotNull(place))


def is_rounded(attribute):
    """True if a value is a whole number that a double, as which GDAL burns it, does not represent."""
    feature, place = attribute
    is_whole = feature.GetFieldDefnRef(place).GetType() == ogr.OFTInteger64
    return is_whole and int(feature.GetFieldAsDouble(place)) != feature.GetFieldAsInteger64(place)


def rounded_checks(job):
    """Reports whole numbers that are burned as other numbers, because GDAL burns them as doubles."""
    if count := sum(map(is_rounded, attributes(job))):
        yield {"code": "digits_in_pixels", "count": count}


def null_checks(job, output):
    """Reports features without a value to burn, for which GDAL burns 0, unless 0 is nodata."""
    if any(word.startswith(CONDITIONS) for word in job["options"]):
        return
    count = sum(1 for _ in attributes(job, nulls=True))
    if count and output.GetRasterBand(1).GetNoDataValue() != 0:
        yield {"code": "nulls_burned", "count": count}


def unseen_checks(job, output):
    """Reports polygons whose boxes do not contain the centre of any pixel."""
    dataset = gdal.OpenEx(job["sources"][0], gdal.OF_VECTOR)
    if dataset.GetLayerCount() != 1 or any(word.startswith(CHOOSING) for word in job["options"]):
        return
    layer, (west, width, _, north, _, height) = dataset.GetLayer(0), output.GetGeoTransform()
    if layer.GetSpatialRef() is not None and not layer.GetSpatialRef().IsSame(output.GetSpatialRef()):
        return
    shapes = (feature.GetGeometryRef() for feature in itertools.islice(layer, MAX_FEATURES))
    boxes = [shape.GetEnvelope() for shape in shapes if shape and shape.GetDimension() == 2]
    unseen = sum(
        misses((box[0] - west) / width, (box[1] - west) / width)
        or misses((box[3] - north) / height, (box[2] - north) / height)
        for box in boxes
    )
    if unseen:
        yield {"code": "smaller_than_pixel", "count": unseen, "of": len(boxes)}


def misses(low, high):
    """True if no centre of a column or line lies between two positions, in pixels."""
    return math.ceil(low - 0.5) > math.floor(high - 0.5)
