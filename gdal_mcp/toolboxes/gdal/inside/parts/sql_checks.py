"""What a statement's words show to be wrong, beside the columns of the tables that it can name; and what the rows of these do, by counting."""

import itertools
import re
import time

from osgeo import ogr

from gdal_mcp.toolboxes.gdal.inside.parts.bounded import in_time
from gdal_mcp.toolboxes.gdal.inside.parts.geometry_checks import geometry_checks
from gdal_mcp.toolboxes.gdal.inside.parts.joins import (
    AGGREGATES,
    MAX_SECONDS,
    Core,
    Counting,
    columns_of,
    cores_of,
    lost,
    multiplied,
    split,
    words_of,
)
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet
from gdal_mcp.toolboxes.gdal.inside.parts.survey import TIMES
from gdal_mcp.toolboxes.gdal.inside.parts.tables import layers_of, shapes

MOST_SECONDS = 3.0  # by the clock, that an answer waits for its rows to be counted
INTEGERS = (ogr.OFTInteger, ogr.OFTInteger64)
# of whole numbers they give whole numbers
EXACT = frozenset("SUM COUNT MIN MAX COALESCE IFNULL NULLIF ABS DISTINCT SELECT THEN ELSE END".split())
# what no product goes beyond, to its left or its right
NO_FACTORS = frozenset(
    "SELECT DISTINCT FROM WHERE GROUP HAVING ORDER LIMIT BY ON AS AND OR NOT IN IS LIKE BETWEEN CASE WHEN THEN ELSE END OVER ASC DESC".split()
)
OWN = frozenset({"rowid", "fid", "ogc_fid", "geometry", "geom", "ogr_style"})
# after which a name stands for a column, and not for a text that somebody put in the wrong quotes
BEFORE_A_COLUMN = frozenset("SELECT DISTINCT WHERE AND OR BY ON WHEN + - * /".split())
RELATIONS = re.compile(
    r"(ST_)?(INTERSECTS|CONTAINS|WITHIN|COVERS|COVEREDBY|OVERLAPS|TOUCHES|CROSSES|EQUALS|DISJOINT)|PTDISTWITHIN"
)
SIGNS = frozenset("= == < > <= >= <> != BETWEEN IS".split())
DAY = re.compile(r"'(\d{4}-\d\d-\d\d)( \d\d:\d\d.*)?'")


def word_checks(dataset, sql):
    kinds = {}
    for layer in layers_of(dataset):
        for name, kind in columns_of(layer).items():
            kinds.setdefault(name, set()).add(kind)
        for one in shapes(layer.GetLayerDefn()):
            kinds.setdefault(one.GetName().lower(), set()).add(None)
    tables = {one.GetName().lower() for one in layers_of(dataset)}
    if count := sum(1 for _ in unknown(sql, kinds.keys() | tables | OWN)):
        yield {"code": "column_unknown", "count": count}
    clauses = ("WHERE", "HAVING", "ORDER")
    parts = (part for one in cores_of(sql) for part in (one.selected, *map(one.words_in, clauses)))
    if any(divides(part, kinds) for part in parts):
        yield {"code": "integer_division"}
    words = words_of(sql)
    signs = (beside(words, i) for i, one in enumerate(words) if one.text in ("+", "-"))
    if any(is_time(operand, kinds) for both in signs for operand in both):
        yield {"code": "date_arithmetic"}


def unknown(sql, known):
    """Names in double quotes that are those of nothing: SQLite takes them for texts."""
    words = words_of(sql)
    known = known | {b.name for a, b in itertools.pairwise(words) if a.upper == "AS"}
    for i, one in enumerate(words[1:], 1):
        before, after = words[i - 1], words[i + 1 : i + 2]
        summed = before.text == "(" and words[i - 2].upper in AGGREGATES
        listed = before.text == "," and one.depth == 0
        is_column = summed or listed or before.upper in BEFORE_A_COLUMN
        goes_on = after and after[0].text in ".("
        if one.text[0] == '"' and is_column and one.name not in known and not goes_on:
            yield one


