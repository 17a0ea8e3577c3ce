"""What a person is asked, and who can be asked."""

import shlex
from dataclasses import dataclass
from typing import Protocol

from gdal_mcp.plan import Plan
from gdal_mcp.untrusted import clean_text


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
    """The question in plain words: what runs, on what, what it writes and replaces, and where it runs."""
    draft = plan.draft
    lines = [
        f"Run {plan.tool}? Asked because {reason}.",
        "",
        "Command:",
        f"  {shlex.join(draft.command.argv)}",
    ]
    if draft.inputs:
        lines += [
            "Reads:",
            *(
                f"  {located} ({_size(located.identity.size if located.identity else 0)})"
                for located in draft.inputs
            ),
        ]
    if draft.output is not None:
        verb = "Changes a copy of, then replaces" if draft.output.update else "Writes"
        lines += [f"{verb}:", f"  {draft.output.target}"]
        if draft.output.replaces:
            lines += [
                "Replaces (kept, `gdal-mcp undo` restores):",
                *(f"  {located}" for located in draft.output.replaces),
            ]
        else:
            lines.append("Replaces nothing.")
    limits = plan.limits
    lines.append(
        f"It runs in a container of its own without network, with {_size(limits.memory_bytes)} of memory, "
        f"{limits.cpus:g} CPUs and {limits.wall_seconds:g} s at most, and is then destroyed."
    )
    return clean_text("\n".join(lines), 6000)


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError
