"""The chart on a real cluster: its API accepts every object, the account may only run calls, and its server answers
over HTTP.
"""

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from gdal_mcp.server.operations.cluster import quota
from gdal_mcp.settings import load_settings
from gdal_mcp.testing.client import connected, over_http
from sandbox.engine import STDOUT
from sandbox.engines.k8s.api import Api
from sandbox.engines.k8s.cluster import Cluster
from sandbox.engines.k8s.engine import KubernetesEngine
from sandbox.engines.k8s.trial import (
    NEEDED,
    admission_error,
    call_pod,
    can_cluster_wide,
    exceed_quota,
    granted_rights,
)
from sandbox.engines.k8s.websocket import connect
from sandbox.errors import EngineUnavailable
from sandbox.waiting import readable
from tests.e2e.deploy.server_image import TAG, server_image
from tests.e2e.helm.kit import IMAGES, rendered, values
from tests.engines.kit import not_tried
from tests.kubernetes.conftest import NODE_PIDS, OWN, Ground, _account, ask, loaded
from tests.security.faults.scenes import tiff
from tests.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.nightly]
_CORE, _WHOLE = "/api/v1", {"Namespace", "PersistentVolume"}
_USER = 1000  # the user of the chart's server


@dataclass(frozen=True)
class Installed:
    """The two namespaces, and the host's folders for the claims."""

    server: str
    calls: str
    maps: Path

    @property
    def service(self) -> str:
        return f"gdal-mcp.{self.server}.svc:8000"


