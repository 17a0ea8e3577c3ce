"""Traces geometries and columns of an expression through subqueries and WITH to tables. Pure."""

from typing import TYPE_CHECKING, Final, NamedTuple

from gdal_mcp.toolboxes.gdal.preflight.sql.tree import (
    QUERIES,
    bare,
    definition,
    first_select,
    function,
    is_star,
    name_of,
    number,
    plain,
    selected,
    sources,
    table_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlglot.expressions import Expr

TRANSFORMS: Final = frozenset("transform transformxy transformxyz".split())
# functions that change the CRS of a geometry, or its SRID
MOVES: Final = TRANSFORMS | {"setsrid"}
_MAKES: Final = ("make", "point", "build")
_MAX_DEPTH: Final = 8  # nested subqueries; a recursive WITH is endless
_MAX_STEPS: Final = 20_000  # steps of a search; so many take tens of milliseconds
_LEAST_CODE: Final = 4  # digits of an EPSG code; a shorter number is a coordinate


class GeometryOrigin(NamedTuple):
    """The origin of a geometry. `table` is "" if several are possible, `code` is "" for the CRS of the table."""

    table: str = ""
    code: str = ""
    is_computed: bool = False  # True if a function made it from numbers or text


class Budget:
    """Limits the steps of a search, because columns of nested WITH tables could be traced exponentially often."""

    def __init__(self, steps: int = _MAX_STEPS) -> None:
        self._left = steps

    def spend(self, steps: int = 1) -> bool:
        """Spends steps of the budget; False if none are left."""
        self._left -= steps
        return self._left > 0


def origins(node: "Expr", budget: Budget, depth: int = _MAX_DEPTH) -> frozenset[GeometryOrigin]:
    """All possible origins of the geometries of an expression; empty if they are unknown."""
    node = plain(node)
    if depth == 0 or not budget.spend():
        return frozenset()
    if node.key == "column":
        return _of_column(node, budget, depth)
    if node.key in QUERIES or node.key == "subquery":
        terms = selected(node.this if node.key == "subquery" else node)
        return origins(terms[0], budget, depth - 1) if terms else frozenset()
    name = bare(function(node))
    arguments = node.expressions if name else list(node.iter_expressions())
    if name in MOVES:
        code = number(arguments[1]) if len(arguments) == 2 else ""
        before = origins(arguments[0], budget, depth) or {GeometryOrigin()} if arguments else ()
        return frozenset(GeometryOrigin(origin.table, f"EPSG:{code}") for origin in before if code)
    if is_constructor(name):
        code = number(arguments[-1]) if arguments else ""
        return frozenset(
            {GeometryOrigin("", f"EPSG:{code}", is_computed=True)} if len(code) >= _LEAST_CODE else ()
        )
    return frozenset(origin for part in arguments for origin in origins(part, budget, depth))


def is_constructor(name: str) -> bool:
    """True if a function makes a geometry from numbers or text. `name` has no prefix ST_."""
    return (name.startswith(_MAKES) and name != "makevalid") or "from" in name


def _of_column(column: "Expr", budget: Budget, depth: int) -> frozenset[GeometryOrigin]:
    possible: list[GeometryOrigin] = []
    for source in sources_of(column, budget):
        if (query := definition(source)) is None:
            possible.append(GeometryOrigin(table_name(source)))
        else:
            for term in defining(column.name, query, budget, depth):
                possible += origins(term, budget, depth - 1)
    tables = {origin.table for origin in possible}
    # the columns of tables are unknown here, so each of several tables is possible
    return frozenset(
        origin._replace(table="") if len(tables) > 1 and not origin.code else origin for origin in possible
    )


def sources_of(column: "Expr", budget: Budget) -> "list[Expr]":
    """The tables and subqueries that a column can belong to: those of its own SELECT, else of the outer ones."""
    select = column.parent_select
    while select is not None:
        own = sources(select) if select.key == "select" else []
        if not budget.spend(len(own)):
            return []
        matches = [source for source in own if column.text("table").lower() in ("", name_of(source))]
        if matches:
            return matches
        select = select.parent_select
    return []


def defining(name: str, query: "Expr", budget: Budget, depth: int) -> "Iterator[Expr]":
    """The terms of a subquery or of a WITH table that define its column of this name."""
    terms = selected(query)
    if not budget.spend(len(terms)):
        return
    alias = query.parent.args.get("alias") if query.parent is not None else None
    listed = alias.args.get("columns") or () if alias is not None else ()
    named = {at: identifier.name for at, identifier in enumerate(listed)}
    for at, term in enumerate(terms):
        if named.get(at, term.alias_or_name).lower() == name.lower():
            yield term
            return
    if depth and any(map(is_star, terms)):
        for source in sources(first_select(query)):
            yield from _through_star(name, source, budget, depth - 1)


def _through_star(name: str, source: "Expr", budget: Budget, depth: int) -> "Iterator[Expr]":
    if (query := definition(source)) is not None:
        yield from defining(name, query, budget, depth)
        return
    from sqlglot.expressions import column  # noqa: PLC0415 - sqlglot is loaded already, because there is a tree

    reference = column(name, table=source.alias_or_name)
    reference.parent = source.parent_select
    yield reference


def base_columns(column: "Expr", budget: Budget, depth: int = _MAX_DEPTH) -> frozenset[str]:
    """The lower-case names of the table columns that a column passes through unchanged; empty if it is computed."""
    base_names: set[str] = set()
    for source in sources_of(column, budget):
        if (query := definition(source)) is None:
            base_names.add(column.name.lower())
            continue
        for term in defining(column.name, query, budget, depth):
            inner = plain(term)
            if inner.key == "column" and depth:
                base_names |= base_columns(inner, budget, depth - 1)
    return frozenset(base_names)
