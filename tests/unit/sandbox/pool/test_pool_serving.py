"""One slot and its job: when the answer is final, who removes the container, and which request the container gets."""

import os
import socket
from dataclasses import replace

import pytest

from sandbox import runner as runner_module
from sandbox.outcome import Cancelled, Exited, Killed, ProtocolViolated, TimedOut
from sandbox.runner import Job, Runner
from sandbox.slot import Slot
from sandbox.template import Limits
from sandbox.waiting import Cancellation, Wakeup, readable
from tests.engines.memory import MemoryEngine
from tests.unit.sandbox.pool_kit import LIMITS, kind, promised


@pytest.fixture(autouse=True)
def _short(engine: MemoryEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "EXIT_SECONDS", 0.1)
    info = replace(engine.info(), end_seconds=0.1)
    monkeypatch.setattr(engine, "info", lambda: info)


@pytest.fixture
def exited() -> list[Slot]:
    return []


@pytest.fixture
def play(engine: MemoryEngine, cancel: Cancellation, exited: list[Slot]):
    """`play("answer", result_only=True)` is the result of a job whose container does that; leftover containers are
    removed last.
    """
    template = kind(limits=Limits(wall_seconds=5.0)).template

    def serve(what: str, *, result_only: bool):
        runner = Runner(engine, "me")
        slot = runner.launch(template, "call-0001")
        job = Job("call-0001", template, {"do": what}, result_only=result_only)
        result = runner.serve(slot, job, cancel, exited.append)
        assert [left.container.id for left in exited] == list(engine.boxes)
        for left in exited:
            left.remove()
        return result

    return serve


@pytest.mark.parametrize(
    ("what", "result_only"),
    [("answer", True), ("answer and stay", True), ("answer and close", True), ("answer", False)],
)
def test_a_reading_job_ends_with_its_answer(play, exited, what, result_only):
    """The container of a reading call is removed whether or not it continues; nobody waits for the removal."""
    assert play(what, result_only=result_only).outcome == Exited(0)
    assert len(exited) == 1


@pytest.mark.claim("staging.inspected")
def test_container_is_gone_before_its_output_is_read(play, exited):
    for what in ("answer and stay", "answer and close"):
        assert isinstance(play(what, result_only=False).outcome, ProtocolViolated)
        assert exited == []


@pytest.mark.parametrize("result_only", [True, False])
def test_end_state_explains_a_missing_answer(play, exited, result_only: bool):
    assert play("end", result_only=result_only).outcome == Killed(0)
    assert len(exited) == 1


def test_silent_job_is_cut_and_removed_at_once(play, exited, engine, cancel, monkeypatch):
    assert play("stay", result_only=True).outcome == TimedOut(5.0)
    cancel.set()
    assert play("stay", result_only=True).outcome == Cancelled()
    assert exited == []


def test_reserved_memory_is_freed_however_a_slot_ends(engine, cancel, room):
    runner, template = Runner(engine, "me", room), kind().template
    for what in ("answer", "end"):
        slot = runner.launch(template, "call-0001")
        assert promised(room) == LIMITS.memory_bytes
        runner.serve(slot, Job("call-0001", template, {"do": what}), cancel)
        assert promised(room) == 0
    engine.before = lambda what, _about: 1 / 0 if what == "create" else None
    with pytest.raises(ZeroDivisionError):
        runner.launch(template, "call-0001")
    assert promised(room) == 0


def test_what_another_thread_closed_meanwhile_has_ended():
    """Otherwise the thread that watches waiting slots would fail on a slot that was just claimed and is gone."""
    ours, theirs = socket.socketpair()
    silent, other = socket.socketpair()
    ours.close()
    assert readable([silent, ours], 60.0) == (ours,)
    for end in (theirs, silent, other):
        end.close()


@pytest.mark.parametrize("kind", [Wakeup, Cancellation])
def test_wakeup_can_be_used_and_closed_anytime_repeatedly(kind: type[Wakeup]):
    wakeup = kind()
    assert not readable([wakeup], 0)
    wakeup.wake()
    wakeup.wake()
    assert readable([wakeup], 0)
    wakeup.clear()
    assert not readable([wakeup], 0)
    for _ in range(100_000):
        wakeup.wake()  # never blocks
    wakeup.close()
    with open("/dev/null", "wb") as first, open("/dev/null", "wb") as second:
        (wakeup.set if isinstance(wakeup, Cancellation) else wakeup.wake)()
        wakeup.close()
        assert os.fstat(first.fileno())
        assert os.fstat(second.fileno())
    assert not getattr(wakeup, "is_set", False)
