"""Doctor's conclusions from a cluster's answers. Pure; tests/kubernetes/test_doctor.py uses a real cluster."""

from pathlib import Path

from gdal_mcp.server.operations.cluster import named, network, node, pinned, powers, quota, rights, security
from gdal_mcp.settings import load_settings
from sandbox.engines.k8s.trial import NEEDED, NodeFindings

# as reported by Kubernetes 1.20 and 1.31
EXCEEDED = (
    'the namespace\'s quota is used up: pods "call-1" is forbidden: exceeded quota: calls, requested: limits.cpu=1M,'
    "limits.memory=1Pi, used: limits.cpu=2,limits.memory=4Gi, limited: limits.cpu=12,limits.memory=24Gi. Try again later."
)


def test_rights_are_those_of_calls_and_no_others():
    assert rights(NEEDED).state == rights({*NEEDED, ("pods/log", "get")}).state == "ok"
    for right in NEEDED:
        assert rights(NEEDED - {right}).state == "failed"
    for excess in (("secrets", "get"), ("pods/exec", "create"), ("jobs.batch", "create")):
        assert rights({*NEEDED, excess}).state == "warning"
    assert rights({("*", "*")}).state == "warning"  # rights of an administrator
    assert powers([]).state == "ok"
    assert powers(["get secrets"]).state == "warning"


def test_quota_is_compared_with_running_and_waiting_calls(tmp_path: Path):
    settings = load_settings(state_dir=tmp_path, memory="2GiB", concurrent=6, pool_max=6)
    assert quota(EXCEEDED, settings).state == "ok"
    assert quota(EXCEEDED, settings.model_copy(update={"pool_max": 7})).state == "warning"
    assert quota(EXCEEDED, settings.model_copy(update={"concurrent": 0})).state == "warning"
    for message in ("", "pods is forbidden: another reason"):
        assert quota(message, settings).state == "warning"


def test_what_a_plain_pod_found_is_judged():
    good = NodeFindings("node-1", "6.1.0", 3, True, "Network is unreachable")
    usual = load_settings(engine="k8s://")
    assert node(good, usual).state == network(good).state == "ok"
    assert node(good._replace(landlock=0), usual).state == "failed"
    accepting = load_settings(engine="k8s://", nodes_without="landlock")
    assert node(good._replace(landlock=0), accepting).state == "warning"
    assert node(good._replace(filtered=False), usual).state == "warning"
    assert network(good._replace(network="")).state == "warning"


def test_admission_weakness_is_reported_with_its_fix():
    assert security([]).state == pinned([], (1, 20)).state == "ok"
    assert security(["root"]).state == "warning"
    old, new = pinned(["another image"], (1, 29)), pinned(["another image"], (1, 30))
    assert (old.state, new.state) == ("warning", "warning")
    assert old.fix != new.fix
    assert named("gdal@sha256:" + "1" * 64).state == "ok"
    assert named("sha256:" + "1" * 64).state == named("").state == "warning"
