"""Runs one SELECT on the layers of several files and returns its rows.

Every layer is a table of one virtual dataset. SQLite writes the rows as JSON, because GDAL would give each column the
type of its first row and truncate values that do not fit.
"""

import contextlib
import datetime
import itertools
import json
import math
import os
import re
import time
from html import escape
from itertools import islice

from osgeo import gdal, ogr

from gdal_mcp.toolboxes.gdal.inside.parts.beside import COUNT_ANEW, in_wal_mode, pending, stale_counts
from gdal_mcp.toolboxes.gdal.inside.parts.extents import reference, traditional
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import part, print_json, quiet
from gdal_mcp.toolboxes.gdal.inside.parts.sql_checks import column_checks, row_checks, same_coordinates
from gdal_mcp.toolboxes.gdal.inside.parts.tables import fields, layers_of, shapes

AT_ONCE = 100  # arguments of one json_array, below the 127 of SQLITE_MAX_FUNCTION_ARG
FIRST_ROWS = 1000  # rows of a CSV that are searched for booleans
HIDDEN = re.compile(r"OGR_(STYLE|NATIVE_DATA|NATIVE_MEDIA_TYPE)(:\d+)?")
DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
# GDAL stores milliseconds, and time zones in quarters of an hour
MOMENT = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-](0\d|1[0-4]):?(00|15|30|45))?", re.ASCII
)
INT32 = 1 << 31
DATABASES = ("GPKG", "SQLite")
SOURCE = "source of "  # prefix of the name under which a table is read from its file


def run_query(job, _report):
    """Runs the statement, and prints an object with its rows, or with their number if they are written to a file.

    `more` is true if there are further rows; `geometry_columns` are the columns with geometries.
    """
    tables, begun = Tables(job["tables"]), time.process_time()
    try:
        result = open_result(tables, job["sql"], job["outline"])
        if job["form"]:
            answer = {"count": write(job, result)}
        else:
            found = list(islice(result.rows(), job["limit"] + 1))
            kept = with_parsed_json(result, found[: job["limit"]])
            rows = [row_object(result, row, job["geometry"]) for row in kept]
            answer = {"rows": rows, "more": len(found) > len(rows)}
    except QueryFailed:
        return False
    left_out = [result.names[number] for number in sorted(result.blobs)]
    about = {"columns": result.names, "geometry_columns": left_out, "infinite": result.infinite}
    units = part("units").units_of(tables.dataset, result.names, job["outline"])
    print_json({**answer, **about, **({"units": units} if units else {})})
    job["checks"] = list(column_checks(tables.dataset, job["outline"]))
    if result.without_geometry:
        job["checks"].append({"code": "empty_geometries", "count": result.without_geometry})
    took, read_first = time.process_time() - begun, tables.read_first(job["outline"], rows=True)
    job["checks"] += row_checks(tables.dataset, job["outline"], took, read_first)
    return True


def open_result(tables, sql, outline):
    """Opens the result of a statement. Tables are first read into memory if the statement needs that.

    SQLite indexes only tables that it has read; without an index, a join of ten thousand rows with ten thousand takes
    a minute. Two readers of one layer, such as a subquery, share its position and miss rows.
    """
    makes_json = outline is None or outline["makes_json"]
    for rows in (False, True):  # with the rowid as a column only if the statement needs it
        read_first = tables.read_first(outline, rows=rows)
        text = f"WITH RECURSIVE {read_first} SELECT * FROM ({sql})" if read_first else sql  # noqa: S608 - the host has checked it
        with contextlib.suppress(QueryFailed), quiet():
            return Result(tables.dataset, text, makes_json=makes_json)
    return Result(tables.dataset, sql, makes_json=makes_json)


class QueryFailed(Exception):
    """The statement failed; GDAL has reported the error."""


