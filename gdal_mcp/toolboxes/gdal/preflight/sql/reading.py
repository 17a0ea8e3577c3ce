"""Finds what a statement does with geometries and columns, in its tree. Pure.

For SQL that cannot be parsed, every result is False or empty, except those of `may_transform` and `may_relate`.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from gdal_mcp.toolboxes.gdal.preflight.sql.geometry import is_flat_length
from gdal_mcp.toolboxes.gdal.preflight.sql.measures import MEASURES
from gdal_mcp.toolboxes.gdal.preflight.sql.origins import (
    MOVES,
    TRANSFORMS,
    Budget,
    GeometryOrigin,
    base_columns,
    origins,
)
from gdal_mcp.toolboxes.gdal.preflight.sql.result import CRS_AT
from gdal_mcp.toolboxes.gdal.preflight.sql.tree import (
    bare,
    calls,
    columns,
    function,
    is_star,
    names_in_unread,
    number,
    plain,
    selected,
    tree_of,
)

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

# further functions that compute in CRS units, with the number of arguments from which they compute on the ellipsoid
_PLANAR: Final = {
    **dict.fromkeys("buffer dwithin simplify simplifypreservetopology snaptogrid segmentize".split(), 99),
    **dict.fromkeys("concavehull offsetcurve hausdorffdistance frechetdistance".split(), 99),
    "ptdistwithin": 4,
}
_RELATIONS: Final = frozenset(
    "intersects contains within covers coveredby overlaps touches crosses disjoint equals distance intersection "
    "difference symdifference ptdistwithin relate".split()
)
_POINTS: Final = ("point", "makepoint")
_MAX_CODE: Final = 32767  # largest EPSG code that is used
_ORDERINGS: Final = frozenset({"lt", "lte", "gt", "gte"})
_SIGNS: Final = _ORDERINGS | {"eq", "neq"}
_EQUALITIES: Final = frozenset({"eq", "neq", "in"})
_PIECES: Final = frozenset({"strftime", "substr", "substring"})
# constructs with which a statement may select among the values of a column
_CHOICES: Final = frozenset({"glob", "regexplike", "case"})


def changes_crs(statement: str) -> bool:
    """True if a statement changes a CRS."""
    return any(True for _ in _moves(statement))


def changes_crs_by_text(statement: str) -> bool:
    """True if a statement passes a CRS as text, for which SpatiaLite returns NULL."""
    return any(len(call.expressions) > 1 and call.expressions[1].is_string for call in _moves(statement))


def point_columns(statement: str) -> list[tuple[str, str]]:
    """The x and y columns of each point that a statement makes from columns."""
    points = (call for call in _calls(statement) if bare(function(call)).startswith(_POINTS))
    pairs = (point.expressions[:2] for point in points)
    return [
        (x.name, y.name) for x, y in (pair for pair in pairs if len(pair) == 2) if x.key == y.key == "column"
    ]


def transformed_to(statement: str) -> list[tuple[str, str, str]]:
    """The table, source CRS and target CRS of each ST_Transform.

    The table is "" if several are possible; the source CRS is "" for the CRS of the table. Nested transformations are
    separate rows. Geometries made in the statement are left out.
    """
    rows: dict[tuple[str, str, str], None] = {}
    budget = Budget()
    for call in _moves(statement):
        code = number(call.expressions[1]) if len(call.expressions) == 2 else ""
        if code and bare(function(call)) in TRANSFORMS:
            known = (origin for origin in origins(call.expressions[0], budget) if not origin.is_computed)
            rows |= dict.fromkeys((origin.table, origin.code, f"EPSG:{code}") for origin in sorted(known))
    return list(rows)


def measures(statement: str) -> bool:
    """True if a statement measures geometries in the CRS of their table, and not on the ellipsoid."""
    named = any(column.name.lower() == "ogr_geom_area" for column in columns(_nodes(statement)))
    return named or any(not origin.code for origin in _measured(statement))


def measures_flat_lengths(statement: str) -> bool:
    """True if a statement measures lengths of a column on the map, without heights."""
    return any(map(is_flat_length, _calls(statement)))


def codes_measured(statement: str) -> frozenset[str]:
    """The CRSs (EPSG:CODE) in which a statement measures transformed or new geometries, except on the ellipsoid."""
    return crs_measured(statement) - {""}


def crs_measured(statement: str) -> frozenset[str]:
    """The CRSs (EPSG:CODE) in which a statement measures geometries, "" for that of the table; not on the ellipsoid."""
    return frozenset(origin.code for origin in _measured(statement))


def sorts(statement: str) -> bool:
    """True if a statement returns its rows in an order, and does not only limit them by it."""
    tree = tree_of(statement)
    return tree is not None and tree.args.get("order") is not None and tree.args.get("limit") is None


def tables_read(text: str) -> frozenset[str]:
    """The casefolded names of tables that a statement reads and does not define; empty if it cannot be parsed."""
    own = {node.alias.casefold() for node in _nodes(text) if node.key == "cte"}
    return frozenset(node.name.casefold() for node in _nodes(text) if node.key == "table") - own


def codes_named(statement: str) -> list[str]:
    """The CRSs of ST_Transform, SetSRID and new geometries, as EPSG:CODE. Larger numbers are SpatiaLite's own."""
    numbers = [number(call.expressions[1]) for call in _moves(statement) if len(call.expressions) > 1]
    for call in _calls(statement):
        at = CRS_AT.get(bare(function(call)))
        if at is not None and len(call.expressions) == at + 1:
            numbers.append(number(call.expressions[at]))
    return sorted({f"EPSG:{code}" for code in numbers if code and 0 < int(code) <= _MAX_CODE})


