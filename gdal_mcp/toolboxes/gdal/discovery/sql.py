"""SQL help: table and column names, functions by purpose, examples, and advice about unknown names. Pure."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final

from gdal_mcp.toolboxes.gdal.catalogue.sql import may_be_called
from gdal_mcp.toolboxes.gdal.discovery import read

# algorithms, steps and tools that take SQL
_TAUGHT: Final = frozenset({"vector sql", "query", "query_to_file"})
_NO_FUNCTION: Final = re.compile(r".*?(?:no such function: |Undefined function ')(\w{1,60})", re.DOTALL)
_NO_NAME: Final = re.compile(
    r".*(?:no such (?:table|column): |SELECT from table .* failed|Unrecognized field name|\".*\" not recognised as an available field)",
    re.DOTALL,
)
_SYNTAX: Final = re.compile(r".*sqlite3_prepare_v2\(\): near .*: syntax error", re.DOTALL)
_OGRSQL: Final = re.compile(r".*(?:Undefined function '|SQL Expression Parsing Error)", re.DOTALL)


def sql_of(name: str) -> dict[str, Any]:
    """The SQL help for an algorithm, a step or a tool that takes SQL; empty for others.

    It has rules, functions by purpose, and example calls of `query`.
    """
    if name not in _TAUGHT:
        return {}
    known = read("sql.toml")
    examples = [
        {"does": example["does"], "arguments": {"inputs": example["inputs"], "sql": example["sql"]}}
        for example in known["example"]
    ]
    rules = {rule["of"]: rule["text"] for rule in known["rule"]}
    return {"sql": {"rules": rules, "functions": dict(known["functions"]), "query_examples": examples}}


def sql_advice(errors: Iterable[str]) -> str:
    """Advice about a failed SQL statement, in our own words; "" if the errors have another cause."""
    for text in errors:
        if _OGRSQL.match(text):
            return "OGRSQL has few functions and no such joins: give `dialect` SQLITE, or use `query`."
        if match := _NO_FUNCTION.match(text):
            return _instead(match[1].lower())
        if _SYNTAX.match(text):
            advice: str = read("sql.toml")["syntax"]["text"]
            return advice
        if _NO_NAME.match(text):
            return "The SQL names a table or column that does not exist. Those that exist are under `untrusted`; gdal_describe `vector sql` explains their names."
    return ""


def _instead(name: str) -> str:
    """Advice about the name of an unknown function, with words from our own lists only."""
    instead = read("sql.toml")["instead"]
    if name in instead:
        return f"Use {instead[name]}."
    known = _functions()
    spelled = [function for function in known if function.replace("_", "") == name.replace("_", "")]
    near = spelled or get_close_matches(name, _names(), 3, 0.7) or get_close_matches(name, known, 3, 0.8)
    if near:
        return f"The nearest functions are {', '.join(known[function] for function in near)}."
    return "gdal_describe `vector sql` lists the functions by purpose."


@lru_cache(maxsize=1)
def _functions() -> dict[str, str]:
    """SQL functions that a statement may call in the container: name in lower case -> usual spelling."""
    return {name: name for name in read("functions.toml")["names"].split() if may_be_called(name)} | _names()


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    return {name.lower(): name for names in read("sql.toml")["functions"].values() for name in names.split()}
