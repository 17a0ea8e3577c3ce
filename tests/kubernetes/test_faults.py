"""A cluster loses something during a call: the call ends with the reason and publishes nothing, the next call works,
nothing is left.

The test stops and starts parts of the cluster, so it runs only on that of scripts/cluster.sh.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.mcp.talk import Place
from tests.engines.kit import not_tried
from tests.kubernetes.conftest import OWN, Ground, ask
from tests.kubernetes.servers import INFO, WRITE, busy, killed, purposes, serving
from tests.security.faults.scenes import outcome_of
from tests.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.nightly, pytest.mark.claim("engine.kubernetes-told-by-the-end")]
_RUN = Path(OWN).parent


@pytest.fixture(autouse=True)
def _own(ground: Ground) -> Iterator[None]:
    if os.environ["KUBECONFIG"] != OWN:
        not_tried("a cluster's own faults", "the cluster of KUBECONFIG is not ours to break")
    if "PYTEST_XDIST_WORKER" in os.environ:
        not_tried(
            "a cluster's own faults", "other tests use it at the same time; `make kubernetes` has it alone"
        )
    yield
    until(lambda: node(ground)["conditions"]["Ready"] == "True")


def node(ground: Ground) -> dict[str, dict[str, str]]:
    with contextlib.suppress(Exception):  # while the API is away
        (only_node,) = ask(ground.admin, "GET", "/api/v1/nodes")["items"]
        return {
            "conditions": {
                condition["type"]: condition["status"] for condition in only_node["status"]["conditions"]
            }
        }
    return {"conditions": {"Ready": "Unknown"}}


def process(part: str) -> int:
    return int((_RUN / f"{part}.pid").read_text().split()[0])


def restarted(part: str) -> None:
    """Kills the process and starts it with the same command; `down` finds the new one."""
    number = process(part)
    words = Path(f"/proc/{number}/cmdline").read_bytes().decode().split("\0")[:-1]
    path = Path(f"/proc/{number}/environ").read_bytes().decode().split("\0")
    os.kill(number, signal.SIGKILL)
    until(
        lambda: (
            not Path(f"/proc/{number}/cmdline").exists() or not Path(f"/proc/{number}/cmdline").read_bytes()
        )
    )
    with (_RUN / "log" / part).open("a") as log:
        child = subprocess.Popen(  # it outlives the test, like the cluster
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=dict(entry.split("=", 1) for entry in path if "=" in entry),
        )
    began = Path(f"/proc/{child.pid}/stat").read_text().rpartition(") ")[2].split()[19]
    (_RUN / f"{part}.pid").write_text(f"{child.pid} {began}\n")


def evicted(ground: Ground, name: str) -> None:
    here = f"/api/v1/namespaces/{ground.namespace}/pods/{name}/eviction"
    ask(
        ground.admin,
        "POST",
        here,
        {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": name}},
    )


@pytest.mark.parametrize("what", ["kube-apiserver", "kubelet", "containerd", "evicted"])
def test_running_call_losing_a_part_ends_alone(what: str, ground: Ground, place: Place) -> None:
    with busy(ground, place) as call:
        evicted(ground, call.pod) if what == "evicted" else restarted(what)
        assert call.outcome() == "ENGINE_UNAVAILABLE"
        assert not place.path("out.tif").exists()
        until(lambda: node(ground)["conditions"]["Ready"] == "True")
        until(lambda: outcome_of(INFO.call(call.pipes)) == "OK")
        until(lambda: ground.pods() == {} and place.staged == [], 180)


@pytest.mark.parametrize("part", ["kube-apiserver", "kubelet"])
def test_stalled_part_costs_a_call_only_time(part, ground, place):
    with busy(ground, place, 20_000) as call:
        with frozen(process(part)):
            started = time.monotonic()
            until(lambda: time.monotonic() > started + 5.0)
        assert call.outcome() == "OK"
    assert ground.pods() == {}


@contextlib.contextmanager
def frozen(*numbers: int) -> Iterator[None]:
    for number in numbers:
        os.kill(number, signal.SIGSTOP)
    try:
        yield
    finally:
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):  # its deadline ended it while it was frozen
                os.kill(number, signal.SIGCONT)


def test_call_with_frozen_pod_ends_at_its_deadline(ground: Ground, place: Place) -> None:
    with busy(ground, place, GDAL_MCP_TIMEOUT_SECONDS="15") as call:
        uid = ground.pods()[call.pod]["metadata"]["uid"]
        inside = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cgroup") if holds(path, uid)]
        assert inside
        with frozen(*inside):
            assert call.outcome() == "TIMEOUT"
    assert ground.pods() == {}


def test_folder_recreated_for_a_dead_server_is_removed(ground, place):
    WRITE.prepare(place)
    with serving(ground, place) as pipes:
        assert outcome_of(INFO.call(pipes)) == "OK"
        until(lambda: ground.pods() == {})
        with frozen(process("kubelet")):
            WRITE.begin(pipes)
            until(lambda: purposes(ground) & {*place.staged})
            killed(pipes)
            with serving(ground, place) as later:
                until(lambda: "image" in purposes(ground))
                os.kill(process("kubelet"), signal.SIGCONT)
                assert outcome_of(INFO.call(later)) == "OK"
    assert ground.pods() == {}
    assert place.staged == []


def holds(cgroup: Path, uid: str) -> bool:
    with contextlib.suppress(OSError):
        return f"pod{uid}/" in cgroup.read_text()
    return False


def test_unschedulable_pod_is_reported_soon_and_removed(ground: Ground, place: Place) -> None:
    INFO.prepare(place)

    def cordon(closed: bool) -> None:
        (only_node,) = ask(ground.admin, "GET", "/api/v1/nodes")["items"]
        path = f"/api/v1/nodes/{only_node['metadata']['name']}"
        ask(ground.admin, "PUT", path, {**only_node, "spec": {**only_node["spec"], "unschedulable": closed}})

    with serving(ground, place) as pipes:
        assert outcome_of(INFO.call(pipes)) == "OK"
        cordon(True)
        try:
            assert outcome_of(INFO.call(pipes)) == "BUSY"
            until(lambda: ground.pods() == {})
        finally:
            cordon(False)
        assert outcome_of(INFO.call(pipes)) == "OK"