def compares_text_of_date(statement: str) -> bool:
    """True if a statement compares a part of a text, such as a year, with a number."""
    return any(
        function(side) in _PIECES and _is_number(other)
        for pair in _pairs(statement, _SIGNS)
        for side, other in (pair, pair[::-1])
    )


def texts_equalled(statement: str) -> list[tuple[str, str]]:
    """Each column that a statement compares with a text by = or <> or IN, with the text."""
    pairs = (
        (column.name.lower(), other.name)
        for test in _nodes(statement)
        if test.key in _EQUALITIES
        for column in (plain(test.this),)
        for other in (test.expressions if test.key == "in" else (test.expression,))
        if column.key == "column" and other.is_string
    )
    return sorted(set(pairs))


def columns_added(statement: str) -> frozenset[str]:
    """The lower-case names of columns that a statement sums or averages without selecting among its values."""
    if any(node.key in _CHOICES or function(node) in ("typeof", "nullif") for node in _nodes(statement)):
        return frozenset()
    sums = (call for call in _calls(statement) if function(call) in ("sum", "avg", "total"))
    within = (part.walk(prune=function) for call in sums for part in call.expressions)
    return _base_names(column for parts in within for column in columns(parts))


def names(statement: str, columns_named: Collection[str]) -> bool:
    """True if a statement uses one of these columns, or `*`."""
    wanted = {name.lower() for name in columns_named}
    selects = (node for node in _nodes(statement) if node.key == "select")
    stars = any(is_star(term) for select in selects for term in select.expressions)
    return stars or any(column.name.lower() in wanted for column in columns(_nodes(statement)))


def columns_compared(statement: str) -> frozenset[str]:
    """The lower-case names of columns by which a statement sorts, or which it compares with numbers."""
    compared = [side for pair in _pairs(statement, _SIGNS) for side in _beside_number(pair)]
    compared += [plain(node.this) for node in _nodes(statement) if node.key == "between"]
    extremes = (call for call in _calls(statement) if function(call) in ("min", "max"))
    compared += [plain(call.expressions[0]) for call in extremes if len(call.expressions) == 1]
    ordered = (plain(node.this) for node in _nodes(statement) if node.key == "ordered")
    compared += [term for term in ordered if not _is_alias(term)]
    return _base_names(node for node in compared if node.key == "column")


