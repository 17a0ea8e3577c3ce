"""Parts of a statement that SQLite accepts and that do not do what they seem to say. Pure."""

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gdal_mcp.toolboxes.gdal.preflight.sql.tree import (
    COMPARISONS,
    bare,
    columns,
    function,
    number,
    plain,
    tree_of,
)

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

_NUMERIC: Final = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)")
_LOCAL_DATE: Final = re.compile(r"\d{1,2}([./-])\d{1,2}\1(?:\d{4}|\d{2})")
_ORDERS: Final = frozenset({"lt", "lte", "gt", "gte", "between"})
_DATE_PARTS: Final = frozenset({"date", "time", "datetime", "strftime", "julianday", "unixepoch"})
_ANGLES: Final = frozenset({"sin", "cos", "tan"})
# names of columns with angles in degrees
_DEGREES: Final = re.compile(
    r"(?:.*_)?(?:lat|latitude|lon|lng|long|longitude|degrees|deg|aspect|slope|bearing|azimuth|heading)(?:_.*)?"
)
# names of results in degrees; `azimuth` alone names the function
_NAMED_DEGREES: Final = re.compile(r"(?:.*_)?(?:degrees?|deg|bearing|heading)(?:_.*)?")
_FULL_TURN: Final = 2 * math.pi  # radians
_CONVERSIONS: Final = frozenset({"radians", "degrees", "pi"})
_DATES: Final = frozenset({"date", "datetime", "julianday", "unixepoch"})


def mistakes(statement: str) -> tuple[str, ...]:
    """The names of the checks (`answers/data/checks.toml`) of a statement's mistakes."""
    tree = tree_of(statement)
    if tree is None:
        return ()
    return tuple(
        dict.fromkeys(name for node in tree.walk() for of in (_of_node, _of_call) for name in of(node))
    )


def _of_node(node: "Expr") -> Iterator[str]:
    operands = (
        [plain(child) for child in node.iter_expressions()] if node.key not in ("alias", "paren") else []
    )
    texts = [operand.name for operand in operands if operand.is_string]
    if node.key in COMPARISONS - {"is"} and any(operand.key == "null" for operand in operands):
        yield "null_compared"
    if texts and node.key in ("and", "or", "where", "not"):
        yield "constant_condition"
    if texts and node.key in ("ordered", "group"):
        yield "constant_order"
    if node.key == "between" and _is_reversed(node):
        yield "between_reversed"
    if node.key in ("add", "sub", "mul") and any(not _NUMERIC.match(text) for text in texts):
        yield "text_added"
    if function(node) == "round" and len(node.expressions) == 2 and node.expressions[1].key == "neg":
        yield "rounded_to_tens"
    if (node.key in _ORDERS or function(node) in _DATES) and any(map(_LOCAL_DATE.fullmatch, texts)):
        yield "local_date_compared"


def _of_call(node: "Expr") -> Iterator[str]:
    # an ordered window without a frame ends at the current row
    ends_at_row = node.args.get("order") is not None and node.args.get("spec") is None
    if node.key == "window" and function(node.this) == "last_value" and ends_at_row:
        yield "last_value_so_far"
    if function(node) in _DATE_PARTS and any(
        part.name.lower() == "localtime" for part in node.expressions[1:]
    ):
        yield "localtime_is_utc"
    if function(node) in _ANGLES and _is_in_degrees(node):
        yield "degrees_as_radians"
    if _takes_radians_for_degrees(node):
        yield "radians_as_degrees"


def _is_reversed(between: "Expr") -> bool:
    """True for a BETWEEN whose limits are whole numbers in the wrong order."""
    low, high = (number(between.args[name]) for name in ("low", "high"))
    return bool(low and high) and int(low) > int(high)


def _is_in_degrees(call: "Expr") -> bool:
    """True for an angle that is a column in degrees, or a coordinate, without a conversion to radians."""
    inner = list(call.walk())
    degrees = any(_DEGREES.fullmatch(column.name.lower()) for column in columns(iter(inner)))
    return not _converts(inner) and (degrees or any(bare(function(node)) in ("x", "y") for node in inner))


def _takes_radians_for_degrees(node: "Expr") -> bool:
    """True for an ST_Azimuth without a conversion that is named as degrees, or compared with more than a full turn."""
    named = node.key == "alias" and _NAMED_DEGREES.fullmatch(node.alias.lower()) is not None
    operands = map(plain, node.iter_expressions()) if node.key in COMPARISONS else ()
    literals = [part.name for part in operands if part.key == "literal" and not part.is_string]
    if not named and all(float(text) <= _FULL_TURN for text in literals):
        return False
    inner = list(node.walk())
    return any(bare(function(part)) == "azimuth" for part in inner) and not _converts(inner)


def _converts(nodes: "list[Expr]") -> bool:
    """True if an expression converts an angle, or calculates with it."""
    return any(function(node) in _CONVERSIONS or node.key in ("mul", "div") for node in nodes)
