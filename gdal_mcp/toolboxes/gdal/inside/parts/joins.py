"""Counts rows that the joins of a statement multiply or lose.

The host parses the statement (`preflight/sql/outline.py`), and this module builds counting statements from its parts.
If one fails, as for a correlated subquery, the SELECT is not examined (`Counting.failed`).

A join of one row with many is often intended, and a list of its rows is correct. So repeated rows are reported only
where each row was expected once: in a sum, if its geometry is selected, in measures of a table that a LEFT JOIN or a
few keys repeat, or if rows of both tables are repeated. A join with generated rows, such as numbers, repeats rows on
purpose.
"""

import re

from osgeo import ogr

from gdal_mcp.toolboxes.gdal.inside.parts.geometry_checks import POINTS, geometries
from gdal_mcp.toolboxes.gdal.inside.parts.tables import NUMBERS, fields, layers_of, shapes

# seconds of CPU time: nothing is counted after a slower statement, and counting stops after the same time
MAX_SECONDS = 2.0

SAME_MEAN = 1e-6  # fraction of a mean
# names of columns with rates, and with whole numbers that are not counts; a word in a name ends at _ or a digit
RATE = re.compile(r"(?:^|_)(?:rates?|ratio|pct|perc|percent|percentage|share|density|per)(?:$|[_\d])")
KEY = re.compile(
    r"(?:^|_)(?:id|fid|gid|oid|objectid|code|key|nr|no|num|number|zip|year|month|day|rank|class|level|order)(?:$|[_\d])"
)


class Counting:
    """Counts rows of one SELECT of an outline. `read_first` and the statement's own WITH define its tables."""

    def __init__(self, dataset, outline, select, read_first, dialect):
        self._dataset, self._dialect = dataset, dialect
        tables = ", ".join(text for text in (read_first, outline["with"]) if text)
        self._begin = f"WITH RECURSIVE {tables} " if tables else ""
        self.items, self.read_first = select["items"], bool(read_first)
        self.failed = False  # True if a counting statement failed
        self.layers = {layer.GetName().lower(): layer for layer in reversed(layers_of(dataset))}
        self.tables = [item for item in self.items if item["table"] in self.layers]
        named = {item["name"] for item in self.items if item not in self.tables}
        self.generated = named.intersection(outline["generated"])
        # in a condition, SQLite looks for a column of a table first, and then for an alias of the SELECT
        known = {name for item in self.tables for name in columns_of(self.layer_of(item))}
        is_term = "aliases" in select and not known & set(select["aliases"])
        self.select = select["expanded"] if is_term else select

    def numbers(self, statement):
        """The first row of a counting statement; None if it fails."""
        layer = self._dataset.ExecuteSQL(f"{self._begin}{statement}", None, self._dialect)
        if layer is None:
            self.failed = True
            return None
        feature = layer.GetNextFeature()
        row = [feature.GetField(i) or 0 for i in range(feature.GetFieldCount())] if feature else None
        self._dataset.ReleaseResultSet(layer)
        return row

    def count(self, statement):
        """The number from a counting statement; 0 if it fails."""
        return (self.numbers(statement) or (0,))[0]

    def texts(self, column, rows, most):
        """The different values of a column as texts; empty if the statement fails or has more than `most` values."""
        # the first row makes the column a text, and distinguishes no rows from a failure
        statement = f"SELECT '' AS value UNION SELECT {column} FROM {rows} LIMIT {most + 2}"  # noqa: S608 - parts of a statement that the host has checked
        layer = self._dataset.ExecuteSQL(f"{self._begin}{statement}", None, self._dialect)
        values = {feature.GetField(0) for feature in (() if layer is None else layer)}
        self._dataset.ReleaseResultSet(layer)
        self.failed |= layer is None or len(values) > most
        return set() if len(values) > most else values - {"", None}

    def shape_of_result(self, text):
        """The names of the columns of a SELECT, and the CRS of its geometry."""
        layer = self._dataset.ExecuteSQL(f"{self._begin}{text}", None, self._dialect)
        if layer is None:
            return [], None
        shape = [field.GetName().lower() for field in fields(layer.GetLayerDefn())], layer.GetSpatialRef()
        self._dataset.ReleaseResultSet(layer)
        return shape

    def layer_of(self, item):
        return self.layers[item["table"]]

    def geometries_of(self, item):
        return {
            column.GetName().lower() or "geometry" for column in shapes(self.layer_of(item).GetLayerDefn())
        }

    def rows(self, *, filtered=True, condition=""):
        """The FROM and WHERE clauses, with one more condition."""
        conditions = [text for text in (condition, self.select["where"] if filtered else "") if text]
        where = " AND ".join(f"({text})" for text in conditions)
        return f"{self.select['from']}{f' WHERE {where}' if where else ''}"

    def times(self, item, *, filtered=True, groups=(), uneven=False):
        """The number of a table's rows in the result, and the number of those that occur several times.

        With `uneven`, the second number counts rows in groups with unequal repeats. None if the statement fails.
        """
        alias = item["alias"]
        by = "".join(f", {group}" for group in groups)
        named = "".join(f", {group} AS g{i}" for i, group in enumerate(groups))
        rows = (
            f"SELECT {alias}.rowid AS r, count(*) AS n{named} "  # noqa: S608 - parts of a statement that the host has checked
            f"FROM {self.rows(filtered=filtered, condition=f'{alias}.rowid IS NOT NULL')} GROUP BY {alias}.rowid{by}"
        )
        if uneven:
            same = ", ".join(f"g{i}" for i in range(len(groups))) or "NULL"
            rows = f"SELECT 1 + (min(n) OVER (PARTITION BY {same}) < max(n) OVER (PARTITION BY {same})) AS n FROM ({rows})"  # noqa: S608 - as above
        return self.numbers(f"SELECT count(*), coalesce(sum(n > 1), 0) FROM ({rows})")  # noqa: S608 - as above

    def feature_count(self, item):
        return max(self.layer_of(item).GetFeatureCount(), 0)

    def returns(self, item, names):
        """True if the SELECT returns a column of the table that has one of these names."""
        return any(
            table in ("", item["name"]) and names and (name == "*" or name in names)
            for table, name in self.select["returned"]
        )

    def owners_of(self, columns):
        """The tables of columns, in order. A column is its table, "" if unqualified, and its name."""
        owners = []
        for table, name in columns:
            if table:
                owners += [item for item in self.tables if item["name"] == table]
                continue
            having = [item for item in self.tables if name in columns_of(self.layer_of(item))]
            owners += having if len(having) == 1 else []
        return list({item["alias"]: item for item in owners}.values())


