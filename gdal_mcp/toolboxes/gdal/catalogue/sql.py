"""Checks SQL statements and conditions: what they may name and call. Pure.

The rules were derived from statements run with GDAL 3.13 in the environment of a call. OGRSQL opens the file in `FROM
'file'.layer`, the SQLite dialect the file in `FROM "file".layer`. A condition (`where`) on a GeoPackage goes to
SQLite unchanged, with subqueries and everything after a semicolon or a comment. In all of them, text that begins with
`@` is a file. The dialects disagree on where quoted text ends (a backslash, a doubled double quote) and on brackets
and backticks.

Invariants of accepted SQL:
* it is one SELECT, or one condition without a subquery, and every dialect reads the same tokens in it;
* no table is a file: a table is one name without a dot, and no name before a dot, in a FROM clause or elsewhere,
  looks like a path, a driver's prefix or a URL;
* no function opens a file by name, runs other text as SQL or loads code. All other functions may be called.

The limits of the call end a statement that computes for too long, such as an endless recursive WITH. Some refused
functions are also blocked in the container: SpatiaLite registers its functions that import and export files only if
SPATIALITE_SECURITY allows it, which our environment does not; SQLite's `load_extension` is not authorized;
OGR_SQLITE_ALLOW_EXTERNAL_ACCESS=NO stops GDAL's own functions. They are refused here too, for a clear message, and
because another image may be built differently. `XB_Create` reads the schema file that its argument names, and quotes
its first line in an error; `ST_Transform` makes PROJ read the grids of a pipeline in its fourth argument.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused

MAX_STATEMENT: Final = 16 << 10  # bytes
MAX_CONDITION: Final = 4 << 10
DIALECTS: Final = ("OGRSQL", "SQLITE")

Kind = Literal["space", "text", "name", "quoted", "number", "sign"]

_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n]+)
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"[^"]*")
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.]))
      | (?P<name>[^\W\d]\w*)
      | (?P<sign><=|>=|<>|<<|>>|!=|==|\|\||->>|->|[-+*/%&|~<>=(),.;])""",
    re.VERBOSE,
)
_PATH_LIKE: Final = re.compile(r"[/:<>{}]|\.\.|^[~@]")
_END_OF_TABLES: Final = frozenset(
    "SELECT WHERE GROUP HAVING WINDOW ORDER LIMIT UNION INTERSECT EXCEPT VALUES".split()
)
# Keywords that start or modify another kind of statement. A field with such a name must be quoted; REPLACE is also a
# function.
_STATEMENTS: Final = frozenset(
    """
    ALTER ANALYZE ATTACH BEGIN COMMIT CREATE DELETE DETACH DROP EXPLAIN INDEXED INSERT INTO PRAGMA REINDEX RELEASE
    RENAME REPLACE ROLLBACK SAVEPOINT TRIGGER UPDATE UPSERT VACUUM VIRTUAL
    """.split()
)
_NOT_IN_A_CONDITION: Final = frozenset(
    "SELECT WITH VALUES FROM JOIN WHERE GROUP HAVING ORDER LIMIT UNION INTERSECT EXCEPT".split()
)
_REACHES_OUT: Final = re.compile(
    r"""(?:st_)?(?: load_extension | eval | edit | fsdir | fts[0-9]_tokenizer
      | readfile | writefile | lsmode | .*(?:from|to)_?file | (?:import|export|dump|load)(?!fromepsg).* | .*_(?:import|export|load|store).*
      | sqlproc_.* | storedproc_.* | proj_setdatabasepath | xb_(?:load|store).* | rl2_(?:load|write|import|export).*
      | ogr_datasource_.* | zipfile_.* | ogr_geocode.* | gdal_get_pixel_value
      | xb_create | xb_schemavalidate | (?:enable)?pause)""",
    re.IGNORECASE | re.VERBOSE,
)
# PostGIS functions that GDAL does not have: accepted here, because the answer to GDAL's error names those that it has
_ABSENT: Final = re.compile(r"st_dump(?:points|rings|segments)?", re.IGNORECASE)
_TRANSFORMS: Final = re.compile(r"(?:st_)?transform(?:3|xyz?)?", re.IGNORECASE)
_TRANSFORM_MOST: Final = 3  # arguments: a geometry, the code of a CRS, a bounding box


@dataclass(frozen=True, slots=True)
class SqlToken:
    kind: Kind
    text: str

    @property
    def word(self) -> str:
        """An unquoted name in upper case; "" for any other token."""
        return self.text.upper() if self.kind == "name" else ""


