"""SQL as a tree of sqlglot, and helpers to walk it. Pure.

The tree is only for checks: `catalogue/sql.py` decides what may run, and the container runs the original text. Text
that sqlglot cannot parse has no tree (`is_unread`): it runs, and the answer reports that it was not examined.

Nodes are distinguished by sqlglot's `key`, the lower-case name of their class, so that this module need not load
sqlglot. Functions are `anonymous` nodes with the name from the text (`dialect.py`).
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

QUERIES: Final = frozenset({"select", "union", "intersect", "except"})
COMPARISONS: Final = frozenset({"eq", "neq", "lt", "lte", "gt", "gte", "is", "between"})
AGGREGATES: Final = frozenset(
    "sum total avg count min max group_concat st_union st_collect gunion collect extent st_extent".split()
)
_MAX_DEPTH: Final = 100  # nodes; each needs several stack frames, of which Python allows a thousand
_CHAINS: Final = frozenset({"and", "or"})  # may be long, but no function recurses into them
# these are not aggregates if they have several arguments
_SINGLE: Final = frozenset("min max st_union st_collect gunion collect".split())


@lru_cache(maxsize=16)  # a call reads its statement several times; a tree may take megabytes
def tree_of(text: str) -> "Expr | None":
    """The tree of a statement, or of a condition as a WHERE; None if the text cannot be parsed.

    The tree is cached and must not be changed.
    """
    if not text.strip():
        return None
    from gdal_mcp.toolboxes.gdal.preflight.sql.dialect import parse  # noqa: PLC0415 - slow to load

    is_statement = text.lstrip().upper().startswith(("SELECT", "WITH"))
    tree = parse(text if is_statement else f"SELECT * FROM layer WHERE {text}")  # noqa: S608 - it is parsed, and not run
    return tree if tree is not None and tree.key in QUERIES and not _is_deep(tree) else None


def _is_deep(tree: "Expr") -> bool:
    """True if the tree is nested too deeply for recursive functions."""
    depths = {id(None): 0}
    for node in tree.bfs():
        depths[id(node)] = depths[id(node.parent)] + (node.key not in _CHAINS)
    return max(depths.values()) > _MAX_DEPTH


def is_unread(text: str) -> bool:
    """True for text that cannot be parsed; False for empty text."""
    return bool(text.strip()) and tree_of(text) is None


def names_in_unread(text: str) -> frozenset[str]:
    """The functions that text names, in lower case without ST_, if it cannot be parsed; else empty."""
    if not is_unread(text):
        return frozenset()
    from gdal_mcp.toolboxes.gdal.preflight.sql.dialect import function_names  # noqa: PLC0415 - as in `tree_of`

    return frozenset(bare(name.lower()) for name in function_names(text))


def text_of(node: "Expr | None") -> str:
    """SQL for a part of a tree; "" for None."""
    if node is None:
        return ""
    from gdal_mcp.toolboxes.gdal.preflight.sql.dialect import write  # noqa: PLC0415 - as in `tree_of`

    return write(node)


def level(node: "Expr") -> Iterator["Expr"]:
    """The nodes of a SELECT, or of a part of it, without nested SELECTs."""
    return node.walk(prune=lambda inner: inner is not node and inner.key in QUERIES)


def calls(nodes: Iterator["Expr"]) -> Iterator["Expr"]:
    return (node for node in nodes if node.key == "anonymous")


def columns(nodes: Iterator["Expr"]) -> Iterator["Expr"]:
    return (node for node in nodes if node.key == "column")


def function(node: "Expr") -> str:
    """The lower-case name of a function; "" if the node is not a call."""
    return str(node.this).lower() if node.key == "anonymous" else ""


def bare(name: str) -> str:
    """The name of a function without the optional prefix ST_."""
    return name.removeprefix("st_")


def clause(node: "Expr") -> str:
    """The name of the clause of its SELECT that a node is in, such as `where`."""
    while node.parent is not None and node.parent.key not in QUERIES:
        node = node.parent
    return str(node.key)


def is_aggregate(node: "Expr") -> bool:
    name = function(node)
    return name in AGGREGATES and (name not in _SINGLE or len(node.expressions) == 1)


def plain(node: "Expr") -> "Expr":
    """The node without brackets and alias."""
    while node.key in ("paren", "alias"):
        node = node.this
    return node


def number(node: "Expr") -> str:
    """The digits of an integer literal; "" for other nodes."""
    literal = plain(node)
    return (
        literal.name
        if literal.key == "literal" and not literal.is_string and literal.name.isdecimal()
        else ""
    )


def is_star(node: "Expr") -> bool:
    return node.key == "star" or (node.key == "column" and node.this.key == "star")


def sources(select: "Expr") -> list["Expr"]:
    """The tables and subqueries of a FROM clause, in order."""
    start = select.args.get("from_")
    return [start.this, *(join.this for join in select.args.get("joins") or ())] if start is not None else []


def from_text(select: "Expr") -> str:
    """The text after FROM; "" without FROM."""
    start = select.args.get("from_")
    parts = [start.this, *(select.args.get("joins") or ())] if start is not None else []
    return " ".join(map(text_of, parts))


def name_of(source: "Expr") -> str:
    return str(source.alias_or_name).lower()


def table_name(source: "Expr") -> str:
    """The lower-case name of a table of the data; "" for a subquery, a function or a WITH table."""
    known = source.key == "table" and source.this.key == "identifier" and definition(source) is None
    return source.name.lower() if known else ""


def definition(source: "Expr") -> "Expr | None":
    """The query of a subquery, or of a WITH table; None for a table of the data."""
    if source.key == "subquery":
        return source.this if source.this.key in QUERIES else None
    query = source.parent
    while query is not None:
        inside = query.args.get("with_")
        for cte in inside.expressions if inside is not None else ():
            if cte.alias.lower() == source.name.lower():
                return cte.this  # type: ignore[no-any-return]
        query = query.parent
    return None


def selected(query: "Expr") -> list["Expr"]:
    """The terms of a SELECT; for a UNION, those of its first SELECT."""
    while query.key in QUERIES - {"select"}:
        query = query.this
    return list(query.expressions) if query.key == "select" else []


def first_select(query: "Expr") -> "Expr":
    while query.key != "select":
        query = query.this
    return query