def columns_of(layer):
    """Field types by lower-case name."""
    return {field.GetName().lower(): field.GetType() for field in fields(layer.GetLayerDefn())}


def multiplied_rows(counting):
    select = counting.select
    if select["distinct"] or select["windowed"]:
        return
    if select["aggregated"]:
        yield from repeated_sums(counting)
        yield from repeated_counts(counting)
        yield from counted_nulls(counting)
        return
    if counting.generated:
        return
    first, counts = counting.items[0], {}
    for item in counting.tables:
        counts[item["alias"]] = counting.times(item) or (0, 0)
    there, several = counts.get(first["alias"], (0, 0))
    mutual = all(pair[1] for pair in counts.values())
    if several and expects_one(counting, first, few=several * 2 < there, mutual=mutual):
        yield {"code": "rows_multiplied", "count": several, "of": there}


def expects_one(counting, first, *, few, mutual):
    """True if each row of the first table was meant to appear once. A list of names may repeat them."""
    others = counting.items[1:]
    drawn = {
        item["alias"] for item in counting.tables if counting.returns(item, counting.geometries_of(item))
    }
    by_keys = any(item["keys"] for item in others) or counting.select["keys"]
    if drawn == {first["alias"]} or (mutual and by_keys):
        return True
    if len(drawn) > 1 or not (others[0]["joined"] == "LEFT" or (few and by_keys)):
        return False
    # numeric columns that are not keys of a join
    numbers = {name for name, kind in columns_of(counting.layer_of(first)).items() if kind in NUMBERS}
    return counting.returns(first, numbers - set(counting.select["compared"]))


def repeated_sums(counting):
    """Reports a sum that counts rows of one table several times, or a mean that weights them unequally."""
    for term in counting.select["sums"]:
        owners = counting.owners_of(term["columns"])
        if len(owners) != 1 or any(table in counting.generated for table, _ in term["columns"]):
            continue
        groups = counting.select["group"]
        there, several = counting.times(owners[0], groups=groups, uneven=term["mean"]) or (0, 0)
        if several:
            yield {"code": "summed_twice", "count": several, "of": there}
            return


