"""Approvals with actions of people, clients, servers and clocks in any order: asked, answered, cancelled, refused,
restarted.

The model knows the required state of each row; the store is two servers' connections to one file. A rule does what
`approvals/waiting.py` and `pipeline.py` do at that moment.
"""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from gdal_mcp.approvals.model import Approval, Decision, Grant
from gdal_mcp.approvals.store import SUSPENDED, Approvals
from gdal_mcp.policy.policy import WAYS, Channel
from gdal_mcp.records.registry import Registry
from tests.fuzz.kit import tries
from tests.unit.clock import Clock

DIGESTS, WHO = st.sampled_from(("d1", "d1", "d1", "d2")), st.sampled_from(("ann", "ann", "ann", "bob"))
WAY = st.sampled_from(sorted(WAYS))
SERVER = st.integers(0, 1)
OPEN, VALID = 60.0, 70.0
MEMORY = Path("/dev/shm")  # transactions there do not wait for a disk
SECONDS = st.sampled_from((1.0, 1.0, 20.0, 20.0, 50.0, 75.0))
YES, USABLE = ("approved", "released", "reserved", "consumed"), ("approved", "released", "reserved")


@dataclass
class Row:
    """The model's data of one question."""

    digest: str
    who: str
    ways: tuple[Channel, ...]
    ends: float
    holder: str
    state: str = "asked"
    runs: int = 0
    agreed: float | None = None  # time of a person's approval
    by: str = ""  # the person who decided last


@dataclass
class Living:
    """One call that has not ended."""

    server: int
    row: str
    suspended: bool = False
    holder: str = field(default="")