def check_allowed(allowed: bool, what: str) -> None:  # noqa: FBT001 - it is the setting itself
    """Raises ArgumentRefused if SQL is switched off."""
    if not allowed:
        raise ArgumentRefused(
            f"{what} is SQL, and SQL is switched off on this server.",
            "Use where, select, filter and similar arguments, or ask the operator to start the server without --no-sql.",
        )


def check_statement(text: str, what: str) -> str:
    """The statement, which is one SELECT on layers of the input, without a final semicolon. Raises ArgumentRefused."""
    tokens = _tokens(text, what, MAX_STATEMENT)
    if tokens and tokens[-1].text == ";":
        tokens.pop()
        text = text.rstrip()[:-1]
    if not tokens or tokens[0].word not in ("SELECT", "WITH"):
        raise ArgumentRefused(
            f"{what} is not a SELECT statement.", "Only SELECT and WITH ... SELECT are accepted."
        )
    _check_tokens(tokens, what)
    return text.strip()


def check_condition(text: str, what: str) -> str:
    """The condition, which only uses the fields of one layer. Raises ArgumentRefused."""
    tokens = _tokens(text, what, MAX_CONDITION)
    if not tokens:
        raise ArgumentRefused(f"{what} is empty.", "For example \"population > 1000 AND name LIKE 'A%'\".")
    if tokens[0].kind == "sign" and tokens[0].text not in ("(", "-", "+"):
        raise ArgumentRefused(f"{what} starts with {tokens[0].text}.", "Start with the name of a field.")
    words = [token.word for token in tokens]
    if ("DISTINCT", "FROM") in itertools.pairwise(words):
        raise ArgumentRefused(
            f"{what} contains DISTINCT FROM, and GDAL reads what follows as the name of a table.",
            "Write IS instead of IS NOT DISTINCT FROM, and IS NOT instead of IS DISTINCT FROM.",
        )
    forbidden = next((word for word in words if word in _NOT_IN_A_CONDITION), None)
    if forbidden is not None:
        raise ArgumentRefused(
            f"{what} contains {forbidden}, but it can only be a condition on the fields of one layer.",
            f'Quote it as "{forbidden.lower()}" if it is a field. Subqueries are possible in `query`.',
        )
    _check_tokens(tokens, what)
    return text.strip()


def check_dialect(text: str, what: str) -> str:
    """The dialect in upper case: OGRSQL or SQLITE. Raises ArgumentRefused for any other."""
    if text.upper() not in DIALECTS:
        raise ArgumentRefused(f"{what} is not a dialect of GDAL.", "Use OGRSQL or SQLITE, or omit it.")
    return text.upper()


def may_be_called(name: str) -> bool:
    """True for a function that does not open files, use the network or run other SQL."""
    return not _REACHES_OUT.fullmatch(name) or bool(_ABSENT.fullmatch(name))


def _tokens(text: str, what: str, limit: int) -> list[SqlToken]:
    if len(text.encode("utf-8", "surrogatepass")) > limit:
        raise ArgumentRefused(f"{what} is longer than {limit} bytes.", "Simplify it.")
    if text.lstrip().startswith("@"):
        raise ArgumentRefused(f"{what} is the name of a file.", "Pass the SQL itself.")
    tokens: list[SqlToken] = []
    position = 0
    while position < len(text):
        if text.startswith(("--", "/*"), position):
            raise ArgumentRefused(
                f"{what} contains a comment.", "Remove comments, and write - -1 with a space."
            )
        match = _TOKEN.match(text, position)
        if match is None:
            raise ArgumentRefused(
                f"{what} contains a quote that is not closed, or {text[position]!r}, which the SQL dialects read differently.",
                "Quote names with \" and strings with ', write values instead of parameters, and CAST(a AS type) for a::type.",
            )
        token = SqlToken(match.lastgroup, match[0])  # type: ignore[arg-type] # the groups are named as the kinds
        position = match.end()
        doubled = token.kind == "quoted" and text.startswith('"', position)
        escape = {"quoted": "\\", "text": "\\'"}.get(token.kind)
        if escape is not None and (doubled or escape in token.text or not token.text.isprintable()):
            raise ArgumentRefused(
                f"{what} contains a backslash, a control character or a doubled quote within quotes.",
                "The SQL dialects read these differently: use another name or value.",
            )
        if token.kind != "space":
            tokens.append(token)
    return tokens


