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
    report = json.loads(done.stdout)
    failed = [row for row in report["rows"] if row["state"] == "failed"]
    return {"": failed, **{row["name"]: row for row in report["rows"] if row["group"] == "cluster"}}


def test_doctor_lists_account_rights_and_cluster_admission(ground: Ground, desk: Desk) -> None:
    rows = examined(desk, ground)
    assert rows[""] == []
    for name in ("rights", "rights elsewhere", "node"):
        assert rows[name]["state"] == "ok", rows[name]
    if os.environ["KUBECONFIG"] == OWN:  # whose network enforces no policies
        assert rows["network policy"]["state"] == "warning", rows["network policy"]
    assert rows["node"]["found"].startswith("node-1: Linux ")
    # only by its content id, without a quota
    assert rows["image on nodes"]["state"] == rows["quota"]["state"] == "warning"
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
        rights = examined(desk, ground, **few)["rights"]
        assert (rights["state"], "get secrets" in rights["found"]) == ("warning", True)
        ask(ground.admin, "PUT", roles, {**ask(ground.admin, "GET", roles), "rules": RULES[:1]})
        rows = examined(desk, ground, **few)
        assert rows[""]
        assert (rows["rights"]["state"], "get pods/attach" in rows["rights"]["found"]) == ("failed", True)
    finally:
        ask(ground.admin, "PUT", roles, {**ask(ground.admin, "GET", roles), "rules": RULES})
        ask(ground.admin, "DELETE", f"{here}/resourcequotas/calls")
