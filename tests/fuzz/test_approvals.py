"""A person's yes, in any order of asking, answering, waiting and using: for one plan of one principal, once, in time, by its ways."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from gdal_mcp.access.policy import WAYS
from gdal_mcp.approval.model import Approval, Decision, Grant
from gdal_mcp.approval.store import SUSPENDED, Approvals
from gdal_mcp.ledger.registry import Registry
from tests.fuzz.kit import tries
from tests.unit.clock import Clock

DIGESTS, WHO = st.sampled_from(("d1", "d2")), st.sampled_from(("ann", "bob"))
WAY = st.sampled_from(sorted(WAYS))
SUBSETS = st.sets(WAY, min_size=1).map(frozenset)
SECONDS = st.sampled_from((0.0, 1.0, 59.0, 60.0, 400.0))


@dataclass
class Row:
    """What the model knows of one question."""

    digest: str
    who: str
    ways: frozenset[str]
    ends: float
    state: str = "pending"


class Approving(RuleBasedStateMachine):
    """Two servers on one file, and a model that is a list of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = Clock()
        path = Path(self.folder.name) / "registry.sqlite"
        Registry(path).close()
        self.servers = [Approvals(path, self.clock) for _ in range(2)]
        self.rows: dict[str, Row] = {}
        self.grants: dict[str, tuple[Grant, float]] = {}

    def teardown(self) -> None:
        for one in self.servers:
            one.close()
        self.folder.cleanup()

    @initialize()
    def nothing_is_approved(self) -> None:
        assert self.servers[0].consume("d1", "ann") is None

    def settle(self) -> None:
        """What is over by now is over in the model too."""
        for row in self.rows.values():
            if row.state in ("pending", "approved") and row.ends <= self.clock.now:
                row.state = "expired"

    def one(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.rows))) if self.rows else "none"

    @rule(
        server=st.integers(0, 1),
        digest=DIGESTS,
        who=WHO,
        ways=SUBSETS,
        ttl=st.sampled_from((30.0, 60.0, 300.0)),
    )
    def ask(self, server: int, digest: str, who: str, ways: frozenset[Any], ttl: float) -> None:
        asked = Approval(
            plan_digest=digest, principal=who, tool="convert", summary="Write a.tif", ways=tuple(ways)
        )
        made = self.servers[server].request(asked, ttl)
        assert made.id not in self.rows
        self.rows[made.id] = Row(digest, who, ways, self.clock.now + ttl)

    @rule(data=st.data(), server=st.integers(0, 1), yes=st.booleans(), way=WAY)
    def decide(self, data: st.DataObject, server: int, yes: bool, way: Any) -> None:
        name = self.one(data)
        found = self.servers[server].decide(name, Decision(yes, "eve", "x", way))
        self.settle()
        row = self.rows.get(name)
        if row is None:
            assert found is None
            return
        if row.state == "pending" and (not yes or way in row.ways):
            row.state = "approved" if yes else "denied"
        elif row.state == "approved" and not yes:
            row.state = "denied"
        assert found is not None
        assert found.state == row.state

    @rule(server=st.integers(0, 1), digest=DIGESTS, who=WHO)
    def use(self, server: int, digest: str, who: str) -> None:
        found = self.servers[server].consume(digest, who)
        self.settle()
        wanted = ("approved", digest, who)
        good = {name for name, row in self.rows.items() if (row.state, row.digest, row.who) == wanted}
        if not good:
            assert found is None
            return
        assert found is not None
        assert found.id in good
        self.rows[found.id].state = "used"

    @rule(data=st.data(), server=st.integers(0, 1))
    def drop(self, data: st.DataObject, server: int) -> None:
        name = self.one(data)
        self.servers[server].drop(name)
        self.settle()
        if name in self.rows and self.rows[name].state in ("pending", "approved"):
            self.rows[name].state = "expired"

    @rule(data=st.data(), holder=st.sampled_from(("", SUSPENDED, "s1:c1")))
    def hold(self, data: st.DataObject, holder: str) -> None:
        """Who waits says nothing about the answer."""
        self.servers[0].hold(self.one(data), holder)
        self.servers[1].release_dead(lambda server: server != "s1")
        self.settle()

    @rule(digest=DIGESTS, who=WHO)
    def adopt(self, digest: str, who: str) -> None:
        found = self.servers[0].adopt(digest, who, "s2:c2")
        self.settle()
        if found is not None:
            row = self.rows[found.id]
            assert (row.digest, row.who) == (digest, who)
            assert row.state == found.state
            assert row.state in ("pending", "approved")

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(who=WHO, tool=st.sampled_from(("convert", "clip")), seconds=st.sampled_from((1.0, 60.0, 3600.0)))
    def grant(self, who: str, tool: str, seconds: float) -> None:
        made = self.servers[0].grant(Grant(who, tool, "/w", "eve", "x"), seconds)
        self.grants[made.id] = (made, self.clock.now + seconds)

    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.grants))) if self.grants else "none"
        self.servers[1].revoke(name, "eve")
        if name in self.grants:
            made, ends = self.grants[name]
            self.grants[name] = (made, min(ends, self.clock.now))

    @invariant()
    def every_row_is_as_the_model_says(self) -> None:
        for name, row in self.rows.items():
            found = self.servers[1].look(name)
            assert isinstance(found, Approval)
            late = row.state in ("pending", "approved") and row.ends <= self.clock.now
            assert found.state == row.state or (late and found.state == "expired")

    @invariant()
    def a_grant_holds_for_its_own_and_its_time(self) -> None:
        for who in ("ann", "bob"):
            for tool in ("convert", "clip"):
                lasting = [one for one, ends in self.grants.values() if self.clock.now < ends]
                holds = (who, tool) in {(one.principal, one.tool) for one in lasting}
                assert (self.servers[0].granted(who, tool, "/w") is not None) == holds
                assert self.servers[0].granted(who, tool, "/other") is None


@pytest.mark.claim("approval.used-once", "approval.bound-to-plan", "approval.ways", "approval.grants-narrow")
def test_no_order_of_asking_and_answering_gives_a_yes_away():
    run_state_machine_as_test(Approving, settings=tries(15, stateful_step_count=30))
