"""SQL statements and conditions, read token by token. Pure.

What GDAL does with SQL, found out by running it: OGRSQL opens the file in `FROM 'file'.layer`, also in a JOIN; the SQLite
dialect does so for `"file".layer`; a condition (`where`) of a GeoPackage goes to SQLite as it is, with subqueries, any function
and whatever follows a semicolon or a comment; a text that begins with `@` is a file in all of them. The dialects do not
agree on where a quoted text ends (a backslash, a doubled double quote) nor on brackets and backticks.

Invariants of what is let through:
* it is one SELECT, or one condition without a subquery, and every dialect reads the same tokens in it;
* what stands in FROM and JOIN is the plain name of a layer or a subquery: nothing dotted, no function, no single quotes;
* no quoted name in a statement looks like a path, a driver's prefix or a URL;
* every function is on the list below: it computes from its arguments, and opens, writes and remembers nothing;
* a table that is built from itself has a literal LIMIT, since nothing else would end it before the container's limits do.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.catalogue.sql_words import FUNCTIONS, KEYWORDS, REFUSED_WORDS

MAX_STATEMENT: Final = 16 << 10  # bytes
MAX_CONDITION: Final = 4 << 10
MAX_DEPTH: Final = 24
MAX_ROWS: Final = 1_000_000  # of a recursive table
DIALECTS: Final = ("OGRSQL", "SQLITE")

Kind = Literal["space", "text", "name", "quoted", "number", "sign"]

_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n]+)
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"[^"]*")
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.]))
      | (?P<name>[^\W\d]\w*)
      | (?P<sign><=|>=|<>|!=|==|\|\||[-+*/%<>=(),.;])""",
    re.VERBOSE,
)
_PATH_LIKE: Final = re.compile(r"[/:@<>{}]|\.\.|^~|^$")  # of a name anywhere in a statement
_NOT_A_LAYER: Final = re.compile(r"[/:@<>{}.*?;,'\[\]]|^\s|\s$|^~|^$")
_FOREIGN_TABLE: Final = re.compile(
    r"pragma_|sqlite_|dbstat|fts[0-9]|generate_series|json_|fsdir|rtreecheck|bytecode|tables_used|stmt$"
    r"|completion$|zipfile|virtual|temp$|main$",
    re.IGNORECASE,
)
_CLAUSES: Final = frozenset("WHERE GROUP HAVING ORDER LIMIT UNION INTERSECT EXCEPT".split())
_SUBQUERY: Final = frozenset(("SELECT", "WITH", "VALUES"))


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str

    @property
    def word(self) -> str:
        """A bare word in upper case; empty for anything else."""
        return self.text.upper() if self.kind == "name" else ""


def check_statement(text: str, what: str) -> str:
    """One SELECT of plain layers, on one line. Raises ArgumentRefused."""
    tokens = _tokens(text, what, MAX_STATEMENT)
    if any(one.kind == "quoted" and _PATH_LIKE.search(one.text[1:-1]) for one in tokens):
        raise ArgumentRefused(
            f"{what} quotes a name that looks like a path, a driver's prefix or a URL.",
            "Only layers and fields of the input can be named.",
        )
    if tokens and tokens[-1].text == ";":
        tokens = tokens[:-1]
    if not tokens or tokens[0].word not in ("SELECT", "WITH"):
        raise ArgumentRefused(
            f"{what} is no SELECT statement.", "Only SELECT, and WITH ... SELECT, are passed on."
        )
    _check_dots(tokens, what)
    _check_words(tokens, what)
    _check_tables(tokens, what)
    _check_recursion(tokens, what)
    return _written(tokens)


def check_condition(text: str, what: str) -> str:
    """One condition on the fields of one layer, on one line. Raises ArgumentRefused."""
    tokens = _tokens(text, what, MAX_CONDITION)
    if not tokens:
        raise ArgumentRefused(f"{what} is empty.", "For example \"population > 1000 AND name LIKE 'A%'\".")
    if tokens[0].kind == "sign" and tokens[0].text not in ("(", "-", "+"):
        raise ArgumentRefused(f"{what} begins with {tokens[0].text}.", "Begin with a field.")
    found = next((one.word for one in tokens if one.word in _SUBQUERY | _CLAUSES | {"FROM", "JOIN"}), None)
    if found is not None:
        raise ArgumentRefused(
            f"{what} holds {found}; it is a condition on the fields of one layer.",
            f'Quote it as "{found.lower()}" if it is a field; subqueries are for SQL.',
        )
    _check_dots(tokens, what)
    _check_words(tokens, what)
    return _written(tokens)


