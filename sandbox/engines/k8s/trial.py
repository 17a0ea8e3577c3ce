"""What a cluster lets this server do, and what it would refuse by itself: asked of the API, or tried with a Pod without a gate.

The API judges what is sent as a dry run and creates nothing.
"""

import json
import secrets
import time
from typing import Any, Final, NamedTuple

from sandbox.engines.k8s.api import Api, Object
from sandbox.engines.k8s.engine import KubernetesEngine
from sandbox.engines.k8s.pod import pod
from sandbox.errors import EngineUnavailable, SandboxError
from sandbox.labels import labels
from sandbox.template import Limits, SandboxTemplate

NEEDED: Final = {("pods", verb) for verb in ("create", "get", "list", "watch", "delete")} | {
    ("pods/attach", verb) for verb in ("get", "create")
}
# what every account may ask about itself
_OWN: Final = {"authorization.k8s.io", "authentication.k8s.io"}
_SECONDS: Final = 30.0
_PAUSE: Final = 0.05
# as a Pod without a gate: what its node, and the network before it, leave open
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
    """What a plain Pod found on its node."""

    node: str
    kernel: str
    landlock: int  # the version of its interface; 0 without it
    filtered: bool  # whether the runtime's own filter of system calls is in force
    network: str  # why it did not reach the cluster's API; "" when it did


def granted_rights(api: Api) -> set[tuple[str, str]]:
    """What this account may do in the namespace of calls, as (resource, verb); resources of other API groups have their group."""
    status = _asked(api, "selfsubjectrulesreviews", {"namespace": api.cluster.namespace})
    return {
        (f"{name}.{group}" if group else name, verb)
        for rule in status.get("resourceRules") or ()
        for group in rule.get("apiGroups") or ("",)
        if group not in _OWN
        for name in rule.get("resources") or ()
        for verb in rule["verbs"]
    }


def can_cluster_wide(api: Api, resource: str, verb: str) -> bool:
    """True if this account may do that in every namespace, or to resources without a namespace."""
    name, _, below = resource.partition("/")
    wanted = {"resource": name, "verb": verb, **({"subresource": below} if below else {})}
    return bool(_asked(api, "selfsubjectaccessreviews", {"resourceAttributes": wanted}).get("allowed"))


def _asked(api: Api, kind: str, spec: Object) -> Object:
    status: Object = api.post(f"/apis/authorization.k8s.io/v1/{kind}", {"spec": spec})["status"]
    return status


def call_pod(image: str, architecture: str) -> dict[str, Any]:
    """The Pod of a call, without mounts."""
    template = SandboxTemplate("sha256:", ("python3", "-c", ""), (65534, 65534), Limits())
    marks = labels(secrets.token_hex(8), "doctor", _SECONDS)
    return pod(template, image, f"call-{secrets.token_hex(8)}", marks, architecture)


def oversized(asked: dict[str, Any]) -> dict[str, Any]:
    """The same Pod with more memory and processors than any quota allows."""
    (container,) = asked["spec"]["containers"]
    most = {**container["resources"]["limits"], "memory": "1Pi", "cpu": "1M"}
    container["resources"] = {"limits": most, "requests": most}
    return asked


def admission_error(api: Api, asked: Object) -> str:
    """Why the API would refuse to create a Pod, in its own words; "" if it would not."""
    try:
        api.post(f"/api/v1/namespaces/{api.cluster.namespace}/pods?dryRun=All", asked)
    except EngineUnavailable:
        raise
    except SandboxError as error:
        return str(error)
    return ""


def probe_node(engine: KubernetesEngine, api: Api, image: str, architecture: str) -> NodeFindings:
    """Runs a plain Pod on a node and reports what it found. Raises SandboxError if admission refuses it or no node runs it."""
    asked = call_pod(image, architecture)
    asked["spec"]["containers"][0]["command"] = ["python3", "-I", "-c", _PROBE.replace("$", "$$")]
    name, end = api.create(asked)["metadata"]["name"], time.monotonic() + _SECONDS
    try:
        while not (found := api.pod(name) or asked)["spec"].get("nodeName") and time.monotonic() < end:
            time.sleep(_PAUSE)  # one that has no place yet runs no more than one that has ended
        engine.container(name).wait(end - time.monotonic())
        found = api.pod(name) or found
    finally:
        engine.container(name).remove()
    for one in found.get("status", {}).get("containerStatuses") or ():
        if said := (one["state"].get("terminated") or {}).get("message"):
            told, node = json.loads(said), found["spec"]["nodeName"]
            return NodeFindings(
                node, told["kernel"], told["landlock"], told["seccomp"] == "2", told["network"]
            )
    raise EngineUnavailable(f"a plain Pod reported nothing within {_SECONDS:.0f} s.")
