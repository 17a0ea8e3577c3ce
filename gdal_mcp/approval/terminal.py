"""Asks the person at the terminal."""

import sys
from dataclasses import dataclass

import anyio

from gdal_mcp.approval.model import Decision, Question


@dataclass(frozen=True, slots=True)
class Terminal:
    """Prints the question on stderr and reads the answer; `assume_yes` is the script's deliberate `--yes`."""

    user: str
    assume_yes: bool = False

    def answered(self) -> tuple[str, Decision] | None:
        return None

    async def ask(self, question: Question) -> Decision | None:
        if self.assume_yes:
            return Decision(approved=True, by=self.user, how="--yes")
        if not sys.stdin.isatty():
            return None
        sys.stderr.write(f"{question.text}\n\nRun it? [y/N] ")
        sys.stderr.flush()
        await anyio.wait_readable(sys.stdin)  # a terminal gives whole lines; Ctrl-C ends the wait
        answer = sys.stdin.readline()
        return Decision(approved=answer.strip().lower() in ("y", "yes"), by=self.user, how="terminal")