def check_dialect(text: str, what: str) -> str:
    """OGRSQL or SQLITE. Raises ArgumentRefused."""
    if text.upper() not in DIALECTS:
        raise ArgumentRefused(
            f"{what} is none of GDAL's two dialects.", "Use OGRSQL or SQLITE, or leave it out."
        )
    return text.upper()


def _tokens(text: str, what: str, limit: int) -> list[Token]:
    if len(text.encode("utf-8", "surrogatepass")) > limit:
        raise ArgumentRefused(f"{what} is longer than {limit} bytes.", "Simplify it.")
    if text.lstrip().startswith("@"):
        raise ArgumentRefused(f"{what} names a file.", "Give the text itself.")
    return list(_read(text, what))


def _read(text: str, what: str) -> Iterator[Token]:
    position = 0
    while position < len(text):
        if text.startswith(("--", "/*"), position):
            raise ArgumentRefused(f"{what} holds a comment.", "Leave comments out; write - -1 with a blank.")
        match = _TOKEN.match(text, position)
        if match is None:
            raise ArgumentRefused(
                f"{what} holds a quote that is not closed, or {text[position]!r}, which the dialects read differently.",
                "Quote names with \" and texts with '; write parameters out.",
            )
        position = match.end()
        token = Token(match.lastgroup, match[0])  # type: ignore[arg-type] # the groups are named as the kinds
        if token.kind in ("text", "quoted"):
            _check_quoted(token, text[position : position + 1], what)
        if token.kind != "space":
            yield token


def _check_quoted(token: Token, following: str, what: str) -> None:
    if not token.text.isprintable() or "\\" in token.text:
        raise ArgumentRefused(
            f"{what} holds a backslash or a control character in quotes.",
            "The dialects read them differently.",
        )
    if token.kind == "quoted" and following == '"':
        raise ArgumentRefused(
            f"{what} holds a doubled quote.", "The dialects read it differently; rename it."
        )


def _check_dots(tokens: Sequence[Token], what: str) -> None:
    """A dot stands between two names, or a name and *: anywhere else it would join what is apart once it is written."""
    ends = Token("sign", "")
    for before, token, after in zip([ends, *tokens], tokens, [*tokens[1:], ends], strict=False):
        named = before.kind in ("name", "quoted", "text")
        if token.text == "." and not (named and (after.kind in ("name", "quoted") or after.text == "*")):
            raise ArgumentRefused(f"{what} has a dot that is between no names.", "Write layer.field.")


def _check_words(tokens: Sequence[Token], what: str) -> None:
    depth = 0
    columns = _column_lists(tokens)
    for at, (token, following) in enumerate(zip(tokens, [*tokens[1:], Token("sign", "")], strict=True)):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if not 0 <= depth <= MAX_DEPTH:
            raise ArgumentRefused(f"{what} has unbalanced brackets, or nests too deeply.", "Simplify it.")
        if token.text == ";":
            raise ArgumentRefused(f"{what} holds several statements.", "Give one.")
        if following.text == "(" and at + 1 not in columns:
            _check_call(token, what)
        elif token.word in REFUSED_WORDS:
            raise ArgumentRefused(
                f"{what} holds {token.word}.",
                f'Only SELECT is passed on; quote "{token.text}" if it is a name.',
            )
        if token.kind == "text" and following.text == ".":
            raise ArgumentRefused(f"{what} names another file.", "Only layers of the input can be named.")
    if depth:
        raise ArgumentRefused(f"{what} has unbalanced brackets.", "Close every bracket.")


def _column_lists(tokens: Sequence[Token]) -> set[int]:
    """Where the brackets of `WITH name (column, ...) AS` open."""
    found = set()
    for at, token in enumerate(tokens):
        if token.text != "(" or at < 2:
            continue
        named = tokens[at - 2].word in ("WITH", "RECURSIVE") or tokens[at - 2].text == ","
        if named and _are_columns(tokens, at + 1):
            found.add(at)
    return found


def _are_columns(tokens: Sequence[Token], start: int) -> bool:
    """Whether names with commas between them stand there, then `) AS`.

    It looks at no bracket twice: to look for the end of each takes minutes for a text of brackets alone.
    """
    for position in range(start, len(tokens)):
        odd = (position - start) % 2
        wanted = tokens[position].text == "," if odd else tokens[position].kind in ("name", "quoted")
        if not wanted:
            closed = odd and tokens[position].text == ")" and position + 1 < len(tokens)
            return bool(closed) and tokens[position + 1].word == "AS"
    return False


