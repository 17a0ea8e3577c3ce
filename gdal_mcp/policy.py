"""Decides whether a call may run: pure, and the same answer for the same effect and settings."""

from dataclasses import dataclass
from typing import Literal

from gdal_mcp.plan import Effect

ApprovalMode = Literal["writes", "always", "never"]

_REASONS = {
    Effect.CREATE: "it writes a new file",
    Effect.REPLACE: "it replaces files",
    Effect.DESTROY: "it takes files away",
}


@dataclass(frozen=True, slots=True)
class Allow:
    reason: str


@dataclass(frozen=True, slots=True)
class RequireApproval:
    reason: str


Verdict = Allow | RequireApproval


def decide(effect: Effect, mode: ApprovalMode) -> Verdict:
    """Reads run, writes need a person's yes; `always` asks for both and `never`, a deliberate setting, for none."""
    if mode == "never":
        return Allow("the server runs with --approval never")
    if mode == "always":
        return RequireApproval("the server runs with --approval always")
    if effect is Effect.READ:
        return Allow("it only reads")
    return RequireApproval(_REASONS[effect])
