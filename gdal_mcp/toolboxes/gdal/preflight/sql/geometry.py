"""The geometry functions of a SELECT that a container examines: measures, tests and relations. Pure."""

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gdal_mcp.toolboxes.gdal.preflight.sql.tree import (
    COMPARISONS,
    bare,
    calls,
    columns,
    from_text,
    function,
    is_aggregate,
    level,
    plain,
    text_of,
)

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

Data: TypeAlias = Mapping[str, Any]

_MAX_RELATIONS: Final = 8  # per SELECT; each needs a counting statement

_CUTS: Final = frozenset(
    "area perimeter intersection difference symdifference buffer centroid union unaryunion gunion".split()
)
_LENGTHS: Final = frozenset({"st_length", "glength"})  # LENGTH without a prefix counts characters
_MAKES_VALID: Final = frozenset({"makevalid", "buffer"})
_SUMS: Final = frozenset({"sum", "total"})
_TESTS: Final = frozenset("isvalid isempty issimple isclosed isring".split())
_RELATIONS: Final = frozenset(
    "intersects contains within covers coveredby overlaps touches crosses equals disjoint ptdistwithin".split()
)


def geometry_probes(select: "Expr") -> Data:
    every = [call for call in select.walk() if function(call)]
    repairs = any(bare(function(call)) in _MAKES_VALID for call in every)
    own = list(calls(level(select)))
    measured = (
        []
        if repairs
        else [call for call in own if bare(function(call)) in _CUTS and function(call) != "union"]
    )
    areas = [call for call in own if function(call) in _SUMS and _is_area(call)]
    related = list(itertools.islice(_related(select), _MAX_RELATIONS))
    return {
        "by_place": bool(related),
        "measured": [_named(call) for call in measured],
        "area_sums": [_named(plain(call.expressions[0])) for call in areas],
        "centroids": [_named(call) for call in own if _is_placed_centroid(call)],
        "differences": [list(map(text_of, call.expressions)) for call in own if _is_plain_difference(call)],
        "emptied": [_named(call) for call in own if bare(function(call)) == "isempty"],
        "tested": [{"call": text_of(call)} for call in _tested(own)],
        "relations": [
            {"columns": _named(call), "in_where": in_where}
            for call, in_where in related
            if not _is_compared(call)
        ],
        "inside": [
            {
                "columns": _named(call),
                "test": f"ST_Touches({', '.join(map(text_of, call.expressions))}) = 1",
                "rows": _with_relation(select, call, "ST_Touches"),
            }
            for call, _ in related
            if bare(function(call)) in ("contains", "within")
        ],
        "meeting": [
            {
                "columns": _named(call),
                "rows": _with_relation(select, call, str(call.this)),
                "covered": _with_relation(select, call, "ST_CoveredBy"),
                "covering": _with_relation(select, call, "ST_Covers"),
            }
            for call, _ in related
            if areas and bare(function(call)) == "intersects"
        ],
    }


def _is_area(call: "Expr") -> bool:
    return bool(call.expressions) and bare(function(plain(call.expressions[0]))) == "area"


def is_flat_length(call: "Expr") -> bool:
    """True for the length of a column in CRS units. With a second argument, it is measured on the ellipsoid."""
    argument = call.expressions[0] if len(call.expressions) == 1 else None
    return function(call) in _LENGTHS and argument is not None and plain(argument).key == "column"


def _is_placed_centroid(call: "Expr") -> bool:
    """True for the centroid of a column in a spatial relation."""
    above = call.parent
    placed = above is not None and bare(function(above)) in _RELATIONS
    return placed and bare(function(call)) == "centroid" and plain(call.expressions[0]).key == "column"


def _is_plain_difference(call: "Expr") -> bool:
    """True for the difference of two geometries of a row, without aggregates or subqueries."""
    if bare(function(call)) != "difference" or len(call.expressions) != 2:
        return False
    inner = [node for part in call.expressions for node in part.walk()]
    return not any(is_aggregate(node) or node.key == "select" for node in inner)


def _tested(own: "list[Expr]") -> "Iterator[Expr]":
    """Tests whose results are arguments of a sum or an average."""
    for call in own:
        if function(call) in (*_SUMS, "avg") and call.expressions:
            inner = plain(call.expressions[0])
            if bare(function(inner)) in _TESTS:
                yield inner


def _related(select: "Expr") -> "Iterator[tuple[Expr, bool]]":
    """Each spatial relation in a condition, and True if the condition is the WHERE."""
    joins = [join.args.get("on") for join in select.args.get("joins") or ()]
    for part, in_where in (*((condition, False) for condition in joins), (select.args.get("where"), True)):
        if part is not None:
            yield from ((call, in_where) for call in calls(level(part)) if bare(function(call)) in _RELATIONS)


def _is_compared(call: "Expr") -> bool:
    above = call.parent
    while above is not None and above.key == "paren":
        above = above.parent
    return above is not None and above.key in (*COMPARISONS, "not", "in")


def _named(call: "Expr") -> list[list[str]]:
    """The columns in a call: qualifier ("" without one) and lower-case name."""
    inner_columns = (column for part in call.expressions for column in columns(level(part)))
    return [[column.text("table").lower(), column.name.lower()] for column in inner_columns]


def _with_relation(select: "Expr", call: "Expr", name: str) -> str:
    """The FROM and WHERE of a SELECT, with one relation replaced by another."""
    place = next(at for at, node in enumerate(select.walk()) if node is call)
    changed = select.copy()
    next(node for at, node in enumerate(changed.walk()) if at == place).set("this", name)
    return f"{from_text(changed)} {text_of(changed.args.get('where'))}"
