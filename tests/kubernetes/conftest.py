"""A separate namespace on the cluster that KUBECONFIG names, with one account that has the documented rights.

The nodes must see this machine's /var/tmp, as for a cluster on this machine: a folder there replaces shared storage.
"""

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from gdal_mcp.runtime.image import Image
from sandbox.engines.k8s.api import Api, _checked
from sandbox.engines.k8s.cluster import Cluster
from sandbox.engines.k8s.engine import KubernetesEngine
from sandbox.template import Limits, VolumePath
from tests.e2e.mcp.talk import Place
from tests.engines.bench import LIMITS, Bench
from tests.engines.kit import not_tried
from tests.oracle.container import Oracle, oracle_over
from tests.waiting import until

NODE_PIDS = 128  # at least the nodes' own podPidsLimit
CLAIM = "data"
ROOT = Path(__file__).parents[2]
OWN = "/run/gdal-mcp-cluster/kubeconfig"  # the KUBECONFIG of scripts/cluster.sh
RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get", "list", "watch", "delete"]},
    {"apiGroups": [""], "resources": ["pods/attach"], "verbs": ["get", "create"]},
]


@dataclass(frozen=True)
class Ground:
    """The namespace of a test's calls, and the owner of its Pods."""

    admin: Api  # API of the cluster's administrator; no server of a test has it
    namespace: str
    kubeconfig: Path
    folder: Path  # the contents of the claim, as this machine sees them
    image: str
    reference: str  # the same image in Docker

    @property
    def address(self) -> str:
        return f"k8s://calls/{self.namespace}"

    def engine(self) -> KubernetesEngine:
        return KubernetesEngine(Cluster.from_kubeconfig(self.kubeconfig, "calls", self.namespace))

    def source(self, path: Path) -> VolumePath:
        return VolumePath(str(path), CLAIM, PurePosixPath(path).relative_to(self.folder))

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of a server whose calls run here."""
        return {
            "GDAL_MCP_ENGINE": self.address, "GDAL_MCP_IMAGE": self.image,
            "GDAL_MCP_PATH_MAP": f"{self.folder}:{CLAIM}", "GDAL_MCP_PIDS": str(NODE_PIDS),
            "GDAL_MCP_MEMORY": "512MiB", "GDAL_MCP_CPUS": "1", "KUBECONFIG": str(self.kubeconfig), **more,
        }  # fmt: skip

    def pods(self) -> dict[str, Any]:
        listing, _ = self.admin.pods("app=gdal-call")
        return {pod["metadata"]["name"]: pod for pod in listing["items"]}

    def new_folder(self) -> Path:
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        folder.chmod(0o755)
        return folder


def ask(api: Api, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    return _checked(api._request(method, path, body))


@pytest.fixture(scope="session")
def ground(image: Image) -> Iterator[Ground]:
    config = os.environ.get("KUBECONFIG", "")
    if not config:
        assert "KUBERNETES" not in os.environ, "KUBECONFIG names no cluster"  # as in `make kubernetes`
        not_tried("Kubernetes", "KUBECONFIG names no cluster whose nodes see this machine's files")
    with laid(config, image) as new_ground:
        yield new_ground


@contextlib.contextmanager
def laid(config: str, image: Image) -> Iterator[Ground]:
    if config == OWN:
        loaded(image.reference)
    namespace = f"gdal-calls-{secrets.token_hex(4)}"
    admin = Api(Cluster.from_kubeconfig(Path(config), namespace=namespace))
    folder = Path(tempfile.mkdtemp(prefix="gdal-mcp-k8s-", dir="/var/tmp"))
    folder.chmod(0o755)
    here = f"/api/v1/namespaces/{namespace}"
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    ask(admin, "POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    try:
        ask(admin, "POST", f"{here}/serviceaccounts", {"metadata": {"name": "gdal-mcp"}})
        ask(admin, "POST", f"{roles}/roles", {"metadata": {"name": "calls"}, "rules": RULES})
        subject = {"kind": "ServiceAccount", "name": "gdal-mcp", "namespace": namespace}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "calls"}
        binding = {"metadata": {"name": "calls"}, "roleRef": reference, "subjects": [subject]}
        ask(admin, "POST", f"{roles}/rolebindings", binding)
        size = {"storage": "1Gi"}
        common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        volume = {**common, "capacity": size, "hostPath": {"path": str(folder), "type": "Directory"}}
        ask(admin, "POST", "/api/v1/persistentvolumes", {"metadata": {"name": namespace}, "spec": volume})
        claim = {**common, "volumeName": namespace, "resources": {"requests": size}}
        ask(admin, "POST", f"{here}/persistentvolumeclaims", {"metadata": {"name": CLAIM}, "spec": claim})
        until(
            lambda: (
                ask(admin, "GET", f"{here}/persistentvolumeclaims/{CLAIM}")["status"].get("phase") == "Bound"
            )
        )
        token = ask(
            admin, "POST", f"{here}/serviceaccounts/gdal-mcp/token", {"spec": {"expirationSeconds": 7200}}
        )
        kubeconfig = folder.with_suffix(".kubeconfig")
        kubeconfig.write_text(_account(Path(config), token["status"]["token"]))
        yield Ground(admin, namespace, kubeconfig, folder, image.id, image.reference)
        kubeconfig.unlink()
    finally:
        ask(admin, "DELETE", f"/api/v1/namespaces/{namespace}")
        ask(admin, "DELETE", f"/api/v1/persistentvolumes/{namespace}")
        shutil.rmtree(folder, ignore_errors=True)
        admin.close()


def _account(config: Path, token: str) -> str:
    """The same cluster for the owner of a token."""
    loaded = yaml.safe_load(config.read_text())
    current = next(context for context in loaded["contexts"] if context["name"] == loaded["current-context"])
    loaded["contexts"] = [{"name": "calls", "context": {**current["context"], "user": "account"}}]
    return yaml.safe_dump(
        {**loaded, "users": [{"name": "account", "user": {"token": token}}], "current-context": "calls"}
    )


def loaded(image: str) -> str:
    """Loads an image of Docker into the node of the repository's own cluster and returns its name@digest there."""
    done = subprocess.run(
        [ROOT / "scripts/cluster.sh", "load", image], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def limits() -> Limits:
    return replace(LIMITS, pids=NODE_PIDS)


@pytest.fixture(scope="session")
def oracle(ground: Ground) -> Iterator[Oracle]:
    """A separate oracle, because one that other tests started does not see this folder."""
    with oracle_over(ground.image, ground.folder) as new_oracle:
        yield new_oracle


@pytest.fixture
def place(ground: Ground) -> Place:
    return Place.made(ground.new_folder() / "place")


@pytest.fixture(scope="session")
def engine(ground: Ground) -> Iterator[KubernetesEngine]:
    new_engine = ground.engine()
    yield new_engine
    new_engine.close()


@pytest.fixture(scope="module")
def bench(ground: Ground, engine: KubernetesEngine) -> Iterator[Bench]:
    gone = Cluster("https://127.0.0.1:9", ground.namespace, engine.cluster.tls)
    new_bench = Bench(
        engine,
        ground.image,
        ground.new_folder(),
        gone=lambda: KubernetesEngine(gone),
        limits=limits(),
        source=ground.source,
    )
    yield new_bench
    assert new_bench.ours() == {}
