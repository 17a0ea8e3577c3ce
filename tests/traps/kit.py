"""Reads the table of traps and tries each trap."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.mcp.talk import Talk
from tests.traps import columns, explained, files, losses, queries
from tests.traps.table import TABLE

TWINS = 3  # the quick test tries a twin of every third code: with all twins it would take twice as long


@dataclass(frozen=True)
class Case:
    """One call of a trap. `twin` 0 is the trap itself: answered with the check `code`, or refused by it. The others
    get no check.
    """

    code: str
    twin: int
    tool: str
    arguments: dict[str, Any]
    marks: frozenset[str]

    @property
    def refused(self) -> bool:
        return "refused" in self.marks and not self.twin


def call(text: str) -> tuple[str, dict[str, Any]]:
    """A tool, or an algorithm, whose name has several words, with its arguments as JSON or plain text."""
    tool, *pairs = re.split(r" (?=[a-z][a-z_-]*=)", text)
    arguments = {}
    for name, _, value in (pair.partition("=") for pair in pairs):
        try:
            arguments[name] = json.loads(value)
        except ValueError:
            arguments[name] = value
    if " " not in tool:
        return tool, arguments
    reads = tool in ("vector info", "raster pixel-info")
    return "gdal_read" if reads else "gdal_write", {"algorithm": tool, "arguments": arguments}


def cases() -> Iterator[Case]:
    code, marks, twin = "", frozenset[str](), 0
    for number, line in enumerate(
        (TABLE + explained.TABLE + losses.TABLE + queries.TABLE + files.TABLE + columns.TABLE).splitlines()
    ):
        if line.startswith(" "):
            yield Case(code, twin, *call(line.strip().replace("OUT", f"trap{number}")), marks)
            twin += 1
        elif line and not line.startswith("#"):
            (code, *words), twin = line.split(), 0
            marks = frozenset(words)


def quick(made: list[Case]) -> list[Case]:
    """The first trap of each code, and the first twin of every third code."""
    traps, twins = ({case.code: case for case in reversed(made) if case.twin == which} for which in (0, 1))
    return [*traps.values(), *list(twins.values())[::TWINS]]


def rows_of(told: dict[str, Any]) -> list[dict[str, Any]]:
    """All checks, of the call and of its outputs."""
    outputs = (output for output in told.get("outputs", ()) if isinstance(output, dict))
    return [*told.get("checks", ()), *(row for output in outputs for row in output["checks"])]


def codes(told: dict[str, Any]) -> set[str]:
    rows = rows_of(told)
    assert all(row["message"] and row["suggestion"] for row in rows)
    return {row["code"] for row in rows}


def spring(talk: Talk, made: Iterable[Case], subtests: pytest.Subtests) -> None:
    """Sends all calls at once, after all requests that precede them: some calls change their own input."""
    made = list(made)
    validations = [
        None
        if case.twin or not case.marks & {"refused", "before"}
        else talk.start("validate_call", tool=case.tool, arguments=case.arguments)
        for case in made
    ]
    answers = [planned and planned.result(timeout=300).structured_content for planned in validations]
    under_way = [
        (case, validation, talk.start(case.tool, **case.arguments))
        for case, validation in zip(made, answers, strict=True)
    ]
    for _, _, call in under_way:  # a corrected call would wait behind all of them
        call.result(timeout=300)
    for case, validation, call in under_way:
        with subtests.test(case.code, twin=case.twin, arguments=str(case.arguments)):
            done = call.result(timeout=300)
            content = done.structured_content
            assert done.is_error is case.refused, content
            ignored = {mark.removeprefix("ignoring:") for mark in case.marks}
            if validation is not None:
                assert case.code in codes(validation), validation
                assert validation["valid"] is not case.refused
            if case.twin:
                assert codes(content) <= ignored, rows_of(content)
                continue
            rows = [content["error"]["check"]] if case.refused else rows_of(content)
            matches = [row for row in rows if row["code"] == case.code]
            assert matches, content
            assert "unmended" not in case.marks or "suggested_call" not in matches[0], matches
            if "mends" in case.marks:
                mended = talk.done(
                    matches[0]["suggested_call"]["tool"], **matches[0]["suggested_call"]["arguments"]
                )
                assert codes(mended) <= ignored, rows_of(mended)
