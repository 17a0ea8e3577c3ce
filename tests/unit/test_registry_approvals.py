import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.registry import Approval, Call, Registry

TTL = 300.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "registry.sqlite"


@pytest.fixture
def registry(path: Path, clock: Clock) -> Iterator[Registry]:
    registry = Registry(path, clock)
    yield registry
    registry.close()


def begin(registry: Registry, call_id: str, **fields: Any) -> Call:
    return registry.begin_call(Call(call_id, "alice", "raster_convert", {"input": "a.tif"}, **fields))


def approve(registry: Registry, digest: str = "d", principal: str = "alice") -> Approval:
    approval = registry.request(digest, principal, "raster_convert", "Write a.tif", TTL)
    decided = registry.decide(approval.id, approved=True, by="bob", how="console")
    assert decided
    return decided


def test_an_approval_is_used_once(registry: Registry) -> None:
    approval = approve(registry)
    assert approval.state == "approved"
    used = registry.consume("d", "alice")
    assert used
    assert (used.id, used.state, used.decided_by, used.decided_how) == (approval.id, "used", "bob", "console")
    assert registry.consume("d", "alice") is None
    assert registry.approval(approval.id) == used


def test_an_approval_is_for_one_plan_and_one_principal(registry: Registry) -> None:
    approve(registry)
    assert registry.consume("other", "alice") is None
    assert registry.consume("d", "mallory") is None
    assert registry.consume("d", "alice")


def test_a_question_that_is_open_or_denied_lets_nothing_through(registry: Registry) -> None:
    approval = registry.request("d", "alice", "t", "s", TTL)
    assert registry.consume("d", "alice") is None
    registry.decide(approval.id, approved=False, by="bob", how="console")
    assert registry.consume("d", "alice") is None
    latest = registry.latest_approval("d", "alice")
    assert latest
    assert latest.state == "denied"


def test_every_call_that_asks_has_a_question_of_its_own(registry: Registry) -> None:
    asked = [registry.request(digest, who, "t", "s", TTL) for digest in "dde" for who in ("alice", "bob")]
    assert len({one.id for one in asked}) == 6
    assert registry.pending() == tuple(asked)


def test_of_two_equal_calls_each_needs_its_yes(registry: Registry) -> None:
    first, second = (registry.request("d", "alice", "t", "s", TTL) for _ in range(2))
    registry.decide(first.id, approved=True, by="bob", how="console")
    assert registry.consume("d", "alice")
    assert registry.consume("d", "alice") is None
    late = registry.decide(second.id, approved=True, by="bob", how="console")
    assert late
    assert late.state == "approved", "the yes to the second is not lost because the first was used"
    assert registry.consume("d", "alice")
    assert registry.consume("d", "alice") is None


def test_a_no_to_one_call_is_none_to_another_that_is_equal(registry: Registry) -> None:
    first, second = (registry.request("d", "alice", "t", "s", TTL) for _ in range(2))
    registry.decide(first.id, approved=True, by="bob", how="console")
    registry.decide(second.id, approved=False, by="bob", how="console")
    used = registry.consume("d", "alice")
    assert used
    assert used.id == first.id
    assert registry.consume("d", "alice") is None


def test_a_call_that_is_sent_again_finds_its_latest_question(registry: Registry) -> None:
    registry.request("d", "alice", "t", "s", TTL)
    second = registry.request("d", "alice", "t", "s", TTL)
    assert registry.latest_approval("d", "alice") == second


def test_after_a_use_or_a_denial_the_question_is_asked_anew(registry: Registry) -> None:
    used = approve(registry)
    registry.consume("d", "alice")
    second = registry.request("d", "alice", "t", "s", TTL)
    registry.decide(second.id, approved=False, by="bob", how="console")
    third = registry.request("d", "alice", "t", "s", TTL)
    assert len({used.id, second.id, third.id}) == 3
    assert third.state == "pending"


def test_a_question_expires(registry: Registry, clock: Clock) -> None:
    approval = registry.request("d", "alice", "t", "s", TTL)
    clock.now += TTL
    late = registry.decide(approval.id, approved=True, by="bob", how="console")
    assert late
    assert late.state == "expired"
    assert registry.consume("d", "alice") is None
    assert registry.pending() == ()
    assert registry.request("d", "alice", "t", "s", TTL).id != approval.id