def _check_call(token: Token, what: str) -> None:
    """The word before a bracket: a keyword, or a function of the list."""
    known = token.word in KEYWORDS or token.text.lower().removeprefix("st_") in FUNCTIONS
    if token.kind == "quoted" or (token.kind == "name" and not known):
        raise ArgumentRefused(
            f"{what} calls {token.text[:60]}, which is not on the list of functions that only compute.",
            "Use the functions of SQLite for numbers, texts and dates, and those of geometry such as ST_Area.",
        )


def _check_tables(tokens: Sequence[Token], what: str) -> None:
    """What FROM and JOIN name. A comma on the level of a FROM names another table, also behind ON."""
    levels = [False]  # whether a FROM is open, for each open bracket
    expected = False
    for token, following in zip(tokens, [*tokens[1:], Token("sign", "")], strict=True):
        if expected:
            _check_table(token, following, what)
        expected = token.word in ("FROM", "JOIN") or (token.text == "," and levels[-1])
        if token.text == "(":
            levels.append(False)
        elif token.text == ")":
            levels.pop()
        elif token.word in ("FROM", "JOIN"):
            levels[-1] = True
        elif token.word in _CLAUSES:
            levels[-1] = False
    if expected:
        raise ArgumentRefused(f"{what} ends before the name of a layer.", "Complete it.")


def _check_table(token: Token, following: Token, what: str) -> None:
    if token.text == "(" and following.word in _SUBQUERY:
        return
    name = token.text.strip('"') if token.kind in ("name", "quoted") else ""
    plain = (
        token.kind in ("name", "quoted") and token.word not in KEYWORDS and following.text not in (".", "(")
    )
    if not plain or _NOT_A_LAYER.search(name) or _FOREIGN_TABLE.match(name):
        raise ArgumentRefused(
            f"{what} takes its rows from something else than a layer of the input.",
            "Write FROM layer, as the input's layers are called; other files are inputs of their own.",
        )


def _check_recursion(tokens: Sequence[Token], what: str) -> None:
    """SQLite needs no RECURSIVE to make a table from itself, so the tables are looked at."""
    for name, body in _tables_of(tokens):
        itself = any(one.text.strip('"').lower() == name and one.kind in ("name", "quoted") for one in body)
        if itself and not _is_limited(body):
            raise ArgumentRefused(
                f"{what} builds the table {name[:60]} from itself without a limit, which may never end.",
                f"End that part with LIMIT and a number up to {MAX_ROWS}.",
            )


def _tables_of(tokens: Sequence[Token]) -> Iterator[tuple[str, Sequence[Token]]]:
    """Every `name [(columns)] AS [[NOT] MATERIALIZED] (body)`."""
    for at, token in enumerate(tokens):
        if token.text != "(" or not at or tokens[at - 1].word not in ("AS", "MATERIALIZED"):
            continue
        before = at - 1
        while tokens[before].word in ("MATERIALIZED", "NOT", "AS"):
            before -= 1
        if tokens[before].text == ")":
            before = _opening(tokens, before) - 1
        yield tokens[before].text.strip('"').lower(), tokens[at + 1 : _closing(tokens, at)]


def _opening(tokens: Sequence[Token], at: int) -> int:
    depth = 0
    for position in range(at, -1, -1):
        depth += {")": 1, "(": -1}.get(tokens[position].text, 0)
        if not depth:
            return position
    return 0


def _closing(tokens: Sequence[Token], at: int) -> int:
    depth = 0
    for position in range(at, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[position].text, 0)
        if not depth:
            return position
    return len(tokens)


def _is_limited(body: Sequence[Token]) -> bool:
    """Whether the outermost level ends in LIMIT and a whole number that is not too large."""
    depth = 0
    for at, token in enumerate(body):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if token.word == "LIMIT" and not depth:
            rest = [one.text for one in body[at + 1 :]]
            return (
                bool(rest)
                and rest[0].isdecimal()
                and len(rest[0]) <= len(str(MAX_ROWS))  # Python reads no number of thousands of digits
                and int(rest[0]) <= MAX_ROWS
                and rest[1:2] in ([], ["OFFSET"])
            )
    return False


def _written(tokens: Sequence[Token]) -> str:
    """The tokens with single blanks between them, but for those that belong together."""
    text = ""
    before = Token("sign", "(")
    for token in tokens:
        call = token.text == "(" and before.kind == "name" and before.word not in KEYWORDS
        tight = call or token.text in (",", ".", ")") or before.text in ("(", ".")
        text += token.text if tight else f" {token.text}"
        before = token
    return text.strip()
