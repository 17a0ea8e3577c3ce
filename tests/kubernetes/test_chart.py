"""The chart on a real cluster: its API takes every object as it is rendered, and the account that it makes has the rights of calls alone."""

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.operations.cluster import quota
from gdal_mcp.settings import load_settings
from sandbox.engines.k8s.api import Api
from sandbox.engines.k8s.cluster import Cluster
from sandbox.engines.k8s.engine import KubernetesEngine
from sandbox.engines.k8s.trial import NEEDED, allowed, call, elsewhere, refused, with_everything
from sandbox.errors import EngineUnavailable
from tests.helm.kit import rendered, values
from tests.kubernetes.conftest import Ground, _account, ask
from tests.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.nightly]
_CORE, _WHOLE = "/api/v1", {"Namespace", "PersistentVolume"}


@pytest.fixture
def installed(ground: Ground) -> Iterator[dict[str, Any]]:
    """Every object by its kind and namespace, as the API gave it back. Its namespaces, which Helm makes in part, are the test's own."""
    own = secrets.token_hex(4)
    server, calls = f"gdal-server-{own}", f"gdal-calls-{own}"
    given = values(
        calls={"namespace": calls},
        storage={"volume": {"hostPath": {"path": str(ground.folder)}}, "mountOptions": []},
        ingress={"enabled": True, "tlsSecret": "gdal-tls"},
    )
    found = [
        *rendered(given, "--namespace", server),
        {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": server}},
    ]
    found.sort(key=lambda one: one["kind"] != "Namespace")
    made: dict[str, Any] = {}
    try:
        for one in found:
            path, body = _place(ground.admin, one)
            made[f"{one['kind']} {one['metadata'].get('namespace', '')}".strip()] = ask(
                ground.admin, "POST", path, body
            )
        yield {**made, "server": server, "calls": calls}
    finally:
        for name in (server, calls):
            ask(ground.admin, "DELETE", f"{_CORE}/namespaces/{name}")
            with contextlib.suppress(EngineUnavailable):
                ask(ground.admin, "DELETE", f"{_CORE}/persistentvolumes/{name}-gdal-data")


def _place(admin: Api, one: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Where an object is made. A cluster before 1.21 knows a PodDisruptionBudget by its older version, of the same words."""
    version = one["apiVersion"]
    if version == "policy/v1" and int("".join(filter(str.isdigit, admin.version()["minor"]))) < 21:
        version = "policy/v1beta1"
    root = f"/apis/{version}" if "/" in version else _CORE
    within = "" if one["kind"] in _WHOLE else f"/namespaces/{one['metadata']['namespace']}"
    plural = {"NetworkPolicy": "networkpolicies", "Ingress": "ingresses"}.get(
        one["kind"], f"{one['kind'].lower()}s"
    )
    return f"{root}{within}/{plural}", {**one, "apiVersion": version}


def test_a_cluster_takes_the_chart_and_its_account_may_run_calls_and_nothing_else(
    ground: Ground, installed: dict[str, Any], tmp_path: Path
) -> None:
    server, calls = installed["server"], installed["calls"]
    for name in (server, calls):
        claim = f"{_CORE}/namespaces/{name}/persistentvolumeclaims/gdal-data"
        until(lambda claim=claim: ask(ground.admin, "GET", claim)["status"].get("phase") == "Bound")
    token = ask(
        ground.admin,
        "POST",
        f"{_CORE}/namespaces/{server}/serviceaccounts/gdal-mcp/token",
        {"spec": {"expirationSeconds": 3600}},
    )
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(_account(ground.kubeconfig, token["status"]["token"]))
    with (
        contextlib.closing(Api(Cluster.of_kubeconfig(kubeconfig, "calls", calls))) as account,
        contextlib.closing(KubernetesEngine(Cluster.of_kubeconfig(kubeconfig, "calls", calls))) as engine,
    ):
        assert allowed(account) == NEEDED
        assert not any(
            elsewhere(account, name, verb) for name, verb in [*NEEDED, ("secrets", "get"), ("nodes", "list")]
        )
        assert engine.leftovers() == ()
        assert refused(account, call(ground.image, "x86_64")) == ""
        said = refused(account, with_everything(call(ground.image, "x86_64")))
        settings = load_settings(state_dir=tmp_path, memory="2GiB", concurrent=6, pool_max=6)
        assert quota(said, settings).state == "ok"
        with contextlib.closing(Api(Cluster.of_kubeconfig(kubeconfig, "calls", server))) as beside:
            assert allowed(beside) == set()
