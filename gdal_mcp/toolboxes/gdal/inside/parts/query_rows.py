"""The rows of a SELECT, read as JSON from SQLite, and each row as an object."""

import contextlib
import itertools
import json
import math
import re

from osgeo import ogr

from gdal_mcp.toolboxes.gdal.inside.parts.extents import reference, traditional
from gdal_mcp.toolboxes.gdal.inside.parts.pixels import DOUBLE
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet
from gdal_mcp.toolboxes.gdal.inside.parts.sql_checks import same_coordinates
from gdal_mcp.toolboxes.gdal.inside.parts.tables import fields, shapes

AT_ONCE = 100  # arguments of one json_array, below the 127 of SQLITE_MAX_FUNCTION_ARG
HIDDEN = re.compile(r"OGR_(STYLE|NATIVE_DATA|NATIVE_MEDIA_TYPE)(:\d+)?")


class QueryFailed(Exception):
    """The statement failed; GDAL has reported the error."""


class Result:
    """The columns and rows of a statement's result. A row is a list of values; blobs are bytes, geometries are WKB."""

    def __init__(self, dataset, sql, *, makes_json):
        self._dataset, self._sql, self.makes_json = dataset, sql, makes_json
        with result_layer(dataset, f"SELECT * FROM ({sql}) LIMIT 0") as layer:  # noqa: S608 - the host has checked it
            definition = layer.GetLayerDefn()
            plain, drawn = ([column.GetName() for column in of(definition)] for of in (fields, shapes))
            self._columns = [name for name in (*plain, *drawn) if not HIDDEN.fullmatch(name)]
        self.names = []
        for name in self._columns:  # SQLite calls the second column of the same name NAME:1
            plain, _, number = name.rpartition(":")
            if plain and number.isdecimal():
                taken = {known.casefold() for known in (*self._columns, *self.names)}
                free = (f"{plain}_{n}" for n in itertools.count(int(number) + 1))
                self.names.append(next(candidate for candidate in free if candidate.casefold() not in taken))
            else:
                self.names.append(name)
        self.blobs = {number for number, name in enumerate(self._columns) if name in drawn}
        self.infinite, self.srids = 0, set()
        self.large_reals = set()  # numbers of columns with floating-point numbers that may lack digits
        self.without_geometry = 0  # number of rows, if a geometry column is empty in all of them

    def rows(self):
        columns = [f'q."{name.replace(chr(34), chr(34) * 2)}"' for name in self._columns]
        parts = [columns[at : at + AT_ONCE] for at in range(0, len(columns), AT_ONCE)]
        # JSON has no blobs: an array represents a blob, and a separate flag marks it
        value = "CASE typeof({0}) WHEN 'blob' THEN json_array(hex(coalesce(ST_AsBinary({0}), {0})), ST_SRID({0})) ELSE {0} END"
        flag = "typeof({0}) = 'blob'"
        forms = [(text, part) for part in parts for text in (value, flag)]
        arrays = [f"json_array({', '.join(map(text.format, part))})" for text, part in forms]
        named = ", ".join(f"{text} AS c{number}" for number, text in enumerate(arrays))
        statement = f"SELECT {named} FROM ({self._sql}) q"  # noqa: S608 - as above
        with result_layer(self._dataset, statement) as layer:
            for feature in layer:
                texts = [json.loads(feature.GetField(i)) for i in range(feature.GetFieldCount())]
                values = [cell for part in texts[::2] for cell in part]
                flags = [is_blob for part in texts[1::2] for is_blob in part]
                pairs = enumerate(zip(values, flags, strict=True))
                yield [self._value(number, cell, is_blob) for number, (cell, is_blob) in pairs]

    def _value(self, number, value, is_blob):
        if is_blob:
            data, srid = json.loads(value) if isinstance(value, str) else value
            self.blobs.add(number)
            if srid is not None:
                self.srids.add(srid)
            return bytes.fromhex(data)
        if isinstance(value, str):  # GDAL takes a column such as AsText(geom) for a geometry
            self.blobs.discard(number)
        if isinstance(value, float) and not math.isfinite(value):
            self.infinite += 1
            return None
        if isinstance(value, float) and abs(value) >= DOUBLE:
            self.large_reals.add(number)
        return value

    def crs(self):
        """The CRS of the geometries; None if they have none. Raises RuntimeError for several or unknown CRSs."""
        crs_list = [self._crs_of(number) for number in sorted(self.srids)]
        if any(crs is None or not same_coordinates(crs_list[0], crs) for crs in crs_list[1:]):
            raise RuntimeError(
                "the geometries are in several CRSs; transform them to one CRS with ST_Transform"
            )
        return crs_list[0] if crs_list else None

    def _crs_of(self, number):
        """The CRS of an SRID, from the table of the CRSs of these layers; None for an SRID without a CRS.

        Raises RuntimeError for an unknown SRID.
        """
        named = "SELECT upper(auth_name) || ':' || auth_srid, srtext FROM spatial_ref_sys"
        # the CRSs of the layers are in the table only if the statement reads these layers
        there = f"(SELECT count(*) FROM (SELECT 1 FROM ({self._sql}) LIMIT 0)) = 0"  # noqa: S608 - as above
        statement = f"{named} WHERE srid = {int(number or 0)} AND {there}"
        with result_layer(self._dataset, statement) as layer:
            texts = [text for feature in layer for text in (feature.GetField(0), feature.GetField(1)) if text]
        for text in texts:
            with quiet():
                if (crs := reference(text)) is not None:
                    return traditional(crs)
        if number and number > 0:
            raise RuntimeError("the CRS of the geometries is unknown; set it with SetSRID or ST_Transform")
        return None


@contextlib.contextmanager
def result_layer(dataset, sql):
    """The result layer of a statement, released at the end. Raises QueryFailed."""
    layer = dataset.ExecuteSQL(sql, None, "SQLITE")
    if layer is None:
        raise QueryFailed
    try:
        yield layer
    finally:
        dataset.ReleaseResultSet(layer)


def row_object(result, row, how):
    """A row as an object; geometries in the format `how`, other blobs as hexadecimal text."""
    record = {}
    for number, (name, value) in enumerate(zip(result.names, row, strict=True)):
        if not isinstance(value, bytes):
            if number not in result.blobs or how != "none":
                record[name] = value
            continue
        geometry = geometry_of(value)
        if geometry is None:
            record[name] = value.hex()
        elif how == "wkt":
            record[name] = geometry.ExportToIsoWkt()
        elif how == "geojson":
            record[name] = json.loads(geometry.ExportToJson())
    return record


def with_parsed_json(result, rows):
    """The rows with parsed JSON in columns that contain only JSON, if the statement creates JSON."""
    if not result.makes_json or not rows:
        return rows
    for number in json_columns(rows):
        for row in rows:
            row[number] = row[number] and json.loads(row[number])
    return rows


def json_columns(rows):
    """Yields the indexes of columns in which each value is null or the text of a JSON array or object."""
    for number in range(len(rows[0])):
        values = [row[number] for row in rows if row[number] is not None]
        if values and all(map(is_json, values)):
            yield number


def is_json(value):
    if not isinstance(value, str) or value[:1] not in "[{":
        return False
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return False
    return True


def geometry_of(data):
    with quiet():
        return ogr.CreateGeometryFromWkb(data)
