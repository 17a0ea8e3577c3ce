"""The container of one Pod: its streams, its start, its end as reported by the node, and its removal.

Invariants:
* A container is started through its own stream. A Pod whose server is gone therefore never starts its job, and ends.
* A Pod's entry is force-deleted only after the node has reported that the container ended or was never created.
"""

import time
from collections import deque
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Final

from sandbox.engine import AttachedStreams, ContainerState
from sandbox.engines.k8s.api import Api, Object
from sandbox.engines.k8s.cluster import Cluster
from sandbox.engines.k8s.pod import CONTAINER, GRACE_SECONDS
from sandbox.engines.k8s.status import container_state, has_ended, is_started, refusal, state, unschedulable
from sandbox.engines.k8s.watch import PodWatch
from sandbox.engines.k8s.websocket import PodWire, StreamRefused, attach
from sandbox.errors import EngineUnavailable, IsolationRefused
from sandbox.waiting import Cancellation, refuse_cancelled

START_SECONDS: Final = 60.0  # seconds for a node to create a container, which may include pulling the image
# seconds for free space on a node or in the quota; after that, waiting slots are released
ROOM_SECONDS: Final = 5.0
# seconds for a container to end because its stdin closed; a node checks once a second
_OWN_END_SECONDS: Final = 1.5
_REMOVAL_SECONDS: Final = 90.0  # seconds; enough for a badly overloaded node
_SEND_SECONDS: Final = 10.0
# seconds from the creation of a Pod to the first attempt to attach, until one was measured; each attempt costs the API
# a connection to the node
_FIRST_TRY: Final = 0.4
_ATTACH_FACTOR: Final = 0.9  # multiplied with the shortest recent time to attach
_RECENT_PODS: Final = 5  # number of Pods whose time to attach is remembered
_TRIES: Final = 20  # the pause between two attempts is at least the time waited so far divided by this
_PAUSE: Final = 0.03  # minimum seconds between two attempts
_POLL_SECONDS: Final = 2.0  # maximum seconds to wait for the watch before the API itself is queried
_CANCEL_POLL_SECONDS: Final = 0.2  # seconds between two checks whether the caller has cancelled
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
_GATE: Final = (75, 76)  # exit codes of gate.py
_START: Final = b"\n"


@dataclass(frozen=True)
class Pods:
    """The state that the containers of one engine share."""

    cluster: Cluster
    api: Api
    watch: PodWatch
    # created by this process and not removed; if a node is lost, the watch ends the streams of its containers
    live: "dict[str, PodContainer]"
    # seconds until the streams were attached, for the latest Pods
    attach_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT_PODS))


