"""The doctor's findings on a cluster are correct: each property is added or removed, and reported."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli.conftest import Desk
from tests.kubernetes.conftest import CLAIM, OWN, RULES, Ground, ask

pytestmark = [pytest.mark.engine, pytest.mark.nightly]


@pytest.fixture
def desk(ground: Ground, tmp_path: Path) -> Desk:
    (tmp_path / "state").mkdir()
    return Desk(ground.new_folder(), tmp_path / "state")


def examined(desk: Desk, ground: Ground, **more: str) -> dict[str, Any]:
    done = desk.run(
        "doctor", "--json", variables=ground.environment(GDAL_MCP_PATH_MAP=f"{ground.folder}:{CLAIM}", **more)
    )
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    failed = [one for one in told["rows"] if one["state"] == "failed"]
    return {"": failed, **{one["name"]: one for one in told["rows"] if one["group"] == "cluster"}}


def test_doctor_lists_account_rights_and_cluster_admission(ground: Ground, desk: Desk) -> None:
    found = examined(desk, ground)
    assert found[""] == []
    for name in ("rights", "rights elsewhere", "node"):
        assert found[name]["state"] == "ok", found[name]
    if os.environ["KUBECONFIG"] == OWN:  # whose network enforces no policies
        assert found["network policy"]["state"] == "warning", found["network policy"]
    assert found["node"]["found"].startswith("node-1: Linux ")
    # only by its content id, without a quota
    assert found["image on nodes"]["state"] == found["quota"]["state"] == "warning"
    assert ground.pods() == {}

    here = f"/api/v1/namespaces/{ground.namespace}"
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ground.namespace}/roles/calls"
    hard = {"pods": "20", "limits.memory": "4Gi", "limits.cpu": "40"}
    quota = {"metadata": {"name": "calls"}, "spec": {"hard": hard}}
    ask(ground.admin, "POST", f"{here}/resourcequotas", quota)
    role = ask(ground.admin, "GET", roles)
    secrets = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    try:
        few = {"GDAL_MCP_CONCURRENT": "4", "GDAL_MCP_POOL_MAX": "4"}
        assert examined(desk, ground, **few)["quota"]["state"] == "ok"
        assert examined(desk, ground, **{**few, "GDAL_MCP_MEMORY": "1GiB"})["quota"]["state"] == "warning"
        ask(ground.admin, "PUT", roles, {**role, "rules": [*RULES, secrets]})
        told = examined(desk, ground, **few)["rights"]
        assert (told["state"], "get secrets" in told["found"]) == ("warning", True)
        ask(ground.admin, "PUT", roles, {**ask(ground.admin, "GET", roles), "rules": RULES[:1]})
        found = examined(desk, ground, **few)
        assert found[""]
        assert (found["rights"]["state"], "get pods/attach" in found["rights"]["found"]) == ("failed", True)
    finally:
        ask(ground.admin, "PUT", roles, {**ask(ground.admin, "GET", roles), "rules": RULES})
        ask(ground.admin, "DELETE", f"{here}/resourcequotas/calls")
