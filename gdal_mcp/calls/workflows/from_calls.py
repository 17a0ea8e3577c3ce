"""Makes a workflow document from calls that were made one by one, as in a conversation. Pure.

Paths that the calls read become parameters, with the path as default. A path that an earlier call of the list wrote
becomes a reference to its step. Outputs that no later call reads are published at their old path, which is a
parameter too.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from gdal_mcp.calls.workflows.document import (
    MAX_STEPS,
    VERSION,
    Problem,
    WorkflowDocument,
    WorkflowInvalid,
    parse,
)

_MAX_NAME: Final = 40  # characters of an id


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """The records of one call. Paths are absolute, those of outputs in the order in which the call names them."""

    id: str
    tool: str
    arguments: Mapping[str, Any]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


@dataclass
class _Names:
    """Generates unique names."""

    taken: set[str] = field(default_factory=set)

    def new(self, wish: str) -> str:
        base = re.sub(r"[^a-z0-9]+", "_", wish.lower()).strip("_")[: _MAX_NAME - 4] or "value"
        base = base if base[0].isalpha() else f"p_{base}"
        name, number = base, 2
        while name in self.taken:
            name, number = f"{base}_{number}", number + 1
        self.taken.add(name)
        return name


def workflow_of(calls: Sequence[RecordedCall], name: str) -> WorkflowDocument:
    """The workflow of these calls.

    Raises WorkflowInvalid if there are no calls, too many, or one that changed a file in place.
    """
    _require_possible(calls)
    steps, parameters = _Names(), _Names()
    written: dict[str, str] = {}  # path -> reference to the step that wrote it
    declared: dict[str, dict[str, Any]] = {}
    by_path: dict[str, str] = {}  # input path -> name of its parameter
    rows: list[dict[str, Any]] = []
    used: set[str] = set()

    def refer(path: str) -> str:
        if path in written:
            used.add(path)
            return written[path]
        if path not in by_path:
            by_path[path] = parameters.new(PurePosixPath(path).stem)
            declared[by_path[path]] = {"type": "path", "description": "Input", "default": path}
        return f"${{parameters.{by_path[path]}}}"

    for call in calls:
        step = steps.new(call.tool)
        arguments = {
            key: _replaced(value, call, refer) for key, value in call.arguments.items() if key != "overwrite"
        }
        rows.append({"id": step, "tool": call.tool, "arguments": arguments})
        for number, path in enumerate(call.writes):
            written[path] = f"${{steps.{step}}}" if not number else f"${{steps.{step}.outputs.{number}}}"
    outputs = {}
    for path, reference in written.items():
        if path not in used:
            key = parameters.new(f"{PurePosixPath(path).stem}_output")
            declared[key] = {"type": "path", "description": "Where this output is published", "default": path}
            outputs[key] = {"from": reference, "to": f"${{parameters.{key}}}"}
    return parse(
        {"workflow": VERSION, "name": name, "parameters": declared, "steps": rows, "outputs": outputs}
    )


def _require_possible(calls: Sequence[RecordedCall]) -> None:
    if not 0 < len(calls) <= MAX_STEPS:
        raise WorkflowInvalid([Problem(f"a workflow has 1 to {MAX_STEPS} calls, not {len(calls)}")])
    written: set[str] = set()
    problems = []
    for call in calls:
        if written & set(call.writes) or set(call.writes) & set(call.reads):
            problems.append(
                Problem(f"call {call.id} changes a file that is there already; write another file")
            )
        written.update(call.writes)
    if problems:
        raise WorkflowInvalid(problems)


def _replaced(value: Any, call: RecordedCall, refer: Callable[[str], str]) -> Any:
    """The argument with its paths as references, the call's own outputs as bare file names, and other text literal."""
    if isinstance(value, str):
        if (own := _match(value, call.writes)) is not None:
            return PurePosixPath(own).name
        if (read := _match(value, call.reads)) is not None:
            return refer(read)
        return value.replace("${", "$${")
    if isinstance(value, Mapping):
        return {key.replace("${", "$${"): _replaced(item, call, refer) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, call, refer) for item in value]
    return value


def _match(text: str, paths: Iterable[str]) -> str | None:
    """The absolute path that a text of an argument names: the same, or relative to a folder above it."""
    parts = PurePosixPath(text.removeprefix("./")).parts
    if not parts or len(text) > 4096:
        return None
    return next((path for path in paths if PurePosixPath(path).parts[-len(parts) :] == parts), None)