class PodContainer:
    """The container of one Pod.

    The attached stream is the server's lease on the Pod, so only the process that created the Pod can start it.
    """

    def __init__(self, pods: Pods, name: str, *, created: bool = False) -> None:
        """`created` is True if this process has just created the Pod."""
        self.id, self._pods, self._created = name, pods, created
        self._wire: PodWire | None = None
        if created:
            pods.live[name] = self

    def start(self, cancel: Cancellation | None = None) -> AttachedStreams:
        if not self._created or self._wire is not None:
            raise EngineUnavailable(f"{self.id} was not created here, or was started before.")
        wire = self.attach(cancel)
        try:
            wire.send(_START, _SEND_SECONDS)
        except OSError as error:
            raise EngineUnavailable(f"{self.id} cannot be started: {error}") from error
        return wire

    def attach(self, cancel: Cancellation | None = None) -> PodWire:
        """Waits until a node has created the container, and attaches to its streams.

        Raises LaunchCancelled, ImageMissing, IsolationRefused.
        """
        self._wire = self._attach(cancel)
        return self._wire

    def end_stream(self) -> None:
        """Ends the stream. Used if the Pod is drained, evicted or on a lost node, because it then sends nothing more."""
        if self._wire is not None:
            self._wire.end()

    def _attach(self, cancel: Cancellation | None) -> PodWire:
        """Attaches to the streams. It starts trying early, because the API reports a running container 0.3 s late."""
        started = time.monotonic()
        first_try = min(self._pods.attach_seconds, default=_FIRST_TRY) * _ATTACH_FACTOR
        while True:
            known, waited = self._pods.watch.known(self.id), time.monotonic() - started
            if known is not None and (reason := self._startup_error(known, waited)) is not None:
                raise reason
            if waited > START_SECONDS:
                raise EngineUnavailable(f"no container was made within {START_SECONDS:.0f} s.")
            if known is not None and (
                "running" in container_state(known) or (waited > first_try and is_started(known))
            ):
                try:
                    wire = attach(self._pods.cluster, self.id, CONTAINER)
                except StreamRefused as refused:
                    if refused.status in _REFUSED:
                        raise
                else:
                    self._pods.attach_seconds.append(waited)
                    return wire
            pause = max(_PAUSE, min(first_try - waited, _POLL_SECONDS), waited / _TRIES)
            self._await_change(known, pause, cancel)

    def _await_change(self, known: Object | None, seconds: float, cancel: Cancellation | None) -> None:
        """Waits until the watch reports a change of the Pod, or until `seconds` have passed. Raises LaunchCancelled."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self._pods.watch.known(self.id) is known:
            refuse_cancelled(cancel)
            self._pods.watch.wait_for(self.id, lambda pod: pod is not known, min(left, _CANCEL_POLL_SECONDS))
        refuse_cancelled(cancel)

    @staticmethod
    def _startup_error(known: Object, waited: float) -> Exception | None:
        if (reason := refusal(known)) is not None:
            return reason
        if waited > ROOM_SECONDS and (reason := unschedulable(known)) is not None:
            return reason
        if not has_ended(known) or not known["spec"].get("nodeName"):
            return None
        ended = state(known)
        if ended.exit_code in _GATE:
            return IsolationRefused(
                f"the gate could not close the container ({ended.exit_code}), so nothing was run. The node's kernel is too old, "
                "or its runtime refuses prctl or Landlock."
            )
        return EngineUnavailable(f"the container ended before its start, with {ended.exit_code}.")

    def state(self) -> ContainerState | None:
        pod, wire = self._pods.api.pod(self.id), self._wire
        current = None if pod is None else state(pod)
        if current and current.running and not current.reason and wire is not None and wire.ended:
            # a container that closes its streams looks the same as a node whose runtime was restarted
            return replace(current, reason="its stream ended while it ran")
        return current

    def process(self) -> None:
        """None: the process runs on another machine, and the API does not report its number."""
        self._pods.api.pod(self.id)

    def wait(self, seconds: float) -> ContainerState | None:
        end = time.monotonic() + seconds
        while True:
            current, left = self.state(), end - time.monotonic()
            if current is None or not current.running or left <= 0:
                return current
            self._pods.watch.wait_for(self.id, has_ended, min(left, _POLL_SECONDS))
            time.sleep(min(_PAUSE, max(0.0, left)))

    def remove(self) -> None:
        self._pods.live.pop(self.id, None)
        existed, self._created = self._created and self._wire is not None, False
        if self._wire is not None:
            self._wire.close()
        # most programs end when their stdin closes, and the node reports that sooner than an end that it has to enforce
        self._pods.watch.wait_for(self.id, has_ended, _OWN_END_SECONDS)
        end, delete_requested = time.monotonic() + _REMOVAL_SECONDS, False
        while (pod := self._known()) is not None:
            if time.monotonic() > end:
                raise EngineUnavailable(
                    f"{self.id} was deleted, but its node does not report its end. The node may be lost; the Pod's own "
                    "deadline ends it."
                )
            existed = True
            if has_ended(pod):
                # a Pod without a container may be scheduled to a node at this moment; the resource version detects that
                version = "" if "terminated" in container_state(pod) else pod["metadata"]["resourceVersion"]
                if self._pods.api.delete(self.id, 0, version):
                    return
            elif not delete_requested:
                delete_requested = self._pods.api.delete(self.id, GRACE_SECONDS)
            self._pods.watch.wait_for(self.id, has_ended, _POLL_SECONDS)
            time.sleep(_PAUSE)
        # after a normal deletion, the node deletes the entry only once nothing of the Pod runs
        if delete_requested or not existed:
            return
        last = self._pods.watch.last_before_removal(self.id, max(_POLL_SECONDS, end - time.monotonic()))
        if last is None or not has_ended(last):
            raise EngineUnavailable(
                f"{self.id} was deleted by somebody else before its node reported its end, so it may run until its Pod's "
                "own deadline."
            )

    def _known(self) -> Object | None:
        """The Pod as the watch last reported it if that is final (terminated); otherwise as the API reports it now."""
        known = self._pods.watch.known(self.id)
        return (
            known
            if known is not None and "terminated" in container_state(known)
            else self._pods.api.pod(self.id)
        )
