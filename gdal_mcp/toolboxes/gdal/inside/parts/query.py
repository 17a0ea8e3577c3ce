"""Runs one SELECT on the layers of several files and returns its rows.

Every layer is a table of one virtual dataset. SQLite writes the rows as JSON, because GDAL would give each column the
type of its first row and truncate values that do not fit.
"""

import contextlib
import time
from itertools import islice

from gdal_mcp.toolboxes.gdal.inside.parts.query_output import write
from gdal_mcp.toolboxes.gdal.inside.parts.query_rows import (
    QueryFailed,
    Result,
    row_object,
    with_parsed_json,
)
from gdal_mcp.toolboxes.gdal.inside.parts.query_tables import Tables
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import part, print_json, quiet
from gdal_mcp.toolboxes.gdal.inside.parts.sql_checks import column_checks, row_checks


def run_query(job, _report):
    """Runs the statement, and prints an object with its rows, or with their number if they are written to a file.

    `more` is true if there are further rows; `geometry_columns` are the columns with geometries.
    """
    tables, started, parsed = Tables(job["tables"]), time.process_time(), []
    try:
        result = open_result(tables, job["sql"], job["outline"])
        if job["form"]:
            answer = {"count": write(job, result)}
        else:
            fetched = list(islice(result.rows(), job["limit"] + 1))
            parsed = with_parsed_json(result, fetched[: job["limit"]])
            how = job["geometry"]
            if how == "none" and len(result.blobs) == len(result.names):
                how = "wkt"  # without other columns, the rows would be empty
            rows = [row_object(result, row, how) for row in parsed]
            answer = {"rows": rows, "more": len(fetched) > len(rows)}
    except QueryFailed:
        return False
    left_out = [result.names[number] for number in sorted(result.blobs)]
    about = {"columns": result.names, "geometry_columns": left_out, "infinite": result.infinite}
    units = part("units").units_of(tables.dataset, result.names, job["outline"])
    print_json({**answer, **about, **({"units": units} if units else {})})
    job["checks"] = list(column_checks(tables.dataset, job["outline"]))
    if not job["form"]:
        job["checks"] += part("digits").result_checks(result, parsed, tables.dataset, job["outline"])
    if result.without_geometry:
        job["checks"].append({"code": "empty_geometries", "count": result.without_geometry})
    took, read_first = time.process_time() - started, tables.read_first(job["outline"], rows=True)
    job["checks"] += row_checks(tables.dataset, job["outline"], took, read_first)
    return True


def open_result(tables, sql, outline):
    """Opens the result of a statement. Tables are first read into memory if the statement needs that.

    SQLite indexes only tables that it has read; without an index, a join of ten thousand rows with ten thousand takes
    a minute. Two readers of one layer, such as a subquery, share its position and miss rows.
    """
    makes_json = outline is None or outline["makes_json"]
    for rows in (False, True):  # the rowid is read as a column only if the statement fails without it
        read_first = tables.read_first(outline, rows=rows)
        text = f"WITH RECURSIVE {read_first} SELECT * FROM ({sql})" if read_first else sql  # noqa: S608 - the host has checked it
        with contextlib.suppress(QueryFailed), quiet():
            return Result(tables.dataset, text, makes_json=makes_json)
    return Result(tables.dataset, sql, makes_json=makes_json)
