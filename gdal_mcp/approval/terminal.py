"""Asks the person at the terminal."""

import sys
from dataclasses import dataclass

import anyio

from gdal_mcp.access.policy import Way
from gdal_mcp.approval.model import Decision, Nobody, Question


@dataclass(frozen=True, slots=True)
class Terminal(Nobody):
    """Prints the question on stderr and reads the answer; `assume_yes` is a yes by the command itself, told as `how`."""

    user: str
    assume_yes: bool = False
    how: str = "--yes"

    def asks(self, ways: frozenset[Way]) -> bool:
        return "terminal" in ways and (self.assume_yes or sys.stdin.isatty())

    async def ask(self, question: Question) -> Decision | None:
        if not self.asks(question.ways):
            return None
        if self.assume_yes:
            return Decision(approved=True, by=self.user, how=self.how, way="terminal")
        sys.stderr.write(f"{question.text}\n\nRun it? [y/N] ")
        sys.stderr.flush()
        await anyio.wait_readable(sys.stdin)  # a terminal gives whole lines; Ctrl-C ends the wait
        answer = sys.stdin.readline()
        yes = answer.strip().lower() in ("y", "yes")
        return Decision(approved=yes, by=self.user, how="terminal", way="terminal")
