"""An engine whose containers are Pods: one for each, with one container, behind the gate, on whichever node has room.

Invariants:
* a container is asked to start through its own stream, so that a Pod without its server never starts, and ends;
* what came back of a Pod is compared with what was asked before its start;
* its entry is deleted by force only once the node has told that the container has ended, or that it never had one;
* a stream is its server's lease: the kernel ends it with the server, never while the server only stands still. So what runs is left
  to its owner until its deadline, unless a lock of this very machine says that the owner is dead; what has ended and lies about
  was left by a dead one. All times are the API's, so that no server takes another for dead for its own clock's sake.
"""

import contextlib
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from sandbox.engine import ContainerState, EngineInfo, ImageInfo, Images, Leftover, Wire, removed_on_failure
from sandbox.engines.k8s.api import Api, Object
from sandbox.engines.k8s.cluster import Cluster
from sandbox.engines.k8s.pod import CONTAINER, GRACE_SECONDS, SELECTOR, differences, pod
from sandbox.engines.k8s.status import (
    changed,
    has_ended,
    image_of,
    is_begun,
    is_leaving,
    refusal,
    standing,
    state,
    unplaced,
)
from sandbox.engines.k8s.watch import PodWatch
from sandbox.engines.k8s.websocket import PodWire, Refused, attached
from sandbox.errors import CapacityExhausted, EngineUnavailable, ImageMissing, IsolationRefused, PullFailed
from sandbox.isolation.rows import told
from sandbox.labels import DEADLINE, OWNER, STARTED, UPTIME_DEADLINE, Moment, labels
from sandbox.template import Limits, SandboxTemplate
from sandbox.waiting import Cancellation, refuse_cancelled

_START_SECONDS: Final = 60.0  # for a node to make a container, with an image that it may have to fetch
_ROOM_SECONDS: Final = 5.0  # for room on a node, or in the quota; then slots that wait are given up
_OWN_END_SECONDS: Final = 1.5  # a node looks once a second
_REMOVAL_SECONDS: Final = 90.0  # of a node with far more to do than it can
_SEND_SECONDS: Final = 10.0
# from the request for a Pod to the first try for its streams, until one was measured. Each costs the API a connection to the node
_FIRST_TRY: Final = 0.4
_SOONER: Final = 0.9  # of the quickest of these
_LATELY: Final = 5  # Pods
_TRIES: Final = 20  # within the time that it takes
_PAUSE: Final = 0.03  # seconds between two tries of what the API does not tell the moment of
_LOOK: Final = 2.0  # seconds after which a watch is not waited for any longer, and the API itself is asked
_CANCEL_LOOK: Final = 0.2  # seconds between two looks whether the caller has cancelled
_LEFT_SECONDS: Final = 120.0  # far more than a server takes to remove a Pod that has ended
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
_GATE: Final = (75, 76)  # exit codes of gate.py
_LOOK_AT_IMAGE: Final = "image"  # in place of a call's id
_START: Final = b"\n"
_NOBODY: Final = (65534, 65534)
_NO_LIMIT: Final = 1 << 50  # bytes; the scheduler and the namespace's quota decide


@dataclass(eq=False)
class PodImages(Images):
    """The images of the nodes, of which an account without rights over nodes sees only what its Pods are made from."""

    _answer: Callable[[], object]
    _try_out: Callable[[str], str]
    _known: dict[str, str] = field(default_factory=dict)  # what it was asked for -> content id
    _names: dict[str, str] = field(default_factory=dict)  # content id -> what nodes know it by

    def find(self, reference: str) -> ImageInfo | None:
        """By a Pod that is made from it and never starts. A name with a digest is fetched by a node that has it not."""
        self._answer()
        asked = self.name_of(reference)
        if asked not in self._known:
            try:
                made_from = self._try_out(asked)
            except ImageMissing:
                return None
            named = asked if "@" in asked or asked.startswith("sha256:") else made_from
            id_ = f"sha256:{named.rpartition('sha256:')[2]}"
            self._known[asked] = self._known[named] = id_
            self._names[id_] = named
        id_ = self._known[asked]
        return ImageInfo(reference, id_, id_, {})

    def name_of(self, image: str) -> str:
        return self._names.get(image, image)

    def names(self, *_repositories: str) -> tuple[str, ...]:
        """Nodes are not asked what they have."""
        self._answer()
        return ()

    def pull(self, reference: str, _report: Callable[[str], None]) -> None:
        raise PullFailed(
            f"the nodes of a cluster fetch their images themselves. Name {reference} by its digest "
            "(NAME@sha256:...), or load it onto each node."
        )


