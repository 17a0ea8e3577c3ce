"""Finds impossible dates, dates in two orders, and a row of units in the columns of a layer."""

import itertools
import re
from datetime import date

from osgeo import ogr

from gdal_mcp.toolboxes.gdal.inside.parts.reporting import skip
from gdal_mcp.toolboxes.gdal.inside.parts.tables import (
    FIRST,
    MISSING,
    MOST_FIELDS,
    fields,
    is_named,
    is_number,
)

OF_DATES = ("dates_impossible", "date_orders_mixed")
CODES = (*OF_DATES, "units_as_row")
MAX_FEATURES = 20_000
DATES = 0.9  # fraction of the first values that must look like dates, so that the column has dates
YEAR_FIRST = re.compile(r"(\d{4})([-/])(\d\d?)\2(\d\d?)(?:[T ].*)?", re.ASCII)
YEAR_LAST = re.compile(r"(\d\d?)([./-])(\d\d?)\2(\d{4})(?:[ T,].*)?", re.ASCII)
MONTHS = 12
TYPES = (ogr.OFTString, ogr.OFTDate, ogr.OFTDateTime)
BASE_UNIT = (
    r"(?:[µμnumckhMG]?(?:m|g|s|l|L|Pa|bar|W|Wh|V|A|Hz|K|J|N|mol|S)|°[CF]?|%|‰|deg(?:ree)?s?(?:_\w+| ?[CFKNE])?"
    r"|ft|feet|foot|in|mi|miles|km|ha|acres?|psu|PSU|PSS|ppm|ppb|ppt|pH|NTU|h|hr|hours?|min|minutes?|sec|seconds?|d|days?"
    r"|yr|years?|knots?|kt|mbar|met(?:re|er)s?|USD|EUR|GBP|[$€£]|count|unitless|dimensionless|UTC|[Yy]{4}-[Mm]{2}-[Dd]{2})"
)
POWER = r"(?:\^?-?\d|[²³])?"
UNIT = re.compile(rf"[\[(]?{BASE_UNIT}{POWER}(?:[ */·.]{BASE_UNIT}{POWER})*[\])]?")


def checks(layer, sql):
    """Checks the columns that a statement names; all columns if it is empty or has `*`."""
    definitions = fields(layer.GetLayerDefn(), MOST_FIELDS)
    wanted = [i for i, field in enumerate(definitions) if is_read(field.GetName(), sql)]
    rows = first_rows(layer, len(definitions))
    if (named := unit_columns(rows)) and not any(f"'{rows[0][i]}'" in sql for i in named):
        used = [i for i in named if i in wanted]
        yield from [{"code": "units_as_row", "fields": used}] if used else []
    typed = [
        i
        for i in wanted
        if definitions[i].GetType() in TYPES and not tests_dates(definitions[i].GetName(), sql)
    ]
    columns = [i for i in typed if are_dates([row[i] for row in rows if row[i]])]
    if columns:
        yield from date_checks(layer, columns)


def is_read(name, sql):
    """True if a statement may read a column: it has the name, or selects all columns."""
    every = re.search(r"(?:SELECT|DISTINCT|,|\.)\s*\*", sql, re.IGNORECASE)
    return not sql or bool(every) or is_named(name, sql)


def tests_dates(name, sql):
    """True if a statement leaves out the dates of a column that do not exist, as in date(day) = day."""
    return re.search(rf'\bdate\(\s*"?{re.escape(name)}"?\s*\)\s*=', sql, re.IGNORECASE) is not None


def first_rows(layer, width):
    layer.ResetReading()
    rows = [
        [feature.GetFieldAsString(i).strip() for i in range(width)]
        for feature in itertools.islice(layer, FIRST)
    ]
    layer.ResetReading()
    return rows


def unit_columns(rows):
    """The columns of numbers whose first value is a unit; empty unless the first row has no other values."""
    if len(rows) < 2:
        return []
    first, *rest = rows
    below = [[row[i] for row in rest if row[i]] for i in range(len(first))]
    numeric = [i for i, values in enumerate(below) if values and all(map(is_number, values))]
    texts = [i for i in numeric if first[i] and first[i].lower() not in MISSING]
    if any(is_number(first[i]) for i in numeric):
        return []
    others = [first[i] for i in range(len(first)) if i not in numeric]
    are_units = all(UNIT.fullmatch(first[i]) for i in texts)
    return texts if are_units or (others and not any(others)) else []


def are_dates(values):
    """True if nearly all values look like dates, and at least half of these dates exist."""
    parts = [found for value in values if (found := parts_of(value)) is not None]
    exist = sum(map(exists, parts))
    return bool(parts) and len(parts) >= DATES * len(values) and 2 * exist >= len(parts)


def parts_of(text):
    """(year, number, number, True if the year is first) of a date; None for another text."""
    if found := YEAR_FIRST.fullmatch(text):
        return int(found[1]), int(found[3]), int(found[4]), True
    if found := YEAR_LAST.fullmatch(text):
        return int(found[4]), int(found[1]), int(found[3]), False
    return None


def exists(parts):
    """True if a date exists; if the year is last, in one of the two orders."""
    year, one, two, year_first = parts
    return is_day(year, one, two) or (not year_first and is_day(year, two, one))


def is_day(year, month, day):
    try:
        return bool(date(year, month, day))
    except ValueError:
        return False


def date_checks(layer, columns):
    """Reports dates that do not exist, and columns with the day first in some values and the month in others."""
    if layer.GetFeatureCount() > MAX_FEATURES:
        skip(*OF_DATES)
    impossible, orders = dict.fromkeys(columns, 0), {i: [0, 0] for i in columns}
    of = 0
    for feature in itertools.islice(layer, MAX_FEATURES):
        for i in columns:
            parts = parts_of(feature.GetFieldAsString(i).strip())
            if parts is None:
                continue
            of += 1
            if not exists(parts):
                impossible[i] += 1
            elif not parts[3]:
                orders[i][0] += parts[1] > MONTHS
                orders[i][1] += parts[2] > MONTHS
    layer.ResetReading()
    if count := sum(impossible.values()):
        named = [i for i in columns if impossible[i]]
        yield {"code": "dates_impossible", "count": count, "of": of, "fields": named}
    if mixed := [i for i in columns if all(orders[i])]:
        fewer = sum(min(orders[i]) for i in mixed)
        yield {"code": "date_orders_mixed", "count": fewer, "of": of, "fields": mixed}
