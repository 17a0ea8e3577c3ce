"""The owners of Pods: running Pods of a server are never removed by others, and Pods of a dead server are removed."""

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.engines.k8s import engine as engine_module
from sandbox.engines.k8s import pod as pod_module
from sandbox.engines.k8s.engine import KubernetesEngine
from sandbox.errors import EngineUnavailable
from sandbox.labels import UPTIME_DEADLINE, labels
from sandbox.owner import Owner
from sandbox.reaper import reap
from tests.e2e.mcp.talk import Place
from tests.engines.bench import Bench
from tests.kubernetes.conftest import Ground
from tests.kubernetes.servers import DEFLATED, busy, killed, waiting
from tests.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.nightly, pytest.mark.claim("engine.kubernetes-leases")]
LEASE = 1.0  # seconds; in normal use, two minutes


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Owner]:
    """Another server with its own state folder, which soon considers a Pod abandoned."""
    monkeypatch.setattr(engine_module, "_LEFT_SECONDS", LEASE)
    with contextlib.closing(Owner(tmp_path / "servers")) as owner:
        yield owner


def test_a_server_that_stands_still_keeps_its_call_and_one_that_died_keeps_nothing(
    ground: Ground, place: Place, engine: KubernetesEngine, other: Owner
) -> None:
    with busy(ground, place, 90_000, GDAL_MCP_TIMEOUT_SECONDS="600") as call:
        call.pipes.process.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        until(lambda: reap(engine, other) == () and time.monotonic() > stopped + 4 * LEASE)
        assert waiting(ground) == {call.pod}
        call.pipes.process.send_signal(signal.SIGCONT)
        assert call.outcome() == "OK"
        DEFLATED.begin(call.pipes)
        until(lambda: len(waiting(ground)) == 1)
        killed(call.pipes)
        until(lambda: (reap(engine, other), ground.pods())[1] == {})


def test_a_pod_that_nobody_came_to_attach_to_ends_and_is_swept(bench, ground, engine, other, monkeypatch):
    """Such a Pod remains if a server is killed between the request for a Pod and its stream."""
    monkeypatch.setattr(pod_module, "START_SECONDS", 2)
    marks = labels("0" * 16, "call", 600.0)
    ground.admin.create(
        pod_module.pod(bench.template(""), bench.image, "call-0", marks, engine.info().architecture)
    )
    until(lambda: (reap(engine, other), ground.pods())[1] == {})


def test_what_runs_is_not_taken_by_a_server_on_another_machine_that_finds_its_lock_free(bench, engine, other):
    """A state folder may move to another node while its former server still runs."""
    for elsewhere in ({UPTIME_DEADLINE: "another-boot 10.0"}, {}):
        dead = Owner(other.folder)
        dead.leaves_lock = True
        dead.close()
        assert other.is_dead(dead.id)
        marks = {**labels(dead.id, "call", 600.0), **elsewhere}
        container = engine.create(bench.template("import time; time.sleep(1000)"), marks)
        container.start()
        assert (container.id in reap(engine, other)) is not bool(elsewhere)
        container.remove()


def test_what_changed_since_it_was_looked_at_is_not_deleted_by_force(bench, ground, engine):
    """Like a Pod that gets its node at that moment."""
    container = engine.create(bench.template("import time; time.sleep(999)"), labels("0" * 16, "call", 600.0))
    assert not ground.admin.delete(container.id, 0, "1")
    assert container.id in ground.pods()
    container.remove()


def test_an_entry_that_somebody_else_deletes_is_taken_for_an_end_only_with_its_nodes_word(
    bench: Bench, ground: Ground, engine: KubernetesEngine
) -> None:
    for grace in (1, 0):
        container = engine.create(
            bench.template("import time; time.sleep(1000)"), labels("0" * 16, "call", 600.0)
        )
        container.start()
        container.wait(1.0)
        ground.admin.delete(container.id, grace)
        until(lambda name=container.id: name not in ground.pods())
        with contextlib.nullcontext() if grace else pytest.raises(EngineUnavailable):
            container.remove()
        container.remove()
