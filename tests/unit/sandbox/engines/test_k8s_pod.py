"""A Pod is requested as the policy says, the result is compared, and every answer of a cluster has one meaning for a
call.
"""

import base64
import copy
import datetime as dt
import json
from dataclasses import replace
from pathlib import PurePosixPath

import pytest
import yaml

from sandbox.engine import ContainerState
from sandbox.engines.k8s.api import refusal as refused
from sandbox.engines.k8s.cluster import Cluster
from sandbox.engines.k8s.engine import PodImages, leftover
from sandbox.engines.k8s.pod import differences, parse_quantity, pod
from sandbox.engines.k8s.status import has_ended, image_of, is_terminating, refusal, state, unschedulable
from sandbox.errors import CapacityExhausted, EngineUnavailable, ImageMissing, IsolationRefused
from sandbox.labels import OWNER, UPTIME_DEADLINE, Moment, labels, overdue
from sandbox.outcome import Evicted, Exited, Killed, OutOfMemory, judge
from sandbox.template import HostPath, Limits, Mount, SandboxTemplate, VolumePath

LIMITS = Limits(memory_bytes=1 << 30, cpus=1.5, wall_seconds=60)
NAME = "registry/gdal@sha256:" + "b" * 64


def part(claim, path, target, **more):
    return Mount(VolumePath(f"/{claim}", claim, PurePosixPath(path)), PurePosixPath(target), **more)


TEMPLATE = SandboxTemplate(
    image="sha256:" + "a" * 64,
    command=("python3", "-c", "print('$(HOME) $$')"),
    user=(1000, 1001),
    limits=LIMITS,
    mounts=(
        part("workspace", "ws/ann", "/workspace"),
        part("workspace", "out/7", "/staging", read_only=False),
        part("other", ".", "/other"),
    ),
    masks=(PurePosixPath("/workspace/.gdal-mcp"),),
    environment={"PATH": "/usr/bin"},
)


def requested_pod(template=TEMPLATE, image=NAME):
    return pod(template, image, "call-0", labels("abc", "call", 60), "x86_64")


@pytest.mark.claim("engine.kubernetes-does-what-an-engine-must")
def test_pod_holds_exactly_what_the_policy_says():
    spec = requested_pod()["spec"]
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "privileged": False, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert spec["securityContext"]["runAsUser"] == 1000
    assert not any(
        spec[field] for field in "automountServiceAccountToken hostNetwork hostPID hostIPC".split()
    )
    assert (spec["restartPolicy"], container["imagePullPolicy"]) == ("Never", "IfNotPresent")
    assert "env" not in container
    assert container["resources"]["limits"] == {**container["resources"]["requests"], "cpu": "1500m"}
    settings = json.loads(container["command"][4].replace("$$", "$"))
    assert (settings["writable"], settings["readable"]) == (["/tmp", "/staging"], ["/workspace", "/other"])
    assert settings["environment"] == {"PATH": "/usr/bin"}
    # a node would expand $(NAME) as a variable
    assert container["command"][-1].replace("$$", "$") == TEMPLATE.command[-1]
    assert requested_pod(image=TEMPLATE.image)["spec"]["containers"][0]["imagePullPolicy"] == "Never"
    assert "runtimeClassName" not in spec
    assert requested_pod(replace(TEMPLATE, runtime="kata"))["spec"]["runtimeClassName"] == "kata"


def test_waiting_pod_also_gets_time_for_its_call():
    waits = pod(TEMPLATE, NAME, "call-0", labels("abc", "call", 1060), "x86_64")
    assert waits["spec"]["activeDeadlineSeconds"] >= 1000 + TEMPLATE.limits.wall_seconds + 300


def test_mounts_are_claim_parts_and_never_node_paths():
    spec = requested_pod()["spec"]
    mounts = {mount["mountPath"]: mount for mount in spec["containers"][0]["volumeMounts"]}
    kinds = {volume["name"]: volume for volume in spec["volumes"]}
    assert all({*volume} <= {"name", "emptyDir", "persistentVolumeClaim"} for volume in kinds.values())
    place = {"mountPath": "/workspace", "subPath": "ws/ann"}
    assert mounts["/workspace"] == {"name": "claim-0", "readOnly": True, **place}
    assert mounts["/staging"]["readOnly"] is False
    assert "subPath" not in mounts["/other"]
    assert kinds["claim-1"]["persistentVolumeClaim"] == {"claimName": "other"}
    for covered in ("/sys", "/dev/shm", "/dev/mqueue", "/workspace/.gdal-mcp"):
        assert mounts[covered] == {"name": "nothing", "mountPath": covered, "readOnly": True}
    shown = requested_pod(replace(TEMPLATE, cgroup_visible=True))["spec"]["containers"][0]["volumeMounts"]
    assert "/sys" not in [mount["mountPath"] for mount in shown]
    with pytest.raises(IsolationRefused):
        requested_pod(replace(TEMPLATE, mounts=(Mount(HostPath("/etc", "/etc"), PurePosixPath("/data")),)))


