"""Namespaces as operators configure them, on an API server that enforces their rules: Pod Security "restricted",
quotas, token rotation.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sandbox.engines.k8s import engine as engine_module
from sandbox.engines.k8s.cluster import Cluster
from sandbox.engines.k8s.engine import KubernetesEngine
from sandbox.errors import CapacityExhausted, EngineUnavailable, IsolationRefused
from sandbox.labels import labels
from sandbox.template import Limits, SandboxTemplate
from tests.unit.sandbox.engines.k8s_api import ApiHandler, serve

TEMPLATE = SandboxTemplate("sha256:" + "a" * 64, ("true",), (1000, 1000), Limits())
_VOLUMES = {
    "emptyDir",
    "persistentVolumeClaim",
    "configMap",
    "secret",
    "projected",
    "downwardAPI",
    "csi",
    "ephemeral",
}


def restricted(spec: dict[str, Any]) -> str:
    """The violation of the Pod Security Standard "restricted" (1.30) by a Pod; "" for none."""
    pod_context = spec.get("securityContext") or {}
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        own = container.get("securityContext") or {}
        merged = {**pod_context, **own}
        capabilities = own.get("capabilities") or {}
        rules = {
            "allowPrivilegeEscalation != false": own.get("allowPrivilegeEscalation") is False,
            "unrestricted capabilities": capabilities.get("drop") == ["ALL"]
            and set(capabilities.get("add") or ()) <= {"NET_BIND_SERVICE"},
            "runAsNonRoot != true": merged.get("runAsNonRoot") is True,
            "runAsUser=0": merged.get("runAsUser") != 0,
            "seccompProfile": (merged.get("seccompProfile") or {}).get("type")
            in ("RuntimeDefault", "Localhost"),
            "privileged": not own.get("privileged"),
            "hostPort": not any(port.get("hostPort") for port in container.get("ports", ())),
            "procMount": own.get("procMount", "Default") == "Default",
        }
        if broken := [name for name, holds in rules.items() if not holds]:
            return ", ".join(broken)
    if any(spec.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")):
        return "host namespaces"
    if any(not set(volume) <= {"name", *_VOLUMES} for volume in spec.get("volumes", ())):
        return "restricted volume types"
    return ""


class Api(ApiHandler):
    """Enforces the namespace's rules. Pods never start; removed ones disappear."""

    def admitted(self) -> bool:
        if self.headers["Authorization"] == f"Bearer {self.server.token}":
            return True
        self.answer({"message": "Unauthorized"}, 401)
        return False

    def forbid(self, why: str) -> None:
        self.answer({"message": f'pods "call" is forbidden: {why}'}, 403)

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        pod = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.admitted():
            return
        self.server.asked += 1
        resources = pod["spec"]["containers"][0]["resources"]
        if broken := restricted(pod["spec"]) or self.server.further:
            self.forbid(f'violates PodSecurity "restricted:latest": {broken}')
        elif not {"cpu", "memory"} <= set(resources["limits"]) & set(resources["requests"]):
            self.forbid(
                "failed quota: calls: must specify limits.cpu,limits.memory,requests.cpu,requests.memory"
            )
        elif self.server.asked <= self.server.full:
            self.forbid("exceeded quota: calls, requested: pods=1, used: pods=8, limited: pods=8")
        else:
            pod["metadata"]["resourceVersion"] = "1"
            self.server.pods[pod["metadata"]["name"]] = pod
            self.answer(pod)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    with serve(tmp_path, Api) as api_server:
        api_server.asked, api_server.full, api_server.further, api_server.token = 0, 0, "", "first"
        yield api_server


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """The token of a ServiceAccount, which the node rotates in place."""
    file = tmp_path / "token"
    file.write_text("first\n")
    return file


@pytest.fixture
def engine(server, mounted: Path) -> Iterator[KubernetesEngine]:
    address = f"https://127.0.0.1:{server.server_address[1]}"
    cluster = Cluster(address, "calls", server.trust, lambda: mounted.read_text().strip())
    with closing(KubernetesEngine(cluster)) as kubernetes:
        yield kubernetes


def created(engine: KubernetesEngine, template: SandboxTemplate = TEMPLATE):
    return engine.create(template, labels("abc", "call", 60))


@pytest.mark.parametrize(
    "template", [TEMPLATE, SandboxTemplate(TEMPLATE.image, ("true",), (7, 7), Limits(), runtime="kata")]
)
def test_call_pod_is_admitted_under_restricted_policy(server, engine, template):
    container = created(engine, template)
    assert [*server.pods] == [container.id]
    container.remove()
    assert server.pods == {}


def test_refusal_by_further_admission_runs_nothing_and_reports(server, engine):
    server.further = "a rule of the operator"
    with pytest.raises(IsolationRefused, match="a rule of the operator"):
        created(engine)
    assert server.pods == {}


def test_call_waits_for_a_briefly_exhausted_quota(server, engine):
    server.full = 3
    container = created(engine)
    assert server.asked == 4
    assert [*server.pods] == [container.id]


def test_persistently_exhausted_quota_ends_the_wait(server, engine, monkeypatch):
    monkeypatch.setattr(engine_module, "ROOM_SECONDS", 0.2)
    server.full = 1_000_000
    with pytest.raises(CapacityExhausted, match="exceeded quota"):
        created(engine)
    assert server.pods == {}


def test_rotated_token_is_used_from_then_on(server, engine, mounted):
    container = created(engine)
    assert container.state() is not None
    server.token = "second"
    mounted.write_text("second\n")
    assert container.state() is not None
    container.remove()
    assert server.pods == {}


def test_token_that_was_not_rotated_is_reported(server, engine):
    server.token = "second"
    with pytest.raises(EngineUnavailable, match="Renew its token"):
        created(engine)
    assert server.pods == {}
