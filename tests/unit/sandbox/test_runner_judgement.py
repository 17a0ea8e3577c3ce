"""The runner's conclusions from its input, on an engine that plays a script.

The same endings in real containers are in tests/integration/test_outcomes.py.
"""

import json
import socket
import time
from collections import deque
from dataclasses import replace

import pytest

from sandbox import runner as runner_module
from sandbox import session as session_module
from sandbox import slot as slot_module
from sandbox.engine import STDERR, STDOUT, ContainerState
from sandbox.errors import AttestationFailed, EngineUnavailable
from sandbox.outcome import (
    Cancelled,
    Exited,
    FileSizeExceeded,
    Killed,
    OutOfMemory,
    OutputLimitExceeded,
    ProtocolViolated,
    StagingLimitExceeded,
    TimedOut,
    judge,
)
from sandbox.outputs.store import StagingUsage
from sandbox.protocol import HEADER
from sandbox.runner import Job, Runner
from sandbox.template import Limits, SandboxTemplate
from tests.unit.sandbox.hardening_kit import DOCKER_20

LIMITS = Limits(stdout_bytes=1000, stderr_bytes=100, staging_bytes=500, staging_files=5, wall_seconds=60.0)
TEMPLATE = SandboxTemplate(image="sha256:abc", command=("x",), user=(1, 1), limits=LIMITS)
ENDED = ContainerState(running=False, exit_code=0, out_of_memory=False)
FOREVER = object()  # in a script: the container sends nothing more and does not end


def frame(kind, value=b""):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return STDOUT, HEADER.pack(kind, len(data)) + data


READY = frame(b"R", {})


def final(**value):
    return frame(b"F", {"code": 0, **value})


class ScriptWire:
    """Returns the entries of a script one at a time. `act` in a script is called instead."""

    def __init__(self, script):
        self.script, self.sent, self.closed = deque(script), b"", False
        self._ours, self._theirs = socket.socketpair()
        self._theirs.send(b"!")  # there is always data to read, until a script says otherwise

    def fileno(self):
        return self._ours.fileno()

    def receive(self):
        if not self.script:
            return None
        piece = self.script.popleft()
        if piece is FOREVER:
            self._ours.recv(1)
            return []
        if callable(piece):
            piece()
            return []
        return [piece]

    def send(self, data, _seconds):
        self.sent += data

    def close(self):
        if not self.closed:
            self._ours.close()
            self._theirs.close()
        self.closed = True


class ScriptEngine:
    """An engine with one container, which sends `script` and ends as `state`."""

    id = "container"

    def __init__(self, *script, state=ENDED):
        self.wire, self.end, self.calls = ScriptWire(script), state, []

    def info(self):
        return replace(DOCKER_20, same_kernel=True)

    def create(self, *_):
        self.calls.append("create")
        return self

    def start(self, _cancel):
        self.calls.append("start")
        return self.wire

    def process(self):
        return None

    def wait(self, *_):
        return self.end

    def remove(self):
        self.calls.append("remove")


class Quota:
    def __init__(self, usage):
        self.looked, self.given = 0, usage

    def usage(self, _limits):
        self.looked += 1
        return self.given


@pytest.fixture(autouse=True)
def no_attestation(monkeypatch):
    monkeypatch.setattr(slot_module, "violations", lambda _template, _facts, **_: ())


@pytest.fixture
def play(cancel):
    """`play(*script)` is the result of a job whose container sends that; the container has been removed, and its
    connection closed.
    """

    def run_script(*script, state=ENDED, template=TEMPLATE, **about):
        engine = ScriptEngine(*script, state=state)
        try:
            return Runner(engine, "me").run(Job("call", template, {"ask": 1}, **about), cancel)
        finally:
            if engine.calls:
                assert engine.calls[-1] == "remove"
                assert engine.wire.closed
            else:
                engine.wire.close()

    return run_script


def judged(answer, code=0, *, oom=False, running=False):
    return judge(answer, ContainerState(running, code, oom), LIMITS)


@pytest.mark.claim("resources.own-error")
def test_outcome_follows_from_answer_exit_code_and_engine(subtests):
    exhausted, memory = {"code": 1, "memory_exhausted": True}, LIMITS.memory_bytes
    large = FileSizeExceeded(LIMITS.file_bytes)
    rows = [
        *((Exited(code), {"code": code}, 0) for code in (0, 1, 255, -1)),
        *((Killed(code), None, code) for code in (0, 1, 3, 70, 137, 139, -1)),  # without a final answer
        # a crash after the final answer
        *((Killed(code), {"code": 0}, code) for code in (1, 70, 71, 137, 139)),
        (OutOfMemory(memory, killed=False), exhausted, 0),
        (large, None, 153),
        (large, {"code": 1, "file_limit_reached": True}, 0),
        (Exited(1), {"code": 1, "file_limit_reached": "yes"}, 0),
        (TimedOut(LIMITS.wall_seconds), None, 72),
    ]
    for outcome, answer, code in rows:
        with subtests.test(outcome=outcome, answer=answer):
            assert judged(answer, code) == outcome
    for answer, code in ((None, 137), (None, 0), ({"code": 0}, 137), (exhausted, 0)):
        assert judged(answer, code, oom=True) == OutOfMemory(memory, killed=True)
    for answer in [{}, {"code": None}, {"code": True}, {"code": "0"}, {"code": 0.0}, {"code": [0]}]:
        assert isinstance(judged(answer), ProtocolViolated)
    for answer in (None, {"code": 0}):
        assert isinstance(judged(answer, running=True), ProtocolViolated)


