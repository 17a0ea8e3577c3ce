"""Reads from a Pod's status the state of its container, and why the container does not start. Pure.

Invariants:
* A phase does not prove an end: the node may report `Failed` while the process lives. Only a container that is
  reported as terminated has ended.
* An entry that disappears without a request to delete it proves nothing.
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
    # a Pod that waits for a node counts as running, although it has no process
    if not has_ended(pod) or not pod["spec"].get("nodeName"):
        return ContainerState(running=True, exit_code=0, out_of_memory=False, reason=eviction_reason(pod))
    ended = container_state(pod).get("terminated") or {}
    code = int(ended.get("exitCode", -1))  # -1 is the code of a container that disappeared
    memory = ended.get("reason") == "OOMKilled"
    return ContainerState(running=False, exit_code=code, out_of_memory=memory, reason=eviction_reason(pod))


def has_ended(pod: Object | None) -> bool:
    """True if none of the Pod's processes can be running, or if the Pod does not exist or has no node."""
    if pod is None or not pod["spec"].get("nodeName"):
        return True
    # reasons that mean it will never start
    waiting = (container_state(pod).get("waiting") or {}).get("reason")
    return "terminated" in container_state(pod) or waiting in _NO_IMAGE | _NO_CONTAINER


def is_started(pod: Object) -> bool:
    """True once the node has begun to create the container."""
    return bool(_status(pod))


def eviction_reason(pod: Object) -> str:
    """The cluster's reason for ending the Pod, in its own words; "" if the Pod ended by itself."""
    status = pod.get("status") or {}
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    if reason:
        return f"{reason}: {message}"[:300] if message else reason
    return "somebody deleted its Pod" if "deletionTimestamp" in pod["metadata"] else ""


def refusal(pod: Object) -> SandboxError | None:
    """The error if the container will never run; None if it still may."""
    waiting = container_state(pod).get("waiting") or {}
    reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")[:400]
    image = _status(pod).get("image") or pod["spec"]["containers"][0]["image"]
    if reason in _NO_IMAGE:
        return ImageMissing(
            f"image {image} is not on the node, and the node cannot fetch it: {reason} {message}"
        )
    if reason in _NO_CONTAINER:
        kind = IsolationRefused if "seccomp" in message else EngineUnavailable
        return kind(f"the node cannot make the container: {reason}: {message}")
    if (pod.get("status") or {}).get("phase") == "Failed" and "terminated" not in container_state(pod):
        return EngineUnavailable(
            f"the cluster ended the Pod before it began: {eviction_reason(pod) or 'no reason'}"
        )
    return None


def unschedulable(pod: Object) -> CapacityExhausted | None:
    """An error if no node has room for the Pod now; None if it has a node, or the scheduler has not looked yet."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return CapacityExhausted(
                f"no node of the cluster has room for a call: {condition.get('message', '')}"[:500]
                + " Try again later, or add nodes."
            )
    return None


def image_of(pod: Object) -> str:
    """The node's name for the image, `NAME@sha256:...` or only the id; "" until the node reports it."""
    name = str(_status(pod).get("imageID") or "").rpartition("://")[2]
    return name if "sha256:" in name else ""


def is_terminating(pod: Object) -> bool:
    """True if the Pod is being deleted or evicted, or the cluster has lost its node."""
    status = pod.get("status") or {}
    lost = any(
        condition.get("type") == "Ready"
        and condition.get("status") == "False"
        and "running" in container_state(pod)
        for condition in status.get("conditions") or ()
    )
    return lost or "deletionTimestamp" in pod["metadata"] or status.get("reason") == "Evicted"


def last_modified(pod: Object) -> float:
    """The last change of the Pod's entry, in seconds since the epoch by the API's clock; infinity if unknown."""
    times = [entry["time"] for entry in pod["metadata"].get("managedFields") or () if "time" in entry]
    return max((datetime.fromisoformat(text).timestamp() for text in times), default=math.inf)


def _status(pod: Object) -> Mapping[str, Any]:
    statuses: Sequence[Mapping[str, Any]] = (pod.get("status") or {}).get("containerStatuses") or ({},)
    return statuses[0]


def container_state(pod: Object) -> Mapping[str, Any]:
    """The container's state as reported by the node, up to a second late.

    One of `waiting`, `running`, and `terminated`, which is final.
    """
    current: Mapping[str, Any] = _status(pod).get("state") or {}
    return current
