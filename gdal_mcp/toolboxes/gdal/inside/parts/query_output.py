"""Writes the rows of a SELECT to a file: JSON, or one layer whose columns get types that fit all values."""

import datetime
import json
import os
import re
from itertools import islice

from osgeo import gdal, ogr

from gdal_mcp.toolboxes.gdal.inside.parts.query_rows import (
    geometry_of,
    json_columns,
    row_object,
    with_parsed_json,
)

DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
# GDAL stores milliseconds, and time zones as multiples of 15 minutes
MOMENT = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-](0\d|1[0-4]):?(00|15|30|45))?", re.ASCII
)
TIMES = (
    (ogr.OFTDate, DATE, datetime.date.fromisoformat),
    (ogr.OFTDateTime, MOMENT, datetime.datetime.fromisoformat),
)
INT32 = 1 << 31


def write(job, result):
    """Writes all rows and returns their number."""
    path, form = job["output"], job["form"]
    if form in ("json", "jsonl"):  # one record per line; `json` wraps them in an array
        count, (begin, between, end) = 0, ("[\n", ",\n", "\n]\n") if form == "json" else ("", "\n", "\n")
        rows = with_parsed_json(result, list(result.rows())) if result.makes_json else result.rows()
        with open(path, "w", encoding="utf-8") as file:
            for row in rows:
                record = row_object(result, row, job["geometry"])
                text = json.dumps(record, ensure_ascii=False, allow_nan=False)
                file.write((between if count else begin) + text)
                count += 1
            file.write(end if count else "[]\n" if form == "json" else "")
        return count
    if form == "object":
        return write_object(path, result, job)
    all_rows = list(result.rows())
    write_layer(path, form, result, all_rows, job)
    if job.get("members"):  # foreign members of a GeoJSON go after its opening brace
        with open(path, encoding="utf-8") as file:
            start, brace, rest = file.read().partition("{")
        members = json.dumps(job["members"], ensure_ascii=False)[1:-1]
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{start}{brace}{members},{rest}")
    return len(all_rows)


def write_object(path, result, job):
    """Writes the only row as an object; if its only column is a JSON object, writes that object.

    Raises RuntimeError if there is not exactly one row.
    """
    rows = with_parsed_json(result, list(islice(result.rows(), 2)))
    if len(rows) != 1:
        raise RuntimeError(
            f"output_format object needs exactly one row, but there are {'several' if rows else 'none'}; use json"
        )
    record = row_object(result, rows[0], job["geometry"])
    value = next(iter(record.values())) if len(record) == 1 else None
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value if isinstance(value, dict) else record, file, ensure_ascii=False, allow_nan=False)
    return 1


def write_layer(path, driver, result, rows, job):
    """Writes one layer. A column gets the type that fits all of its values."""
    drawn = [number for number in sorted(result.blobs) if any(row[number] for row in rows)]
    if result.blobs and not drawn:
        result.without_geometry = len(rows)
    if len(drawn) > 1:
        raise RuntimeError("the rows have several geometry columns; select one of them")
    with_geometry = bool(drawn) and not (driver == "CSV" and job["geometry"] == "none")
    geometries, kind = [None] * len(rows), ogr.wkbNone
    if with_geometry:
        blobs = [row[drawn[0]] for row in rows]
        geometries = [geometry_of(data) if data else None for data in blobs]
        if any(data and geometry is None for data, geometry in zip(blobs, geometries, strict=True)):
            raise RuntimeError("a column contains binary data that is not a geometry; omit it, or use hex()")
        kind, geometries = common_type(geometries)
    dataset = gdal.GetDriverByName(driver).CreateVector(path)
    how = ["GEOMETRY=AS_WKT"] if driver == "CSV" and with_geometry else []
    name = os.path.basename(path).split(".")[0]
    layer = dataset.CreateLayer(name, result.crs() if with_geometry else None, kind, how)
    plain = [number for number in range(len(result.names)) if number not in result.blobs]
    for field in field_definitions(result, plain, rows):
        layer.CreateField(field)
    definition = layer.GetLayerDefn()
    if definition.GetFieldCount() != len(plain):
        raise RuntimeError("the format cannot store all of the columns")
    dataset.StartTransaction()
    for row, geometry in zip(rows, geometries, strict=True):
        feature = ogr.Feature(definition)
        for at, value in enumerate(row[number] for number in plain):
            if value is None:
                feature.SetFieldNull(at)
            else:
                simple = isinstance(value, int | float | str)
                feature.SetField(at, value if simple else json.dumps(value, ensure_ascii=False))
        feature.SetGeometryDirectly(geometry)
        layer.CreateFeature(feature)
    dataset.CommitTransaction()
    dataset.Close()


def common_type(geometries):
    """The common type of all geometries, and the geometries in that type.

    A mix of single and multi geometries becomes multi geometries.
    """
    kinds = {geometry.GetGeometryType() for geometry in geometries if geometry is not None}
    if len(kinds) == 1:
        return kinds.pop(), geometries
    multiple = {
        ogr.GT_GetCollection(kind) if ogr.GT_IsSubClassOf(kind, ogr.wkbGeometryCollection) == 0 else kind
        for kind in kinds
    }
    if len(multiple) != 1 or ogr.wkbUnknown in multiple:
        return ogr.wkbUnknown, geometries
    kind = multiple.pop()
    return kind, [geometry and ogr.ForceTo(geometry, kind) for geometry in geometries]


def field_definitions(result, numbers, rows):
    documents = set(json_columns(rows)) if result.makes_json and rows else ()
    for number in numbers:
        field = field_definition(
            result.names[number], [row[number] for row in rows if row[number] is not None]
        )
        if number in documents:
            field.SetSubType(ogr.OFSTJSON)
        yield field


def is_time(text, pattern, parse):
    """True for a valid date or moment; part numbers can look like dates."""
    try:
        return bool(pattern.fullmatch(text) and parse(text))
    except ValueError:
        return False


def field_definition(name, values):
    kinds, field_type = {type(value) for value in values}, ogr.OFTString
    if kinds and kinds <= {int}:
        small = all(-INT32 <= value < INT32 for value in values)
        field_type = ogr.OFTInteger if small else ogr.OFTInteger64
    elif kinds and kinds <= {int, float}:
        field_type = ogr.OFTReal
    elif kinds == {str}:
        field_type = next(
            (kind for kind, *how in TIMES if all(is_time(value, *how) for value in values)), field_type
        )
    return ogr.FieldDefn(name, field_type)
