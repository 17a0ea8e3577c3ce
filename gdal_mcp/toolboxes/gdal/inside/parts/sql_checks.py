"""Checks of a statement that need the types of columns or the numbers of rows.

The host parses the statement (`preflight/sql/outline.py`).
"""

import time

from osgeo import ogr

from gdal_mcp.toolboxes.gdal.inside.parts.bounded import in_time
from gdal_mcp.toolboxes.gdal.inside.parts.geometry_checks import geometry_checks
from gdal_mcp.toolboxes.gdal.inside.parts.join_keys import alike_keys
from gdal_mcp.toolboxes.gdal.inside.parts.joins import (
    MAX_SECONDS,
    Counting,
    averaged_rates,
    columns_of,
    lost_rows,
    multiplied_rows,
)
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import part, quiet, skip
from gdal_mcp.toolboxes.gdal.inside.parts.survey import TIMES
from gdal_mcp.toolboxes.gdal.inside.parts.tables import fields, layers_of, shapes
from gdal_mcp.toolboxes.gdal.inside.parts.value_probes import value_checks

MOST_SECONDS = 3.0  # seconds of wall time that an answer waits for the counts
INTEGERS = (ogr.OFTInteger, ogr.OFTInteger64)
OWN = frozenset({"rowid", "fid", "ogc_fid", "geometry", "geom", "ogr_style"})
# SQL that is true for a text with one sign at most, digits, and one point at most
IS_NUMBER = "({0} GLOB '*[0-9]*' AND {0} NOT GLOB '*.*.*' AND ltrim({0}, '+-') NOT GLOB '*[^0-9.]*')"
UNEXAMINED = {"code": "rows_unexamined"}
SAME_COORDINATES = [
    "IGNORE_DATA_AXIS_TO_SRS_AXIS_MAPPING=YES",
    "CRITERION=EQUIVALENT_EXCEPT_AXIS_ORDER_GEOGCRS",
]


def column_checks(dataset, outline):
    """Checks that need only the names and types of columns."""
    if outline is None:
        return
    kinds = {}
    for layer in layers_of(dataset):
        for name, kind in columns_of(layer).items():
            kinds.setdefault(name, set()).add(kind)
        for column in shapes(layer.GetLayerDefn()):
            kinds.setdefault(column.GetName().lower(), set()).add(None)
        duplicates = ambiguous_names(layer)
        kinds |= {f"{name}2": {None} for name in duplicates}  # SQLite's name for the second column
        if duplicates & set(outline["named"]) and layer.GetName().lower() in outline["reads"]:
            yield {"code": "columns_alike", "count": len(duplicates)}
    tables = {layer.GetName().lower() for layer in layers_of(dataset)}
    if unknown := set(outline["quoted"]) - kinds.keys() - tables - OWN:
        yield {"code": "column_unknown", "count": len(unknown)}
    if any(all(are(kinds, name, INTEGERS) for name in names) for names in outline["divided"]):
        yield {"code": "integer_division"}
    if any(all(are(kinds, name, INTEGERS) for name in names) for names in outline["sixtieths"]):
        yield {"code": "sixtieths_cut"}
    if any(are(kinds, name, TIMES) for name in outline["added"]):
        yield {"code": "date_arithmetic"}
    yield from part("distortion").checks(dataset, outline)


def ambiguous_names(layer):
    """The names of columns, in lower case, that differ from another name only in case."""
    names = [field.GetName().lower() for field in fields(layer.GetLayerDefn())]
    return {name for name in names if names.count(name) > 1}


def are(kinds, name, wanted):
    """True if all columns of this name have one of these types."""
    return name in kinds and kinds[name] <= set(wanted)


def row_checks(dataset, outline, seconds, read_first="", dialect="SQLITE"):
    """Checks that count rows, or `rows_unexamined` and the skipped tests of values if there is no time to count.

    `seconds` is the CPU time that the statement took; `read_first` defines its tables, as in a WITH clause.
    """
    if outline is None:
        return []  # the host reports statement_unexamined
    findings = None
    if seconds < MAX_SECONDS:
        findings = in_time(lambda: list(counted_checks(dataset, outline, read_first, dialect)), MOST_SECONDS)
    if findings is None:
        counted = any(select["joins_others"] or select["aggregated"] for select in outline["selects"])
        findings = [UNEXAMINED] if counted else []
        skip(*(probe["code"] for select in outline["selects"] for probe in select["probes"]))
    return recorded(findings)


def recorded(findings):
    """Findings without those of skipped checks, which are recorded for the answer: checks may run in another process."""
    skip(*(code for finding in findings for code in finding.get("skipped", ())))
    return [finding for finding in findings if "skipped" not in finding]


def counted_checks(dataset, outline, read_first, dialect):
    until = time.process_time() + MAX_SECONDS
    with quiet():
        for select in outline["selects"]:
            counting = Counting(dataset, outline, select, read_first, dialect)
            joins = (multiplied_rows, lost_rows, alike_keys) if select["joins_others"] else ()
            every = (not_aggregated, null_geometries, compared_times, averaged_rates, value_checks)
            for check in (*every, *joins, geometry_checks):
                if time.process_time() > until:
                    yield UNEXAMINED
                    return
                yield from check(counting)
            if select is outline["selects"][0]:
                yield from nulls_in_list(counting, outline["excluded"])
                yield from union_parts(counting, outline["unions"])
                yield from empty_texts(counting, outline["nulls"])
                yield from mixed_texts(counting, outline)
            if counting.failed:
                yield UNEXAMINED
                return