def test_an_approval_expires(registry: Registry, clock: Clock) -> None:
    approval = approve(registry)
    clock.now += TTL - 0.001
    assert registry.approval(approval.id) == approval
    clock.now += 0.001
    assert registry.consume("d", "alice") is None
    expired = registry.approval(approval.id)
    assert expired
    assert expired.state == "expired"
    clock.now = 0.0  # a clock that is set back does not bring it back
    assert registry.consume("d", "alice") is None


@pytest.mark.parametrize("first", [True, False])
def test_a_denial_stays_and_takes_back_an_approval_that_is_not_used(registry: Registry, first: bool) -> None:
    approval = registry.request("d", "alice", "t", "s", TTL)
    registry.decide(approval.id, approved=first, by="bob", how="console")
    after = registry.decide(approval.id, approved=not first, by="carol", how="elicitation")
    assert after
    assert (after.state, after.decided_by) == ("denied", "carol" if first else "bob")
    assert registry.consume("d", "alice") is None


def test_a_used_approval_cannot_be_approved_again(registry: Registry) -> None:
    approval = approve(registry)
    registry.consume("d", "alice")
    for approved in (True, False):
        after = registry.decide(approval.id, approved=approved, by="bob", how="console")
        assert after
        assert after.state == "used"
    assert registry.consume("d", "alice") is None


def test_a_decision_on_a_question_that_is_not_there_is_none(registry: Registry) -> None:
    assert registry.decide("none", approved=True, by="bob", how="console") is None
    assert registry.approval("none") is None


def test_of_many_threads_one_gets_the_approval(registry: Registry, path: Path, clock: Clock) -> None:
    other = Registry(path, clock)
    workers = 16
    try:
        for number in range(10):
            approve(registry, f"d{number}")
            together = threading.Barrier(workers)

            def ask(
                worker: int, digest: str = f"d{number}", gate: threading.Barrier = together
            ) -> Approval | None:
                gate.wait()
                return (registry if worker % 2 else other).consume(digest, "alice")

            with ThreadPoolExecutor(workers) as pool:
                got = [one for one in pool.map(ask, range(workers)) if one]
            assert len(got) == 1
    finally:
        other.close()


CONSUMER = """if True:
    import sys
    from pathlib import Path
    from concurrent.futures import ThreadPoolExecutor
    from gdal_mcp.registry import Registry
    registry = Registry(Path(sys.argv[1]))
    print("ready", flush=True)
    sys.stdin.readline()
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda number: registry.consume(f"d{number // 4}", "alice"), range(400)))
    print(*sorted(one.id for one in got if one))
    registry.close()
"""


def test_of_two_processes_one_gets_each_approval(path: Path) -> None:
    registry = Registry(path)
    expected = sorted(approve(registry, f"d{number}").id for number in range(100))
    registry.close()
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", CONSUMER, str(path)]
    with (
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as one,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as two,
    ):
        for process in (one, two):
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        for process in (one, two):
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        outputs = [process.communicate()[0].split() for process in (one, two)]
    assert [one.returncode, two.returncode] == [0, 0]
    assert sorted(outputs[0] + outputs[1]) == expected


def test_of_many_equal_yeses_each_lets_one_call_through(registry: Registry) -> None:
    def ask(_: int) -> str | None:
        row = registry.request("d", "alice", "t", "s", TTL)
        registry.decide(row.id, approved=True, by="bob", how="console")
        used = registry.consume("d", "alice")
        return used.id if used else None

    with ThreadPoolExecutor(8) as pool:
        used = list(pool.map(ask, range(40)))
    assert None not in used
    assert len(set(used)) == 40
    assert registry.consume("d", "alice") is None


def test_approvals_are_synced_and_the_rest_is_not_slowed(registry: Registry) -> None:
    def level() -> int:
        found: int = registry._db.execute("PRAGMA synchronous").fetchone()[0]
        return found

    begin(registry, "c1")
    assert level() == 1
    registry.consume("d", "alice")
    assert level() == 2
