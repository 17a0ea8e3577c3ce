"""Decides whether a plan may run: pure, and the same answer for the same plan and settings."""

from dataclasses import dataclass
from typing import Literal

from gdal_mcp.plan import Effect, Plan

ApprovalMode = Literal["writes", "always", "never"]


@dataclass(frozen=True, slots=True)
class Allow:
    reason: str


@dataclass(frozen=True, slots=True)
class RequireApproval:
    reason: str


Verdict = Allow | RequireApproval


def decide(plan: Plan, mode: ApprovalMode) -> Verdict:
    """Reads run, writes need a person's yes; `always` asks for both and `never`, a deliberate setting, for none."""
    if mode == "never":
        return Allow("the server runs with --approval never")
    if mode == "always":
        return RequireApproval("the server runs with --approval always")
    if plan.effect is Effect.READ:
        return Allow("it only reads")
    return RequireApproval("it replaces files" if plan.effect is Effect.REPLACE else "it writes a new file")
