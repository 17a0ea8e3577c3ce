"""What is odd about a statement that GDAL itself ran, in `vector sql` or a step: its joins, and the types of its columns; and about a
formula, whose values may not fit into the type that was asked for. For that commands are run again, in memory.
"""

import itertools
import math

from osgeo import gdal, ogr

from gdal_mcp.gdal.inside.parts.joins import MAX_SECONDS, cores_of, join_checks
from gdal_mcp.gdal.inside.parts.programs import instantiated
from gdal_mcp.gdal.inside.parts.reporting import quiet
from gdal_mcp.gdal.inside.parts.sql_checks import word_checks
from gdal_mcp.gdal.inside.parts.tables import fields, layers_of

MAX_COLUMNS = 100
MAX_PIXELS = 4 << 20
MAX_FEATURES = 20_000
OF_OUTPUT = ("--output=", "--output-format", "--overwrite", "--creation-option", "--layer-creation-option")
# formats whose layers are tables, and whose statements go to SQLite when no dialect is named
OWN_SQL = ("GPKG", "SQLite")
# whether a value is none of its column's type. Of a text that is said of numbers, which sort as text then
LOST = {
    ogr.OFTInteger: "typeof({0}) = 'text' OR (typeof({0}) = 'real' AND {0} <> CAST({0} AS INTEGER)) OR abs({0}) > 2147483647",
    ogr.OFTInteger64: "typeof({0}) = 'text' OR (typeof({0}) = 'real' AND {0} <> CAST({0} AS INTEGER))",
    ogr.OFTReal: "typeof({0}) = 'text'",
    ogr.OFTString: "typeof({0}) IN ('integer', 'real')",
}


def made_again(words, kind, *more):
    """What a command of the `gdal` program makes, in a format of GDAL's own memory; None where it cannot be made so."""
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
    """A statement that is slow is not asked again."""
    asked, words = job["statement"], job["options"]
    if job["seconds"] > MAX_SECONDS:
        return []
    with quiet():
        # the dataset that the statement was of: the input, or what the steps before it give
        if "pipeline" in words:
            at = next(i for i, word in enumerate(words) if word == "!" and words[i + 1] == "sql")
            dataset = made_again([*words[:at], "!", "write"], "MEM")
        else:
            dataset = gdal.OpenEx(job["sources"][0], gdal.OF_VECTOR, open_options=asked["open_options"])
        found = list(word_checks(dataset, asked["sql"])) if dataset else []
        dialect = asked["dialect"].upper()
        own = not dialect and dataset and dataset.GetDriver().ShortName in OWN_SQL
        if dialect != "SQLITE" and not own:
            # such a column is refused by GDAL's own dialect
            return [one for one in found if one["code"] != "column_unknown"]
        found += join_checks(dataset, asked["sql"], dialect=dialect)
        return found + (list(type_checks(dataset, asked["sql"], dialect)) if job["outputs"] else [])


def type_checks(dataset, sql, dialect):
    """GDAL gives a column that is computed the type of its first row's value."""
    layer = dataset.ExecuteSQL(sql, None, dialect)
    if layer is None:
        return
    core = next(cores_of(sql), None)
    if (
        core
        and layer.GetLayerDefn().GetGeomFieldCount() > 1
        and any(one.text == "(" for one in core.selected)
    ):
        yield {"code": "several_geometries", "count": layer.GetLayerDefn().GetGeomFieldCount()}
    columns = fields(layer.GetLayerDefn(), MAX_COLUMNS)
    kinds = [('q."{}"'.format(one.GetName().replace('"', '""')), one.GetType()) for one in columns]
    dataset.ReleaseResultSet(layer)
    tests = ", ".join(f"coalesce(max({LOST.get(kind, '0').format(name)}), 0)" for name, kind in kinds)
    counted = tests and dataset.ExecuteSQL(f"SELECT {tests} FROM ({sql}) q", None, dialect)  # noqa: S608 - read token by token
    if not counted:
        return
    feature = counted.GetNextFeature()
    places = [i for i in range(len(kinds)) if feature.GetFieldAsInteger(i)]
    dataset.ReleaseResultSet(counted)
    if places:
        yield {"code": "type_of_first_row", "fields": places}


def range_checks(job):
    """Values that do not fit into the type that was asked for: results of a formula, or an attribute that was burned."""
    if job["seconds"] > MAX_SECONDS:
        return []
    with quiet():
        rasterized = job["options"][:2] == ["vector", "rasterize"]
        found = burned(job) if rasterized else computed(job)
        output = gdal.OpenEx(job["outputs"][0]["path"], gdal.OF_RASTER) if rasterized and found else None
        nodata = output.GetRasterBand(1).GetNoDataValue() if output else None
    least, most = job["type_range"] or (-math.inf, math.inf)
    low, high = min((one[0] for one in found), default=least), max((one[1] for one in found), default=most)
    checks = (
        [{"code": "values_clamped", "minimum": low, "maximum": high}] if low < least or high > most else []
    )
    if (count := found.count((nodata, nodata))) and any(one != found[0] for one in found):
        checks.append({"code": "values_equal_nodata", "count": count, "of": len(found)})
    return checks


def computed(job):
    """The ranges of a formula's results, in a type that holds every number."""
    words = [word for word in job["options"] if not word.startswith("--output-data-type")]
    dataset = made_again(words, "VRT", "--output-data-type=Float64")
    if dataset is None:
        return []
    if dataset.RasterXSize * dataset.RasterYSize * dataset.RasterCount > MAX_PIXELS:
        return []
    bands = (dataset.GetRasterBand(i + 1) for i in range(dataset.RasterCount))
    return [found for band in bands if (found := band.ComputeRasterMinMax(False, can_return_none=True))]


def burned(job):
    """The values that are burned: those that are given, or an attribute's in each layer that has it."""
    words = [word.partition("=") for word in job["options"]]
    given = [float(one) for name, _, value in words if name == "--burn" for one in value.split(",")]
    named = [value for name, _, value in words if name == "--attribute-name"]
    if given or not named:
        return [(one, one) for one in given]
    dataset = gdal.OpenEx(job["sources"][0], gdal.OF_VECTOR)
    for layer in layers_of(dataset):
        place = layer.GetLayerDefn().GetFieldIndex(named[0])
        some = itertools.islice(layer, MAX_FEATURES if place >= 0 else 0)
        given += (one.GetFieldAsDouble(place) for one in some if one.IsFieldSetAndNotNull(place))
    return [(one, one) for one in given]
