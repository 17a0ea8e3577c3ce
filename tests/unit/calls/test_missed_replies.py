"""Results that clients may have missed are listed once each, also while other calls end in threads."""

from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gdal_mcp.calls.invocation import Reply
from gdal_mcp.calls.missed_replies import KEY, MOST, MissedReplies


@pytest.fixture
def missed() -> MissedReplies:
    return MissedReplies(cast("Any", SimpleNamespace(keep=lambda *_: True)))


def ended(number: int) -> Any:
    reply = SimpleNamespace(result={}, error=None)
    return SimpleNamespace(call_id=f"c{number}", principal="ann", tool="info", reply=reply)


def listed(missed: MissedReplies, call_id: str = "another") -> list[str]:
    return [row["call_id"] for row in missed.noted(Reply(call_id, {}), "ann").result.get(KEY, ())]


class Meanwhile(str):
    """The id of a call; comparing it with another does something first, as another thread could."""

    __slots__ = ("happens",)
    happens: Callable[[], None]

    def __eq__(self, other: object) -> bool:
        self.happens()
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        self.happens()
        return str.__ne__(self, other)

    __hash__ = str.__hash__


def test_calls_that_end_meanwhile_are_listed_next(missed: MissedReplies) -> None:
    numbers = count()
    for _ in range(MOST):
        missed.keep(ended(next(numbers)))
    call_id = Meanwhile("another")
    call_id.happens = lambda: missed.keep(ended(next(numbers)))
    assert listed(missed, call_id) == ["c0", "c1", "c2", "c3", "c4"]
    later = listed(missed)
    assert later == [f"c{number}" for number in range(next(numbers))][-MOST:]
    assert listed(missed) == []


def test_a_result_is_not_listed_in_its_own_answer(missed: MissedReplies) -> None:
    for number in range(MOST + 2):
        missed.keep(ended(number))
    own = f"c{MOST}"
    assert listed(missed, own) == ["c2", "c3", "c4", "c6"]
    assert listed(missed) == [own]
