"""Tests of a SELECT for values that its functions and comparisons take otherwise than they seem to. Pure.

A probe is SQL that counts such values. The container knows the types of columns and runs only the probes whose
columns have the wanted type (`inside/parts/value_probes.py`).
"""

import unicodedata
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gdal_mcp.toolboxes.gdal.preflight.sql.tree import (
    calls,
    columns,
    function,
    level,
    name_of,
    number,
    plain,
    sources,
    text_of,
)

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

Probe: TypeAlias = Mapping[str, Any]

LABEL: Final = "{label}"  # the container replaces it with each text column of the table of the probe's column
_MOST: Final = 24  # per SELECT; each needs a statement
_SUMS: Final = frozenset({"sum", "total", "avg"})
_ORDERS: Final = frozenset({"lt", "lte", "gt", "gte", "between", "ordered"})
_DATES: Final = frozenset({"date", "time", "datetime", "strftime"})
_OF_NUMBERS: Final = frozenset({"unixepoch", "julianday", "auto"})
_ZONE: Final = "????-??-??[T ]??:??*"
_JULIAN_DAYS: Final = (1721426, 5373484)  # of the years 1 to 9999
_MILLISECONDS: Final = 100_000_000_000  # greater numbers are not seconds of a plausible date
_BLANKS: Final = "char(9, 10, 13, 32, 160)"
# letters whose other case SQLite does not know: Latin, Greek, Cyrillic
_LETTERS: Final = {"upper": "à-öø-þāăąćčďđēėęěğīįıłńňőœŕřśşšťūůűųźżžα-ωа-я", "lower": "À-ÖØ-ÞĀĂĄĆČĎĐĒĖĘĚĞĪĮİŁŃŇŐŒŔŘŚŞŠŤŪŮŰŲŹŻŽΑ-ΩА-Я"}  # fmt: skip
# numbers that stand for a missing value in tables of measurements
_FILLS: Final = "(-999, -9999, -99999, -999999, -32768, -999.25)"
_TOTALS: Final = ("total", "totals", "grand total", "sum", "all", "gesamt", "summe", "insgesamt", "totale")
_JOINING: Final = ("and", "paren")
_REJECTS_NULL: Final = frozenset({"eq", "neq", "lt", "lte", "gt", "gte", "between", "like", "glob", "in"})
_ACCEPTS_NULL: Final = frozenset({"is", "case", "or", "null", "select"})
_SUBSTITUTES: Final = frozenset({"coalesce", "ifnull", "nullif", "iif"})


def value_probes(select: "Expr") -> Mapping[str, Any]:
    """The probes of a SELECT, and the codes of probes that are left out because there are too many (`unprobed`)."""
    nodes = list(level(select))
    every = (
        *_moments(select, nodes),
        *_dates(nodes),
        *_cases(nodes),
        *_texts(nodes),
        *_patterns(nodes),
        *_groups(select, nodes),
        *_sums(select, nodes),
        *_conditions(select),
        *_chains(select),
    )
    different = list({probe["count"] + probe["condition"]: probe for probe in every}.values())
    unprobed = sorted({probe["code"] for probe in different[_MOST:]})
    return {"probes": different[:_MOST], "unprobed": unprobed}


def _probe(
    code: str, kind: str, column: "Expr", count: str = "count(*)", condition: str = "", **more: Any
) -> Probe:
    owner = [column.text("table").lower(), column.name.lower()]
    return {
        "code": code,
        "kind": kind,
        "column": owner,
        "count": count,
        "condition": condition,
        "filtered": True,
        **more,
    }


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _moments(select: "Expr", nodes: "list[Expr]") -> Iterator[Probe]:
    """Columns that are ordered as texts, although their times may have several offsets from UTC."""
    computed = {
        term.alias.lower()
        for term in select.expressions
        if term.key == "alias" and plain(term).key != "column"
    }
    ordered = [plain(node.this) for node in nodes if node.key in _ORDERS]
    ordered += [
        plain(call.expressions[0])
        for call in calls(iter(nodes))
        if function(call) in ("min", "max") and len(call.expressions) == 1
    ]
    for column in ordered:
        if column.key == "column" and (column.text("table") or column.name.lower() not in computed):
            name = text_of(column)
            offset = f"CASE WHEN {name} GLOB '{_ZONE}[+-]??:??' THEN substr({name}, -6) WHEN {name} GLOB '{_ZONE}Z' THEN '+00:00' END"
            yield _probe("offsets_differ", "time", column, f"count(DISTINCT {offset}) - 1")


