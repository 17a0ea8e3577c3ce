"""Outlines each SELECT of a statement for a container: its clauses, tables, joins, sums and days. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from gdal_mcp.toolboxes.gdal.preflight.sql.geometry import Data, geometry_probes
from gdal_mcp.toolboxes.gdal.preflight.sql.probes import value_probes
from gdal_mcp.toolboxes.gdal.preflight.sql.tree import (
    AGGREGATES,
    COMPARISONS,
    QUERIES,
    calls,
    clause,
    columns,
    from_text,
    function,
    is_aggregate,
    is_star,
    level,
    name_of,
    number,
    plain,
    sources,
    table_name,
    text_of,
)

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

_SUMS: Final = frozenset({"sum", "total", "avg"})
_DAY: Final = re.compile(r"(\d{4}-\d\d-\d\d)( \d\d:\d\d.*)?")


def outline_of_select(select: "Expr") -> Data:
    """The measures of a SELECT; a second set has expanded aliases if its conditions use any.

    Only the container knows whether an alias is also the name of a column.
    """
    names = _aliases_used(select)
    more = {"aliases": sorted(names), "expanded": _measures(_expanded(select, names))} if names else {}
    return {**_measures(select), **more}


def _aliases_used(select: "Expr") -> "Mapping[str, Expr]":
    """The computed terms of a SELECT whose aliases its conditions use, by alias."""
    computed = {term.alias.lower(): plain(term) for term in select.expressions if term.key == "alias"}
    used = {column.name.lower() for column in _unqualified(select)}
    return {name: term for name, term in computed.items() if name in used and term.key != "column"}


def _unqualified(select: "Expr") -> "list[Expr]":
    parts = (select.args.get(name) for name in ("where", "having"))
    candidates = (column for part in parts if part is not None for column in columns(level(part)))
    return [column for column in candidates if not column.text("table")]


def _expanded(select: "Expr", names: "Mapping[str, Expr]") -> "Expr":
    """A copy of a SELECT whose conditions have the terms instead of their aliases."""
    from sqlglot.expressions import Paren  # noqa: PLC0415 - sqlglot is loaded already, because there is a tree

    expanded = select.copy()
    expanded.parent = select.parent
    for column in _unqualified(expanded):
        if (term := names.get(column.name.lower())) is not None:
            column.replace(Paren(this=term.copy()))
    return expanded


def _measures(select: "Expr") -> Data:
    tables = sources(select)
    items = [_item(source, tables[0]) for source in tables]
    own = list(level(select))
    aggregates = {function(call) for call in _selected_calls(select) if is_aggregate(call)}
    named = [item["table"] for item in items if item["table"]]
    parent = select.parent
    alone = (
        parent is None or parent.key not in QUERIES or (parent.key == "union" and not parent.args["distinct"])
    )
    return {
        "from": from_text(select),
        "where": text_of(select.args["where"].this) if select.args.get("where") else "",
        "group": [text_of(term) for term in _groups(select)],
        "having": text_of(select.args["having"].this) if select.args.get("having") else "",
        "items": items,
        # a self-join repeats rows on purpose
        "joins_others": len(items) > 1 and alone and len(set(named)) == len(named),
        "distinct": bool(select.args.get("distinct")),
        "windowed": any(node.key == "window" for node in own),
        "aggregated": bool(select.args.get("group")) or bool(aggregates),
        "extreme": bool(aggregates & {"min", "max"}),
        "values": [text_of(plain(term)) for term in select.expressions if _is_value(term)]
        if aggregates
        else [],
        "returned": [_name(column) for column in _returned(select)],
        "compared": sorted(
            {column.name.lower() for part in _conditions(select) for column in columns(level(part))}
        ),
        "keys": any(
            bool(_pairs(condition)) for condition in [select.args.get("where")] if condition is not None
        ),
        "counts": any(function(call) == "count" and _is_plain_sum(call) for call in _selected_calls(select)),
        "counts_rows": any(_counts_rows(call) for call in _selected_calls(select)),
        "sums": [
            _sum(call) for call in _selected_calls(select) if function(call) in _SUMS and _is_plain_sum(call)
        ],
        "days": list(_days(select)),
        **value_probes(select),
        **geometry_probes(select),
    }


def _item(source: "Expr", first: "Expr") -> Data:
    join = source.parent if source.parent is not None and source.parent.key == "join" else None
    joined, keys, pairs = "", False, []
    if join is not None:
        on, using = join.args.get("on"), join.args.get("using")
        natural = join.text("method") == "NATURAL"
        bound = on is not None or using or natural
        outer = join.text("side") in ("LEFT", "FULL", "RIGHT")
        joined = "LEFT" if outer else "INNER" if bound or join.text("kind") == "INNER" else ","
        pairs = _pairs(on) if on is not None else []
        names = [column.name.lower() for column in using or ()]
        pairs += [[[name_of(table), name] for table in (first, source)] for name in names]
        keys = bool(pairs) or natural
    alias = source.args.get("alias")
    named = alias.this if alias is not None and alias.this is not None else source.this
    known = source.key in ("table", "subquery") and named.key == "identifier"
    return {
        "table": table_name(source) or None,
        "alias": text_of(named) if known else "",
        "name": name_of(source),
        "joined": joined,
        "keys": keys,
        "pairs": pairs,
        "text": text_of(source),
    }


def _pairs(condition: "Expr") -> list[list[list[str]]]:
    """The pairs of columns that a condition compares for equality."""
    pairs = ((plain(node.this), plain(node.expression)) for node in condition.walk() if node.key == "eq")
    return [[_name(x), _name(y)] for x, y in pairs if x.key == y.key == "column"]


def _groups(select: "Expr") -> Iterator["Expr"]:
    """The terms of GROUP BY, with numbers and aliases replaced by the terms of the SELECT."""
    group = select.args.get("group")
    terms = select.expressions
    named = {term.alias.lower(): plain(term) for term in terms if term.key == "alias"}
    for term in group.expressions if group is not None else ():
        place = number(term)
        if place and 0 < int(place) <= len(terms):
            yield plain(terms[int(place) - 1])
        else:
            is_name = term.key == "column" and not term.text("table")
            yield named.get(term.name.lower(), term) if is_name else term


def _selected_calls(select: "Expr") -> Iterator["Expr"]:
    return (call for term in select.expressions for call in calls(level(term)))


def _is_value(term: "Expr") -> bool:
    """True for a term without aggregates, subqueries and `*`."""
    return not any(
        function(node) in AGGREGATES or is_star(node) or node.key in (*QUERIES, "subquery", "distinct")
        for node in term.walk()
    )


def _returned(select: "Expr") -> Iterator["Expr"]:
    for term in select.expressions:
        nodes = term.walk()
        yield from (node for node in nodes if node.key == "column" or (is_star(node) and node is term))


def _name(column: "Expr") -> list[str]:
    """The qualifier of a column ("" without one) and its lower-case name, which is `*` for all columns."""
    table = column.text("table").lower() if column.key == "column" else ""
    return [table, "*" if is_star(column) else column.name.lower()]


def _conditions(select: "Expr") -> Iterator["Expr"]:
    if (where := select.args.get("where")) is not None:
        yield where
    for join in select.args.get("joins") or ():
        yield from (
            condition
            for condition in [join.args.get("on"), *(join.args.get("using") or ())]
            if condition is not None
        )


def _counts_rows(call: "Expr") -> bool:
    arguments = call.expressions
    return (
        function(call) == "count"
        and len(arguments) == 1
        and (is_star(arguments[0]) or number(arguments[0]) == "1")
    )


def _is_plain_sum(call: "Expr") -> bool:
    return bool(call.expressions) and call.expressions[0].key != "distinct"


def _sum(call: "Expr") -> Data:
    return {
        "mean": function(call) == "avg",
        "columns": [_name(column) for part in call.expressions for column in columns(part.walk())],
    }


def _days(select: "Expr") -> Iterator[Data]:
    """Columns that are compared with a date, or with a date and a time separated by a space."""
    for node in level(select):
        if node.key not in COMPARISONS or node.this.key != "column":
            continue
        operands = [node.args[name] for name in ("low", "high") if name in node.args] or [node.expression]
        for operand in operands:
            match = _DAY.fullmatch(operand.name) if operand.is_string else None
            includes = operand is node.args.get("high") or node.key in ("lte", "eq")
            if match and (match[2] or includes):
                yield {
                    "column": text_of(node.this),
                    "name": node.this.name.lower(),
                    "day": match[1],
                    "with_time": bool(match[2]),
                    "in_where": clause(node) == "where",
                }
