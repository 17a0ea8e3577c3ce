"""Reports whole numbers whose last digits a layer, or the programs that usually read its format, cannot store."""

from osgeo import ogr

from gdal_mcp.toolboxes.gdal.inside.parts.pixels import DOUBLE
from gdal_mcp.toolboxes.gdal.inside.parts.survey import Clock, Survey
from gdal_mcp.toolboxes.gdal.inside.parts.tables import fields, layers_of

# formats that are mostly read by JavaScript, whose numbers are doubles, and by spreadsheet programs, which store 15
# digits of a number
READERS = {
    **dict.fromkeys(("GeoJSON", "GeoJSONSeq", "JSONFG", "TopoJSON"), ("digits_in_json", DOUBLE)),
    **dict.fromkeys(("XLSX", "ODS"), ("digits_in_sheets", 10**15)),
}


def digit_checks(layer, after, sources, clock, driver):
    """Checks the numbers of an output layer. `after` is its survey; `sources` are the layers that it was made from."""
    kinds = [field.GetType() for field in fields(layer.GetLayerDefn())]
    columns = [
        (i, kind, column.largest) for i, (kind, column) in enumerate(zip(kinds, after.columns, strict=False))
    ]
    real = [i for i, kind, largest in columns if kind == ogr.OFTReal and largest >= DOUBLE]
    if real and any(has_wide_integers(source, clock) for source in sources):
        yield {"code": "digits_in_real", "fields": real}
    code, limit = READERS.get(driver, ("", DOUBLE))
    integer_fields = [i for i, kind, largest in columns if kind == ogr.OFTInteger64 and largest >= limit]
    if code and integer_fields:
        yield {"code": code, "fields": integer_fields}


def result_checks(result, rows, dataset, outline):
    """Checks the rows of an answer for whole numbers that a double cannot store, and doubles made from such numbers."""
    wide = {i for row in rows for i, value in enumerate(row) if type(value) is int and abs(value) >= DOUBLE}
    if wide:
        yield {"code": "digits_in_json", "fields": sorted(wide)}
    if not result.large_reals or outline is None:
        return
    layers = [layer for layer in layers_of(dataset) if layer.GetName().lower() in outline["reads"]]
    if any(has_wide_integers(layer, Clock(), outline["named"]) for layer in layers):
        yield {"code": "digits_in_real", "fields": sorted(result.large_reals)}


def has_wide_integers(layer, clock, names=None):
    """True if a field, or one of those with these names in lower case, has whole numbers beyond those of a double."""
    named = [names is None or field.GetName().lower() in names for field in fields(layer.GetLayerDefn())]
    columns = [
        column for column, is_named in zip(Survey(layer, clock).columns, named, strict=False) if is_named
    ]
    return any(column.kind == ogr.OFTInteger64 and column.largest >= DOUBLE for column in columns)
