"""What a Pod's status says of its container, and of why it does not begin. Pure.

Invariants: a phase proves no end, as the node may tell `Failed` while the process lives; only a container that is told as
terminated has ended; an entry that goes away without having been asked to proves nothing.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sandbox.engine import ContainerState
from sandbox.engines.k8s.api import Object
from sandbox.errors import CapacityExhausted, EngineUnavailable, ImageMissing, IsolationRefused, SandboxError

_NO_IMAGE: Final = {"ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff", "InvalidImageName"}
_NO_CONTAINER: Final = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}


def state(pod: Object) -> ContainerState:
    if not has_ended(pod):
        return ContainerState(running=True, exit_code=0, out_of_memory=False, reason=outside(pod))
    ended = standing(pod).get("terminated") or {}
    code = int(ended.get("exitCode", -1))  # else as of a container that is gone without a trace
    memory = ended.get("reason") == "OOMKilled"
    return ContainerState(running=False, exit_code=code, out_of_memory=memory, reason=outside(pod))


def has_ended(pod: Object | None) -> bool:
    """Whether nothing of it runs, for certain, or there is nothing to know any more."""
    if pod is None or not pod["spec"].get("nodeName"):
        return True
    waiting = (standing(pod).get("waiting") or {}).get("reason")  # for something that does not come
    return "terminated" in standing(pod) or waiting in _NO_IMAGE | _NO_CONTAINER


def is_begun(pod: Object) -> bool:
    """Whether its node works at it."""
    return bool(_status(pod))


def outside(pod: Object) -> str:
    """Why the cluster ended it, in its own words; "" for one that ended by itself."""
    status = pod.get("status") or {}
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    if reason:
        return f"{reason}: {message}"[:300] if message else reason
    return "its deletion was asked for" if "deletionTimestamp" in pod["metadata"] else ""


def refusal(pod: Object) -> SandboxError | None:
    """Why its container will not run; None while it may."""
    waiting = standing(pod).get("waiting") or {}
    reason, said = str(waiting.get("reason") or ""), str(waiting.get("message") or "")[:400]
    image = _status(pod).get("image") or pod["spec"]["containers"][0]["image"]
    if reason in _NO_IMAGE:
        return ImageMissing(f"image {image} is not on the node, and cannot be had there: {reason} {said}")
    if reason in _NO_CONTAINER:
        kind = IsolationRefused if "seccomp" in said else EngineUnavailable
        return kind(f"the node cannot make the container: {reason}: {said}")
    if (pod.get("status") or {}).get("phase") == "Failed" and "terminated" not in standing(pod):
        return EngineUnavailable(f"the cluster ended the Pod before it began: {outside(pod) or 'no reason'}")
    return None


def unplaced(pod: Object) -> CapacityExhausted | None:
    """That no node has room for it now; None when it has a place, or nobody has looked yet."""
    for one in (pod.get("status") or {}).get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("reason") == "Unschedulable":
            return CapacityExhausted(
                f"no node of the cluster has room for a call: {one.get('message', '')}"[:500]
                + " Try again later, or add nodes."
            )
    return None


def image_of(pod: Object) -> str:
    """What its node calls the image of its container, `NAME@sha256:...` or the id alone; "" as long as it does not tell."""
    said = str(_status(pod).get("imageID") or "").rpartition("://")[2]
    return said if "sha256:" in said else ""


def is_leaving(pod: Object) -> bool:
    """Whether it is being deleted or evicted, or its node is lost to the cluster."""
    status = pod.get("status") or {}
    lost = any(
        one.get("type") == "Ready" and one.get("status") == "False" and "running" in standing(pod)
        for one in status.get("conditions") or ()
    )
    return lost or "deletionTimestamp" in pod["metadata"] or status.get("reason") == "Evicted"


def changed(pod: Object) -> float:
    """When its entry was last changed, in seconds since the epoch by the API's clock; never, where the API keeps no record of that."""
    told = [one["time"] for one in pod["metadata"].get("managedFields") or () if "time" in one]
    return max((datetime.fromisoformat(one).timestamp() for one in told), default=math.inf)


def _status(pod: Object) -> Mapping[str, Any]:
    found: Sequence[Mapping[str, Any]] = (pod.get("status") or {}).get("containerStatuses") or ({},)
    return found[0]


def standing(pod: Object) -> Mapping[str, Any]:
    """What its node has told of its container, by `waiting`, `running`, up to a second late, or `terminated`, which none begins again."""
    told: Mapping[str, Any] = _status(pod).get("state") or {}
    return told
