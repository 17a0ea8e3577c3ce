from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.policy.admission import Admission
from tests.unit.virtual_time import run, settle

GIB = 1 << 30

NAMES = ("ann", "bob", "eve")


@dataclass(eq=False)
class Visit:
    """One call, driven by hand: it holds its slot until `end` or `cancel`."""

    who: str
    number: int
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    done: anyio.Event = field(default_factory=anyio.Event)
    state: str = "came"
    asked: int = 0  # number of notices that it has to wait
    refusal: ToolError | None = None

    def end(self) -> None:
        self.done.set()

    def cancel(self) -> None:
        self.scope.cancel()


@dataclass(eq=False)
class Hall:
    """An admission and all calls that arrived."""

    admission: Admission
    group: TaskGroup
    visits: list[Visit] = field(default_factory=list)
    served: list[Visit] = field(default_factory=list)  # in the order of admission

    def come(self, who: str, times: int = 1) -> list[Visit]:
        visits = [Visit(who, len(self.visits) + number) for number in range(times)]
        self.visits += visits
        for visit in visits:
            self.group.start_soon(self._stay, visit)
        return visits

    async def _stay(self, visit: Visit) -> None:
        with visit.scope:
            try:
                async with self.admission.permit(visit.who, lambda: self._note_wait(visit)):
                    visit.state = "runs"
                    self.served.append(visit)
                    await visit.done.wait()
            except ToolError as error:
                visit.state, visit.refusal = "refused", error
            except anyio.get_cancelled_exc_class():
                visit.state = "cancelled"
                raise
            else:
                visit.state = "ended"

    @staticmethod
    def _note_wait(visit: Visit) -> None:
        visit.asked += 1
        visit.state = "waits"

    def those(self, state: str) -> list[Visit]:
        return [visit for visit in self.visits if visit.state == state]

    async def drain(self) -> None:
        """Ends all calls, one after another."""
        await settle()
        while running := self.those("runs"):
            running[0].end()
            await settle()


Play = Callable[[Hall], Coroutine[Any, Any, None]]


def play(admission: Admission, acts: Play) -> None:
    """Runs the actions, and asserts that no call is left or remembered at the end."""

    async def visit_and_drain() -> None:
        async with anyio.create_task_group() as group:
            hall = Hall(admission, group)
            await acts(hall)
            await hall.drain()
            assert hall.those("waits") == []
        assert (admission.running, admission.waiting, admission._lines) == (0, 0, {})

    run(visit_and_drain)


def counted(admission: Admission) -> tuple[int, int]:
    rows = admission._lines.values()
    return sum(row.running for row in rows), sum(len(row.waiting) for row in rows)


def names(visits: list[Visit]) -> list[str]:
    return [visit.who for visit in visits]


def test_only_waiting_calls_report_that_they_wait():
    async def acts(hall: Hall) -> None:
        first, second = hall.come("ann", 2)
        await settle()
        first.end()
        await settle()
        assert (first.asked, second.asked) == (0, 1)

    play(Admission(1, 8, 60), acts)


def test_one_principal_cannot_fill_the_queue():
    async def acts(hall: Hall) -> None:
        hall.come("ann", 101)
        hall.come("bob", 100)
        hall.come("eve", 100)
        await settle()
        waiting = names(hall.those("waits"))
        assert {name: waiting.count(name) for name in NAMES} == {"ann": 8, "bob": 4, "eve": 2}

    play(Admission(1, 16, 60), acts)


@pytest.mark.claim("resources.queue-bounded")
def test_full_queue_refuses_at_once_with_retry_time():
    async def acts(hall: Hall) -> None:
        hall.come("ann", 1)
        await settle()
        await anyio.sleep(30)  # the shortest duration of a call here
        (late,) = hall.come("ann")
        await settle()
        assert late.refusal is not None
        assert (late.refusal.code, late.refusal.stage) == (Code.BUSY, Stage.QUEUE)
        assert late.refusal.as_dict("c1")["error"]["retry_after_seconds"] == 30

    play(Admission(1, 0, 60), acts)


