"""What a trap is, and how one is tried."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.mcp.talk import Talk


@dataclass(frozen=True)
class Trap:
    """`call` must be answered with the check `code`, or refused by it; `twins` must be answered without any check."""

    code: str
    call: tuple[str, dict[str, Any]]
    twins: tuple[tuple[str, dict[str, Any]], ...] = ()
    refused: bool = False
    before: bool | None = None  # whether `validate_call` knows it; None: as far as it is refused
    mends: bool = False  # whether a call that corrects it is told
    # checks that a twin may have for another reason
    ignored: frozenset[str] = field(default_factory=frozenset)


def write(algorithm: str, /, **arguments: Any) -> tuple[str, dict[str, Any]]:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return "gdal_write", {"algorithm": algorithm, "arguments": named}


def read(algorithm: str, /, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "gdal_read", write(algorithm, **arguments)[1]


def call(tool: str, /, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return tool, arguments


def named(output: str, number: int, given: Any) -> Any:
    """The same arguments with an output of their own."""
    if isinstance(given, dict):
        return {name: named(output, number, one) for name, one in given.items()}
    return given.replace("OUT", f"{output}{number}") if isinstance(given, str) else given


def rows_of(told: dict[str, Any]) -> list[dict[str, Any]]:
    """All checks, of the call and of its outputs."""
    return [
        *told.get("checks", ()),
        *(row for one in told.get("outputs", ()) if isinstance(one, dict) for row in one["checks"]),
    ]


def codes(told: dict[str, Any]) -> set[str]:
    rows = rows_of(told)
    for row in rows:
        assert row["message"]
        assert row["suggestion"]
    return {row["code"] for row in rows}


def first_of_each(traps: Sequence[Trap]) -> tuple[tuple[Trap, ...], tuple[Trap, ...]]:
    """One trap of each code, and the others."""
    first = {trap.code: trap for trap in reversed(traps)}
    return tuple(first.values()), tuple(trap for trap in traps if trap is not first[trap.code])


def spring(talk: Talk, traps: tuple[Trap, ...], name: str, subtests: pytest.Subtests) -> None:
    """Each trap is told, and its twins are not; outputs are called after `name`. All calls are sent at once."""
    under_way = []
    for number, trap in enumerate(traps):
        for other, (tool, given) in enumerate((trap.call, *trap.twins)):
            arguments = named(f"{name}{other}_", number, given)
            known = not other and (trap.refused or trap.before)
            planned = talk.start("validate_call", tool=tool, arguments=arguments) if known else None
            under_way.append((trap, other, arguments, planned, talk.start(tool, **arguments)))
    for trap, other, arguments, planned, call in under_way:
        with subtests.test(trap.code, twin=other, arguments=str(arguments)):
            done = call.result(timeout=300)
            said = done.structured_content
            assert done.is_error is (trap.refused and not other), said
            if planned is not None:
                seen = planned.result(timeout=300).structured_content
                assert trap.code in codes(seen), seen
                assert seen["valid"] is not trap.refused
            if other:
                assert codes(said) <= trap.ignored, rows_of(said)
            else:
                _told(talk, trap, said)


def _told(talk: Talk, trap: Trap, said: dict[str, Any]) -> None:
    rows = [said["error"]["check"]] if trap.refused else rows_of(said)
    assert trap.code in {row["code"] for row in rows}, said
    if trap.mends:
        mend = next(row["mend"] for row in rows if row["code"] == trap.code)
        made = talk.done(mend["tool"], **mend["arguments"])
        assert codes(made) <= trap.ignored, rows_of(made)