class Tables:
    """The layers of all files as tables of one dataset.

    The only layer of a file is named ALIAS, one of several layers ALIAS_LAYER. A layer's own name also works if it is
    unique.
    """

    def __init__(self, files):
        self._sources, self._texts, own = {}, {}, {}
        for alias, path in files:
            options = open_options(path)
            dataset = gdal.OpenEx(path, gdal.OF_VECTOR | gdal.OF_VERBOSE_ERROR, open_options=options)
            if dataset is None:
                raise RuntimeError(f"{os.path.basename(path)} has no readable layers")
            layers = layers_of(dataset)
            for layer in layers:
                name, source = layer.GetName(), source_xml(path, layer, options)
                self._texts[source] = matched_by_gdal(dataset, layer)
                self._add(alias if len(layers) == 1 else f"{alias}_{name}", source)
                own.setdefault(name.lower(), []).append((name, source))
        for found in own.values():
            if len(found) == 1:
                self._add(*found[0])
        named = [(called, xml) for name, xml in self._sources.values() for called in (name, SOURCE + name)]
        layers = "".join(f'<OGRVRTLayer name="{escape(called)}">{xml}' for called, xml in named)
        self.dataset = gdal.OpenEx(f"<OGRVRTDataSource>{layers}</OGRVRTDataSource>", gdal.OF_VECTOR)
        if self.dataset is None:
            raise RuntimeError("the layers of these files cannot be combined into one dataset")
        # if GDAL opened it during a statement, it would open the database for writing, which fails on read-only files
        for layer in layers_of(self.dataset) if any(in_wal_mode(path) for _, path in files) else ():
            layer.GetLayerDefn()

    def _add(self, name, source):
        self._sources.setdefault(name.lower(), (name, source))

    def read_first(self, outline, *, rows):
        """The tables of a WITH clause, with the rowid if `rows`; "" if SQLite can read the layers directly.

        If a table is read twice, every table is read once, into memory. If texts are compared, SQLite gets all rows,
        because GDAL ignores upper and lower case in `=` and not in LIKE, and SQLite does the opposite. A statement
        that the host could not parse may read any table, so all tables are included.
        """
        reads = outline["reads"] if outline is not None else dict.fromkeys(self._sources, 2)
        own = set(outline["own_tables"]) if outline is not None else set()
        found = [name for name in self._sources if name in reads]
        twice = sum(reads[name] for name in found) > 1 or any(reads.get(name, 0) > 1 for name in own)
        matched = outline is not None and any(self._compares(name, outline["matched"]) for name in found)
        if own & set(found) or not (found and (twice or matched)):
            return ""
        # SQLite passes no conditions on to a subquery with a LIMIT, and reads it row by row
        how, end = ("MATERIALIZED ", "") if twice else ("", " LIMIT -1")
        ids = "rowid AS rowid, " if rows else ""
        named = (self._sources[name][0].replace('"', '""') for name in found)
        tables = (f'"{name}" AS {how}(SELECT {ids}* FROM "{SOURCE}{name}"{end})' for name in named)  # noqa: S608 - names of layers
        return ", ".join(tables)

    def _compares(self, name, matched):
        return not self._texts[self._sources[name][1]].isdisjoint(matched)


def matched_by_gdal(dataset, layer):
    """The lower-case names of the text columns whose conditions GDAL evaluates itself; empty for databases."""
    if dataset.GetDriver().ShortName in DATABASES:
        return set()
    texts = (one for one in fields(layer.GetLayerDefn()) if one.GetType() == ogr.OFTString)
    return {one.GetName().lower() for one in texts}


def open_options(path):
    found = csv_open_options(path) if path.lower().endswith((".csv", ".tsv")) else []
    if in_wal_mode(path) and not pending(path):
        found.append("IMMUTABLE=YES")
    if stale_counts(path):
        found.append(f"PRELUDE_STATEMENTS={COUNT_ANEW}")
    return found


def csv_open_options(path):
    """Open options that detect the types of a CSV's columns; numbers with leading zeros stay text.

    GDAL also reads Y, N, T, F, on and off as booleans. Columns with these values stay text, because N can mean north.
    """
    options = [
        "AUTODETECT_TYPE=YES",
        "AUTODETECT_SIZE_LIMIT=0",
    ]  # types are detected from all rows, not only from the first megabyte
    with quiet():
        found, plain = (gdal.OpenEx(path, gdal.OF_VECTOR, open_options=how) for how in (options, []))
        if found is None or plain is None:
            return options
        layer, named = plain.GetLayer(0), fields(found.GetLayer(0).GetLayerDefn())
        switches = {i: one.GetName() for i, one in enumerate(named) if one.GetSubType() == ogr.OFSTBoolean}
        words = {i: set() for i in switches}
        for feature in islice(layer, FIRST_ROWS if switches else 0):
            for i, seen in words.items():
                seen.add(feature.GetFieldAsString(i).strip().lower())
    texts = [name for i, name in switches.items() if not words[i] <= {"true", "false", ""}]
    if not texts:
        return options
    columns = [{"name": name, "type": "String", "subType": "None"} for name in texts]
    return [*options, f"OGR_SCHEMA={json.dumps({'layers': [{'name': layer.GetName(), 'fields': columns}]})}"]