@pytest.mark.claim("resources.queue-bounded")
def test_waiting_time_is_bounded_and_cancelling_frees_place():
    async def acts(hall: Hall) -> None:
        first, second = hall.come("ann", 2)
        await settle()
        await anyio.sleep(4)
        (third,) = hall.come("ann")
        await anyio.sleep(1.5)
        await settle()
        assert [first.state, second.state, third.state] == ["runs", "refused", "waits"]
        assert second.refusal is not None
        assert second.refusal.code is Code.BUSY
        first.end()
        await settle()
        assert third.state == "runs"

    play(Admission(1, 8, 5), acts)


def test_a_cancelled_calls_place_goes_to_the_next():
    async def acts(hall: Hall) -> None:
        first, second, third = hall.come("ann", 3)
        await settle()
        second.cancel()
        hall.admission.resize(2)  # the second call gets the slot before it learns that it is cancelled
        assert hall.admission.running == 2
        await settle()
        assert [first.state, second.state, third.state] == ["runs", "cancelled", "runs"]

    play(Admission(1, 8, 60), acts)


@pytest.mark.claim("resources.queue-bounded")
@pytest.mark.parametrize("places", [1, 2, 5])
def test_hundred_calls_delay_another_principal_by_one_run(places: int):
    async def acts(hall: Hall) -> None:
        hall.come("ann", 100)
        await settle()
        hall.come("bob")
        await settle()
        hall.served[0].end()
        await settle()
        assert names(hall.served) == ["ann"] * places + ["bob"]

    play(Admission(places, 400, 60), acts)


def test_repeated_requests_do_not_starve_waiting_ones():
    """Two principals send their next call as soon as one is answered; a third has a long queue."""

    async def acts(hall: Hall) -> None:
        hall.come("ann", 20)
        await settle()
        hall.come("bob")
        hall.come("eve")
        await settle()
        for _ in range(9):
            (running,) = hall.those("runs")
            running.end()
            if running.who != "ann":
                hall.come(running.who)
            await settle()
        assert names(hall.served[-9:]).count("ann") == 3

    play(Admission(1, 60, 60), acts)


def test_long_holder_leaves_other_places_to_others():
    async def acts(hall: Hall) -> None:
        hall.come("ann", 6)
        await settle()
        hall.come("bob", 3)
        await settle()
        hall.served[0].end()
        await settle()
        for _ in range(2):  # the long call of ann continues
            hall.served[-1].end()
            await settle()
        assert names(hall.served) == ["ann", "ann", "bob", "bob", "bob"]
        assert [visit.number for visit in hall.served] == [0, 1, 6, 7, 8]  # in order for each principal

    play(Admission(2, 60, 60), acts)


PRINCIPALS = st.sampled_from(NAMES)
INDEX = st.integers(0, 40)
ACTS = st.one_of(
    st.tuples(st.just("come"), PRINCIPALS),
    st.tuples(st.just("come"), PRINCIPALS),
    st.tuples(st.just("end"), INDEX),
    st.tuples(st.just("cancel"), INDEX),
    st.tuples(st.just("sleep"), st.sampled_from([1.0, 3.0, 10.0])),
    st.tuples(st.just("resize"), st.integers(1, 4)),
    st.tuples(st.just("settle"), st.none()),
)


async def act(hall: Hall, kind: str, value: Any) -> None:
    if kind == "come":
        hall.come(value)
    elif kind == "sleep":
        await anyio.sleep(value)
    elif kind == "settle":
        await settle()
    elif kind == "resize":
        hall.admission.resize(value)
    elif hall.visits:
        visit = hall.visits[value % len(hall.visits)]
        visit.end() if kind == "end" else visit.cancel()


@pytest.mark.claim("resources.queue-bounded")
@given(st.integers(1, 3), st.integers(0, 5), st.lists(ACTS, max_size=40))
def test_any_event_order_keeps_bounds_and_leaves_nothing(concurrent, length, plan):
    async def acts(hall: Hall) -> None:
        most = concurrent
        for kind, value in plan:
            await act(hall, kind, value)
            load = hall.admission
            assert counted(load) == (load.running, load.waiting)
            most = max(most, load.concurrent) if kind == "resize" else most
            assert load.running <= most
            assert load.waiting <= length
            assert not load.waiting or load.running >= load.concurrent
            if kind == "settle":
                assert len(hall.those("runs")) == load.running
                assert len(hall.those("waits")) == load.waiting
        await settle()
        assert not [visit for visit in hall.those("waits") if visit.scope.cancel_called]

    play(Admission(concurrent, length, 5.0), acts)