def test_the_whole_conversation_is_in_the_result(play):
    steps = []
    result = play(
        frame(b"R", {"pid": 1}),
        frame(b"O", b"out\n"),
        (STDERR, b"err\n"),
        frame(b"P", {"fraction": 0.5, "message": "half"}),
        frame(b"B", b"a.png\0data"),
        final(usage={"cpu_seconds": 1.5, "peak_memory_bytes": 1000}),
        (STDERR, b"last\n"),
        on_progress=lambda *step: steps.append(step),
    )
    assert result.outcome == Exited(0)
    assert (result.stdout, result.stderr) == (b"out\n", b"err\nlast\n")
    assert (result.attachments, result.facts, steps) == ({"a.png": b"data"}, {"pid": 1}, [(0.5, "half")])
    assert (result.usage.cpu_seconds, result.usage.peak_memory_bytes) == (1.5, 1000)


@pytest.mark.claim("content.frames-strict")
def test_anything_after_the_last_word_is_a_violation(play):
    for late in (final(), frame(b"O", b"late"), frame(b"R", {}), (STDOUT, b"garbage-garbage")):
        assert isinstance(play(READY, final(), late).outcome, ProtocolViolated)


@pytest.mark.claim("content.frames-strict")
def test_invalid_frame_is_violation_and_keeps_earlier_output(play):
    huge = b'{"code":0,"usage":{"cpu_seconds":%s}}' % (b"9" * 400)
    for bad in (frame(b"X"), (STDOUT, b"\xff" * 9), frame(b"P", {}), frame(b"F", b"[]"), frame(b"F", huge)):
        result = play(READY, frame(b"O", b"out"), (STDERR, b"err"), bad, FOREVER)
        assert isinstance(result.outcome, ProtocolViolated)
        assert (result.stdout, result.stderr) == (b"out", b"err")


def test_container_that_talks_after_its_end_is_cut(play, monkeypatch):
    monkeypatch.setattr(runner_module, "EXIT_SECONDS", 0.01)
    chatter = [(STDERR, b"and another thing")] * 1_000_000
    assert isinstance(play(READY, final(), *chatter).outcome, ProtocolViolated)


def test_staging_is_watched_after_the_last_word_too(play, monkeypatch):
    monkeypatch.setattr(runner_module, "QUOTA_PAUSE", 0.0)
    quota = Quota(StagingUsage(501, 1, 501))
    assert play(READY, final(), FOREVER, quota=quota).outcome == StagingLimitExceeded("bytes", 500)


@pytest.mark.claim("resources.deadline")
def test_the_deadline_cuts(play):
    template = replace(TEMPLATE, limits=Limits(wall_seconds=0.01))
    result = play(READY, (STDERR, b"working"), FOREVER, template=template)
    assert (result.outcome, result.stderr) == (TimedOut(0.01), b"working")


def test_timely_answer_is_not_late_despite_later_exit(play, monkeypatch):
    late, now = [0.0], time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + late[0])
    hours_pass = [final(), lambda: late.append(late.pop() + LIMITS.wall_seconds + 1)]
    monkeypatch.setattr(runner_module, "EXIT_SECONDS", 2 * LIMITS.wall_seconds)
    assert play(READY, *hours_pass).outcome == Exited(0)


def test_cancelled_job_or_non_json_request_creates_nothing(cancel):
    engine = ScriptEngine(READY, final())
    with pytest.raises(ValueError):
        Runner(engine, "me").run(Job("call", TEMPLATE, {"x": float("inf")}), cancel)
    cancel.set()
    assert Runner(engine, "me").run(Job("call", TEMPLATE, {}), cancel).outcome == Cancelled()
    engine.wire.close()
    assert engine.calls == []


def test_cancelling_a_run_ends_it_and_keeps_output(play, cancel):
    result = play(READY, (STDERR, b"working"), cancel.set, FOREVER)
    assert (result.outcome, result.stderr) == (Cancelled(), b"working")


def test_cancelling_while_it_starts_ends_it(play, cancel):
    assert play((STDERR, b"starting"), cancel.set, FOREVER).outcome == Cancelled()


def test_stdout_is_cut_exactly_at_its_limit(play):
    assert play(READY, frame(b"O", b"x" * 1000), final()).outcome == Exited(0)
    result = play(READY, frame(b"O", b"x" * 600), frame(b"O", b"y" * 600), FOREVER)
    assert result.outcome == OutputLimitExceeded(1000)
    assert result.stdout == b"x" * 600 + b"y" * 400


