"""Where the geometries and columns of an expression come from, through subqueries and the tables of a WITH. Pure."""

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

# the functions that give a geometry another CRS, or another number of one
MOVES: Final = frozenset("transform transform_xyz setsrid".split())
_MAKES: Final = ("make", "point", "build")
_MAX_DEPTH: Final = 8  # of subqueries; the tables of a recursive WITH have no end
_LEAST_CODE: Final = 4  # digits of a CRS in EPSG, so that no coordinate is taken for one


class Origin(NamedTuple):
    """A geometry is in the CRS `code`, "" for that of its table; the table is "" where several could be meant."""

    table: str = ""
    code: str = ""
    made: bool = False  # by a function, of numbers or texts


def origins(node: "Expr", depth: int = _MAX_DEPTH) -> frozenset[Origin]:
    """All that the geometries of an expression may come from; empty where that is not known."""
    node = plain(node)
    if depth == 0:
        return frozenset()
    if node.key == "column":
        return _of_column(node, depth)
    if node.key in QUERIES or node.key == "subquery":
        terms = selected(node.this if node.key == "subquery" else node)
        return origins(terms[0], depth - 1) if terms else frozenset()
    name = bare(function(node))
    given = node.expressions if name else list(node.iter_expressions())
    if name in MOVES:
        code = number(given[1]) if len(given) == 2 else ""
        before = origins(given[0], depth) or {Origin()} if given else ()
        return frozenset(Origin(one.table, f"EPSG:{code}") for one in before if code)
    if is_constructor(name):
        code = number(given[-1]) if given else ""
        return frozenset({Origin("", f"EPSG:{code}", made=True)} if len(code) >= _LEAST_CODE else ())
    return frozenset(one for part in given for one in origins(part, depth))


def is_constructor(name: str) -> bool:
    """Whether a function, named without its prefix, makes a geometry of numbers or of a text."""
    return (name.startswith(_MAKES) and name != "makevalid") or "from" in name


def _of_column(column: "Expr", depth: int) -> frozenset[Origin]:
    found: list[Origin] = []
    for source in sources_of(column):
        if (query := definition(source)) is None:
            found.append(Origin(table_name(source)))
        else:
            for term in defining(column.name, query, depth):
                found += origins(term, depth - 1)
    tables = {one.table for one in found}
    # of several tables whose columns are not known each may be the one
    return frozenset(one._replace(table="") if len(tables) > 1 and not one.code else one for one in found)


def sources_of(column: "Expr") -> "list[Expr]":
    """The tables and subqueries that a column may be of: those of its own SELECT, else those of the ones around it."""
    select = column.parent_select
    while select is not None:
        own = sources(select) if select.key == "select" else []
        found = [one for one in own if column.text("table").lower() in ("", name_of(one))]
        if found:
            return found
        select = select.parent_select
    return []


def defining(name: str, query: "Expr", depth: int = _MAX_DEPTH) -> "Iterator[Expr]":
    """The terms of a subquery, or of the SELECT of a WITH, that give its column of a name."""
    terms = selected(query)
    alias = query.parent.args.get("alias") if query.parent is not None else None
    listed = alias.args.get("columns") or () if alias is not None else ()
    named = {at: one.name for at, one in enumerate(listed)}
    for at, term in enumerate(terms):
        if named.get(at, term.alias_or_name).lower() == name.lower():
            yield term
            return
    if depth and any(map(is_star, terms)):
        for source in sources(first_select(query)):
            yield from _through_star(name, source, depth - 1)


def _through_star(name: str, source: "Expr", depth: int) -> "Iterator[Expr]":
    if (query := definition(source)) is not None:
        yield from defining(name, query, depth)
        return
    from sqlglot.expressions import column  # noqa: PLC0415 - there is a tree, so it is loaded

    made = column(name, table=source.alias_or_name)
    made.parent = source.parent_select
    yield made


def base_columns(column: "Expr", depth: int = _MAX_DEPTH) -> frozenset[str]:
    """The names, in lower case, of the tables' own columns that a column is without being computed; empty for a computed one."""
    found: set[str] = set()
    for source in sources_of(column):
        if (query := definition(source)) is None:
            found.add(column.name.lower())
            continue
        for term in defining(column.name, query, depth):
            inner = plain(term)
            if inner.key == "column" and depth:
                found |= base_columns(inner, depth - 1)
    return frozenset(found)
