import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gdal_mcp.approvals.model import Approval, Decision, Grant
from gdal_mcp.approvals.store import LONGEST_GRANT, MOST_OPEN, Approvals, TooManyOpen
from gdal_mcp.records.registry import Registry
from tests.unit.clock import Clock
from tests.unit.records.registry_kit import clock, path

__all__ = ["clock", "path"]

TTL = 300.0


@pytest.fixture
def approvals(path: Path, clock: Clock) -> Iterator[Approvals]:
    approvals = Approvals(path, clock)
    yield approvals
    approvals.close()


def new_approval(digest: str, who: str, holder: str = "") -> Approval:
    return Approval(
        plan_digest=digest, principal=who, tool="raster_convert", summary="Write a.tif", holder=holder
    )


def ask(approvals: Approvals, digest: str, who: str) -> Approval:
    return approvals.request(new_approval(digest, who), TTL)


def approve(approvals: Approvals, digest: str = "d", principal: str = "alice") -> Approval:
    approval = ask(approvals, digest, principal)
    decided = approvals.decide(approval.id, Decision(True, "bob", "console", "console"))
    assert decided
    return decided


def test_endless_requests_are_refused_for_that_principal_only(approvals: Approvals, clock: Clock) -> None:
    for number in range(MOST_OPEN):
        ask(approvals, f"d{number}", "alice")
    with pytest.raises(TooManyOpen):
        ask(approvals, "one more", "alice")
    ask(approvals, "d", "bob")
    clock.now += 1e6  # the others have expired
    ask(approvals, "later", "alice")


def test_resent_call_takes_up_its_abandoned_question(approvals: Approvals) -> None:
    first = approvals.request(new_approval("d", "alice", "s:c1"), TTL)
    assert approvals.reclaim("d", "alice", "s:c2") is None, "its call still waits"
    approvals.claim(first.id, "s:c1")
    assert approvals.reclaim("e", "alice", "s:c2") is None
    assert approvals.reclaim("d", "bob", "s:c2") is None
    taken = approvals.reclaim("d", "alice", "s:c2")
    assert taken
    assert (taken.id, taken.holder) == (first.id, "s:c2")
    assert approvals.reclaim("d", "alice", "s:c3") is None, "one question is one call's"
    approvals.decide(first.id, Decision(True, "bob", "console", "console"))
    assert approvals.reclaim("d", "alice", "s:c3") is None, "nor is its answer another's while it waits"


@pytest.mark.parametrize(("state", "taken"), [("asked", False), ("released", True), ("denied", False)])
def test_suspended_question_stays_with_its_call_until_approved(approvals, state, taken):
    row = approvals.request(new_approval("d", "alice", "s:c1"), TTL)
    approvals.suspend(row.id, "s:c1")
    if state != "asked":
        after = approvals.decide(row.id, Decision(state == "released", "bob", "console", "console"))
        assert after
        assert after.state == state
    assert (approvals.reclaim("d", "alice", "s:c2") is not None) is taken


@pytest.mark.claim("approval.kept-until-used")
def test_what_calls_of_dead_servers_held_is_free(path: Path, clock: Clock) -> None:
    with closing(Approvals(path, clock, lambda server: server == "living")) as approvals:
        dead, living = (
            approvals.request(new_approval(server, "alice", f"{server}:c"), TTL)
            for server in ("dead", "living")
        )
        yes = approvals.request(new_approval("yes", "alice", "dead:d"), TTL)
        approvals.decide(yes.id, Decision(True, "bob", "console", "console"))
        assert approvals.claim(yes.id, "dead:d").state == "reserved"
        approvals.release_dead()
        rows = [approvals.get(approval.id) for approval in (dead, living, yes)]
        assert [(approval.state, approval.holder) for approval in rows] == [
            ("asked", ""), ("asked", "living:c"), ("released", "")
        ]  # fmt: skip


@pytest.mark.claim("approval.first-decides")
def test_approval_covers_only_the_call_it_names(approvals: Approvals) -> None:
    """A and B are equal and approved; the approval of A is withdrawn while A waits for a slot."""
    a, b = (approvals.request(new_approval("d", "alice", f"s:{call}"), TTL) for call in "ab")
    for row in (a, b):
        approvals.decide(row.id, Decision(True, "bob", "console", "console"))
        approvals.claim(row.id, row.holder)
    approvals.decide(a.id, Decision(False, "bob", "console", "console"))
    assert approvals.consume(a.id, "s:a") is None
    assert approvals.consume(b.id, "s:a") is None
    assert approvals.consume(b.id, "s:b")


@pytest.mark.claim("approval.kept-until-used")
def test_an_unused_approval_serves_the_same_call_again(approvals, clock):
    row = approvals.request(new_approval("d", "alice", "s:1"), TTL)
    approvals.decide(row.id, Decision(True, "bob", "console", "console"))
    clock.now += TTL * 2  # the time for the decision is over; the call has waited in the queue
    for number in range(3):
        assert approvals.claim(row.id, f"s:{number + 1}") or number
        approvals.end(row.id, f"s:{number + 1}")
        taken = approvals.reclaim("d", "alice", f"s:{number + 2}")
        assert taken
        assert (taken.id, taken.state) == (row.id, "reserved")
    assert approvals.consume(row.id, "s:4")
    approvals.end(row.id, "s:4")
    assert approvals.reclaim("d", "alice", "s:5") is None


@pytest.mark.claim("approval.kept-until-used")
def test_a_yes_is_taken_up_before_a_question(approvals: Approvals) -> None:
    for first in (True, False):
        rows = [approvals.request(new_approval(f"d{first}", "alice", f"s:{call}"), TTL) for call in "ab"]
        yes, question = rows if first else reversed(rows)
        approvals.claim(question.id, question.holder)
        approvals.decide(yes.id, Decision(True, "bob", "console", "console"))
        approvals.end(yes.id, yes.holder)
        taken = approvals.reclaim(f"d{first}", "alice", "s:c")
        assert taken
        assert (taken.id, taken.state) == (yes.id, "reserved")


@pytest.mark.claim("approval.ways")
@pytest.mark.parametrize(
    ("way", "state"), [("elicitation", "asked"), ("console", "denied"), ("terminal", "denied")]
)
def test_channel_that_cannot_approve_cannot_deny(approvals: Approvals, way, state) -> None:
    row = approvals.request(replace(new_approval("d", "alice"), ways=("terminal",)), TTL)
    after = approvals.decide(row.id, Decision(False, "its user", "decline", way))
    assert after
    assert (after.state, after.decided_way) == (state, way if state == "denied" else "")


def granted(approvals: Approvals, seconds: float = 60) -> Grant:
    return approvals.grant(Grant("alice", "convert", "/data/ws", "bob", "console"), seconds)


@pytest.mark.claim("approval.grants-narrow")
def test_grant_covers_one_principal_tool_and_workspace(approvals: Approvals) -> None:
    grant = granted(approvals)
    assert approvals.granted("alice", "convert", "/data/ws") == grant
    assert approvals.granted("alice", "convert", "/data/ws", ["https://data.test/cog/"]) is None
    assert approvals.granted("bob", "convert", "/data/ws") is None
    assert approvals.granted("alice", "info", "/data/ws") is None
    assert approvals.granted("alice", "convert", "/data") is None


@pytest.mark.claim("approval.grants-narrow")
@pytest.mark.parametrize("seconds", [0, -1, LONGEST_GRANT + 1])
def test_no_grant_is_for_ever(approvals: Approvals, seconds: float) -> None:
    with pytest.raises(ValueError):
        granted(approvals, seconds)
    assert approvals.grants() == ()


