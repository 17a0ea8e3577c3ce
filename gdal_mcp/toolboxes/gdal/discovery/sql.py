"""SQL as it is taught: how tables and columns are called, functions by purpose, worked examples, and what to use for a name that is not there. Pure."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final

from gdal_mcp.toolboxes.gdal.catalogue.sql import may_be_called
from gdal_mcp.toolboxes.gdal.discovery import read

_TAUGHT: Final = frozenset({"vector sql", "query", "query_to_file"})  # algorithms, steps and tools
_NO_FUNCTION: Final = re.compile(r".*?(?:no such function: |Undefined function ')(\w{1,60})", re.DOTALL)
_NO_NAME: Final = re.compile(
    r".*(?:no such (?:table|column): |SELECT from table .* failed|Unrecognized field name|\".*\" not recognised as an available field)",
    re.DOTALL,
)
_SYNTAX: Final = re.compile(r".*sqlite3_prepare_v2\(\): near .*: syntax error", re.DOTALL)
_OGRSQL: Final = re.compile(r".*(?:Undefined function '|SQL Expression Parsing Error)", re.DOTALL)


def sql_of(name: str) -> dict[str, Any]:
    """What is taught of SQL, for an algorithm, a step or a tool that takes it: rules, functions by purpose, calls of `query`."""
    if name not in _TAUGHT:
        return {}
    known = read("sql.toml")
    examples = [
        {"does": one["does"], "arguments": {"inputs": one["inputs"], "sql": one["sql"]}}
        for one in known["example"]
    ]
    rules = {one["of"]: one["text"] for one in known["rule"]}
    return {"sql": {"rules": rules, "functions": dict(known["functions"]), "query_examples": examples}}


def sql_advice(errors: Iterable[str]) -> str:
    """What to do about a statement that failed, in our words; "" where it failed at something else."""
    for text in errors:
        if _OGRSQL.match(text):
            return "OGRSQL has few functions and no such joins: give `dialect` SQLITE, or use `query`."
        if found := _NO_FUNCTION.match(text):
            return _instead(found[1].lower())
        if _SYNTAX.match(text):
            advice: str = read("sql.toml")["syntax"]["text"]
            return advice
        if _NO_NAME.match(text):
            return "The tables and columns that there are stand under `untrusted`; gdal_describe `vector sql` says how they are called."
    return ""


def _instead(name: str) -> str:
    """Advice for the name of a function that does not exist, in words of our own lists only."""
    instead = read("sql.toml")["instead"]
    if name in instead:
        return f"Use {instead[name]}."
    known = _functions()
    spelled = [one for one in known if one.replace("_", "") == name.replace("_", "")]
    near = spelled or get_close_matches(name, _names(), 3, 0.7) or get_close_matches(name, known, 3, 0.8)
    if near:
        return f"The nearest functions are {', '.join(known[one] for one in near)}."
    return "gdal_describe `vector sql` lists the functions by purpose."


@lru_cache(maxsize=1)
def _functions() -> dict[str, str]:
    """All functions of SQLite in the container that a statement may call, by their names in lower case, as they are written."""
    return {name: name for name in read("functions.toml")["names"].split() if may_be_called(name)} | _names()


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    return {one.lower(): one for names in read("sql.toml")["functions"].values() for one in names.split()}
