"""What a person is asked, and who can be asked."""

import shlex
from dataclasses import dataclass
from typing import Protocol

from gdal_mcp.plan import Output, Plan
from gdal_mcp.untrusted import shown_text
from sandbox.workspace import Located

MAX_LISTED = 20  # places of one kind that a person is shown
MAX_COMMAND = 2000  # characters of the command that a person is shown


@dataclass(frozen=True, slots=True)
class Question:
    """One plan put to a person. `approval_id` is the registry's row."""

    approval_id: str
    plan_digest: str
    text: str


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's answer: who gave it and how."""

    approved: bool
    by: str
    how: str


class Suspended(Exception):
    """The question went out with the reply; the same call comes again with the answer."""

    def __init__(self, reply: object) -> None:
        super().__init__("waiting for an answer")
        self.reply = reply


class Approver(Protocol):
    """A way to ask somebody."""

    def answered(self) -> tuple[str, Decision] | None:
        """The approval id and answer that came with a repeated call, if any."""

    async def ask(self, question: Question) -> Decision | None:
        """The answer, or None when nobody can be asked this way. May raise Suspended."""


class Nobody:
    """The approver where no person can be reached: asks nobody, so nothing is approved."""

    def answered(self) -> tuple[str, Decision] | None:
        return None

    async def ask(self, question: Question) -> Decision | None:  # noqa: ARG002 - the protocol's signature
        return None


def question_text(plan: Plan, reason: str) -> str:
    """The question in plain words: what runs, what it writes and replaces, on what, and where it runs.

    What is written comes before what may be long, and every value is on one line, so that none can hide or forge another.
    """
    draft = plan.draft
    limits = plan.limits
    lines = [f"Run {plan.tool}? Asked because {reason}.", ""]
    if draft.removes:
        lines += [
            "Takes away (kept, `gdal-mcp undo` restores):",
            *_listed([str(one) for one in draft.removes]),
        ]
    if draft.transfers:
        lines += ["Moves:", *_listed([f"{one.source} -> {one.target}" for one in draft.transfers])]
    for output in draft.outputs[:MAX_LISTED]:
        lines += _effects(output)
    if draft.inputs:
        lines += ["Reads:", *_listed([_sized(located) for located in draft.inputs])]
    lines += ["Command:", f"  {shown_text(shlex.join(draft.command.argv), MAX_COMMAND)}"]
    lines.append(
        f"It runs in a container of its own without network, with {_size(limits.memory_bytes)} of memory, "
        f"{limits.cpus:g} CPUs and {limits.wall_seconds:g} s at most, and is then destroyed."
    )
    return "\n".join(lines)


def _effects(output: Output) -> list[str]:
    verb = "Changes a copy of, then replaces" if output.update else "Writes"
    lines = [f"{verb}:", *_listed([str(output.target)])]
    if output.shared:
        lines += ["May replace, as it may belong to it:", *_listed([str(one) for one in output.shared])]
    if not output.replaces:
        return [*lines, "Replaces nothing."]
    return [
        *lines,
        "Replaces (kept, `gdal-mcp undo` restores):",
        *_listed([str(one) for one in output.replaces]),
    ]


def _listed(values: list[str]) -> list[str]:
    lines = [f"  {shown_text(value)}" for value in values[:MAX_LISTED]]
    more = len(values) - MAX_LISTED
    return [*lines, f"  and {more} more"] if more > 0 else lines


def _sized(located: Located) -> str:
    return f"{located} ({_size(located.identity.size if located.identity else 0)})"


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError
