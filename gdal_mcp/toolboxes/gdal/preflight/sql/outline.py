"""Outlines a statement for a container: what it does with tables and columns; `selects.py` adds each SELECT. Pure.

The outline is plain data. The container knows the types of columns and does not parse SQL: there,
`inside/parts/sql_checks.py`, `joins.py` and `geometry_checks.py` select from the outline and combine its parts. Each
text is generated from the tree of the statement, which `catalogue/sql.py` has accepted.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gdal_mcp.toolboxes.gdal.preflight.sql.geometry import Data
from gdal_mcp.toolboxes.gdal.preflight.sql.measures import measured_columns
from gdal_mcp.toolboxes.gdal.preflight.sql.reading import columns_added, columns_compared, crs_measured
from gdal_mcp.toolboxes.gdal.preflight.sql.selects import outline_of_select
from gdal_mcp.toolboxes.gdal.preflight.sql.tree import (
    AGGREGATES,
    COMPARISONS,
    QUERIES,
    calls,
    clause,
    columns,
    from_text,
    function,
    is_star,
    name_of,
    number,
    plain,
    selected,
    text_of,
    tree_of,
)

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

# functions that return integers for integers
_EXACT: Final = frozenset("sum min max coalesce ifnull nullif abs".split())
_SIXTIETHS: Final = ("60", "3600")  # minutes and seconds per hour or degree
_ARITHMETIC: Final = frozenset({"add", "sub", "mul", "div", "neg", "paren", "distinct", "window", "alias"})
_OF_NULLS: Final = frozenset({"count", "coalesce", "ifnull"})
_MATCHES: Final = frozenset({"eq", "neq", "in", "like"})
# under one of these nodes, a name in double quotes is intended as a column, not as a string in the wrong quotes
_OF_COLUMNS: Final = frozenset(
    "select alias ordered group where having and or not join add sub mul div distinct paren if case".split()
)


def outline_of(text: str) -> Data | None:
    """The outline of a statement; None if it cannot be parsed."""
    tree = tree_of(text)
    if tree is None:
        return None
    reads = Counter(node.name.lower() for node in tree.walk() if node.key == "table")
    own = {node.alias.lower() for node in tree.walk() if node.key == "cte"}
    inside = tree.args.get("with_")
    return {
        "with": ", ".join(map(text_of, inside.expressions)) if inside is not None else "",
        "reads": dict(reads),
        "own_tables": sorted(own),
        "generated": sorted(_generated(tree)),
        "makes_json": any(function(node).startswith("json") for node in tree.walk()),
        "computes": any(True for term in selected(tree) for _ in calls(term.walk())),
        "quoted": sorted(_quoted(tree)),
        "matched": sorted(_matched(tree)),
        "nulls": sorted(_tested_for_null(tree)),
        "measured": measured_columns(tree),
        "measured_in": sorted(crs_measured(text)),
        "named": sorted({column.name.lower() for column in columns(tree.walk())}),
        "as_numbers": sorted(columns_compared(text) | columns_added(text)),
        "divided": [sorted(names) for names in _divided(tree)],
        "sixtieths": [sorted(names) for names in _sixtieths(tree)],
        "added": sorted(_added(tree)),
        "excluded": [text_of(node.args["query"]) for node in _excluding(tree)],
        "unions": list(_unions(tree)),
        "selects": [
            outline_of_select(node) for node in tree.walk() if node.key == "select" and not _is_tested(node)
        ],
    }


def _generated(tree: "Expr") -> set[str]:
    """The names of WITH tables and subqueries that read no table of the data, such as lists of numbers."""
    names: set[str] = set()
    for node in tree.walk():
        if node.key in ("cte", "subquery", "values") and node.alias:
            read = {inner.name.lower() for inner in node.walk() if inner.key == "table"}
            names |= {node.alias.lower()} if read <= {node.alias.lower(), *names} else set()
    return names | {
        name_of(node) for node in tree.walk() if node.key == "table" and node.name.lower() in names
    }


def _is_tested(select: "Expr") -> bool:
    """True for the subquery of EXISTS or IN, whose rows are not part of the result."""
    above = select.parent
    while above is not None and above.key in (*QUERIES - {"select"}, "subquery"):
        above = above.parent
    return above is not None and above.key in ("exists", "in")


def _quoted(tree: "Expr") -> set[str]:
    """Names in double quotes that are used as columns and are not aliases."""
    aliases = {
        node.alias.lower() for node in tree.walk() if node.key in ("alias", "cte", "table", "subquery")
    }
    listed = {
        identifier.name.lower()
        for node in tree.walk()
        if node.key == "tablealias"
        for identifier in node.args.get("columns") or ()
    }
    names = (
        column for column in columns(tree.walk()) if not is_star(column) and column.this.args.get("quoted")
    )
    used = {column.name.lower() for column in names if not column.text("table") and _must_be_column(column)}
    return used - aliases - listed


def _must_be_column(column: "Expr") -> bool:
    above = column.parent
    if above is None:
        return False
    left = above.key in (*COMPARISONS, "in", "like", "glob") and above.this is column
    return left or above.key in _OF_COLUMNS or function(above) in AGGREGATES


def _matched(tree: "Expr") -> set[str]:
    """Columns that are tested for equality or matched against a pattern."""
    tests = (node for node in tree.walk() if node.key in _MATCHES)
    return {column.name.lower() for test in tests for column in columns(test.walk())}


def _tested_for_null(tree: "Expr") -> set[str]:
    """Columns that are tested for NULL, replaced if NULL, or counted, unless empty texts are handled too."""
    tests = (node for node in tree.walk() if node.key == "is" and node.expression.key == "null")
    tested = {test.this.name.lower() for test in tests if test.this.key == "column"}
    counts = (
        call.expressions[0] for call in calls(tree.walk()) if function(call) in _OF_NULLS and call.expressions
    )
    tested |= {
        argument.name.lower() for argument in counts if argument.key == "column" and not is_star(argument)
    }
    blank = (
        node.parent for node in tree.walk() if node.is_string and not node.name and node.parent is not None
    )
    return tested - {column.name.lower() for node in blank for column in columns(node.walk())}


def _divided(tree: "Expr") -> Iterator[set[str]]:
    """For each division, the columns that make it an integer division if all of them are integers.

    Bins of a fixed width and casts to integer are left out, because they are intended.
    """
    for node in tree.walk():
        if node.key != "div" or number(node.expression) or clause(node) in ("group", "join"):
            continue
        cast = node.parent
        while cast is not None and cast.key == "paren":
            cast = cast.parent
        made_whole = cast is not None and cast.key == "cast" and "INT" in text_of(cast.args["to"]).upper()
        before, after = _integer_columns(node.this), _integer_columns(node.expression)
        if not made_whole and before is not None and after is not None:
            yield before | after


def _sixtieths(tree: "Expr") -> Iterator[set[str]]:
    """For each division by 60 or 3600 that is added to another column, the columns as in `_divided`.

    Such a sum may convert degrees and minutes.
    """
    for node in tree.walk():
        columns = (
            _integer_columns(node.this)
            if node.key == "div" and number(node.expression) in _SIXTIETHS
            else None
        )
        above = node.parent
        while above is not None and above.key == "paren":
            above = above.parent
        if columns and above is not None and above.key in ("add", "sub"):
            operands = [side for side in map(plain, (above.this, above.expression)) if side is not node]
            if any(inner.key == "column" for side in operands for inner in side.walk()):
                yield columns


def _integer_columns(node: "Expr") -> set[str] | None:
    """The columns that must be integers for an expression to be an integer; None if it never is."""
    if node.key == "literal":
        return set() if number(node) else None
    if node.key == "column":
        return {node.name.lower()}
    if function(node) == "count":
        return set()
    if node.key == "case":
        branches = [branch.args["true"] for branch in node.args["ifs"]]
        parts = [*branches, *([node.args["default"]] if node.args.get("default") else [])]
    elif node.key == "subquery":
        parts = selected(node.this)
    elif node.key in _ARITHMETIC:
        parts = [part for part in (node.this, node.args.get("expression")) if hasattr(part, "key")]
        parts += node.expressions
    elif function(node) in _EXACT:
        parts = node.expressions
    else:
        return None
    column_sets = [_integer_columns(part) for part in parts]
    return (
        set().union(*(names for names in column_sets if names is not None))
        if None not in column_sets
        else None
    )


def _added(tree: "Expr") -> set[str]:
    """Columns that are operands of + or -, also inside min() or max()."""
    operands = (
        plain(side)
        for node in tree.walk()
        if node.key in ("add", "sub")
        for side in (node.this, node.expression)
    )
    inner = (
        operand.expressions[0] if function(operand) in ("min", "max") else operand for operand in operands
    )
    return {node.name.lower() for node in map(plain, inner) if node.key == "column"}


def _excluding(tree: "Expr") -> Iterator["Expr"]:
    """Each NOT IN with a subquery."""
    negated = (plain(node.this) for node in tree.walk() if node.key == "not")
    return (node for node in negated if node.key == "in" and node.args.get("query") is not None)


def _unions(tree: "Expr") -> Iterator[list[Data]]:
    """Each pair of adjacent SELECTs in a UNION."""
    for node in tree.walk():
        if node.key == "union":
            before = node.this
            while before.key in QUERIES - {"select"}:
                before = before.expression
            pair = [plain(part.unnest()) for part in (before, node.expression)]
            if all(part.key == "select" for part in pair):
                yield [{"text": text_of(part), "from": from_text(part)} for part in pair]
