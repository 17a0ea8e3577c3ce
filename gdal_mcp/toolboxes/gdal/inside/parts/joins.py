"""Rows that the joins of a statement multiply or lose, by counting them.

A statement is read by its words alone, and counted anew by statements that GDAL is given: what they cannot be made of, such as a subquery
that depends on a row around it, finds nothing. A join of one row with many is what is often wanted, and a listing of it is no mistake. So
rows that come several times are told only where each was expected once: by a sum, by the geometry that is selected, by measures of a
table that a LEFT JOIN or a few keys give twice, or where both tables have rows that come several times.
"""

import itertools
import math
import re
from typing import NamedTuple

from gdal_mcp.toolboxes.gdal.inside.parts.tables import NUMBERS, fields, layers_of, shapes

MAX_SECONDS = 2.0  # of the processor, that the statement itself took, and that counting may begin within
TOKEN = re.compile(
    r"""'(?:[^']|'')*'|"[^"]*"|[^\W\d]\w*|[0-9.]+(?:[eE][+-]?[0-9]+)?|<=|>=|<>|!=|==|\|\||\S"""
)
PUT_TOGETHER = frozenset({"UNION", "INTERSECT", "EXCEPT"})
CLAUSES = PUT_TOGETHER | frozenset("FROM WHERE GROUP HAVING WINDOW ORDER LIMIT".split())
JOINS = frozenset("JOIN LEFT RIGHT FULL INNER CROSS NATURAL OUTER".split())
NOT_ALIASES = CLAUSES | JOINS | {"ON", "USING", "AS"}
SUMS = frozenset({"SUM", "TOTAL", "AVG"})
AGGREGATES = SUMS | frozenset(
    "COUNT MIN MAX GROUP_CONCAT ST_UNION ST_COLLECT GUNION COLLECT EXTENT ST_EXTENT".split()
)
SINGLE = frozenset(
    "MIN MAX ST_UNION ST_COLLECT GUNION COLLECT".split()
)  # of several arguments they are other functions
TESTS = frozenset({"EXISTS", "IN"})  # whose subqueries give no rows to the answer


class Word(NamedTuple):
    text: str
    start: int
    end: int
    depth: int

    @property
    def upper(self):
        return self.text.upper()

    @property
    def name(self):
        return self.text.strip('"').lower()


class Item(NamedTuple):
    """A table of a FROM clause; `table` is None for a subquery."""

    table: str | None
    alias: str
    joined: str  # LEFT, INNER, or "," for what only WHERE binds
    keys: bool  # whether columns must be equal

    @property
    def name(self):
        return self.alias.strip('"').lower()


def words_of(sql):
    found, depth = [], 0
    for match in TOKEN.finditer(sql):
        depth -= match[0] == ")"
        found.append(Word(match[0], match.start(), match.end(), depth))
        depth += match[0] == "("
    return found


