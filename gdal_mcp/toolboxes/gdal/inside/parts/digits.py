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
    kinds = [one.GetType() for one in fields(layer.GetLayerDefn())]
    columns = [
        (i, kind, one.largest) for i, (kind, one) in enumerate(zip(kinds, after.columns, strict=False))
    ]
    real = [i for i, kind, largest in columns if kind == ogr.OFTReal and largest >= DOUBLE]
    if real and any(has_wide_integers(one, clock) for one in sources):
        yield {"code": "digits_in_real", "fields": real}
    code, limit = READERS.get(driver, ("", DOUBLE))
    whole = [i for i, kind, largest in columns if kind == ogr.OFTInteger64 and largest >= limit]
    if code and whole:
        yield {"code": code, "fields": whole}


def result_checks(result, dataset, outline):
    """Checks the rows of a statement for floating-point numbers that were made from larger whole numbers."""
    if not result.large_reals or outline is None:
        return
    layers = [one for one in layers_of(dataset) if one.GetName().lower() in outline["reads"]]
    if any(has_wide_integers(one, Clock(), outline["named"]) for one in layers):
        yield {"code": "digits_in_real", "fields": sorted(result.large_reals)}


def has_wide_integers(layer, clock, names=None):
    """True if a field, or one of those with these names in lower case, has whole numbers beyond those of a double."""
    named = [names is None or one.GetName().lower() in names for one in fields(layer.GetLayerDefn())]
    columns = [one for one, is_named in zip(Survey(layer, clock).columns, named, strict=False) if is_named]
    return any(one.kind == ogr.OFTInteger64 and one.largest >= DOUBLE for one in columns)
