"""Finds out what a cluster allows this server to do, and what the cluster refuses by itself.

It queries the API, or tries a Pod without a gate. Requests that are only judged are dry runs, which create nothing.
"""

import secrets
import time
from typing import Any, Final, NamedTuple

from sandbox.engines.k8s.api import Api, Object
from sandbox.engines.k8s.engine import KubernetesEngine
from sandbox.engines.k8s.pod import pod
from sandbox.errors import EngineUnavailable, SandboxError
from sandbox.labels import labels
from sandbox.parsing import parse_json
from sandbox.template import Limits, SandboxTemplate

NEEDED: Final = {("pods", verb) for verb in ("create", "get", "list", "watch", "delete")} | {
    ("pods/attach", verb) for verb in ("get", "create")
}
# API groups of the rights that every account has to query itself
_OWN: Final = {"authorization.k8s.io", "authentication.k8s.io"}
_MAX_VALUES: Final = 100  # members and elements of the findings of a Pod
_SECONDS: Final = 30.0
_PAUSE: Final = 0.05
# runs in a Pod without a gate, to find what the node and the network allow by themselves
_PROBE: Final = """
import ctypes, errno, json, os, socket
told = {"kernel": os.uname().release, "landlock": max(0, ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1))}
told["seccomp"] = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("Seccomp:"))
try:
    socket.create_connection((os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"])), 3).close()
    told["network"] = ""
except OSError as error:
    told["network"] = os.strerror(error.errno) if error.errno else "nothing answers"
open("/dev/termination-log", "w").write(json.dumps(told))
"""


class NodeFindings(NamedTuple):
    """The findings of a Pod without a gate on its node."""

    node: str
    kernel: str
    landlock: int  # version of Landlock's ABI; 0 without Landlock
    filtered: bool  # True if the runtime's default seccomp filter is in force
    network: str  # why the Pod could not connect to the cluster's API; "" if it could


def granted_rights(api: Api) -> set[tuple[str, str]]:
    """This account's rights in the namespace of calls, as (resource, verb).

    A resource outside the core API group is written with its group.
    """
    status = _post_review(api, "selfsubjectrulesreviews", {"namespace": api.cluster.namespace})
    return {
        (f"{name}.{group}" if group else name, verb)
        for rule in status.get("resourceRules") or ()
        for group in rule.get("apiGroups") or ("",)
        if group not in _OWN
        for name in rule.get("resources") or ()
        for verb in rule["verbs"]
    }


def can_cluster_wide(api: Api, resource: str, verb: str) -> bool:
    """True if this account has the right in every namespace, or for resources without a namespace."""
    name, _, below = resource.partition("/")
    attributes = {"resource": name, "verb": verb, **({"subresource": below} if below else {})}
    return bool(
        _post_review(api, "selfsubjectaccessreviews", {"resourceAttributes": attributes}).get("allowed")
    )


def _post_review(api: Api, kind: str, spec: Object) -> Object:
    status: Object = api.post(f"/apis/authorization.k8s.io/v1/{kind}", {"spec": spec})["status"]
    return status


def call_pod(image: str, architecture: str) -> dict[str, Any]:
    """The Pod of a call, without mounts."""
    template = SandboxTemplate("sha256:", ("python3", "-c", ""), (65534, 65534), Limits())
    marks = labels(secrets.token_hex(8), "doctor", _SECONDS)
    return pod(template, image, f"call-{secrets.token_hex(8)}", marks, architecture)


def exceed_quota(probe_pod: dict[str, Any]) -> dict[str, Any]:
    """Changes a Pod so that it requests more memory and processors than any quota allows, and returns it."""
    (container,) = probe_pod["spec"]["containers"]
    most = {**container["resources"]["limits"], "memory": "1Pi", "cpu": "1M"}
    container["resources"] = {"limits": most, "requests": most}
    return probe_pod


def admission_error(api: Api, probe_pod: Object) -> str:
    """The API's reason for refusing to create a Pod, in its own words; "" if it would accept it."""
    try:
        api.post(f"/api/v1/namespaces/{api.cluster.namespace}/pods?dryRun=All", probe_pod)
    except EngineUnavailable:
        raise
    except SandboxError as error:
        return str(error)
    return ""


def probe_node(engine: KubernetesEngine, api: Api, image: str, architecture: str) -> NodeFindings:
    """Runs a Pod without a gate on a node and returns its findings.

    Raises SandboxError if admission refuses the Pod or no node runs it.
    """
    probe_pod = call_pod(image, architecture)
    probe_pod["spec"]["containers"][0]["command"] = ["python3", "-I", "-c", _PROBE.replace("$", "$$")]
    name, end = api.create(probe_pod)["metadata"]["name"], time.monotonic() + _SECONDS
    try:
        while not (reported := api.pod(name) or probe_pod)["spec"].get("nodeName") and time.monotonic() < end:
            time.sleep(_PAUSE)  # waits for a node first, because `has_ended` is True for a Pod without one
        engine.container(name).wait(end - time.monotonic())
        reported = api.pod(name) or reported
    finally:
        engine.container(name).remove()
    for status in reported.get("status", {}).get("containerStatuses") or ():
        if message := (status["state"].get("terminated") or {}).get("message"):
            facts, node = parse_json(message, _MAX_VALUES), reported["spec"]["nodeName"]
            return NodeFindings(
                node, facts["kernel"], facts["landlock"], facts["seccomp"] == "2", facts["network"]
            )
    raise EngineUnavailable(f"a plain Pod reported nothing within {_SECONDS:.0f} s.")