def returned_spec():
    """A Pod as an API returns it: with its own defaults, without false values, with quantities in its own notation."""
    spec = copy.deepcopy(requested_pod()["spec"])
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        del spec[name]
    container = spec["containers"][0]
    del container["volumeMounts"][2]["readOnly"]
    container["terminationMessagePath"] = "/dev/termination-log"
    container["resources"]["limits"] |= {"cpu": "1.5", "memory": "1Gi"}
    spec |= {"schedulerName": "default-scheduler", "serviceAccountName": "default", "priority": 0}
    spec["tolerations"].append({"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"})
    spec["nodeSelector"]["pool"] = "gdal"
    return spec


def test_what_a_cluster_fills_in_is_no_difference():
    assert not [*differences(requested_pod()["spec"], returned_spec())]


def test_node_pulls_image_with_named_and_account_secrets():
    """Admission adds the secrets of the ServiceAccount, and removes none of ours."""
    marks = labels("abc", "call", 60)
    ours = pod(TEMPLATE, NAME, "call-0", marks, "x86_64", ["registry"])["spec"]
    assert ours["imagePullSecrets"] == [{"name": "registry"}]
    for spec, theirs, same in (
        (requested_pod()["spec"], [{"name": "of-the-account"}], True),
        (ours, [{"name": "registry"}, {"name": "of-the-account"}], True),
        (ours, [{"name": "of-the-account"}], False),
    ):
        changes = [*differences(spec, {**spec, "imagePullSecrets": theirs})]
        assert (changes == []) is same


# of a Pod and of its container
WEAKER = {
    "another container": lambda spec, _: spec["containers"].append({"name": "proxy", "image": "x"}),
    "a container before it": lambda spec, _: spec.update(initContainers=[{"name": "x"}]),
    "a token": lambda spec, _: spec.update(automountServiceAccountToken=True),
    "the node's network": lambda spec, _: spec.update(hostNetwork=True),
    "another image": lambda _, container: container.update(image="x"),
    "another command": lambda _, container: container["command"].insert(0, "strace"),
    "an environment": lambda _, container: container.update(env=[{"name": "LD_PRELOAD", "value": "x"}]),
    "a mount": lambda _, container: container["volumeMounts"].append({"name": "claim-0", "mountPath": "/x"}),
    "a volume": lambda spec, _: spec["volumes"].append({"name": "x", "hostPath": {"path": "/"}}),
    "a mount that may be written": lambda _, container: container["volumeMounts"][1].pop("readOnly"),
    "another part of the claim": lambda _, container: container["volumeMounts"][1].update(subPath="ws/bob"),
    "more memory": lambda _, container: container["resources"]["limits"].update(memory="2Gi"),
    "privileges": lambda _, container: container["securityContext"].update(privileged=True),
    "a hook": lambda _, container: container.update(lifecycle={"postStart": {}}, tty=True),
    "root's group": lambda spec, _: spec["securityContext"].update(supplementalGroups=[0]),
    "a lesser filter": lambda spec, _: spec["securityContext"].update(seccompProfile={"type": "Unconfined"}),
    "another architecture": lambda spec, _: spec["nodeSelector"].update({"kubernetes.io/arch": "arm64"}),
    "no spec at all": lambda spec, _: spec.clear(),
}


@pytest.mark.claim("engine.kubernetes-is-read-back")
@pytest.mark.parametrize("change", WEAKER.values(), ids=WEAKER)
def test_whatever_else_was_made_is_told(change):
    spec = returned_spec()
    change(spec, spec["containers"][0])
    assert [*differences(requested_pod()["spec"], spec)]


def test_quantity_is_read_in_every_notation():
    values = {"250m": 0.25, "2Gi": 2 << 30, "2k": 2000, "1.5": 1.5, "64Mi": 64 << 20, "x": None, "1e3x": None}
    assert {text: parse_quantity(text) for text in values} == values


def reported_pod(status=None, *, node="node-1", **meta):
    spec = {"containers": [{"image": NAME}], **({"nodeName": node} if node else {})}
    return {"metadata": {"name": "call-0", **meta}, "spec": spec, "status": status or {}}