def not_aggregated(counting):
    """Reports terms that are not aggregated and have several values in a group.

    SELECTs with MIN or MAX are skipped: SQLite takes the terms from the row with the extreme value.
    """
    select = counting.select
    if select["windowed"] or select["extreme"] or not select["values"]:
        return
    tests = " OR ".join(f"count(DISTINCT {term}) > 1" for term in select["values"])
    group = f" GROUP BY {', '.join(select['group'])}" if select["group"] else ""
    having = f" HAVING {select['having']}" if select["having"] else ""
    rows = f"SELECT ({tests}) AS n FROM {counting.rows()}{group}{having}"  # noqa: S608 - parts of a statement that the host has checked
    counts = counting.numbers(f"SELECT count(*), sum(n) FROM ({rows})")  # noqa: S608 - as above
    if counts and counts[1]:
        yield {"code": "not_aggregated", "count": counts[1], "of": counts[0]}


def null_geometries(counting):
    """Reports rows without a geometry that match a spatial relation: for NULL it returns -1, which is true in SQL."""
    for relation in counting.select["relations"]:
        tables = {table for table, _ in relation["columns"]}
        items = [item for item in counting.tables if item["name"] in tables] or counting.tables
        columns = [(item["alias"], name) for item in items for name in counting.geometries_of(item)]
        tests = [f"({alias}.rowid IS NOT NULL AND {alias}.{name} IS NULL)" for alias, name in columns]
        rows = counting.rows(filtered=relation["in_where"], condition=" OR ".join(tests))
        if tests and (count := counting.count(f"SELECT count(*) FROM {rows}")):  # noqa: S608 - as above
            yield {"code": "null_geometries", "count": count}
            return


def nulls_in_list(counting, subqueries):
    """Reports a subquery of NOT IN that returns a NULL: the condition is then never true."""
    for subquery in subqueries:
        if counting.count(f"SELECT (char(1) NOT IN {subquery}) IS NULL"):
            yield {"code": "nulls_in_list"}
            return


def empty_texts(counting, names):
    """Reports a test for NULL on a column that has empty texts but no NULL.

    A CSV can represent a missing text only as an empty one.
    """
    for item in counting.tables:
        kinds = columns_of(counting.layer_of(item))
        for name in (name for name in names if kinds.get(name) == ogr.OFTString):
            statement = f"""SELECT count(*) - count("{name}"), sum("{name}" = '') FROM "{item["table"]}\""""  # noqa: S608 - names of a layer
            if (counts := counting.numbers(statement)) and counts[1] and not counts[0]:
                yield {"code": "empty_texts", "count": counts[1]}
                return


def mixed_texts(counting, outline):
    """Reports a text column that the statement sorts, compares or sums as numbers, and that has other texts too."""
    for table in sorted(counting.layers.keys() & outline["reads"].keys()):
        kinds = columns_of(counting.layers[table])
        for name in (name for name in outline["as_numbers"] if kinds.get(name) == ogr.OFTString):
            text = f"""nullif(trim("{name}"), '')"""
            statement = f'SELECT count({text}), sum({IS_NUMBER.format(text)}) FROM "{table}"'  # noqa: S608 - names of a layer
            count, numbers = counting.numbers(statement) or (0, 0)
            if count / 2 <= numbers < count:
                yield {"code": "mixed_compared", "count": count - numbers, "of": count}
                return


def compared_times(counting):
    """Reports times that are compared as text with a date or with a time in another format.

    A date sorts before all times of that day. The format differs if the statement has a space where the data has a T.
    """
    for comparison in counting.select["days"]:
        # GDAL evaluates a condition on a single table itself, and parses the time
        if (
            comparison["with_time"]
            and comparison["in_where"]
            and len(counting.items) == 1
            and not counting.read_first
        ):
            continue
        column = comparison["column"]
        late = "" if comparison["with_time"] else f"AND substr({column}, 12, 8) > '00:00:00'"
        for item in counting.tables:
            kind = columns_of(counting.layer_of(item)).get(comparison["name"])
            day = f"substr({column}, 1, 10) = '{comparison['day']}' {late}"
            statement = f'SELECT count(*) FROM "{item["table"]}" AS {item["alias"]} WHERE {day}'  # noqa: S608 - as above
            if kind == ogr.OFTDateTime and (count := counting.count(statement)):
                yield {"code": "time_as_text", "count": count}
                return


def union_parts(counting, unions):
    """Reports parts of a UNION with columns in a different order, or with geometries in different CRSs."""
    for first, second in unions:
        (names, crs), (their_names, theirs) = (
            counting.shape_of_result(select["text"]) for select in (first, second)
        )
        # with one table both orders can be intended: from A to B and from B to A
        mixed = any(a != b and b in names for a, b in zip(names, their_names, strict=False))
        if mixed and first["from"] != second["from"]:
            yield {"code": "columns_mixed"}
        if crs and theirs and not same_coordinates(crs, theirs):
            yield {"code": "crs_mixed"}


def same_coordinates(crs, other):
    """True if two CRSs differ at most in the order of axes, as EPSG:4326 and OGC:CRS84 do."""
    return bool(crs.IsSame(other, SAME_COORDINATES))