def _check_tables(tokens: Sequence[SqlToken], what: str) -> None:
    """Checks the names of tables. Raises ArgumentRefused.

    Between FROM and the next clause each comma can start another table; each bracket level has its own state.
    """
    tables = [False]
    before = SqlToken("sign", "")
    compared = False  # True if the last FROM was part of IS DISTINCT FROM
    for token, following in zip(tokens, [*tokens[1:], before], strict=True):
        first = before.word in ("FROM", "JOIN") or before.text in (",", "(")
        if token.text == "(":
            tables.append(tables[-1] and first)
        elif token.text == ")" and len(tables) > 1:
            tables.pop()
        elif token.text == ")":
            raise ArgumentRefused(f"{what} closes a bracket that is not open.", "Balance ( and ).")
        elif token.word in ("FROM", "JOIN") or token.word in _END_OF_TABLES:
            tables[-1] = token.word in ("FROM", "JOIN")
            compared = token.word == "FROM" and before.word == "DISTINCT"
        elif token.kind in ("name", "quoted", "text"):
            named, dotted = tables[-1] and first, following.text == "."
            path = token.kind == "quoted" and _PATH_LIKE.search(token.text[1:-1]) is not None
            refused = (named and (dotted or path)) or (dotted and (path or token.kind == "text"))
            if refused and compared:
                raise ArgumentRefused(
                    f"{what} contains DISTINCT FROM, and GDAL reads what follows as the name of a table.",
                    "Write IS instead of IS NOT DISTINCT FROM, and IS NOT instead of IS DISTINCT FROM: in SQLite they compare NULL in the same way.",
                )
            if refused:
                raise ArgumentRefused(
                    f"{what} uses a file as a table.",
                    "Tables are layers of the inputs, by name alone. Add other files as inputs.",
                )
        before = token
    if len(tables) > 1:  # GDAL puts SQL around the statement, and an open bracket would change its meaning
        raise ArgumentRefused(f"{what} leaves a bracket open.", "Balance ( and ).")


def _check_tokens(tokens: Sequence[SqlToken], what: str) -> None:
    _check_tables(tokens, what)
    for at, token in enumerate(tokens):
        called = [following.text for following in tokens[at + 1 : at + 2]] == ["("]
        name = token.text.strip('"')
        if token.text == ";":
            raise ArgumentRefused(f"{what} contains several statements.", "Pass one statement.")
        if token.text == '""':
            raise ArgumentRefused(f'{what} contains "", an empty identifier.', "An empty string is ''.")
        if token.kind in ("name", "quoted") and name.lower().startswith("pragma_"):
            raise ArgumentRefused(
                f"{what} reads {name[:60]}, which describes the database file and not its layers.",
                "Only layers of the inputs can be read.",
            )
        if called and not may_be_called(name) and not _begins_table(tokens, at):
            raise ArgumentRefused(
                f"{what} calls {name[:60]}, which opens files, uses the network or runs other SQL.",
                "Use functions that only compute from their arguments.",
            )
        if token.word in _STATEMENTS and not (called and token.word == "REPLACE"):
            raise ArgumentRefused(
                f"{what} contains {token.word}.",
                f'Only SELECT is accepted. Quote "{token.text}" if it is a name.',
            )
        if _TRANSFORMS.fullmatch(name) and _arguments(tokens[at + 1 :]) > _TRANSFORM_MOST:
            raise ArgumentRefused(
                f"{what} calls {token.text[:60]} with more than three arguments.",
                "The further arguments name files that PROJ reads. Pass a geometry and the number of a CRS.",
            )


def _begins_table(tokens: Sequence[SqlToken], at: int) -> bool:
    """True for the name of a table that the WITH defines with its columns: `WITH name(a, b) AS (`."""
    depths = list(itertools.accumulate((token.text == "(") - (token.text == ")") for token in tokens[:at]))
    selects = any(token.word == "SELECT" and not depth for token, depth in zip(tokens, depths, strict=False))
    if not at or tokens[0].word != "WITH" or depths[-1] or selects:
        return False
    columns = itertools.takewhile(lambda token: token.text != ")", tokens[at + 2 :])
    after = tokens[at + 2 + len(list(columns)) :][:2]
    return tokens[at - 1].text.upper() in ("WITH", "RECURSIVE", ",") and [
        token.text.upper() for token in after
    ] == [")", "AS"]


def _arguments(tokens: Sequence[SqlToken]) -> int:
    """The number of arguments of a call, from the tokens after its name; 0 if it is not a call."""
    depth, count = 0, 1
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0:
            return count if token.text == ")" else 0
        count += token.text == "," and depth == 1
    return 0
