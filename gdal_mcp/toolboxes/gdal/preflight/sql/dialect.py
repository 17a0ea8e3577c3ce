"""SQLite with spatial functions, for sqlglot.

`tree.py` imports this module at the first statement, because loading sqlglot takes a quarter of a second.
"""

import logging
import re
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import ErrorLevel
from sqlglot.dialects.sqlite import SQLite
from sqlglot.errors import SqlglotError
from sqlglot.expressions import Expr, Join
from sqlglot.generators.sqlite import SQLiteGenerator
from sqlglot.parsers.sqlite import SQLiteParser
from sqlglot.tokenizer_core import TokenType

__all__ = ["function_names", "parse", "write"]


class _Parser(SQLiteParser):
    """Treats all functions except CAST as anonymous.

    SpatiaLite has several hundred functions, and some of sqlglot's functions have another meaning in it.
    """

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS = {"CAST": SQLiteParser.FUNCTION_PARSERS["CAST"]}  # noqa: RUF012 - as sqlglot declares it
    NO_PAREN_FUNCTION_PARSERS = {"CASE": SQLiteParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}  # noqa: RUF012 - as sqlglot declares it
    FUNC_TOKENS = SQLiteParser.FUNC_TOKENS | {TokenType.OVERLAPS}


class _Generator(SQLiteGenerator):
    def join_sql(self, expression: Join, join_op: str | None = None) -> str:
        if expression.kind == "CROSS":  # a comma lets SQLite choose the order of the tables
            expression.set("kind", None)
        return super().join_sql(expression, join_op)


class _SpatialSQLite(SQLite):
    Parser = _Parser
    Generator = _Generator


_DIALECT = _SpatialSQLite()
# sqlglot logs unsupported syntax with the text of the statement
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


def parse(text: str) -> Expr | None:
    """The tree of one statement; None if the text is not one statement or cannot be parsed."""
    try:
        trees = _DIALECT.parse(text)
    except (SqlglotError, RecursionError):
        return None
    return trees[0] if len(trees) == 1 else None


def function_names(text: str) -> list[str]:
    """The names before an opening bracket in text that may not be SQL; all words if it cannot be split into tokens."""
    try:
        tokens = _DIALECT.tokenize(text)
    except SqlglotError:
        return re.findall(r"\w+", text)
    return [token.text for token, after in pairwise(tokens) if after.token_type is TokenType.L_PAREN]


def write(node: Expr) -> str:
    return _DIALECT.generate(node, normalize_functions=False, unsupported_level=ErrorLevel.IGNORE)
