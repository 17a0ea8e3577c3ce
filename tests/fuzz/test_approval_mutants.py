"""Every change of one entry in the table of an approval's transitions is found by the model of approvals.

A mutant drops a source of a transition, allows another one, or changes the target. The mutants that no order of actions
can tell from the table have their reasons in EQUIVALENT.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, get_args

import pytest
from hypothesis import Phase
from hypothesis.stateful import run_state_machine_as_test

from gdal_mcp.approvals import store
from gdal_mcp.approvals.states import TRANSITIONS, Event, State, Transition
from tests.fuzz.kit import tries
from tests.fuzz.test_approvals import Approving

EXAMPLES: Final = 200  # of 50 steps; most mutants need fewer than 15
_UNCHANGED: Final = "leaves the row as it is: the same state and the same holder"
_NO_HOLDER: Final = "asks for the call that holds the row, and a released row has no holder"

EQUIVALENT: Final = {
    "reserve also from reserved": f"{_UNCHANGED}; another call takes only what is released",
    "release also from released": _NO_HOLDER,
    "consume also from released": _NO_HOLDER,
    "withdraw also from released": _NO_HOLDER,
    "withdraw also from expired": _UNCHANGED,
    "expire also from expired": _UNCHANGED,
}


def mutants() -> Iterator[tuple[str, Event, Transition]]:
    for event, transition in TRANSITIONS.items():
        for state in get_args(State):
            change = "not" if state in transition.sources else "also"
            yield (
                f"{event} {change} from {state}",
                event,
                replace(transition, sources=transition.sources ^ {state}),
            )
            if state != transition.target:
                yield f"{event} to {state}", event, replace(transition, target=state)


MUTANTS: Final = {name: (event, transition) for name, event, transition in mutants()}


def differs_from_store() -> bool:
    """True if the model finds a difference to the store."""
    steps = tries(EXAMPLES, stateful_step_count=50, database=None, phases=(Phase.generate,))
    try:
        run_state_machine_as_test(Approving, settings=steps)
    except AssertionError:
        return True
    return False


@pytest.mark.nightly
@pytest.mark.claim("approval.used-once", "approval.kept-until-used")
@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - EQUIVALENT.keys()))
def test_a_changed_transition_is_found_by_the_model(name: str, monkeypatch: pytest.MonkeyPatch):
    event, transition = MUTANTS[name]
    monkeypatch.setattr(store, "TRANSITIONS", {**TRANSITIONS, event: transition})
    assert differs_from_store()


def test_the_mutants_that_change_nothing_are_mutants():
    assert EQUIVALENT.keys() <= MUTANTS.keys()
