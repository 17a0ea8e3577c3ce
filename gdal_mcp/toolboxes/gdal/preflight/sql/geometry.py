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
    every = [one for one in select.walk() if function(one)]
    mends = any(bare(function(one)) in _MAKES_VALID for one in every)
    own = list(calls(level(select)))
    measured = (
        [] if mends else [one for one in own if bare(function(one)) in _CUTS and function(one) != "union"]
    )
    areas = [one for one in own if function(one) in _SUMS and _is_area(one)]
    related = list(itertools.islice(_related(select), _MAX_RELATIONS))
    return {
        "by_place": bool(related),
        "measured": [_named(one) for one in measured],
        "area_sums": [_named(plain(one.expressions[0])) for one in areas],
        "centroids": [_named(one) for one in own if _is_placed_centroid(one)],
        "differences": [list(map(text_of, one.expressions)) for one in own if _is_plain_difference(one)],
        "emptied": [_named(one) for one in own if bare(function(one)) == "isempty"],
        "tested": [{"call": text_of(one)} for one in _tested(own)],
        "relations": [
            {"columns": _named(one), "in_where": in_where}
            for one, in_where in related
            if not _is_compared(one)
        ],
        "inside": [
            {
                "columns": _named(one),
                "test": f"ST_Touches({', '.join(map(text_of, one.expressions))}) = 1",
                "rows": _with_relation(select, one, "ST_Touches"),
            }
            for one, _ in related
            if bare(function(one)) in ("contains", "within")
        ],
        "meeting": [
            {
                "columns": _named(one),
                "rows": _with_relation(select, one, str(one.this)),
                "covered": _with_relation(select, one, "ST_CoveredBy"),
                "covering": _with_relation(select, one, "ST_Covers"),
            }
            for one, _ in related
            if areas and bare(function(one)) == "intersects"
        ],
    }


def _is_area(call: "Expr") -> bool:
    return bool(call.expressions) and bare(function(plain(call.expressions[0]))) == "area"


def is_flat_length(call: "Expr") -> bool:
    """True for the length of a column in CRS units. With a second argument, it is measured on the ellipsoid."""
    one = call.expressions[0] if len(call.expressions) == 1 else None
    return function(call) in _LENGTHS and one is not None and plain(one).key == "column"


def _is_placed_centroid(call: "Expr") -> bool:
    """True for the centroid of a column in a spatial relation."""
    above = call.parent
    placed = above is not None and bare(function(above)) in _RELATIONS
    return placed and bare(function(call)) == "centroid" and plain(call.expressions[0]).key == "column"


def _is_plain_difference(call: "Expr") -> bool:
    """True for the difference of two geometries of a row, without aggregates or subqueries."""
    if bare(function(call)) != "difference" or len(call.expressions) != 2:
        return False
    inner = [one for part in call.expressions for one in part.walk()]
    return not any(is_aggregate(one) or one.key == "select" for one in inner)


def _tested(own: "list[Expr]") -> "Iterator[Expr]":
    """Tests whose results are arguments of a sum or an average."""
    for one in own:
        if function(one) in (*_SUMS, "avg") and one.expressions:
            inner = plain(one.expressions[0])
            if bare(function(inner)) in _TESTS:
                yield inner


def _related(select: "Expr") -> "Iterator[tuple[Expr, bool]]":
    """Each spatial relation in a condition, and True if the condition is the WHERE."""
    joins = [one.args.get("on") for one in select.args.get("joins") or ()]
    for part, in_where in (*((one, False) for one in joins), (select.args.get("where"), True)):
        if part is not None:
            yield from ((one, in_where) for one in calls(level(part)) if bare(function(one)) in _RELATIONS)


def _is_compared(call: "Expr") -> bool:
    above = call.parent
    while above is not None and above.key == "paren":
        above = above.parent
    return above is not None and above.key in (*COMPARISONS, "not", "in")


def _named(call: "Expr") -> list[list[str]]:
    """The columns in a call: qualifier ("" without one) and lower-case name."""
    found = (one for part in call.expressions for one in columns(level(part)))
    return [[one.text("table").lower(), one.name.lower()] for one in found]


def _with_relation(select: "Expr", call: "Expr", name: str) -> str:
    """The FROM and WHERE of a SELECT, with one relation replaced by another."""
    place = next(at for at, one in enumerate(select.walk()) if one is call)
    changed = select.copy()
    next(one for at, one in enumerate(changed.walk()) if at == place).set("this", name)
    return f"{from_text(changed)} {text_of(changed.args.get('where'))}"