def source_xml(path, layer, options):
    """A layer's VRT XML after its opening tag. The geometry column of every table is called geom."""
    pairs = (one.split("=", 1) for one in options)
    opening = "".join(f'<OOI key="{key}">{escape(value, quote=False)}</OOI>' for key, value in pairs)
    types = f"<OpenOptions>{opening}</OpenOptions>" if options else ""
    geometry = '<GeometryField name="geom"/>' if layer.GetLayerDefn().GetGeomFieldCount() == 1 else ""
    place = f'<SrcDataSource shared="1">{escape(path, quote=False)}</SrcDataSource>{types}'
    return f"{place}<SrcLayer>{escape(layer.GetName(), quote=False)}</SrcLayer>{geometry}</OGRVRTLayer>"


class Result:
    """The columns and rows of a statement's result. A row is a list of values; blobs are bytes, geometries are WKB."""

    def __init__(self, dataset, sql, *, makes_json):
        self._dataset, self._sql, self.makes_json = dataset, sql, makes_json
        with result_layer(dataset, f"SELECT * FROM ({sql}) LIMIT 0") as layer:  # noqa: S608 - the host has checked it
            definition = layer.GetLayerDefn()
            plain, drawn = ([one.GetName() for one in of(definition)] for of in (fields, shapes))
            self._columns = [name for name in (*plain, *drawn) if not HIDDEN.fullmatch(name)]
        self.names = []
        for name in self._columns:  # SQLite calls the second column of the same name NAME:1
            plain, _, number = name.rpartition(":")
            if plain and number.isdecimal():
                taken = {one.casefold() for one in (*self._columns, *self.names)}
                free = (f"{plain}_{n}" for n in itertools.count(int(number) + 1))
                self.names.append(next(one for one in free if one.casefold() not in taken))
            else:
                self.names.append(name)
        self.blobs = {number for number, name in enumerate(self._columns) if name in drawn}
        self.infinite, self.srids = 0, set()
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
                values = [one for part in texts[::2] for one in part]
                flags = [one for part in texts[1::2] for one in part]
                pairs = enumerate(zip(values, flags, strict=True))
                yield [self._value(number, one, is_blob) for number, (one, is_blob) in pairs]

    def _value(self, number, value, is_blob):
        if is_blob:
            data, srid = json.loads(value) if isinstance(value, str) else value
            self.blobs.add(number)
            if srid is not None:
                self.srids.add(srid)
            return bytes.fromhex(data)
        if isinstance(value, float) and not math.isfinite(value):
            self.infinite += 1
            return None
        return value

    def crs(self):
        """The CRS of the geometries; None if they have none. Raises RuntimeError for several or unknown CRSs."""
        found = [self._crs_of(number) for number in sorted(self.srids)]
        if any(one is None or not same_coordinates(found[0], one) for one in found[1:]):
            raise RuntimeError("the geometries are in several CRSs; bring them into one with ST_Transform")
        return found[0] if found else None

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
                if (found := reference(text)) is not None:
                    return traditional(found)
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
    made = {}
    for number, (name, value) in enumerate(zip(result.names, row, strict=True)):
        if not isinstance(value, bytes):
            if number not in result.blobs or how != "none":
                made[name] = value
            continue
        geometry = geometry_of(value)
        if geometry is None:
            made[name] = value.hex()
        elif how == "wkt":
            made[name] = geometry.ExportToIsoWkt()
        elif how == "geojson":
            made[name] = json.loads(geometry.ExportToJson())
    return made


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
    found = list(result.rows())
    write_layer(path, form, result, found, job)
    if job.get("members"):  # foreign members of a GeoJSON go after its opening brace
        with open(path, encoding="utf-8") as file:
            start, brace, rest = file.read().partition("{")
        more = json.dumps(job["members"], ensure_ascii=False)[1:-1]
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{start}{brace}{more},{rest}")
    return len(found)


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


def is_date(text):
    """True for a valid calendar date; part numbers can look similar."""
    try:
        return bool(DATE.fullmatch(text) and datetime.date.fromisoformat(text))
    except ValueError:
        return False


def is_moment(text):
    try:
        return bool(MOMENT.fullmatch(text) and datetime.datetime.fromisoformat(text))
    except ValueError:
        return False


TIMES = ((ogr.OFTDate, is_date), (ogr.OFTDateTime, is_moment))


def field_definition(name, values):
    kinds, made = {type(value) for value in values}, ogr.OFTString
    if kinds and kinds <= {int}:
        small = all(-INT32 <= value < INT32 for value in values)
        made = ogr.OFTInteger if small else ogr.OFTInteger64
    elif kinds and kinds <= {int, float}:
        made = ogr.OFTReal
    elif kinds == {str}:
        made = next((kind for kind, fits in TIMES if all(map(fits, values))), made)
    return ogr.FieldDefn(name, made)
