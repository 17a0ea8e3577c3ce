"""The states of an approval, and every way from one to another. Pure; `store.py` makes each transition in one transaction.

| state    | a person                | a call                                                            |
|----------|-------------------------|-------------------------------------------------------------------|
| asked    | has not decided         | waits for the answer, or is to be sent again                      |
| approved | said yes                | waited for the answer and has not read it yet                     |
| released | said yes                | none: the yes waits for the same call to be sent again            |
| reserved | said yes                | waits to start: rates, queue, a free slot, a container            |
| consumed | said yes                | started                                                           |
| denied   | said no, or took it back | never starts by this approval                                     |
| expired  | did not decide, or the call was not sent again in time | never starts by this approval      |

Invariants:
* one approval lets at most one call start: `consumed` has no way out;
* a no before the start is final;
* a yes is consumed, denied or expired in the end, and until then a call can reserve it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from gdal_mcp.policy.policy import Channel

State = Literal["asked", "approved", "released", "reserved", "consumed", "denied", "expired"]
Event = Literal["approve", "deny", "reserve", "release", "consume", "withdraw", "expire"]


@dataclass(frozen=True, slots=True)
class Transition:
    sources: frozenset[State]
    target: State


TRANSITIONS: Final[Mapping[Event, Transition]] = {
    "approve": Transition(frozenset({"asked"}), "approved"),
    "deny": Transition(frozenset({"asked", "approved", "released", "reserved"}), "denied"),
    # a call takes the approval: the call that waited for it, or the same call sent again
    "reserve": Transition(frozenset({"approved", "released"}), "reserved"),
    # the call that took the approval ended before it started: no slot, no container, a rate limit, a cancellation,
    # a dead server
    "release": Transition(frozenset({"approved", "reserved"}), "released"),
    "consume": Transition(frozenset({"reserved"}), "consumed"),
    # the call that asked is cancelled before anybody answered
    "withdraw": Transition(frozenset({"asked"}), "expired"),
    # expired by the clock: a question after the time for a decision, an approval after the time for its use
    "expire": Transition(frozenset({"asked", "approved", "released", "reserved"}), "expired"),
}
OPEN: Final = TRANSITIONS["deny"].sources  # states in which a no still counts
APPROVED_STATES: Final[frozenset[State]] = frozenset(
    {"approved", "released", "reserved", "consumed"}
)  # states after a person said yes

# A client answers for its user without proof that anybody was asked; in the other ways a person is signed in.
_BY_CLIENT: Final[frozenset[Channel]] = frozenset({"elicitation"})


def counts(way: Channel, ways: tuple[str, ...], *, approved: bool) -> bool:
    """True if an answer in this way decides a question that accepts `ways`. A signed-in person can always deny."""
    return way in ways or (not approved and way not in _BY_CLIENT)
