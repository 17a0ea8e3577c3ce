"""The expected time of a workflow: how long earlier calls of the same commands took. Nothing is scaled by the size of the
data, so the number of calls and their range are always shown. Pure.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from statistics import median
from typing import Final, TypeAlias

from gdal_mcp.calls.workflows.checked import CheckedWorkflow
from gdal_mcp.plan import Draft

Command: TypeAlias = tuple[str, ...]  # the first words of a command line: a program and its algorithm
# the seconds of a principal's earlier successful calls, by the commands in the question
FindSeconds: TypeAlias = Callable[[str, Sequence[Command]], Mapping[Command, Sequence[float]]]

_NAME: Final = re.compile(
    r"[a-z][a-z-]*", re.ASCII
)  # a word of an algorithm; options begin with -, and paths with /
FEWEST: Final = 3  # calls; the median of fewer says nothing about the next one


def expected_time(checked: CheckedWorkflow, principal: str, find: FindSeconds) -> str:
    """The line of the question with the expected time; "" if no step runs."""
    steps = [step for step in checked.steps if step.result is None]
    commands = {step.id: _command(step.draft) for step in steps}
    by_command = find(principal, tuple(dict.fromkeys(command for command in commands.values() if command)))
    seconds = {name: tuple(by_command.get(command, ())) for name, command in commands.items()}
    known = {name: rows for name, rows in seconds.items() if len(rows) >= FEWEST}
    if not known:
        return "Expected time: unknown." if steps else ""
    each = ", ".join(f"{step.id} {_describe(known.get(step.id))}" for step in steps)
    total = ""
    if len(known) == len(steps):
        total = f"about {sum(map(median, known.values())):.1f} s if the steps run one after another: "
    return f"Expected time, from earlier calls on other data: {total}{each}."


def _describe(seconds: Sequence[float] | None) -> str:
    if seconds is None:
        return "unknown"
    return f"{median(seconds):.1f} s (median of {len(seconds)} calls, {min(seconds):.1f} to {max(seconds):.1f} s)"


def _command(draft: Draft | None) -> Command:
    """The words that earlier calls must share; empty if they do not decide what runs, as for code and pipelines."""
    if draft is None or draft.review.code or draft.work.chain:
        return ()
    program, *words = draft.display_command
    if program != "gdal":
        return (program,)
    return (program, *takewhile(_NAME.fullmatch, words))
