"""The points in a call's life at which its server may die, read from the source, and a trace that reports when it
gets there.

There is a point before each statement of the functions of these modules, so a new statement is automatically a new
point.
"""

import ast
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

MODULES = (
    "gdal_mcp.calls.pipeline",
    "gdal_mcp.calls.planning",
    "gdal_mcp.calls.approval",
    "gdal_mcp.calls.execution",
    "gdal_mcp.calls.operation",
    "gdal_mcp.calls.records",
    "sandbox.runner",
    "sandbox.slot",
)
UNDOING = (
    "gdal_mcp.server.operations.undoing"  # not part of a call's life: tests/security/faults/test_undoing.py
)
_BODIES = ("body", "orelse", "finalbody")
# parts that store nothing outside the process: dying before one of them is the same as dying before the next statement
_IN_MEMORY = """active activity reaches admission changes running request watched results ending place
reservation""".split()
# resources of the sandbox that a call holds
_LENT = (("lease",), ("staging",), ("engine",), ("wire",), ("slot",))


@dataclass(frozen=True, slots=True)
class Point:
    """The point just before one statement. `module` has no package, `text` is the statement's first line."""

    module: str
    function: str
    line: int
    text: str
    # only a call that fails gets here: an `except` block, a `raise`, or statements that lead only to these
    failing: bool
    step: bool  # calls another part of the server, which changes or requests something outside the process

    @property
    def name(self) -> str:
        return f"{self.module}:{self.line}"

    @property
    def place(self) -> str:
        """A name that stays the same if the statement moves in its file."""
        return f"{self.module}.{self.function}: {self.text}"


@cache
def points() -> tuple[Point, ...]:
    """All points, in the order of the source."""
    return tuple(point for name in MODULES for point in _of(name))


@cache
def undoing() -> tuple[Point, ...]:
    """The points of the function that undoes a call."""
    return tuple(point for point in _of(UNDOING) if point.function == "undo")


def _of(name: str) -> Iterator[Point]:
    path = _path(name)
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    for statement, function, failing in _statements(ast.parse(source), (), failing=False):
        text = lines[statement.lineno - 1].strip()
        step = _is_step(statement) and not (function[0].startswith("_") and len(function) > 1)
        yield Point(path.stem, ".".join(function), statement.lineno, text, failing, step)


def _path(name: str) -> Path:
    spec = importlib.util.find_spec(name.partition(".")[0])
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / f"{name.partition('.')[2].replace('.', '/')}.py"


def _statements(
    node: ast.AST, function: tuple[str, ...], *, failing: bool
) -> Iterator[tuple[ast.stmt, tuple[str, ...], bool]]:
    """Every statement in a function, with the function's name; docstrings are omitted."""
    for field, body in _bodies(node):
        lost = failing or field == "handler" or (field == "body" and _only_fails(node, body))
        for number, statement in enumerate(body):
            if function and not _is_docstring(statement, number):
                yield statement, function, lost or isinstance(statement, ast.Raise)
            named = isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            inner = (*function, statement.name) if named else function
            if isinstance(statement, ast.ClassDef) and not function:
                yield from _methods(statement)
            else:
                yield from _statements(statement, inner, failing=lost)


def _methods(definition: ast.ClassDef) -> Iterator[tuple[ast.stmt, tuple[str, ...], bool]]:
    for method in definition.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _statements(method, (definition.name, method.name), failing=False)


def _bodies(node: ast.AST) -> Iterator[tuple[str, list[ast.stmt]]]:
    for field in _BODIES:
        body = getattr(node, field, None)
        if isinstance(body, list):
            yield field, body
    for handler in getattr(node, "handlers", ()):
        yield "handler", handler.body
    for case in getattr(node, "cases", ()):
        yield "case", case.body


def _only_fails(node: ast.AST, body: list[ast.stmt]) -> bool:
    """True if a branch ends in an exception."""
    return isinstance(node, ast.If) and isinstance(body[-1], ast.Raise)


def _is_docstring(statement: ast.stmt, number: int) -> bool:
    return number == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_step(statement: ast.stmt) -> bool:
    """True if a statement calls or awaits something outside its object: `self.records.record_start(...)`,
    `lease.run(...)`.
    """
    return any(_hands_over(node) for node in _own(statement))


def _hands_over(node: ast.AST) -> bool:
    if isinstance(node, ast.Await):
        return not (isinstance(node.value, ast.Call) and _owner(node.value)[:1] == ("self",))
    if not isinstance(node, ast.Call):
        return False
    owner = _owner(node)
    is_part = owner[:1] in (("self",), ("host",), ("deps",)) and len(owner) > 1 and owner[1] not in _IN_MEMORY
    return is_part or owner in _LENT


def _owner(call: ast.Call) -> tuple[str, ...]:
    """The owner of the called method: `("self", "records")` of `self.records.record_start()`."""
    names: list[str] = []
    node = call.func.value if isinstance(call.func, ast.Attribute) else None
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return (node.id, *names) if isinstance(node, ast.Name) else ()


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement, without the statements inside it."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [
            child
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, ast.stmt | ast.ExceptHandler)
        ]


def instrument(passing: Callable[[str], None]) -> None:
    """Makes every thread call `passing` with a point's name when it gets there."""
    known = {point.name for point in (*points(), *undoing())}
    stems = {str(_path(name)): _path(name).stem for name in (*MODULES, UNDOING)}

    def entered(frame: FrameType, *_: object) -> Any:
        return coming if frame.f_code.co_filename in stems else None

    def coming(frame: FrameType, event: str, _argument: object) -> Any:
        name = f"{stems[frame.f_code.co_filename]}:{frame.f_lineno}"
        if event == "line" and name in known:
            passing(name)
        return coming

    threading.settrace(entered)
    sys.settrace(entered)