def relates(statement: str) -> bool:
    """True if a statement relates geometries in the CRSs of their tables."""
    budget = Budget()
    related = (call for call in _calls(statement) if bare(function(call)) in _RELATIONS)
    origin_sets = (
        frozenset(origin for part in call.expressions for origin in origins(part, budget)) for call in related
    )
    return any(traced and not any(origin.code for origin in traced) for traced in origin_sets)


def may_transform(statement: str) -> bool:
    """True if a statement that cannot be parsed names a function that transforms coordinates."""
    return bool(names_in_unread(statement) & TRANSFORMS)


def may_relate(statement: str) -> bool:
    """True if a statement that cannot be parsed may relate geometries in the CRSs of their tables."""
    named = names_in_unread(statement)
    return bool(named & _RELATIONS) and not named & TRANSFORMS


def compares_all_pairs(statement: str) -> bool:
    """True if a statement searches a whole table for the nearest row of each row."""
    nearest = (node.this.args.get("order") for node in _nodes(statement) if node.key == "subquery")
    least = (call for call in _calls(statement) if function(call) == "min")
    bound = any(node.key in ("eq", "lte", "gte", "neq") for node in _nodes(statement))
    return any(order is not None and _is_distance(order.expressions[0].this) for order in nearest) or (
        not bound and any(_is_distance(call.expressions[0]) for call in least if call.expressions)
    )


def _nodes(statement: str) -> "Iterator[Expr]":
    """The nodes of a statement's tree; none if it cannot be parsed."""
    tree = tree_of(statement)
    return tree.walk() if tree is not None else iter(())


def _calls(statement: str) -> "Iterator[Expr]":
    return calls(_nodes(statement))


def _moves(statement: str) -> "Iterator[Expr]":
    return (call for call in _calls(statement) if bare(function(call)) in MOVES)


def _measured(statement: str) -> Iterator[GeometryOrigin]:
    """The origins of geometries that are measured in CRS units."""
    budget = Budget()
    for call in _calls(statement):
        name = function(call)
        power, enough = MEASURES.get(bare(name), (1, _PLANAR.get(bare(name), 0)))
        if power and name != "length" and len(call.expressions) < enough:  # an angle has the power 0
            yield from (origin for part in call.expressions[:2] for origin in origins(part, budget))


def _pairs(statement: str, signs: Collection[str]) -> "Iterator[tuple[Expr, Expr]]":
    """Both sides of each comparison."""
    comparisons = (node for node in _nodes(statement) if node.key in signs)
    return ((plain(comparison.this), plain(comparison.expression)) for comparison in comparisons)


def _beside_number(pair: "tuple[Expr, Expr]") -> "Iterator[Expr]":
    for side, other in (pair, pair[::-1]):
        sign = side.parent.key if side.parent is not None else ""
        text = other.name if other.is_string and sign in _ORDERINGS else ""
        if _is_number(other) or text.removeprefix("-").replace(".", "", 1).isdecimal():
            yield side


def _is_number(node: "Expr") -> bool:
    inner = node.this if node.key == "neg" else node
    return bool(inner.key == "literal" and not inner.is_string)


def _is_alias(node: "Expr") -> bool:
    """True if a term of ORDER BY is the alias of a computed column of its SELECT."""
    select = node.parent_select
    terms = selected(select) if select is not None else ()
    computed = (term.alias.lower() for term in terms if term.key == "alias" and plain(term).key != "column")
    return node.key == "column" and not node.text("table") and node.name.lower() in computed


def _base_names(nodes: "Iterator[Expr]") -> frozenset[str]:
    """The names of the table columns that these columns are, without computed columns of the same names."""
    budget = Budget()
    return frozenset(name for node in nodes for name in base_columns(node, budget))


def _is_distance(node: "Expr") -> bool:
    return bare(function(plain(node))) == "distance"