def _dates(nodes: "list[Expr]") -> Iterator[Probe]:
    """Columns whose times SQLite moves to UTC, and numbers that it takes for days or seconds."""
    for call in calls(iter(nodes)):
        at = int(function(call) == "strftime")
        if function(call) not in _DATES or len(call.expressions) <= at:
            continue
        form = call.expressions[0].name if at else ""
        column, modifiers = (
            plain(call.expressions[at]),
            {part.name.lower() for part in call.expressions[at + 1 :]},
        )
        if column.key != "column":
            continue
        name = text_of(column)
        if form not in ("%s", "%J") and not modifiers:
            hours = function(call) in ("time", "datetime") or any(
                part in form for part in ("%H", "%M", "%T", "%R")
            )
            moved = "" if hours else f" AND date({name}) <> substr({name}, 1, 10)"
            zone = f"{name} GLOB '{_ZONE}[+-]??:??' AND substr({name}, -5) <> '00:00'"
            yield _probe("days_in_utc", "time", column, condition=f"{zone}{moved}")
        if not modifiers & _OF_NUMBERS:
            first, last = _JULIAN_DAYS
            yield _probe(
                "number_as_day", "number", column, condition=f"{name} NOT BETWEEN {first} AND {last}"
            )
        elif "unixepoch" in modifiers:
            yield _probe("milliseconds", "number", column, condition=f"abs({name}) > {_MILLISECONDS}")


def _cases(nodes: "list[Expr]") -> Iterator[Probe]:
    for call in calls(iter(nodes)):
        column = plain(call.expressions[0]) if call.expressions else call
        if function(call) in _LETTERS and column.key == "column":
            letters = f"{text_of(column)} GLOB '*[{_LETTERS[function(call)]}]*'"
            yield _probe("case_of_ascii", "text", column, condition=letters, filtered=False)


def _texts(nodes: "list[Expr]") -> Iterator[Probe]:
    """Texts that differ from a wanted text only in spaces around them or in Unicode's form; numbers as texts."""
    wanted: dict[str, tuple[Expr, list[Expr]]] = {}
    for node in nodes:
        column = plain(node.this) if node.key in ("eq", "neq", "in") else node
        if node.key in ("eq", "neq", "in") and column.key == "column":
            others = node.expressions if node.key == "in" else [node.expression]
            wanted.setdefault(text_of(column), (column, []))[1].extend(map(plain, others))
    for name, (column, others) in wanted.items():
        texts = {other.name for other in others if other.is_string}
        forms = {unicodedata.normalize(form, text.strip()) for text in texts for form in ("NFC", "NFD")}
        if texts:
            alike = f"trim({name}, {_BLANKS}) IN ({', '.join(map(_quoted, sorted(forms)))})"
            same = f"{name} NOT IN ({', '.join(map(_quoted, sorted(texts)))})"
            yield _probe("texts_alike", "text", column, condition=f"{alike} AND {same}", filtered=False)
        for digits in {number(other) for other in others if number(other)}:
            padded = f"{name} GLOB '0[0-9]*' AND ltrim({name}, '0') = '{digits}'"
            yield _probe("zeros_in_texts", "text", column, condition=padded, filtered=False)


def _patterns(nodes: "list[Expr]") -> Iterator[Probe]:
    """Patterns of LIKE in which an underscore matches other characters, although a text has an underscore there."""
    for node in nodes:
        pattern = node.args.get("expression") if node.key == "like" else None
        column = plain(node.this) if pattern is not None else node
        escapes = node.parent is not None and node.parent.key == "escape"
        if (
            pattern is None
            or column.key != "column"
            or not pattern.is_string
            or "_" not in pattern.name
            or escapes
        ):
            continue
        name, any_letter = text_of(column), f"{text_of(column)} LIKE {_quoted(pattern.name)}"
        literal = f"{name} LIKE {_quoted(pattern.name.replace('!', '!!').replace('_', '!_'))} ESCAPE '!'"
        count = f"CASE WHEN sum({literal}) > 0 THEN sum({any_letter}) - sum({literal}) ELSE 0 END"
        yield _probe("underscore_matches", "text", column, count, filtered=False)


def _groups(select: "Expr", nodes: "list[Expr]") -> Iterator[Probe]:
    """Columns by which rows are grouped or counted, whose texts may differ only in case or spaces."""
    group = select.args.get("group")
    terms = [plain(term) for term in (group.expressions if group is not None else ())]
    counted = (
        call.expressions[0] for call in calls(iter(nodes)) if function(call) == "count" and call.expressions
    )
    terms += [plain(inner) for term in counted if term.key == "distinct" for inner in term.expressions]
    for column in terms:
        if column.key == "column":
            name = text_of(column)
            words = f"CASE WHEN length(trim({name})) > 2 THEN {name} END"
            folded = f"lower(trim({words}, {_BLANKS}))"
            # a column without repeated texts has ids, in which case may matter
            repeats = f"count({words}) > count(DISTINCT {words})"
            count = f"CASE WHEN {repeats} THEN count(DISTINCT {words}) - count(DISTINCT {folded}) ELSE 0 END"
            yield _probe("groups_alike", "text", column, count)


