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


def test_stalled_server_keeps_its_call_dead_one_nothing(
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


def test_pod_without_attachment_ends_and_is_removed(bench, ground, engine, other, monkeypatch):
    """Such a Pod remains if a server is killed between the request for a Pod and its stream."""
    monkeypatch.setattr(pod_module, "START_SECONDS", 2)
    marks = labels("0" * 16, "call", 600.0)
    ground.admin.create(
        pod_module.pod(bench.template(""), bench.image, "call-0", marks, engine.info().architecture)
    )
    until(lambda: (reap(engine, other), ground.pods())[1] == {})


def test_remote_server_spares_running_pods_with_free_locks(bench, engine, other):
    """A state folder may move to another node while its former server still runs."""
    for overrides in ({UPTIME_DEADLINE: "another-boot 10.0"}, {}):
        dead = Owner(other.folder)
        dead.leaves_lock = True
        dead.close()
        assert other.is_dead(dead.id)
        marks = {**labels(dead.id, "call", 600.0), **overrides}
        container = engine.create(bench.template("import time; time.sleep(1000)"), marks)
        container.start()
        assert (container.id in reap(engine, other)) is not bool(overrides)
        container.remove()


def test_pod_changed_since_examination_is_not_force_deleted(bench, ground, engine):
    """Like a Pod that gets its node at that moment."""
    container = engine.create(bench.template("import time; time.sleep(999)"), labels("0" * 16, "call", 600.0))
    assert not ground.admin.delete(container.id, 0, "1")
    assert container.id in ground.pods()
    container.remove()


def test_externally_deleted_pod_ends_only_by_node_report(
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