def test_stderr_flood_keeps_its_beginning_and_ends_nobody(play):
    beginning = [(STDERR, b"a" * 60), (STDERR, b"b" * 60)]
    flood = [(STDERR, bytes(1 << 20))] * (session_module.WIRE_SLACK // (1 << 20) + 9)
    for script in ((READY, *beginning, *flood, final()), (*beginning, READY, final())):
        result = play(*script)
        assert (result.outcome, result.stderr) == (Exited(0), b"a" * 60 + b"b" * 40)


def test_frames_that_print_nothing_are_bounded_in_total(play, monkeypatch):
    monkeypatch.setattr(session_module, "WIRE_SLACK", 100_000)
    flood = [frame(b"P", {"fraction": 0, "message": "x" * 200})] * 500
    assert isinstance(play(READY, *flood, FOREVER).outcome, OutputLimitExceeded)


def test_staging_is_measured_again_after_a_successful_job(play):
    for usage, outcome in (
        (StagingUsage(500, 5, 500), Exited(0)),
        (StagingUsage(501, 5, 501), StagingLimitExceeded("bytes", 500)),
        (StagingUsage(500, 6, 500), StagingLimitExceeded("files", 5)),
    ):
        assert play(READY, final(), quota=Quota(usage)).outcome == outcome
    quota = Quota(StagingUsage(501, 6, 501))
    assert play(READY, quota=quota, state=ContainerState(False, 139, False)).outcome == Killed(139)


def test_progress_only_rises_at_a_limited_rate(play):
    reported, steps = [], [0.1, 0.3, 0.2, *(0.4 + n / 100_000 for n in range(5000)), 1.0, 1.0, 0.5]
    frames = [frame(b"P", {"fraction": step}) for step in steps]
    flood = (STDOUT, b"".join(data for _, data in frames))
    play(READY, flood, final(), on_progress=lambda fraction, _: reported.append(fraction))
    assert reported == sorted(set(reported))
    assert reported[-1] == 1.0
    assert len(reported) < 500


def test_nonsensical_receipt_is_left_empty(play):
    for usage in (None, [], "x", {}, {"cpu_seconds": "1"}, {"cpu_seconds": -1, "peak_memory_bytes": True}):
        spent = play(READY, final(usage=usage)).usage
        assert (spent.cpu_seconds, spent.peak_memory_bytes) == (None, None)


def test_container_that_speaks_before_its_job_gets_none(play):
    for early in (frame(b"O", b"early"), frame(b"P", {"fraction": 0.1}), final()):
        with pytest.raises(AttestationFailed):
            play((STDOUT, READY[1] + early[1]), final())
        with pytest.raises(AttestationFailed):
            play(early, READY, final())


def test_container_ending_hanging_or_flooding_early_is_handled(play, monkeypatch):
    with pytest.raises(EngineUnavailable, match="no module named osgeo"):
        play((STDERR, b"Traceback\nno module named osgeo\n"))
    monkeypatch.setattr(slot_module, "READY_SECONDS", 0.05)
    with pytest.raises(EngineUnavailable):
        play(FOREVER)
    with pytest.raises(EngineUnavailable):
        play(*[(STDERR, b"x" * 10)] * 1_000_000)


@pytest.mark.claim("sandbox.self-measured")
def test_a_weaker_container_gets_no_job(monkeypatch, cancel):
    monkeypatch.undo()
    engine = ScriptEngine(READY, final())
    with pytest.raises(AttestationFailed):
        Runner(engine, "me").run(Job("call", TEMPLATE, {"secret": 1}), cancel)
    assert engine.wire.sent == b""
    assert engine.calls == ["create", "start", "remove"]


@pytest.mark.claim("sandbox.removed")
def test_container_is_removed_whatever_the_progress_callback_does(play):
    with pytest.raises(ZeroDivisionError):
        play(READY, frame(b"P", {"fraction": 0.5}), FOREVER, on_progress=lambda *_: 1 / 0)


@pytest.mark.claim("sandbox.removed")
def test_unremovable_container_gives_no_result(cancel, monkeypatch):
    def remove(_container):
        raise EngineUnavailable("stuck")

    monkeypatch.setattr(ScriptEngine, "remove", remove)
    with pytest.raises(EngineUnavailable):
        Runner(ScriptEngine(READY, final()), "me").run(Job("call", TEMPLATE, {}), cancel)


def test_a_successful_job_survives_a_killed_child():
    """Some engines report the killed child and some do not; the result is the same on each."""
    state = ContainerState(running=False, exit_code=0, out_of_memory=True)
    assert judge({"code": 0}, state, LIMITS) == judge({"code": 0}, ENDED, LIMITS) == Exited(0)
    assert judge({"code": 1}, state, LIMITS) == OutOfMemory(LIMITS.memory_bytes, killed=True)
    assert judge(None, state, LIMITS) == OutOfMemory(LIMITS.memory_bytes, killed=True)
    killed = replace(state, exit_code=137)
    assert judge({"code": 0}, killed, LIMITS) == OutOfMemory(LIMITS.memory_bytes, killed=True)