def divides(words, kinds):
    """Whether whole numbers are divided, of which SQLite leaves out the fraction. Bins of a fixed width are meant so, and what is made whole."""
    for i, one in enumerate(words[:-1]):
        if one.text != "/" or words[i + 1].text[0].isdigit():
            continue
        before, after = beside(words, i)
        made = [word.upper for word in words[i + 1 + len(after) :][:2]]
        ends = (j for j, word in enumerate(after) if word.text in "*/" and word.depth == one.depth)
        whole = all(is_whole(operand, kinds) for operand in (before, after[: next(ends, None)]))
        if whole and made not in (["AS", "INTEGER"], ["AS", "INT"]):
            return True
    return False


def beside(words, i):
    """The products before and after a sign."""
    level = words[i].depth

    def within(word):
        own = word.text in "*/.()" or (re.match(r'["\w]', word.text) and word.upper not in NO_FACTORS)
        return word.depth > level or (word.depth == level and own)

    before = list(itertools.takewhile(within, reversed(words[:i])))
    return before[::-1], list(itertools.takewhile(within, words[i + 1 :]))


def is_whole(words, kinds):
    """Whether a product is one of whole numbers. What a condition or a FROM names gives it no value."""
    named = False
    for one, after in itertools.pairwise([*words, None]):
        named = {"CASE": True, "WHEN": True, "FROM": True, "THEN": False, "ELSE": False}.get(one.upper, named)
        column = (kinds.get(one.name) or {None}) <= set(INTEGERS) or (after and after.text == ".")
        if not (named or column or one.text.isdecimal() or one.text in "+-*/().," or one.upper in EXACT):
            return False
    return bool(words)


def is_time(words, kinds):
    """Whether it is a column of dates or times, or the first or last of them."""
    texts = [one for one in words if one.text not in "()" and one.upper not in ("MIN", "MAX")]
    plain = len(texts) == 1 or (len(texts) == 3 and texts[1].text == ".")
    return plain and (kinds.get(texts[-1].name) or {None}) <= set(TIMES)


UNEXAMINED = {"code": "rows_unexamined"}


def row_checks(dataset, sql, seconds, read_first="", dialect="SQLITE"):
    """What counting shows, for a statement that took so many `seconds` of the processor; `read_first` defines its tables, as in a WITH.

    What there is no time for is not known, and that is said.
    """
    found = None
    if seconds < MAX_SECONDS:
        found = in_time(lambda: list(counted_checks(dataset, sql, read_first, dialect)), MOST_SECONDS)
    if found is None:
        found = [UNEXAMINED] if any(one.joins_others or one.aggregated for one in cores_of(sql)) else []
    return found


def counted_checks(dataset, sql, read_first, dialect):
    until = time.process_time() + MAX_SECONDS
    with quiet():
        for core in cores_of(sql):
            counting = Counting(dataset, core, read_first, dialect)
            joins = (multiplied, lost) if core.joins_others else ()
            for check in (
                not_aggregated,
                null_geometries,
                nulls_in_list,
                times,
                united,
                *joins,
                geometry_checks,
            ):
                if time.process_time() > until:
                    yield UNEXAMINED
                    return
                yield from check(counting)


def not_aggregated(counting):
    """Terms beside a sum that have several values in a group. Beside a MIN or MAX they are those of its row, as SQLite promises."""
    core, tests = counting.core, []
    if core.windowed or not core.calls & AGGREGATES or core.calls & {"MIN", "MAX"}:
        return
    for term in split(core.selected):
        marks = (i for i, one in enumerate(term) if one.upper == "AS" and one.depth == term[0].depth)
        words = term[: next(marks, len(term))]
        if not {one.upper for one in words} & {*AGGREGATES, "*", "SELECT", "DISTINCT"}:
            tests.append(f"count(DISTINCT {core.sql[words[0].start : words[-1].end]}) > 1")
    of = " ".join(f"{one} {core.text(one)}" for one in ("FROM", "WHERE", "GROUP", "HAVING") if core.text(one))
    asked = f"SELECT count(*), sum(n) FROM (SELECT ({' OR '.join(tests)}) AS n {of})"  # noqa: S608 - read token by token
    found = tests and counting.numbers(asked)
    if found and found[1]:
        yield {"code": "not_aggregated", "count": found[1], "of": found[0]}