class KubernetesEngine:
    """The Pods of calls in one namespace of a cluster."""

    def __init__(self, cluster: Cluster, owner: str = "") -> None:
        """`owner` is whose Pods those are that look at images; without one nobody is known to be dead by them."""
        self.cluster = cluster
        self._owner = owner or secrets.token_hex(8)
        self._api = Api(cluster)
        self._wires: dict[str, PodWire] = {}  # of the containers that this object made and did not remove
        self._took: deque[float] = deque(maxlen=_LATELY)  # seconds until a Pod had streams
        self._watch = PodWatch(self._api, SELECTOR, self._heard, lambda: bool(self._wires))
        self._given: set[str] = set()  # those of them whose wire was taken
        self._lock = threading.Lock()
        self.images = PodImages(self._api.version, self._image_of_a_pod)

    def close(self) -> None:
        self._watch.close()
        self._api.close()

    def info(self) -> EngineInfo:
        return self._info

    @cached_property
    def _info(self) -> EngineInfo:
        cluster, version = self.cluster, self._api.version()
        digits = ("".join(filter(str.isdigit, str(version[part]))) for part in ("major", "minor"))
        major, minor = (int(one or 0) for one in digits)
        return EngineInfo(
            name="Kubernetes",
            version=str(version["gitVersion"]),
            api_version=(major, minor),
            architecture=os.uname().machine,  # the nodes that are asked for are like this one
            cgroup_version="",
            security_options=("name=seccomp",),
            rootless=False,
            runtimes=("Kubernetes",),  # what its nodes have is not told; a Pod with another one is refused
            address=f"{cluster.server}/{cluster.namespace}",
            identity=f"{cluster.server}/{cluster.namespace}",
            memory_bytes=_NO_LIMIT,
            host=str(urlsplit(cluster.server).hostname),
            other_hosts=True,
            limits_by_node=True,
            tells_process=False,
            end_seconds=30.0,  # a node reports the ends of its Pods once a second, and a busy one much later
            removals=16,  # which mostly wait for a node's report, and hold the namespace's quota until then
        )

    # --- a container's life ---

    def create(
        self, template: SandboxTemplate, labels: Mapping[str, str], cancel: Cancellation | None = None
    ) -> str:
        for mount in template.mounts:  # a node would make a missing folder, as root
            if not Path(mount.source.path).exists():
                raise EngineUnavailable(f"there is no {mount.source.path} to mount.")
        return self._create(template, self.images.name_of(template.image), labels, cancel)

    def _create(
        self,
        template: SandboxTemplate,
        image: str,
        labels: Mapping[str, str],
        cancel: Cancellation | None = None,
    ) -> str:
        name = f"call-{secrets.token_hex(8)}"
        secrets_ = self.cluster.pull_secrets
        body = pod(template, image, name, labels, self._info.architecture, secrets_)
        made, end = None, time.monotonic() + _ROOM_SECONDS
        while made is None:
            refuse_cancelled(cancel)
            try:
                made = self._api.create(body)
            except CapacityExhausted:
                if time.monotonic() > end:
                    raise
                time.sleep(_ROOM_SECONDS / 40)
        with removed_on_failure(self, name):
            if found := tuple(differences(body["spec"], made["spec"])):
                raise IsolationRefused(
                    f"the cluster made another Pod than was asked for, so nothing was run: {told(found)}"
                )
            wire = self._attached(name, cancel)
            with self._lock:
                self._wires[name] = wire
        return name

    def _attached(self, name: str, cancel: Cancellation | None) -> PodWire:
        """The streams as soon as there are some: the API tells that a container runs a third of a second after it does."""
        begun, first_try = time.monotonic(), min(self._took, default=_FIRST_TRY) * _SOONER
        while True:
            known, waited = self._watch.known(name), time.monotonic() - begun
            if known is not None and (reason := self._hopeless(known, waited)) is not None:
                raise reason
            if waited > _START_SECONDS:
                raise EngineUnavailable(f"no container was made within {_START_SECONDS:.0f} s.")
            if known is not None and (
                "running" in standing(known) or (waited > first_try and is_begun(known))
            ):
                try:
                    wire = attached(self.cluster, name, CONTAINER)
                except Refused as refused:
                    if refused.status in _REFUSED:
                        raise
                else:
                    self._took.append(waited)
                    return wire
            pause = max(_PAUSE, min(first_try - waited, _LOOK), waited / _TRIES)
            self._await_change(name, known, pause, cancel)

    def _await_change(
        self, name: str, known: Object | None, seconds: float, cancel: Cancellation | None
    ) -> None:
        """Returns when something else is known of a Pod, or after `seconds`. Raises LaunchCancelled."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self._watch.known(name) is known:
            refuse_cancelled(cancel)
            self._watch.until(name, lambda one: one is not known, min(left, _CANCEL_LOOK))
        refuse_cancelled(cancel)

    @staticmethod
    def _hopeless(known: Object, waited: float) -> Exception | None:
        if (reason := refusal(known)) is not None:
            return reason
        if waited > _ROOM_SECONDS and (reason := unplaced(known)) is not None:
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

    def attach(self, container: str) -> Wire:
        with self._lock:
            wire = self._wires.get(container)
            if wire is None or container in self._given:
                raise EngineUnavailable(f"{container} has no streams that this server could take.")
            self._given.add(container)
            return wire

    def start(self, container: str) -> None:
        wire = self._wires.get(container)
        if wire is None:
            raise EngineUnavailable(f"{container} is not one that this server made.")
        try:
            wire.send(_START, _SEND_SECONDS)
        except OSError as error:
            raise EngineUnavailable(f"{container} cannot be started: {error}") from error

    def state(self, container: str) -> ContainerState | None:
        found, wire = self._api.pod(container), self._wires.get(container)
        told = None if found is None else state(found)
        if told and told.running and not told.reason and wire is not None and wire.ended:
            # a container that closes its streams looks the same as a node whose runtime was restarted
            return replace(told, reason="its stream ended while it ran")
        return told

    def process(self, container: str) -> None:
        """It counts on another machine, and is told nowhere."""
        self._api.pod(container)

    def describe(self, _container: str) -> None:
        """A Pod is told nothing of what it mounts but by its own specification."""

    def wait(self, container: str, seconds: float) -> ContainerState | None:
        end = time.monotonic() + seconds
        while True:
            found, left = self.state(container), end - time.monotonic()
            if found is None or not found.running or left <= 0:
                return found
            self._watch.until(container, has_ended, min(left, _LOOK))
            time.sleep(min(_PAUSE, max(0.0, left)))

    def remove(self, container: str) -> None:
        with self._lock:
            wire = self._wires.pop(container, None)
            self._given.discard(container)
        if wire is not None:
            wire.close()
        # most programs end with their stdin, and are told as ended sooner than one that its node has to end
        self._watch.until(container, has_ended, _OWN_END_SECONDS)
        end, asked, seen = time.monotonic() + _REMOVAL_SECONDS, False, wire is not None
        while (found := self._told(container)) is not None:
            if time.monotonic() > end:
                raise EngineUnavailable(
                    f"{container} was deleted, but its node does not tell that it has ended. The node may be lost; its Pod's own "
                    "deadline ends it."
                )
            seen = True
            if has_ended(found):
                # one that never had a container may get its node just now, which makes it another version
                version = "" if "terminated" in standing(found) else found["metadata"]["resourceVersion"]
                if self._api.delete(container, 0, version):
                    return
            elif not asked:
                asked = self._api.delete(container, GRACE_SECONDS)
            self._watch.until(container, has_ended, _LOOK)
            time.sleep(_PAUSE)
        # a node that was asked to end it deletes the entry once nothing of it runs
        if asked or not seen:
            return
        last = self._watch.gone(container, max(_LOOK, end - time.monotonic()))
        if last is None or not has_ended(last):
            raise EngineUnavailable(
                f"{container} was deleted by somebody else before its node told that it has ended, so it may run until its Pod's "
                "own deadline."
            )

    def _told(self, container: str) -> Object | None:
        """As the watch told it, if that is its end, which stays true; else as the API tells it now."""
        known = self._watch.known(container)
        return known if known is not None and "terminated" in standing(known) else self._api.pod(container)

    def leftovers(self) -> tuple[Leftover, ...]:
        found, now = self._api.pods(SELECTOR)
        return tuple(leftover(one, now) for one in found["items"])

    def _heard(self, changed: Object) -> None:
        """A Pod that is drained, evicted, or on a lost node says nothing more: whoever listens to it is told."""
        if is_leaving(changed):
            with self._lock:
                wire = self._wires.get(changed["metadata"]["name"])
            if wire is not None:
                wire.end()

    def _image_of_a_pod(self, reference: str) -> str:
        """What the nodes call an image: of a Pod that is made from it, and never started. Raises ImageMissing."""
        template = SandboxTemplate("sha256:", ("true",), _NOBODY, Limits())
        name = self._create(template, reference, labels(self._owner, _LOOK_AT_IMAGE, _START_SECONDS))
        try:
            self._watch.until(name, lambda one: one is not None and bool(image_of(one)), _START_SECONDS)
            if known := image_of(self._api.pod(name) or {}):
                return known
            raise EngineUnavailable(
                f"no node tells what image {reference} is. Name it by its digest: NAME@sha256:..."
            )
        finally:
            self.remove(name)


def leftover(found: Object, now: float | None) -> Leftover:
    """With the deadline that follows from how long it is there by the API's clock, `now`, and how long it was to be.

    Without a deadline if that clock is not known: another clock could end a call that runs. Without its owner when that is another machine's, of whose locks the one in our folder tells nothing.
    """
    marks = dict(found["metadata"].get("annotations") or {})
    if marks.pop(UPTIME_DEADLINE, "").partition(" ")[0] != Moment.now().boot:
        marks.pop(OWNER, None)
    if now is None:
        marks.pop(DEADLINE, None)
    elif has_ended(found) and now - changed(found) > _LEFT_SECONDS:
        marks[DEADLINE] = "0"
    else:
        with contextlib.suppress(KeyError, ValueError):
            lasting = float(marks[DEADLINE]) - float(marks[STARTED])
            age = now - datetime.fromisoformat(found["metadata"]["creationTimestamp"]).timestamp()
            marks[DEADLINE] = f"{time.time() + lasting - age:.3f}"
    return Leftover(str(found["metadata"]["name"]), marks)
