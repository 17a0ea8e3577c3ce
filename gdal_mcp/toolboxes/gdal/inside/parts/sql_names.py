"""Adds the existing tables and columns to the errors of a statement that names an unknown one."""

import difflib
import itertools
import re

from osgeo import gdal

from gdal_mcp.toolboxes.gdal.inside.parts.query_tables import SOURCE, Tables
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet
from gdal_mcp.toolboxes.gdal.inside.parts.tables import fields, layers_of, shapes

MISSING = re.compile(
    r"no such (?:table|column): ([^\n]{1,200})|SELECT from table (.{1,200}) failed, no such"
    r"|Unrecognized field name ([^\n]{1,200}?)\.|\"([^\n\"]{1,200})\" not recognised as an available field\."
)
MOST_TABLES, MOST_CHARACTERS = 3, 60  # characters are those of the listed columns of one table
QUOTED = '"{}"'.format


def add_known_names(job, errors):
    """Adds a message for each table, the most likely one first."""
    missing = next((match for _, _, text in errors.messages if (match := MISSING.search(text))), None)
    if missing is None:
        return
    name = missing[missing.lastindex].rpartition(".")[2].strip('"').lower()
    with quiet():
        tables = {}
        for layer in (layer for dataset in datasets(job) for layer in layers_of(dataset)):
            definition = layer.GetLayerDefn()
            drawn = [column.GetName() or "geometry" for column in shapes(definition)]
            if not layer.GetName().startswith(SOURCE):
                tables[layer.GetName()] = [*(field.GetName() for field in fields(definition)), *drawn]

    known = [known_name.lower() for table, columns in tables.items() for known_name in (table, *columns)]
    if len(tables) == 1 and name in known:
        return  # the name exists, so the statement failed for another reason

    def likeness(candidate):
        return difflib.SequenceMatcher(None, name, candidate.lower()).ratio()

    statement = " ".join([str(job.get("sql", "")), *map(str, job.get("options", ()))]).lower()
    ranked = sorted(
        tables,
        key=lambda table: (table.lower() in statement, max(map(likeness, [table, *tables[table]]))),
        reverse=True,
    )
    for table in ranked[:MOST_TABLES]:
        columns = sorted(tables[table], key=likeness, reverse=True)
        lengths = itertools.accumulate(map(len, columns))
        shown = columns[: max(1, sum(length < MOST_CHARACTERS for length in lengths))]
        listed = ", ".join(map(QUOTED, shown))
        more = len(columns) - len(shown)
        errors.fail(f'table "{table}" has the columns {listed}{f" and {more} more" if more > 0 else ""}')
    if others := ranked[MOST_TABLES:]:
        errors.fail(f"other tables: {', '.join(map(QUOTED, others))[: 2 * MOST_CHARACTERS]}")


def datasets(job):
    """Yields the datasets that a statement can refer to: the tables of a query, or the input files."""
    if job["program"] == "query":
        yield Tables(job["tables"]).dataset
        return
    for path in job.get("sources", ()):
        if (dataset := gdal.OpenEx(path, gdal.OF_VECTOR)) is not None:
            yield dataset