class Approving(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self.clock = Clock()
        self.path = Path(self.folder.name) / "registry.sqlite"
        Registry(self.path).close()
        self.made = 0
        self.names: list[str] = ["", ""]
        self.servers: list[Approvals] = []
        self.servers = [self.opened(number) for number in range(2)]
        self.rows: dict[str, Row] = {}
        self.calls: dict[str, Living] = {}
        self.suspended: dict[str, str] = {}  # rows whose calls come again with an answer, and who asked

    def opened(self, number: int) -> Approvals:
        self.made += 1
        self.names[number] = f"s{self.made}"
        return Approvals(self.path, self.clock, lambda server: server in self.names)

    def teardown(self) -> None:
        for server in self.servers:
            server.close()
        self.folder.cleanup()

    # Expectations of the model

    def settle(self) -> None:
        """Ends in the model everything that has ended by now."""
        for row in self.rows.values():
            if row.state in ("asked", *USABLE) and row.ends <= self.clock.now:
                row.state = "expired"

    def free_dead(self) -> None:
        for row in self.rows.values():
            server = row.holder.partition(":")[0]
            if row.holder not in ("", SUSPENDED) and server not in self.names:
                self.leave(row)

    @staticmethod
    def leave(row: Row, to: str = "") -> None:
        if row.state in ("approved", "reserved"):
            row.state, row.holder = "released", ""
        elif row.state == "asked":
            row.holder = to

    def left(self, digest: str, who: str) -> set[str]:
        """The rows that the same call can use when it is sent again: approvals before questions."""
        mine = {name: row for name, row in self.rows.items() if (row.digest, row.who) == (digest, who)}
        yes = {name for name, row in mine.items() if row.state == "released"}
        return yes or {name for name, row in mine.items() if row.state == "asked" and not row.holder}

    def there(self, *states: str) -> list[str]:
        """The calls that have not ended, by the states of their rows."""
        return [name for name, call in self.calls.items() if self.rows[call.row].state in states]

    def pick(self, data: st.DataObject, *states: str) -> str:
        return data.draw(st.sampled_from(self.there(*states)))

    # Calls

    @initialize(server=SERVER)
    def first_call(self, server: int) -> None:
        self.call(server, "d1", "ann", set(WAYS))

    @rule(
        server=SERVER,
        digest=DIGESTS,
        who=WHO,
        ways=st.sampled_from((WAYS, WAYS, {"console"}, {"elicitation", "terminal"})),
    )
    def call(self, server: int, digest: str, who: str, ways: set[Any]) -> None:
        """A call arrives: the first one, the same one again, or a second identical one."""
        self.made += 1
        name, store = f"c{self.made}", self.servers[server]
        holder = f"{self.names[server]}:{name}"
        self.settle()
        self.free_dead()
        expected = self.left(digest, who)
        approval = store.reclaim(digest, who, holder)
        if not expected:
            assert approval is None
            request = Approval(
                plan_digest=digest,
                principal=who,
                tool="convert",
                summary="Write a.tif",
                ways=tuple(sorted(ways)),
                holder=holder,
                valid_seconds=VALID,
            )
            approval = store.request(request, OPEN)
            assert approval.id not in self.rows
            self.rows[approval.id] = Row(digest, who, request.ways, self.clock.now + OPEN, holder)  # type: ignore[arg-type]
        else:
            assert approval is not None, "a person would be asked twice"
            assert approval.id in expected
            row = self.rows[approval.id]
            row.state, row.holder = ("reserved" if row.state == "released" else "asked"), holder
        self.calls[name] = Living(server, approval.id, holder=holder)

    @rule(server=SERVER)
    def second_identical_call(self, server: int) -> None:
        self.call(server, "d1", "ann", set(WAYS))

    @rule(server=SERVER, then=st.sampled_from(("reads", "reads", "cancelled", "waits")))
    def approved_call(self, server: int, then: str) -> None:
        """A call is approved at the console while it waits. It reads its approval, or is cancelled before that."""
        self.call(server, "d1", "ann", {"console"})
        name, call = list(self.calls.items())[-1]
        self.decide(call.row, 1 - server, "console", yes=True)
        if then == "reads" and self.rows[call.row].state == "approved":
            self.end_wait(name)
        elif then == "cancelled":
            self.end_early(name)

    @precondition(lambda self: self.there("asked", "approved", "denied", "expired"))
    @rule(data=st.data())
    def stop_waiting(self, data: st.DataObject) -> None:
        """The wait ends: with an approval, which is reserved, with a denial, or without an answer, and the question
        stays open.
        """
        self.end_wait(self.pick(data, "asked", "approved", "denied", "expired"))

    @precondition(lambda self: self.there("asked"))
    @rule(data=st.data())
    def nobody_decides(self, data: st.DataObject) -> None:
        """A call waits until its question has expired."""
        self.clock.now += OPEN
        self.end_wait(self.pick(data, "asked"))

    def end_wait(self, name: str) -> None:
        call = self.calls[name]
        approval = self.servers[call.server].claim(call.row, call.holder)
        self.settle()
        row = self.rows[call.row]
        if row.state == "approved":
            row.state = "reserved"
        else:
            self.leave(row)
            del self.calls[name]
        assert approval is not None
        assert approval.state == row.state

    @precondition(lambda self: self.there("reserved"))
    @rule(data=st.data())
    def busy_or_rate_limited(self, data: st.DataObject) -> None:
        self.end_early(self.pick(data, "reserved"))

    @precondition(lambda self: self.there("asked", "approved", "reserved"))
    @rule(data=st.data())
    def cancelled_or_disconnected(self, data: st.DataObject) -> None:
        self.end_early(self.pick(data, "asked", "approved", "reserved"))

    def end_early(self, name: str) -> None:
        """A call ends before it starts."""
        call = self.calls.pop(name)
        self.servers[call.server].end(call.row, call.holder)
        self.settle()
        row = self.rows[call.row]
        if row.state == "asked":
            row.state = "expired"
        self.leave(row)

    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        """A call gets its slot; a person may have withdrawn its approval meanwhile, or the approval has expired."""
        if not (mine := self.there("reserved", "denied", "expired")):
            return
        name = data.draw(st.sampled_from(mine))
        call = self.calls.pop(name)
        used = self.servers[call.server].consume(call.row, call.holder)
        self.settle()
        row = self.rows[call.row]
        assert (used is not None) == (row.state == "reserved")
        if used is not None:
            assert used.id == call.row
            row.state, row.runs = "consumed", row.runs + 1
        again = self.servers[call.server].claim(call.row, call.holder)
        assert again is not None
        assert again.state == row.state
        assert self.servers[call.server].consume(call.row, call.holder) is None
        self.servers[call.server].end(call.row, call.holder)

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def start_on_what_is_not_ones_own(self, data: st.DataObject) -> None:
        """An approval that the call has not reserved, for itself or for another call, lets nothing start."""
        call = self.calls[data.draw(st.sampled_from(list(self.calls)))]
        others = [name for name, row in self.rows.items() if row.state == "reserved" and name != call.row]
        name = data.draw(st.sampled_from([call.row, *others]))
        if name != call.row or self.rows[name].state != "reserved":
            assert self.servers[call.server].consume(name, call.holder) is None
            self.settle()

    @precondition(lambda self: self.there("asked", "approved"))
    @rule(data=st.data())
    def suspend(self, data: st.DataObject) -> None:
        """The reply is the question; the client sends the call again."""
        call = self.calls.pop(self.pick(data, "asked", "approved"))
        self.servers[call.server].suspend(call.row, call.holder)
        self.settle()
        self.leave(self.rows[call.row], SUSPENDED)
        self.suspended[call.row] = self.rows[call.row].who

    @precondition(lambda self: self.suspended)
    @rule(data=st.data(), server=SERVER, answer=st.sampled_from((True, False, None, None)))
    def come_again(self, data: st.DataObject, server: int, answer: bool | None) -> None:
        """The call comes with the answer of the client's user, or with an unreadable one, perhaps more than once."""
        live = [
            name for name in self.suspended if self.rows[name].state not in ("denied", "expired", "consumed")
        ]
        name = data.draw(st.sampled_from(live or list(self.suspended)))
        self.made += 1
        holder, store, row = f"{self.names[server]}:c{self.made}", self.servers[server], self.rows[name]
        approval = store.resume(name, holder)
        self.settle()
        taken = row.state == "asked" and row.holder not in ("", SUSPENDED)
        assert (approval is None) == taken
        if taken:
            return
        if row.state in ("asked", "released"):
            row.state, row.holder = ("reserved" if row.state == "released" else "asked"), holder
            self.calls[f"c{self.made}"] = Living(server, name, holder=holder)
        assert approval is not None
        assert approval.state == row.state
        if answer is not None:
            store.decide(name, Decision(answer, "the user", "elicitation", "elicitation"))
            self.answered(row, "elicitation", "the user", yes=answer)

    @precondition(lambda self: self.there("asked", "approved", "reserved"))
    @rule(data=st.data(), server=SERVER)
    def come_twice(self, data: st.DataObject, server: int) -> None:
        """The same call is sent again while the first waits: no other call gets the approval of one."""
        call = self.calls[self.pick(data, "asked", "approved", "reserved")]
        self.made += 1
        approval = self.servers[server].resume(call.row, f"{self.names[server]}:c{self.made}")
        self.settle()
        row = self.rows[call.row]
        if row.state in ("asked", "approved", "reserved"):
            assert approval is None or approval.holder == call.holder
            assert (approval is None) == (row.state == "asked")

    # People

    @precondition(lambda self: self.open_rows())
    @rule(data=st.data(), server=SERVER)
    def approve(self, data: st.DataObject, server: int) -> None:
        """At either server's console, or one of the other ways."""
        name = data.draw(st.sampled_from(self.open_rows()))
        self.decide(name, server, data.draw(st.sampled_from(self.rows[name].ways)), yes=True)

    @rule(data=st.data(), server=SERVER, yes=st.booleans(), way=WAY)
    def answer_anything(self, data: st.DataObject, server: int, yes: bool, way: Any) -> None:
        """Answers also what has ended, or in a way that does not count: a second console, a client without a user."""
        self.decide(data.draw(st.sampled_from(list(self.rows))), server, way, yes=yes)

    @precondition(lambda self: self.open_rows())
    @rule(data=st.data(), server=SERVER)
    def client_declines(self, data: st.DataObject, server: int) -> None:
        """Perhaps for a user who was not asked."""
        self.decide(data.draw(st.sampled_from(self.open_rows())), server, "elicitation", yes=False)

    @rule(data=st.data(), server=SERVER, yes=st.booleans())
    def decide_again(self, data: st.DataObject, server: int, yes: bool) -> None:
        """A second answer, some seconds after the first: a second yes changes nothing, a no still counts."""
        decided = [name for name, row in self.rows.items() if row.state not in ("asked", "expired")]
        if decided:
            self.clock.now += 1.0
            self.decide(data.draw(st.sampled_from(decided)), server, "console", yes=yes)

    @precondition(lambda self: any(row.state == "consumed" for row in self.rows.values()))
    @rule(server=SERVER)
    def long_after_the_call(self, server: int) -> None:
        """What was approved in the past stays on record as it was."""
        self.clock.now += VALID
        self.servers[server].release_dead()
        self.settle()
        self.free_dead()

    def open_rows(self) -> list[str]:
        return [name for name, row in self.rows.items() if row.state == "asked"]

    def decide(self, name: str, server: int, way: Any, *, yes: bool) -> None:
        self.made += 1
        person = f"p{self.made}"
        approval = self.servers[server].decide(name, Decision(yes, person, "x", way))
        self.settle()
        row = self.rows[name]
        self.answered(row, way, person, yes=yes)
        assert approval is not None
        assert approval.state == row.state

    def answered(self, row: Row, way: str, person: str, *, yes: bool) -> None:
        if yes and row.state == "asked" and way in row.ways:
            row.state, row.agreed, row.ends = "approved", self.clock.now, self.clock.now + VALID
            row.by = person
            if row.holder in ("", SUSPENDED):
                row.state, row.holder = "released", ""
        elif not yes and row.state in ("asked", *USABLE) and (way in row.ways or way != "elicitation"):
            row.state, row.by = "denied", person

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(number=SERVER)
    def restart(self, number: int) -> None:
        """A server dies with its calls, and another replaces it."""
        self.servers[number].close()
        self.calls = {name: call for name, call in self.calls.items() if call.server != number}
        self.servers[number] = self.opened(number)
        self.servers[number].release_dead()
        self.settle()
        self.free_dead()

    # Invariants after every step

    @invariant()
    def every_row_is_as_the_model_says(self) -> None:
        for name, row in self.rows.items():
            approval = self.servers[1].get(name)
            assert isinstance(approval, Approval)
            late = row.state in ("asked", *USABLE) and row.ends <= self.clock.now
            assert approval.state == row.state or (late and approval.state == "expired")
            assert approval.decided_by == row.by
            if row.state in ("asked", *USABLE):
                assert approval.expires == row.ends
                assert approval.holder == row.holder

    @invariant()
    def a_yes_runs_one_call_at_most_and_a_no_none(self) -> None:
        for row in self.rows.values():
            assert row.runs == (row.state == "consumed")
            assert row.agreed is not None or not row.runs

    @invariant()
    def a_yes_is_used_taken_back_or_over_or_can_still_be_used(self) -> None:
        for name, row in self.rows.items():
            approval = self.servers[0].get(name)
            if row.agreed is None or approval is None or approval.state in ("consumed", "denied"):
                continue
            assert approval.state in USABLE or self.clock.now >= row.agreed + VALID

    @invariant()
    def no_row_waits_for_a_call_that_is_gone(self) -> None:
        living = {call.holder for call in self.calls.values()}
        for name in self.rows:
            approval = self.servers[0].get(name)
            assert approval is not None
            server = approval.holder.partition(":")[0]
            if approval.state in ("asked", "approved", "reserved") and server in self.names:
                assert approval.holder in living
            assert approval.state != "reserved" or approval.holder


class Granting(RuleBasedStateMachine):
    """Approval in advance."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self.clock = Clock()
        path = Path(self.folder.name) / "registry.sqlite"
        self.servers = [Approvals(path, self.clock) for _ in range(2)]
        self.grants: dict[str, tuple[Grant, float]] = {}

    def teardown(self) -> None:
        for server in self.servers:
            server.close()
        self.folder.cleanup()

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(who=WHO, tool=st.sampled_from(("convert", "clip")), seconds=st.sampled_from((1.0, 60.0, 3600.0)))
    def grant(self, who: str, tool: str, seconds: float) -> None:
        new_grant = self.servers[0].grant(Grant(who, tool, "/w", "eve", "x"), seconds)
        self.grants[new_grant.id] = (new_grant, self.clock.now + seconds)

    @precondition(lambda self: self.grants)
    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(list(self.grants)))
        self.servers[1].revoke(name, "eve")
        grant, ends = self.grants[name]
        self.grants[name] = (grant, min(ends, self.clock.now))

    @invariant()
    def a_grant_holds_for_its_own_and_its_time(self) -> None:
        for who in ("ann", "bob"):
            for tool in ("convert", "clip"):
                lasting = [grant for grant, ends in self.grants.values() if self.clock.now < ends]
                holds = (who, tool) in {(grant.principal, grant.tool) for grant in lasting}
                assert (self.servers[0].granted(who, tool, "/w") is not None) == holds
                assert self.servers[0].granted(who, tool, "/other") is None


@pytest.mark.claim(
    "approval.used-once",
    "approval.bound-to-plan",
    "approval.ways",
    "approval.grants-narrow",
    "approval.kept-until-used",
)
def test_no_order_of_events_misuses_or_loses_approvals():
    steps = tries(100, stateful_step_count=50)  # 5,000; `make fuzz` takes 100,000
    run_state_machine_as_test(Approving, settings=steps)


@pytest.mark.claim("approval.grants-narrow")
def test_grant_covers_only_its_scope_and_time():
    run_state_machine_as_test(Granting, settings=tries(15, stateful_step_count=20))