class Core:
    """One SELECT of a statement, without those that it is put together with: they are `rest`."""

    def __init__(self, sql, words):
        own = [(i, one.upper) for i, one in enumerate(words) if one.depth == words[0].depth]
        end = next((i for i, word in own if word in PUT_TOGETHER), len(words))
        self.sql, self.words, self.rest = sql, words[:end], words[end:]
        words, own = self.words, [one for one in own if one[0] < end]
        marks = [(i, word) for i, word in own if word in CLAUSES] + [(len(words), "")]
        self.parts = {}
        for (at, name), (end, _) in itertools.pairwise(marks):
            self.parts.setdefault(name, words[at + 1 : end])
        self.selected = words[1 : marks[0][0]]
        self.distinct = bool(self.selected) and self.selected[0].upper == "DISTINCT"
        within = min((one.depth for one in self.selected if one.upper == "SELECT"), default=math.inf)
        pairs = enumerate(itertools.pairwise(self.selected))
        called = [(i, a) for i, (a, b) in pairs if b.text == "(" and a.depth < within]
        # of two arguments ST_Union, max and their like are no aggregates
        self.calls = {one.upper for i, one in called if one.upper not in SINGLE or self.arguments(i) == 1}
        self.aggregated = "GROUP" in self.parts or bool(self.calls & AGGREGATES)
        self.windowed = any(one.upper == "OVER" for one in self.selected)
        self.items = list(items_of(self.words_in("FROM")))
        tables = [one.table for one in self.items if one.table]
        # a table that is joined with itself is meant to come several times
        self.joins_others = len(self.items) > 1 and not self.rest and len(set(tables)) == len(tables)

    def arguments(self, at):
        """How many arguments the call has whose name is selected at a place."""
        level = self.selected[at].depth
        inner = itertools.takewhile(lambda one: one.depth > level, self.selected[at + 2 :])
        return 1 + sum(one.text == "," and one.depth == level + 1 for one in inner)

    def words_in(self, *names):
        return [one for name in names for one in self.parts.get(name, ())]

    def text(self, name):
        part = self.parts.get(name)
        return self.sql[part[0].start : part[-1].end] if part else ""

    def groups(self):
        """The terms of GROUP BY, where a number or an alias stands for a term of the SELECT."""
        texts, named = [], {}
        for term in split(self.selected):
            marks = (i for i, one in enumerate(term) if one.upper == "AS" and one.depth == term[0].depth)
            last = term[next(marks, 0) - 1]  # before its alias, if it has one
            texts.append(self.sql[term[0].start : last.end])
            named[term[-1].name] = texts[-1]
        for term in split(self.parts.get("GROUP", [])[1:]):
            text = self.sql[term[0].start : term[-1].end]
            if text.isdecimal() and 0 < int(text) <= len(texts):
                yield texts[int(text) - 1]
            else:
                yield named.get(term[0].name, text) if len(term) == 1 else text


def split(words):
    """At the commas that are in no parentheses."""
    if not words:
        return []
    parts = [[]]
    for one in words:
        if one.text == "," and one.depth == words[0].depth:
            parts.append([])
        else:
            parts[-1].append(one)
    return [part for part in parts if part]


def cores_of(sql):
    """Every SELECT whose rows come into the answer."""
    words = words_of(sql)
    for i, one in enumerate(words):
        if one.upper == "SELECT" and not (i > 1 and words[i - 1].text == "(" and words[i - 2].upper in TESTS):
            end = next((j for j in range(i, len(words)) if words[j].depth < one.depth), len(words))
            yield Core(sql, words[i:end])


def items_of(words):
    """Of a FROM clause, in its order."""
    level, how = words[0].depth if words else 0, ""
    runs = itertools.groupby(words, lambda one: one.depth == level and one.upper in {",", *JOINS})
    for joint, found in runs:
        run = list(found)
        if joint:
            kinds = {one.upper for one in run}
            outer = kinds & {"LEFT", "FULL", "RIGHT"}
            how = "LEFT" if outer else "," if kinds & {",", "CROSS"} else " ".join(kinds)
            continue
        is_table = run[0].text != "("
        ends = (j for j, one in enumerate(run) if one.depth == level and one.text == ")")
        rest = run[1 if is_table else next(ends, 0) + 1 :]
        alias = next((one for one in rest if one.upper != "AS"), run[0])
        named = alias if re.match(r'["\w]', alias.text) and alias.upper not in NOT_ALIASES else run[0]
        yield Item(run[0].name if is_table else None, named.text, how, has_keys(rest) or "NATURAL" in how)


def has_keys(words):
    """Whether a condition asks columns to be equal."""
    if any(one.upper == "USING" for one in words):
        return True
    column = r'(?:[^\W\d]\w*|"[^"]*")'
    text = " ".join(one.text for one in words)
    return bool(re.search(rf"(?:{column} \. )?{column} ={{1,2}} (?:{column} \. )?{column}(?! \()", text))