def with_state(**state):
    return reported_pod(
        {"phase": "Running", "containerStatuses": [{"state": state, "imageID": f"docker://{NAME}"}]}
    )


def ended(code, reason="Completed"):
    return with_state(terminated={"exitCode": code, "reason": reason})


def waiting(reason, message=""):
    return with_state(waiting={"reason": reason, "message": message})


EVICTED = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"}
GOES_ON = with_state(running={})


def test_waiting_container_state_maps_to_its_error():
    for status, error in (
        (waiting("ErrImageNeverPull"), ImageMissing),
        (waiting("ImagePullBackOff"), ImageMissing),
        (waiting("CreateContainerConfigError", "seccomp profile"), IsolationRefused),
        (waiting("CreateContainerError", "no subPath"), EngineUnavailable),
        (reported_pod(EVICTED), EngineUnavailable),
        (waiting("ContainerCreating"), type(None)),
        (GOES_ON, type(None)),
    ):
        assert type(refusal(status)) is error, status


def test_full_nodes_mean_a_lack_of_capacity():
    condition = {"type": "PodScheduled", "reason": "Unschedulable", "message": "0/3 nodes are available"}
    assert isinstance(unschedulable(reported_pod({"conditions": [condition]}, node="")), CapacityExhausted)
    assert unschedulable(reported_pod({"conditions": [{"type": "PodScheduled", "status": "True"}]})) is None


def test_pod_end_maps_to_the_call_outcome():
    removed = ended(137, "Error") | {"metadata": {"deletionTimestamp": "now"}}
    for status, final, outcome in (
        (ended(0), {"code": 0}, Exited(0)),
        (ended(139, "Error"), None, Killed(139)),
        (ended(137, "OOMKilled"), None, OutOfMemory(LIMITS.memory_bytes, killed=True)),
        # one of its children was killed, not the process itself
        (ended(0, "OOMKilled"), {"code": 0}, Exited(0)),
        (removed, None, Evicted("somebody deleted its Pod")),
        (reported_pod(EVICTED), {"code": 0}, Evicted("Evicted: The node was low on memory")),
        (reported_pod({"phase": "Failed", "reason": "DeadlineExceeded"}), None, Evicted("DeadlineExceeded")),
    ):
        assert judge(final, state(status), LIMITS) == outcome


@pytest.mark.claim("engine.kubernetes-told-by-the-end")
def test_only_terminated_containers_have_ended():
    """Neither a phase nor a requested deletion is proof."""
    assert has_ended(ended(0))
    assert has_ended(reported_pod(node=""))
    for going_on in (
        reported_pod(EVICTED),
        reported_pod({"phase": "Failed"}),
        GOES_ON,
        reported_pod(deletionTimestamp="now"),
    ):
        assert not has_ended(going_on)
    assert state(GOES_ON) == ContainerState(running=True, exit_code=0, out_of_memory=False)