def null_geometries(counting):
    """Rows without a geometry that a relation lets pass: of NULL it gives -1, which SQL takes for true."""
    core = counting.core
    places = [(part, i) for part in ("FROM", "WHERE") for i in range(len(core.words_in(part)))]
    for part, i in places:
        before, one, *words = ["", *core.words_in(part)][i:]
        inner = list(itertools.takewhile(lambda word: word.depth > one.depth, words[1:]))  # noqa: B023
        after = words[len(inner) + 2 :][:1]
        is_compared = (after and after[0].upper in SIGNS) or (before and before.upper == "NOT")
        if is_compared or not RELATIONS.fullmatch(one.upper):
            continue
        named = [item for item in counting.tables if any(word.name == item.name for word in inner)]
        drawn = ((one.alias, shape) for one in named or counting.tables for shape in counting.shapes_of(one))
        tests = [f"({alias}.rowid IS NOT NULL AND {alias}.{shape} IS NULL)" for alias, shape in drawn]
        where = f"AND ({core.text('WHERE')})" if part == "WHERE" else ""
        asked = f"SELECT count(*) FROM {core.text('FROM')} WHERE ({' OR '.join(tests)}) {where}"  # noqa: S608 - as above
        if tests and (count := counting.count(asked)):
            yield {"code": "null_geometries", "count": count}
            return


def nulls_in_list(counting):
    """A subquery of NOT IN that gives a NULL, with which nothing is ever not in it."""
    words = counting.core.words
    for i, (one, two, _, four) in enumerate(zip(words, words[1:], words[2:], words[3:], strict=False)):
        if (one.upper, two.upper, four.upper) == ("NOT", "IN", "SELECT"):
            end = next(word.end for word in words[i + 3 :] if word.text == ")" and word.depth == one.depth)
            listed = counting.core.sql[two.end : end]
            if counting.count(f"SELECT (char(1) NOT IN {listed}) IS NULL"):
                yield {"code": "nulls_in_list"}
                return


def times(counting):
    """Times that are compared with a day, which comes before all of that day's, or with a text that has a blank in place of their T."""
    core = counting.core
    for part, words in (("SELECT", core.selected), *core.parts.items()):
        texts = ["", "", "", "", *(one.text for one in words)]
        for i, told in enumerate(map(DAY.fullmatch, texts)):
            column, sign = texts[i - 2], texts[i - 1].upper()
            if sign == "AND" and texts[i - 3].upper() == "BETWEEN":
                column, sign = texts[i - 4], "<="
            # a condition on one table alone is GDAL's own, and reads such a text as a time
            alone = part == "WHERE" and len(core.items) == 1 and not counting.read_first
            if not told or sign not in SIGNS or (alone if told[2] else sign not in ("<=", "=", "==")):
                continue
            late = "" if told[2] else f"AND substr({column}, 12, 8) > '00:00:00'"
            for item in counting.tables:
                kind = columns_of(counting.layers[item.table]).get(column.strip('"').lower())
                asked = f"SELECT count(*) FROM \"{item.table}\" WHERE substr({column}, 1, 10) = '{told[1]}' {late}"  # noqa: S608 - as above
                if kind == ogr.OFTDateTime and (count := counting.count(asked)):
                    yield {"code": "time_as_text", "count": count}
                    return


def united(counting):
    """A part of a UNION and the next one, whose columns go by their places, and whose geometries come as they are."""
    core = counting.core
    start = next((i for i, one in enumerate(core.rest) if one.upper == "SELECT"), 0)
    if not start or core.rest[0].upper != "UNION":
        return
    other = Core(core.sql, core.rest[start:])
    (names, crs), (others, theirs) = counting.made(core), counting.made(other)
    # of one table both orders may be wanted: from A to B, and from B to A
    mixed = any(a != b and b in names for a, b in zip(names, others, strict=False))
    if mixed and core.text("FROM") != other.text("FROM"):
        yield {"code": "columns_mixed"}
    if crs and theirs and not crs.IsSame(theirs):
        yield {"code": "crs_mixed"}