@pytest.mark.claim("approval.first-decides")
def test_first_of_simultaneous_decisions_counts(approvals, path, clock):
    with closing(Approvals(path, clock)) as other:
        rows = [ask(approvals, f"d{number}", "alice") for number in range(100)]

        def decide(number: int) -> str:
            store = (approvals, other)[number % 2]
            decision = Decision(True, f"person {number}", "console", "console")
            after = store.decide(rows[number // 4].id, decision)
            assert after
            return after.decided_by

        with ThreadPoolExecutor(8) as pool:
            deciders = list(pool.map(decide, range(400)))
        for number, row in enumerate(rows):
            assert len(set(deciders[number * 4 : number * 4 + 4])) == 1, (
                "everybody is told of the same decision"
            )
            assert approvals.reclaim(row.plan_digest, "alice", "s:c")
            assert approvals.consume(row.id, "s:c")
            assert other.consume(row.id, "s:c") is None


@pytest.mark.claim("approval.used-once")
def test_an_approval_expires_so_long_after_the_decision(approvals: Approvals, clock: Clock) -> None:
    row = approvals.request(replace(new_approval("d", "alice"), valid_seconds=1000.0), TTL)
    clock.now += TTL - 1
    approvals.decide(row.id, Decision(True, "bob", "console", "console"))
    clock.now += 999.999
    assert approvals.approval(row.id).state == "released"
    clock.now += 0.001
    assert approvals.reclaim("d", "alice", "s:c") is None
    assert approvals.approval(row.id).state == "expired"
    clock.now = 0.0  # setting the clock back does not restore it
    assert approvals.reclaim("d", "alice", "s:c") is None


CONSUMER = """if True:
    import sys
    from pathlib import Path
    from concurrent.futures import ThreadPoolExecutor
    from gdal_mcp.approvals.store import Approvals
    approvals = Approvals(Path(sys.argv[1]))
    print("ready", flush=True)
    sys.stdin.readline()
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda number: approvals.reclaim(f"d{number // 4}", "alice", sys.argv[2]), range(400)))
    print(*sorted(one.id for one in got if one and approvals.consume(one.id, sys.argv[2])))
    approvals.close()
"""


@pytest.mark.claim("approval.used-once")
def test_of_two_processes_one_gets_each_approval(path: Path) -> None:
    approvals = Approvals(path)
    expected = sorted(approve(approvals, f"d{number}").id for number in range(100))
    approvals.close()
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", CONSUMER, str(path)]
    with (
        subprocess.Popen([*command, "s:1"], stdin=pipe, stdout=pipe, text=True) as first,
        subprocess.Popen([*command, "s:2"], stdin=pipe, stdout=pipe, text=True) as second,
    ):
        for process in (first, second):
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        for process in (first, second):
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        outputs = [process.communicate()[0].split() for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0]
    assert sorted(outputs[0] + outputs[1]) == expected


@pytest.mark.claim("audit.how-allowed")
def test_decisions_are_synced_and_calls_are_not_slowed(approvals: Approvals, path: Path) -> None:
    registry = Registry(path)
    levels = [store._rows._db.execute("PRAGMA synchronous").fetchone()[0] for store in (approvals, registry)]
    registry.close()
    assert levels == [2, 1]


@pytest.mark.claim("remote.grants-by-folder")
def test_grant_covers_one_host_and_path_prefix(approvals):
    request = Grant("alice", "convert", "/ws", "bob", "console", remote=("https://data.test/cog/",))
    grant = approvals.grant(request, 60.0)
    for folders, covered in (
        ([], True), (["https://data.test/cog/"], True), (["https://data.test/cog/2024/"], True),
        (["https://data.test/"], False), (["https://data.test/other/"], False),
        (["https://data.test.evil/cog/"], False), (["http://data.test/cog/"], False),
        (["https://data.test/cog/", "https://other.test/"], False),
    ):  # fmt: skip
        assert approvals.granted("alice", "convert", "/ws", folders) == (grant if covered else None)


def test_previous_code_is_newest_approved_for_same_person(approvals, clock):
    assert approvals.last_approved("ann", "raster_convert") is None
    for number, (code, who, yes) in enumerate(
        (("first", "ann", True), ("second", "ann", True), ("refused", "ann", False), ("other", "bob", True))
    ):
        question = replace(new_approval(f"d{number}", who), details={"code": {"text": code}})
        clock.now += 1
        row = approvals.request(question, TTL)
        approvals.decide(row.id, Decision(yes, "ann", "a test", "terminal"))
    assert approvals.last_approved("ann", "raster_convert").details["code"]["text"] == "second"