def _sums(select: "Expr", nodes: "list[Expr]") -> Iterator[Probe]:
    """Numbers that stand for missing values, and rows with totals, that a sum or a mean includes."""
    for call in calls(iter(nodes)):
        column = plain(call.expressions[0]) if len(call.expressions) == 1 else call
        if column.key != "column" or function(call) not in (*_SUMS, "min", "max"):
            continue
        name = text_of(column)
        least = f"min(CASE WHEN {name} NOT IN {_FILLS} THEN {name} END)"
        greatest = f"max(CASE WHEN {name} IN {_FILLS} THEN {name} END)"
        if function(call) != "max":
            yield _probe(
                "fill_values",
                "number",
                column,
                f"CASE WHEN {least} > {greatest} / 2.0 THEN sum({name} IN {_FILLS}) ELSE 0 END",
            )
        if select.args.get("group") is None:
            yield _totals(column)


def _totals(column: "Expr") -> Probe:
    """Rows whose text says that they are totals, and whose number is the sum of the others."""
    name, words = text_of(column), ", ".join(map(_quoted, _TOTALS))
    is_total = f"coalesce(lower(trim({LABEL})) IN ({words}), 0)"
    total, rest = f"sum({name} * {is_total})", f"sum({name} * (1 - {is_total}))"
    same = f"abs({total} - {rest}) <= 0.001 * abs({total}) AND {total} <> 0"
    return _probe("totals_included", "number", column, f"CASE WHEN {same} THEN sum({is_total}) ELSE 0 END")


def _conditions(select: "Expr") -> Iterator[Probe]:
    """Conditions of the WHERE that drop rows whose value is NULL: of a column, or of a table of a LEFT JOIN."""
    where = select.args.get("where")
    parts = _conjuncts(where.this) if where is not None else []
    tested = {text_of(column) for part in parts if _tests_null(part) for column in columns(part.walk())}
    negative: dict[str, tuple[Expr, set[str]]] = {}  # conditions such as <> and NOT IN, by their column
    for part in parts:
        inner = plain(part.this) if part.key == "not" else part
        inner = inner.this if inner.key == "escape" else inner
        if inner.key not in _REJECTS_NULL or not _is_strict(part):
            continue
        column, negated = plain(inner.this), part.key in ("neq", "not") or inner.args.get("negate")
        if negated and column.key == "column" and text_of(column) not in tested:
            negative.setdefault(text_of(column), (column, set()))[1].add(text_of(part))
        yield from _outer(select, part)
    texts = [text_of(part) for part in parts]
    for name, (column, own) in negative.items():
        rest = (f"({text})" for text in texts if text not in own)
        condition = " AND ".join([f"{name} IS NULL", *rest])
        yield _probe("nulls_excluded", "any", column, condition=condition, filtered=False)


def _outer(select: "Expr", part: "Expr") -> Iterator[Probe]:
    """A condition on a table of a LEFT JOIN drops the rows without a row of that table."""
    named = {column.text("table").lower(): column for column in columns(part.walk())}
    for source in sources(select):
        join = source.parent
        column = named.get(name_of(source))
        if column is not None and join is not None and join.key == "join" and join.text("side") == "LEFT":
            missing = f"{text_of(column.args['table'])}.rowid IS NULL"
            yield _probe("left_join_undone", "any", column, condition=missing, filtered=False)


def _conjuncts(condition: "Expr") -> "list[Expr]":
    """The conditions that AND joins."""
    nodes = condition.walk(prune=lambda node: node.key not in _JOINING)
    return [node for node in nodes if node.key not in _JOINING]


def _tests_null(part: "Expr") -> bool:
    return any(node.key == "is" for node in part.walk())


def _is_strict(part: "Expr") -> bool:
    """True if a condition is not true when one of its columns is NULL."""
    nodes = list(part.walk())
    return not any(node.key in _ACCEPTS_NULL or function(node) in _SUBSTITUTES for node in nodes)


def _chains(select: "Expr") -> Iterator[Probe]:
    """Texts joined by `||` that are NULL because one of several columns is."""
    for term in select.expressions:
        chain = plain(term)
        if chain.key != "dpipe":
            continue
        names = {text_of(column): column for column in columns(chain.walk())}
        if len(names) > 1 and _is_strict(chain):
            some = f"coalesce({', '.join(names)}) IS NOT NULL"
            yield _probe(
                "joined_text_null",
                "any",
                next(iter(names.values())),
                condition=f"({text_of(chain)}) IS NULL AND {some}",
            )
