"""Decides whether a call may run: pure, and the same answer for the same draft and settings."""

from dataclasses import dataclass
from typing import Literal

from gdal_mcp.plan import Draft, Effect, effect_of

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


def decide(draft: Draft, mode: ApprovalMode) -> Verdict:
    """Reads run, writes need a person's yes; `always` asks for both and `never`, a deliberate setting, for none.

    What moves, deletes or synchronises files is asked for in every mode: no setting stands in for a person there.
    """
    effect = effect_of(draft)
    if draft.always_asked:
        return RequireApproval("it moves or takes away files, which a person decides every time")
    if mode == "never":
        return Allow("the server runs with --approval never")
    if mode == "always":
        return RequireApproval("the server runs with --approval always")
    if effect is Effect.READ:
        return Allow("it only reads")
    return RequireApproval(_REASONS[effect])
