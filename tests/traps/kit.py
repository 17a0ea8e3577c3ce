"""What a trap is, and how one is tried."""

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
    ignored: frozenset[str] = field(
        default_factory=frozenset
    )  # checks that a twin may have for another reason


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


def spring(talk: Talk, traps: tuple[Trap, ...], name: str, subtests: pytest.Subtests) -> None:
    """Each trap is told, and its twins are not; outputs are called after `name`."""
    for number, trap in enumerate(traps):
        tool, arguments = trap.call[0], named(f"{name}_trap", number, trap.call[1])
        with subtests.test(trap.code, number=number):
            if trap.refused or trap.before:
                seen = talk.done("validate_call", tool=tool, arguments=arguments)
                assert trap.code in codes(seen), seen
                assert seen["valid"] is not trap.refused
            if trap.refused:
                error = talk.failed(tool, **arguments)
                assert error["check"]["code"] == trap.code
            else:
                done = talk.done(tool, **arguments)
                assert trap.code in codes(done), done
                if trap.mends:
                    mend = next(row["mend"] for row in rows_of(done) if row["code"] == trap.code)
                    assert trap.code not in codes(talk.done(mend["tool"], **mend["arguments"]))
        for other, (tool, given) in enumerate(trap.twins):
            with subtests.test(f"not {trap.code}", number=number, twin=other):
                done = talk.done(tool, **named(f"{name}_twin{other}_", number, given))
                assert codes(done) <= trap.ignored, done
