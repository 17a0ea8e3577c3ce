"""What a statement does wrong, by the types of its columns and by counting its rows. The host reads the statement (`preflight/sql/outline.py`)."""

import time

from osgeo import ogr

from gdal_mcp.toolboxes.gdal.inside.parts.bounded import in_time
from gdal_mcp.toolboxes.gdal.inside.parts.geometry_checks import geometry_checks
from gdal_mcp.toolboxes.gdal.inside.parts.joins import MAX_SECONDS, Counting, columns_of, lost, multiplied
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet
from gdal_mcp.toolboxes.gdal.inside.parts.survey import TIMES
from gdal_mcp.toolboxes.gdal.inside.parts.tables import layers_of, shapes

MOST_SECONDS = 3.0  # by the clock, that an answer waits for its rows to be counted
INTEGERS = (ogr.OFTInteger, ogr.OFTInteger64)
OWN = frozenset({"rowid", "fid", "ogc_fid", "geometry", "geom", "ogr_style"})
UNEXAMINED = {"code": "rows_unexamined"}
SAME_COORDINATES = [
    "IGNORE_DATA_AXIS_TO_SRS_AXIS_MAPPING=YES",
    "CRITERION=EQUIVALENT_EXCEPT_AXIS_ORDER_GEOGCRS",
]


def column_checks(dataset, outline):
    """By the names and types of all columns."""
    if outline is None:
        return
    kinds = {}
    for layer in layers_of(dataset):
        for name, kind in columns_of(layer).items():
            kinds.setdefault(name, set()).add(kind)
        for one in shapes(layer.GetLayerDefn()):
            kinds.setdefault(one.GetName().lower(), set()).add(None)
    tables = {one.GetName().lower() for one in layers_of(dataset)}
    if unknown := set(outline["quoted"]) - kinds.keys() - tables - OWN:
        yield {"code": "column_unknown", "count": len(unknown)}
    if any(all(are(kinds, name, INTEGERS) for name in names) for names in outline["divided"]):
        yield {"code": "integer_division"}
    if any(are(kinds, name, TIMES) for name in outline["added"]):
        yield {"code": "date_arithmetic"}


def are(kinds, name, wanted):
    """Whether all columns of a name are of such types."""
    return name in kinds and kinds[name] <= set(wanted)


def row_checks(dataset, outline, seconds, read_first="", dialect="SQLITE"):
    """What counting shows, for a statement that took so many `seconds` of the processor; `read_first` defines its tables, as in a WITH.

    What there is no time for is not known, and the answer says so.
    """
    if outline is None:
        return []  # the host says that nothing is known of the statement
    found = None
    if seconds < MAX_SECONDS:
        found = in_time(lambda: list(counted_checks(dataset, outline, read_first, dialect)), MOST_SECONDS)
    if found is None:
        counted = any(one["joins_others"] or one["aggregated"] for one in outline["selects"])
        found = [UNEXAMINED] if counted else []
    return found


def counted_checks(dataset, outline, read_first, dialect):
    until = time.process_time() + MAX_SECONDS
    with quiet():
        for select in outline["selects"]:
            counting = Counting(dataset, outline, select, read_first, dialect)
            joins = (multiplied, lost) if select["joins_others"] else ()
            for check in (not_aggregated, null_geometries, times, *joins, geometry_checks):
                if time.process_time() > until:
                    yield UNEXAMINED
                    return
                yield from check(counting)
            if select is outline["selects"][0]:
                yield from nulls_in_list(counting, outline["excluded"])
                yield from united(counting, outline["unions"])
            if counting.failed:
                yield UNEXAMINED
                return


def not_aggregated(counting):
    """Terms beside a sum that have several values in a group. Beside a MIN or MAX they are those of its row, as SQLite promises."""
    select = counting.select
    if select["windowed"] or select["extreme"] or not select["values"]:
        return
    tests = " OR ".join(f"count(DISTINCT {one}) > 1" for one in select["values"])
    group = f" GROUP BY {', '.join(select['group'])}" if select["group"] else ""
    having = f" HAVING {select['having']}" if select["having"] else ""
    rows = f"SELECT ({tests}) AS n FROM {counting.rows()}{group}{having}"  # noqa: S608 - parts of a statement that came through the gate
    found = counting.numbers(f"SELECT count(*), sum(n) FROM ({rows})")  # noqa: S608 - as above
    if found and found[1]:
        yield {"code": "not_aggregated", "count": found[1], "of": found[0]}


def null_geometries(counting):
    """Rows without a geometry that a relation lets pass: of NULL it gives -1, which SQL takes for true."""
    for one in counting.select["relations"]:
        tables = {table for table, _ in one["columns"]}
        items = [item for item in counting.tables if item["name"] in tables] or counting.tables
        columns = [(item["alias"], name) for item in items for name in counting.geometries_of(item)]
        tests = [f"({alias}.rowid IS NOT NULL AND {alias}.{name} IS NULL)" for alias, name in columns]
        rows = counting.rows(filtered=one["in_where"], condition=" OR ".join(tests))
        if tests and (count := counting.count(f"SELECT count(*) FROM {rows}")):  # noqa: S608 - as above
            yield {"code": "null_geometries", "count": count}
            return


def nulls_in_list(counting, subqueries):
    """A subquery of NOT IN that gives a NULL, with which nothing is ever not in it."""
    for one in subqueries:
        if counting.count(f"SELECT (char(1) NOT IN {one}) IS NULL"):
            yield {"code": "nulls_in_list"}
            return


def times(counting):
    """Times that are compared with a day, which comes before all of that day's, or with a text that has a blank in place of their T."""
    for one in counting.select["days"]:
        # a condition on one table alone is GDAL's own, and reads such a text as a time
        if one["with_time"] and one["in_where"] and len(counting.items) == 1 and not counting.read_first:
            continue
        column = one["column"]
        late = "" if one["with_time"] else f"AND substr({column}, 12, 8) > '00:00:00'"
        for item in counting.tables:
            kind = columns_of(counting.layer_of(item)).get(one["name"])
            day = f"substr({column}, 1, 10) = '{one['day']}' {late}"
            asked = f'SELECT count(*) FROM "{item["table"]}" AS {item["alias"]} WHERE {day}'  # noqa: S608 - as above
            if kind == ogr.OFTDateTime and (count := counting.count(asked)):
                yield {"code": "time_as_text", "count": count}
                return


def united(counting, unions):
    """A part of a UNION and the next one, whose columns go by their places, and whose geometries come as they are."""
    for first, second in unions:
        (names, crs), (others, theirs) = (counting.shape_of_result(one["text"]) for one in (first, second))
        # of one table both orders may be wanted: from A to B, and from B to A
        mixed = any(a != b and b in names for a, b in zip(names, others, strict=False))
        if mixed and first["from"] != second["from"]:
            yield {"code": "columns_mixed"}
        if crs and theirs and not same_coordinates(crs, theirs):
            yield {"code": "crs_mixed"}


def same_coordinates(crs, other):
    """Whether two CRSs have the same coordinates with x before y, as EPSG:4326 and OGC:CRS84 have."""
    return bool(crs.IsSame(other, SAME_COORDINATES))
