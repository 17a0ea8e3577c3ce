"""The chart: the rendered objects fit Kubernetes and the server, and permit only what a call needs."""

import copy
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from gdal_mcp.settings import load_settings
from sandbox.engines.k8s.pod import pod
from sandbox.labels import labels
from sandbox.program import worker_command
from sandbox.template import STAGING_TARGET, Limits, Mount, SandboxTemplate, VolumePath
from tests.e2e.helm.kit import CALLS, IMAGES, SERVER_NAMESPACE, helm, refusals, rendered, values

pytestmark = pytest.mark.nightly
EVERYTHING = values(
    calls={"runtimeClass": "gvisor"},
    workspacesReadOnly=["reference/tiles"],
    issuers=["https://login.example.org"],
    policy='[[rules]]\ndecision = "require"\n',
    settings={"log_level": "info", "remote": {"hosts": ["data.example.org"]}},
    ingress={"enabled": True, "tlsSecret": "gdal-tls", "className": "nginx"},
    metrics={"enabled": True},
    storage={"className": "", "mountOptions": ["nfsvers=4.2", "hard"]},
    **{"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}]},
)


def of_kind(documents: list[Any], kind: str, **metadata: str) -> Any:
    (document,) = [
        document
        for document in documents
        if document["kind"] == kind and metadata.items() <= document["metadata"].items()
    ]
    return document


def test_chart_fits_schemas_of_every_supported_version(subtests: pytest.Subtests) -> None:
    import kubernetes_validate

    for settings in (values(), EVERYTHING):
        assert helm("lint", settings, "--strict").returncode == 0
        for version in ("1.25", "1.30", "1.37"):
            new = version != "1.25"
            admission = f"admission={'on' if new else 'auto'}"
            documents = rendered(settings, "--kube-version", version, "--set", admission)
            assert any(document["kind"] == "ValidatingAdmissionPolicy" for document in documents) == new
            for document in documents:
                if document["kind"] == "ServiceMonitor":  # of another project, in no version of Kubernetes
                    continue
                with subtests.test(version=version, kind=document["kind"]):
                    kubernetes_validate.validate(document, version, strict=True)
    assert "1.25" in helm("template", values(), "--kube-version", "1.24.0").stderr


def test_values_that_would_weaken_or_contradict_are_refused(subtests: pytest.Subtests) -> None:
    wrong: list[dict[str, Any]] = [
        {"calls": {"image": "ghcr.io/osgeo/gdal:latest"}},
        {"server": {"image": ""}},
        {"server": {"user": 0}},
        {"storage": {"volume": {}}},
        {"storage": {"volume": {"nfs": {}, "csi": {}}}},
        {"workspaces": ["../other"]},
        {"publicUrl": "http://gdal.example.org"},
        {"issuers": ["http://login.example.org"]},
        {"ingress": {"enabled": True}},
        {"settings": {"no_auth": True}},
        {"settings": {"engine": "unix:///run/docker.sock"}},
        {"replicas": 2},
    ]
    assert helm("template", values()).returncode == 0
    for setting in wrong:
        with subtests.test(**setting):
            assert helm("template", values(**setting)).returncode != 0


def test_chart_settings_are_valid_server_settings(tmp_path: Path) -> None:
    data = of_kind(rendered(EVERYTHING), "ConfigMap")["data"]
    file = tmp_path / "settings.toml"
    file.write_text(data["settings.toml"])
    settings = load_settings(config=file)
    assert settings.engine == f"k8s:///{CALLS}"
    assert (settings.image, settings.runtime) == (IMAGES[1], "gvisor")
    folders = [*map(str, (*settings.workspaces, *settings.workspaces_ro))]
    assert folders == ["/data/maps", "/data/reference/tiles"]
    assert (settings.path_map, settings.issuers) == (("/data:gdal-data",), ("https://login.example.org",))
    assert settings.behind_proxy
    assert settings.log_level == "info"


def test_server_account_has_exactly_the_needed_rights() -> None:
    documents = rendered(EVERYTHING)
    assert {document["kind"] for document in documents} & {
        "ClusterRole",
        "ClusterRoleBinding",
        "Secret",
    } == set()
    role, binding = of_kind(documents, "Role"), of_kind(documents, "RoleBinding")
    allowed = {(name, verb) for rule in role["rules"] for name in rule["resources"] for verb in rule["verbs"]}
    assert allowed == {("pods", verb) for verb in ("create", "get", "list", "watch", "delete")} | {
        ("pods/attach", verb) for verb in ("get", "create")
    }
    assert (role["metadata"]["namespace"], binding["roleRef"]["name"]) == (CALLS, role["metadata"]["name"])
    [subject] = binding["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": "gdal-mcp", "namespace": SERVER_NAMESPACE}
    accounts = [document for document in documents if document["kind"] == "ServiceAccount"]
    assert CALLS not in {account["metadata"].get("namespace") for account in accounts}
    closed = of_kind(documents, "NetworkPolicy", namespace=CALLS)["spec"]
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    labelled = of_kind(documents, "Namespace")["metadata"]["labels"]
    assert labelled["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_server_is_one_and_confined() -> None:
    spec = of_kind(rendered(values()), "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    pod_spec = spec["template"]["spec"]
    assert pod_spec["securityContext"]["runAsNonRoot"]
    # because there is no issuer
    assert [container["name"] for container in pod_spec["initContainers"]] == ["first-token"]
    for container in (*pod_spec["containers"], *pod_spec["initContainers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "@sha256:" in container["image"]
    assert "initContainers" not in of_kind(rendered(EVERYTHING), "Deployment")["spec"]["template"]["spec"]


def call() -> dict[str, Any]:
    """A Pod as the engine requests it, with the fields that the API adds."""
    below = PurePosixPath("maps/.gdal-mcp/staging/0011223344556677/out")
    mounts = (
        Mount(VolumePath("/data/maps", "gdal-data", PurePosixPath("maps")), PurePosixPath("/workspace")),
        Mount(VolumePath("/data/out", "gdal-data", below), STAGING_TARGET, read_only=False),
    )
    template = SandboxTemplate(
        f"sha256:{'2' * 64}", worker_command("sandbox/worker.py"), (1000, 1000), Limits(), mounts
    )
    document = pod(template, IMAGES[1], "call-0011223344556677", labels("owner", "call", 60.0), "x86_64")
    document["spec"]["serviceAccountName"] = "default"
    return document


HOSTILE: dict[str, Callable[[Any, Any], object]] = {
    "another label": lambda pod, _: pod["metadata"]["labels"].update(app="other"),
    "another image": lambda _, container: container.update(
        image="docker.io/library/busybox@sha256:" + "3" * 64
    ),
    "the image by its tag": lambda _, container: container.update(image="registry.example.org/gdal:latest"),
    "a command of its own": lambda _, container: container.update(command=["sh", "-c", "id"]),
    "another gate": lambda _, container: container["command"].__setitem__(3, "import os; os.system('id')"),
    "no filter": lambda _, container: container["command"].__setitem__(4, '{"filter": ""}'),
    "a second filter": lambda _, container: container["command"].__setitem__(
        4, container["command"][4][:-1] + ', "filter": ""}'
    ),
    "a second filter, spelt otherwise": lambda _, container: container["command"].__setitem__(
        4, container["command"][4][:-1] + ', "\\u0066ilter": ""}'
    ),
    "arguments": lambda _, container: container.update(args=["x"]),
    "a second container": lambda pod, container: pod["spec"]["containers"].append(copy.deepcopy(container)),
    "a container before": lambda pod, container: pod["spec"].update(
        initContainers=[copy.deepcopy(container)]
    ),
    "a container for looking": lambda pod, _: pod["spec"].update(ephemeralContainers=[{"name": "x"}]),
    "a probe that runs something": lambda _, container: container.update(
        livenessProbe={"exec": {"command": ["id"]}}
    ),
    "a hook": lambda _, container: container.update(lifecycle={"postStart": {"exec": {"command": ["id"]}}}),
    "a variable": lambda _, container: container.update(env=[{"name": "LD_PRELOAD", "value": "/tmp/x"}]),
    "the node's files": lambda pod, _: pod["spec"]["volumes"].append(
        {"name": "x", "hostPath": {"path": "/"}}
    ),
    "a secret": lambda pod, _: pod["spec"]["volumes"].append({"name": "x", "secret": {"secretName": "x"}}),
    "a token": lambda pod, _: pod["spec"]["volumes"].append({"name": "x", "projected": {"sources": []}}),
    "another claim": lambda pod, _: pod["spec"]["volumes"].append(
        {"name": "x", "persistentVolumeClaim": {"claimName": "other"}}
    ),
    "the node's disk": lambda pod, _: pod["spec"]["volumes"].append({"name": "x", "emptyDir": {}}),
    "a writable workspace": lambda _, container: container["volumeMounts"][1].update(readOnly=False),
    "another staging folder": lambda _, container: container["volumeMounts"][2].update(subPath="maps"),
    "the node's network": lambda pod, _: pod["spec"].update(hostNetwork=True),
    "the node's processes": lambda pod, _: pod["spec"].update(hostPID=True),
    "an account": lambda pod, _: pod["spec"].update(automountServiceAccountToken=True),
    "no end": lambda pod, _: pod["spec"].pop("activeDeadlineSeconds"),
    "a life after its end": lambda pod, _: pod["spec"].update(restartPolicy="Always"),
    "another runtime": lambda pod, _: pod["spec"].update(runtimeClassName="runc"),
}


def test_admission_lets_calls_in_and_nothing_else(subtests: pytest.Subtests) -> None:
    documents = rendered(values(), "--set", "admission=on")
    policy = of_kind(documents, "ValidatingAdmissionPolicy", name="gdal-mcp-calls")
    assert refusals(policy, object=call()) == []
    for name, change in HOSTILE.items():
        with subtests.test(name):
            hostile = call()
            change(hostile, hostile["spec"]["containers"][0])
            assert len(refusals(policy, object=hostile)) == 1


def test_nobody_but_the_server_attaches_to_a_call() -> None:
    documents = rendered(values(), "--set", "admission=on")
    policy = of_kind(documents, "ValidatingAdmissionPolicy", name="gdal-mcp-streams")
    own = f"system:serviceaccount:{SERVER_NAMESPACE}:gdal-mcp"

    def refused(what: str, who: str) -> list[str]:
        return refusals(policy, request={"subResource": what, "userInfo": {"username": who}})

    assert refused("attach", own) == []
    assert refused("attach", "kubernetes-admin")
    assert refused("exec", own)