@contextlib.contextmanager
def installed(ground: Ground, images: list[str]) -> Iterator[Installed]:
    """Creates every object of the chart. The test itself creates its namespaces, which Helm creates in part, and the
    disk of its state.
    """
    own = secrets.token_hex(4)
    installation = Installed(f"gdal-server-{own}", f"gdal-calls-{own}", ground.new_folder() / "maps")
    state = ground.new_folder()
    installation.maps.mkdir()
    for folder in (installation.maps, state):
        os.chown(folder, _USER, _USER)
    chart_values = values(
        server={"image": images[0]},
        calls={"image": images[1], "namespace": installation.calls, "memory": "512Mi", "pids": NODE_PIDS},
        storage={"volume": {"hostPath": {"path": str(installation.maps.parent)}}, "mountOptions": []},
        state={"className": "", "size": "1Gi"},
        ingress={"enabled": True, "tlsSecret": "gdal-tls"},
        settings={"approval": "never", "pool_max": 1},
    )
    volume = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": str(state)},
        "claimRef": {"namespace": installation.server, "name": "gdal-mcp-state"},
    }
    objects = [
        *rendered(chart_values, "--namespace", installation.server),
        {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": installation.server}},
        {
            "kind": "PersistentVolume",
            "apiVersion": "v1",
            "metadata": {"name": f"{installation.server}-state"},
            "spec": volume,
        },
    ]
    try:
        for manifest in sorted(objects, key=lambda manifest: manifest["kind"] != "Namespace"):
            ask(ground.admin, "POST", *_place(ground.admin, manifest))
        yield installation
    finally:
        for path in (
            *(f"namespaces/{name}" for name in (installation.server, installation.calls)),
            *(f"persistentvolumes/{name}-gdal-data" for name in (installation.server, installation.calls)),
            f"persistentvolumes/{installation.server}-state",
        ):
            with contextlib.suppress(EngineUnavailable):
                ask(ground.admin, "DELETE", f"{_CORE}/{path}")


def _place(admin: Api, manifest: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The path at which an object is created. A cluster before 1.21 has an older version of PodDisruptionBudget with
    the same fields.
    """
    version = manifest["apiVersion"]
    if version == "policy/v1" and int("".join(filter(str.isdigit, admin.version()["minor"]))) < 21:
        version = "policy/v1beta1"
    root = f"/apis/{version}" if "/" in version else _CORE
    within = "" if manifest["kind"] in _WHOLE else f"/namespaces/{manifest['metadata']['namespace']}"
    plural = {"NetworkPolicy": "networkpolicies", "Ingress": "ingresses"}.get(
        manifest["kind"], f"{manifest['kind'].lower()}s"
    )
    return f"{root}{within}/{plural}", {**manifest, "apiVersion": version}


def test_cluster_accepts_chart_and_account_only_runs_calls(ground, tmp_path):
    with installed(ground, IMAGES) as installation:
        for name in (installation.server, installation.calls):
            claim = f"{_CORE}/namespaces/{name}/persistentvolumeclaims/gdal-data"
            until(lambda claim=claim: ask(ground.admin, "GET", claim)["status"].get("phase") == "Bound")
        accounts = f"{_CORE}/namespaces/{installation.server}/serviceaccounts/gdal-mcp"
        token = ask(ground.admin, "POST", f"{accounts}/token", {"spec": {"expirationSeconds": 3600}})
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(_account(ground.kubeconfig, token["status"]["token"]))

        def of(namespace: str) -> Cluster:
            return Cluster.from_kubeconfig(kubeconfig, "calls", namespace)

        with (
            contextlib.closing(Api(of(installation.calls))) as account,
            contextlib.closing(Api(of(installation.server))) as beside,
            contextlib.closing(KubernetesEngine(of(installation.calls))) as engine,
        ):
            assert granted_rights(account) == NEEDED
            assert not any(
                can_cluster_wide(account, name, verb)
                for name, verb in [*NEEDED, ("secrets", "get"), ("nodes", "list")]
            )
            assert engine.leftovers() == ()
            assert admission_error(account, call_pod(ground.image, "x86_64")) == ""
            error = admission_error(account, exceed_quota(call_pod(ground.image, "x86_64")))
            settings = load_settings(state_dir=tmp_path, memory="2GiB", concurrent=6, pool_max=6)
            assert quota(error, settings).state == "ok"
            assert granted_rights(beside) == set()


def test_chart_server_accepts_first_token_and_answers_http(ground, client, tmp_path):
    if os.environ["KUBECONFIG"] != OWN:
        not_tried(
            "the chart's Deployment", "an image that is built here cannot be given to the nodes of KUBECONFIG"
        )
    server_image(client, tmp_path)
    with installed(ground, [loaded(TAG), loaded(ground.reference)]) as installation:
        (installation.maps / "in.tif").write_bytes(tiff(7))
        until(lambda: pod_of(ground, installation, "initContainerStatuses"))
        token = executed(ground, installation, "gdal-mcp token new ann --scope gdal:read --scope gdal:write")
        until(lambda: pod_of(ground, installation, "containerStatuses").get("ready"), 240)
        address = pod_of(ground, installation, "")["status"]["podIP"]
        with connected(over_http(f"http://{address}:8000/mcp", token, Host=installation.service)) as talk:
            assert talk.call("info", path="in.tif")["size"] == [40, 30]
            talk.call("convert", input="in.tif", output="out.tif")
        assert (installation.maps / "out.tif").stat().st_uid == _USER
        rows = executed(ground, installation, "gdal-mcp doctor --json", "server")
        assert '"state": "failed"' not in rows, rows


def pod_of(ground: Ground, release: Installed, statuses: str) -> dict[str, Any]:
    """The server's Pod, or the status of its first container of a kind once it runs; empty before."""
    pods = ask(ground.admin, "GET", f"{_CORE}/namespaces/{release.server}/pods")["items"]
    if not pods or not statuses:
        return dict(pods[0]) if pods else {}
    (status,) = pods[0]["status"].get(statuses) or [{}]
    return dict(status) if "running" in status.get("state", {}) else {}


def executed(ground: Ground, release: Installed, command: str, container: str = "first-token") -> str:
    """The output of a command in the server's Pod."""
    pod = pod_of(ground, release, "")["metadata"]["name"]
    words = [("command", word) for word in command.split()] + [("container", container), ("stdout", "true")]
    path = f"{_CORE}/namespaces/{release.server}/pods/{pod}/exec?{urlencode(words)}"
    wire, output = connect(ground.admin.cluster, path), b""
    with contextlib.closing(wire):
        while readable([wire], 120.0) and (pieces := wire.receive()) is not None:
            output += b"".join(data for stream, data in pieces if stream == STDOUT)
    return output.decode().strip()