def test_pod_removed_by_cluster_is_noticed():
    lost = with_state(running={})
    lost["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    assert all(map(is_terminating, (lost, reported_pod(EVICTED), reported_pod(deletionTimestamp="now"))))
    assert not is_terminating(GOES_ON)


def test_image_is_what_the_pod_was_made_from():
    assert image_of(GOES_ON) == NAME
    assert image_of(reported_pod()) == ""


def test_api_refusal_maps_to_its_error():
    for status, message, error in (
        (403, 'pods "x" is forbidden: exceeded quota: calls, requested: pods=1', CapacityExhausted),
        (403, 'User "x" cannot create resource "pods" in API group ""', EngineUnavailable),
        (403, 'pods "x" is forbidden: violates PodSecurity "restricted:latest"', IsolationRefused),
        (403, "admission webhook denied the request", IsolationRefused),
        (403, 'pod rejected: RuntimeClass "kata" not found', IsolationRefused),
        (401, "Unauthorized", EngineUnavailable),
        (422, "spec.containers[0].volumeMounts: Invalid value", IsolationRefused),
        (404, 'namespaces "x" not found', EngineUnavailable),
        (500, "etcdserver: request timed out", EngineUnavailable),
    ):
        assert type(refused(status, message)) is error, message


def test_deadline_follows_the_api_clock():
    """A Pod of another server, whose clock is a day ahead, has existed for ten of its sixty seconds."""
    marks = labels("abc", "call", 60)
    ahead = {
        name: str(float(value) + 86_400) if "started" in name or name.endswith(".deadline") else value
        for name, value in marks.items()
    }
    there = reported_pod(creationTimestamp="2026-11-23T08:00:00Z", annotations=ahead)
    container = leftover(there, dt.datetime(2026, 11, 23, 8, 0, 10, tzinfo=dt.UTC).timestamp())
    assert overdue(container.labels, Moment.now()) == pytest.approx(-50, abs=2)


@pytest.mark.claim("engine.kubernetes-leases")
def test_only_long_ended_pods_are_leftovers():
    now = dt.datetime.now(dt.UTC)
    for there, seconds, left in (
        (ended(0), 200, True),
        (ended(0), 20, False),  # its server is about to remove it
        (ended(0), None, False),  # an API that does not record changes
        (with_state(running={}), 200, False),  # its server may only be suspended
    ):
        changes = [] if seconds is None else [seconds, seconds + 300]
        times = [(now - dt.timedelta(seconds=age)).isoformat() for age in (900, *changes)]
        there["metadata"] |= {
            "annotations": dict(labels("gone", "call", 6000)),
            "creationTimestamp": times[0],
            "managedFields": [{"time": moment} for moment in times[1:]],
        }
        assert (overdue(leftover(there, now.timestamp()).labels, Moment.now()) > 300) is left


def test_lock_covers_only_servers_of_its_machine():
    here = dict(labels("abc", "call", 60))
    for marks, known in ((here, "abc"), ({**here, UPTIME_DEADLINE: "another-boot 12.0"}, None)):
        there = reported_pod(creationTimestamp="2026-11-23T08:00:00Z", annotations=marks)
        assert leftover(there, 0.0).labels.get(OWNER) == known


@pytest.mark.parametrize("image_name", [NAME, "registry/gdal:3"])
def test_image_is_tried_once_and_known_by_id(image_name):
    tried = []
    images = PodImages(lambda: None, lambda reference: tried.append(reference) or NAME)
    image = images.find(image_name)
    assert images.find(image.id) == replace(image, reference=image.id)
    assert (images.name_of(image.id), tried) == (NAME, [image_name])


def test_mirror_image_is_pulled_and_known_by_digest():
    """A node may report the first name by which it knows the same image."""
    mirrored = NAME.replace("registry/", "mirror.test:5000/osgeo/")
    images = PodImages(lambda: None, lambda _reference: NAME)
    image = images.find(mirrored)
    assert (image.id, image.digest) == (NAME.partition("@")[2],) * 2
    (container,) = requested_pod(image=images.name_of(image.id))["spec"]["containers"]
    assert (container["image"], container["imagePullPolicy"]) == (mirrored, "IfNotPresent")


@pytest.fixture
def kubeconfig(tmp_path, monkeypatch):
    """`kubeconfig(cluster, user)` puts a configuration with these values in effect."""

    def write(cluster=None, user=None):
        cluster = {"server": "https://api:6443/", **(cluster or {})}
        both = {"cluster": "c", "user": "u"}
        configuration = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user or {"token": "secret"}}],
            "contexts": [
                {"name": "one", "context": both},
                {"name": "two", "context": {**both, "namespace": "maps"}},
            ],
            "current-context": "one",
        }
        (tmp_path / "config").write_text(yaml.safe_dump(configuration))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))

    return write


def test_context_and_namespace_are_named_or_default(kubeconfig):
    kubeconfig()
    spaces = {"": "gdal-calls", "two": "maps", "two/calls": "calls", "/calls": "calls"}
    assert {context: Cluster.from_address(f"k8s://{context}").namespace for context in spaces} == spaces
    assert Cluster.from_address("k8s://").server == "https://api:6443"
    with pytest.raises(EngineUnavailable):
        Cluster.from_address("k8s://three")


def test_what_would_be_believed_unseen_is_refused(kubeconfig):
    for cluster, user in (
        ({"insecure-skip-tls-verify": True}, {}),
        ({"server": "http://api"}, {}),
        ({}, {"exec": {"command": "steal"}}),
        ({"certificate-authority-data": base64.b64encode(b"no certificate").decode()}, {}),
        ({}, {"client-certificate": "absent.pem"}),
    ):
        kubeconfig(cluster, user)
        with pytest.raises(EngineUnavailable):
            assert not Cluster.from_address("k8s://"), (cluster, user)


def test_a_token_in_a_file_is_read_anew(tmp_path, kubeconfig):
    (tmp_path / "token").write_text("first\n")
    kubeconfig(user={"tokenFile": "token"})
    token = Cluster.from_address("k8s://").token
    assert token() == "first"
    (tmp_path / "token").write_text("second")
    assert token() == "second"