def repeated_counts(counting):
    """Reports a count of rows that a join by place repeats, as a point in overlapping polygons.

    A join of points counts the points. A join of other shapes counts the rows of either table, unless both repeat.
    """
    select = counting.select
    if not (select["by_place"] and select["counts"] and select["joins_others"]):
        return
    points = [item for item in counting.tables if geometries(counting, item, POINTS)]
    counted = points if len(points) == 1 else counting.tables
    times = [counting.times(item, groups=select["group"]) or (0, 0) for item in counted]
    if times and all(several for _, several in times):
        there, several = times[0]
        yield {"code": "counted_twice", "count": several, "of": there}


def averaged_rates(counting):
    """Reports an unweighted mean of rates that differs from the mean weighted by a column of counts."""
    select = counting.select
    for term in select["sums"] if not select["windowed"] else ():
        rate = term["columns"][0] if term["mean"] and len(term["columns"]) == 1 else ["", ""]
        owners = counting.owners_of([rate]) if RATE.search(rate[1]) else []
        for weight in weights_of(counting.layer_of(owners[0])) if len(owners) == 1 else ():
            share, size = (f'{owners[0]["alias"]}."{name}"' for name in (rate[1], weight))
            group = f" GROUP BY {', '.join(select['group'])}" if select["group"] else ""
            # every size is positive, and the two means differ
            test = f"min({size}) > 0 AND abs(avg({share}) - sum({share} * {size}) / (1.0 * sum({size}))) > {SAME_MEAN} * abs(avg({share}))"
            rows = f"SELECT ({test}) AS n FROM {counting.rows(condition=f'{share} IS NOT NULL')}{group}"  # noqa: S608 - parts of a statement that the host has checked
            if counting.count(f"SELECT sum(n) FROM ({rows})"):  # noqa: S608 - as above
                yield {"code": "rates_averaged"}
                return


def weights_of(layer):
    """Columns of whole numbers that may be counts; not rates, keys, years or ranks."""
    kinds = columns_of(layer)
    return [
        name
        for name, kind in kinds.items()
        if kind in (ogr.OFTInteger, ogr.OFTInteger64) and not (RATE.search(name) or KEY.search(name))
    ]


def counted_nulls(counting):
    """Reports a count(*) per row of the first table of a LEFT JOIN, which is 1 and not 0 if nothing was joined."""
    groups, items = ", ".join(counting.select["group"]), counting.items
    counts_rows = groups and counting.select["counts_rows"]
    if not counts_rows or len(items) != 2 or items[1]["joined"] != "LEFT":
        return
    first, second = (item["alias"] for item in items)
    counts = counting.numbers(
        "SELECT max(n), sum(m) FROM "  # noqa: S608 - parts of a statement that the host has checked
        f"(SELECT count(DISTINCT {first}.rowid) AS n, sum({second}.rowid IS NULL) AS m FROM {counting.rows()} GROUP BY {groups})"
    )
    if counts and counts[0] == 1 and counts[1]:
        yield {"code": "missing_counted", "count": counts[1]}


def lost_rows(counting):
    """Reports rows that a join on keys drops, before WHERE, and a join that matches nothing."""
    items = counting.items
    if any(item["joined"] == "," for item in items) or items[0] not in counting.tables:
        return
    first, *others = items
    if all(item["joined"] == "LEFT" for item in others):
        times = [counting.times(item, filtered=False) for item in others if item in counting.tables]
        if counting.feature_count(first) and times and all(pair == [0, 0] for pair in times):
            yield {"code": "nothing_joined"}
        return
    times, of = counting.times(first, filtered=False), counting.feature_count(first)
    if times is None or not of:
        return
    there, several = times
    if not there:
        yield {"code": "nothing_joined"}
        return
    if there == of and several and len(others) == 1 and others[0] in counting.tables:
        # in a join of one row with many, none of the many may be missing
        there, several = counting.times(others[0], filtered=False) or (0, 1)
        of = 0 if several else counting.feature_count(others[0])
    if all(item["keys"] for item in others) and there < of:
        yield {"code": "rows_lost", "count": of - there, "of": of}