class Counting:
    """Counts the rows of one SELECT, `read_first` and the statement's own WITH before it."""

    def __init__(self, dataset, core, read_first, dialect):
        self._dataset, self._begin, self._dialect = dataset, opened(core.sql, read_first)[0], dialect
        self.core, self.read_first = core, bool(read_first)
        self.layers = {one.GetName().lower(): one for one in reversed(layers_of(dataset))}
        self.tables = [one for one in core.items if one.table in self.layers]

    def numbers(self, statement):
        """The first row; None for a statement that cannot be."""
        layer = self._dataset.ExecuteSQL(f"{self._begin}{statement}", None, self._dialect)
        if layer is None:
            return None
        feature = layer.GetNextFeature()
        found = [feature.GetField(i) or 0 for i in range(feature.GetFieldCount())] if feature else None
        self._dataset.ReleaseResultSet(layer)
        return found

    def count(self, statement):
        """The number that a statement gives; 0 for one that cannot be."""
        return (self.numbers(statement) or (0,))[0]

    def made(self, core):
        """The names of the columns that a SELECT gives, and the CRS of its geometry."""
        text = core.sql[core.words[0].start : core.words[-1].end]
        layer = self._dataset.ExecuteSQL(f"{self._begin}{text}", None, self._dialect)
        if layer is None:
            return [], None
        found = [one.GetName().lower() for one in fields(layer.GetLayerDefn())], layer.GetSpatialRef()
        self._dataset.ReleaseResultSet(layer)
        return found

    def shapes_of(self, item):
        return {one.GetName().lower() or "geometry" for one in shapes(self.layers[item.table].GetLayerDefn())}

    def times(self, item, *, filtered=True, groups=(), uneven=False):
        """How many rows of a table are in the result, and how many of them several times, or in a group where others are more or less often."""
        where = self.core.text("WHERE") if filtered else ""
        by = "".join(f", {one}" for one in groups)
        named = "".join(f", {one} AS g{i}" for i, one in enumerate(groups))
        rows = (
            f"SELECT {item.alias}.rowid AS r, count(*) AS n{named} FROM {self.core.text('FROM')} "  # noqa: S608 - read token by token
            f"WHERE {item.alias}.rowid IS NOT NULL{f' AND ({where})' if where else ''} GROUP BY {item.alias}.rowid{by}"
        )
        if uneven:
            same = ", ".join(f"g{i}" for i in range(len(groups))) or "NULL"
            rows = f"SELECT 1 + (min(n) OVER (PARTITION BY {same}) < max(n) OVER (PARTITION BY {same})) AS n FROM ({rows})"  # noqa: S608
        return self.numbers(f"SELECT count(*), coalesce(sum(n > 1), 0) FROM ({rows})")  # noqa: S608 - as above

    def all_of(self, item):
        return max(self.layers[item.table].GetFeatureCount(), 0)

    def returns(self, item, names):
        """Whether a column of the table that has one of these names is selected."""
        words = self.core.selected
        for i, one in enumerate(words):
            by = words[i - 2].name if i > 1 and words[i - 1].text == "." else ""
            is_all = one.text == "*" and (i == 0 or words[i - 1].text in (",", ".") or i == 1)
            if by in ("", item.name) and names and (is_all or one.name in names):
                return True
        return False


def opened(sql, read_first=""):
    """A statement in two: WITH what is to be read first and the tables of its own WITH, which its SELECTs name; and the rest of it."""
    words = words_of(sql)
    main = next((one.start for one in words if one.upper == "SELECT" and one.depth == 0), 0)
    own = re.sub(r"^\s*WITH\s(\s*RECURSIVE\s)?", "", sql[:main], flags=re.IGNORECASE)
    tables = ", ".join(text for text in (read_first, own.strip()) if text)
    return f"WITH RECURSIVE {tables} " if tables else "", sql[main:]


def multiplied(counting):
    core = counting.core
    if core.distinct or core.windowed:
        return
    if core.aggregated:
        yield from summed_twice(counting)
        yield from missing_counted(counting)
        return
    first, counts = core.items[0], {}
    for one in counting.tables:
        counts[one.alias] = counting.times(one) or (0, 0)
    there, several = counts.get(first.alias, (0, 0))
    mutual = all(found[1] for found in counts.values())
    if several and expects_one(counting, first, few=several * 2 < there, mutual=mutual):
        yield {"code": "rows_multiplied", "count": several, "of": there}


