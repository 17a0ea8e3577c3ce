"""What a cluster lets this server do, and what it would stop by itself: asked for, or tried with a Pod that no gate closes in.

Nothing that is asked for "as a trial" is ever made: the API judges it and forgets it.
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
# what everybody may ask of themselves
_OWN: Final = {"authorization.k8s.io", "authentication.k8s.io"}
_SECONDS: Final = 30.0
_PAUSE: Final = 0.05
# as a Pod without a gate: what its node, and the network before it, leave open
_LOOK: Final = """
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


class Look(NamedTuple):
    """What a plain Pod found on its node."""

    node: str
    kernel: str
    landlock: int  # the version of its interface; 0 without it
    filtered: bool  # whether the runtime's own filter of system calls is in force
    network: str  # why it did not reach the cluster's API; "" when it did


def allowed(api: Api) -> set[tuple[str, str]]:
    """What this account may do in the namespace of calls, as (resource, verb); another group's resources with their group."""
    status = _asked(api, "selfsubjectrulesreviews", {"namespace": api.cluster.namespace})
    return {
        (f"{name}.{group}" if group else name, verb)
        for rule in status.get("resourceRules") or ()
        for group in rule.get("apiGroups") or ("",)
        if group not in _OWN
        for name in rule.get("resources") or ()
        for verb in rule["verbs"]
    }


def elsewhere(api: Api, resource: str, verb: str) -> bool:
    """Whether this account may do that in every namespace, or to what has none."""
    name, _, below = resource.partition("/")
    wanted = {"resource": name, "verb": verb, **({"subresource": below} if below else {})}
    return bool(_asked(api, "selfsubjectaccessreviews", {"resourceAttributes": wanted}).get("allowed"))


def _asked(api: Api, kind: str, spec: Object) -> Object:
    status: Object = api.post(f"/apis/authorization.k8s.io/v1/{kind}", {"spec": spec})["status"]
    return status


def call(image: str, architecture: str) -> dict[str, Any]:
    """A Pod as calls have it, without mounts."""
    template = SandboxTemplate("sha256:", ("python3", "-c", ""), (65534, 65534), Limits())
    marks = labels(secrets.token_hex(8), "doctor", _SECONDS)
    return pod(template, image, f"call-{secrets.token_hex(8)}", marks, architecture)


def with_everything(asked: dict[str, Any]) -> dict[str, Any]:
    """The same with more memory and processors than a quota could allow."""
    (container,) = asked["spec"]["containers"]
    most = {**container["resources"]["limits"], "memory": "1Pi", "cpu": "1M"}
    container["resources"] = {"limits": most, "requests": most}
    return asked


def refused(api: Api, asked: Object) -> str:
    """Why a Pod would not be let in, in the API's words; "" when it would."""
    try:
        api.post(f"/api/v1/namespaces/{api.cluster.namespace}/pods?dryRun=All", asked)
    except EngineUnavailable:
        raise
    except SandboxError as error:
        return str(error)
    return ""


def looked(engine: KubernetesEngine, api: Api, image: str, architecture: str) -> Look:
    """Raises SandboxError where admission lets in calls alone, or no node could run it."""
    asked = call(image, architecture)
    asked["spec"]["containers"][0]["command"] = ["python3", "-I", "-c", _LOOK.replace("$", "$$")]
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
            return Look(node, told["kernel"], told["landlock"], told["seccomp"] == "2", told["network"])
    raise EngineUnavailable(f"a plain Pod said nothing within {_SECONDS:.0f} s.")