def expects_one(counting, first, *, few, mutual):
    """Whether each row of the first table was meant to come once. A listing of names may well have one several times."""
    others = counting.core.items[1:]
    # the tables whose geometries are selected
    drawn = {one.alias for one in counting.tables if counting.returns(one, counting.shapes_of(one))}
    by_keys = any(one.keys for one in others) or has_keys(counting.core.words_in("WHERE"))
    if drawn == {first.alias} or (mutual and by_keys):
        return True
    if len(drawn) > 1 or not (others[0].joined == "LEFT" or (few and by_keys)):
        return False
    # its columns of numbers that no condition of a join names
    numbers = {name for name, kind in columns_of(counting.layers[first.table]).items() if kind in NUMBERS}
    keys = {one.name for one in counting.core.words_in("FROM", "WHERE")}
    return counting.returns(first, numbers - keys)


def summed_twice(counting):
    """A sum of one table's column to which a row of it adds several times, or a mean to which some add more often than others."""
    core, groups = counting.core, list(counting.core.groups())
    for i, one in enumerate(core.selected[:-1]):
        if one.upper not in SUMS or core.selected[i + 1].text != "(":
            continue
        inner = list(itertools.takewhile(lambda word: word.depth > one.depth, core.selected[i + 2 :]))  # noqa: B023
        owners = owners_of(inner, counting) if inner and inner[0].upper != "DISTINCT" else ()
        if len(owners) != 1:
            continue
        there, several = counting.times(owners.pop(), groups=groups, uneven=one.upper == "AVG") or (0, 0)
        if several:
            yield {"code": "summed_twice", "count": several, "of": there}
            return


def missing_counted(counting):
    """A count of rows of a LEFT JOIN, for each row of the first table, which is 1 where nothing was joined."""
    core, groups = counting.core, ", ".join(counting.core.groups())
    counts_rows = re.search(r"COUNT \( [*1] \)", " ".join(one.upper for one in core.selected))
    if not (groups and counts_rows) or len(core.items) != 2 or core.items[1].joined != "LEFT":
        return
    first, second = (one.alias for one in core.items)
    where = f"WHERE {core.text('WHERE')}" if core.text("WHERE") else ""
    found = counting.numbers(
        "SELECT max(n), sum(m) FROM "  # noqa: S608 - read token by token
        f"(SELECT count(DISTINCT {first}.rowid) AS n, sum({second}.rowid IS NULL) AS m FROM {core.text('FROM')} {where} GROUP BY {groups})"
    )
    if found and found[0] == 1 and found[1]:
        yield {"code": "missing_counted", "count": found[1]}


def owners_of(words, counting):
    """The tables whose columns an expression names."""
    found = set()
    for i, one in enumerate(words):
        goes_on = i + 1 < len(words) and words[i + 1].text in ("(", ".")
        if goes_on or not re.match(r'["\w]', one.text) or one.text[0].isdigit():
            continue
        if i > 1 and words[i - 1].text == ".":
            found |= {item for item in counting.tables if item.name == words[i - 2].name}
            continue
        having = [item for item in counting.tables if one.name in columns_of(counting.layers[item.table])]
        found |= set(having) if len(having) == 1 else set()
    return found


def columns_of(layer):
    """The types of its fields by their names."""
    return {one.GetName().lower(): one.GetType() for one in fields(layer.GetLayerDefn())}


def lost(counting):
    """Rows that a join by keys leaves out, whatever WHERE says after; and any join that finds nothing."""
    items = counting.core.items
    if any(one.joined == "," for one in items) or items[0] not in counting.tables:
        return
    first, *others = items
    if all(one.joined == "LEFT" for one in others):
        found = [counting.times(one, filtered=False) for one in others if one in counting.tables]
        if counting.all_of(first) and found and all(one == [0, 0] for one in found):
            yield {"code": "nothing_joined"}
        return
    found, of = counting.times(first, filtered=False), counting.all_of(first)
    if found is None or not of:
        return
    there, several = found
    if not there:
        yield {"code": "nothing_joined"}
        return
    if there == of and several and len(others) == 1 and others[0] in counting.tables:
        # of one row with many: the many are what must all be there
        there, several = counting.times(others[0], filtered=False) or (0, 1)
        of = 0 if several else counting.all_of(others[0])
    if all(one.keys for one in others) and there < of:
        yield {"code": "rows_lost", "count": of - there, "of": of}
