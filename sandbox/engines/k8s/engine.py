"""An engine whose containers are Pods. Each Pod has one container behind the gate, on any node with free space.

Invariants:
* The created Pod is compared with the request before it is started.
* A stream is its server's lease on a Pod: the kernel closes it when the server ends, but not while the server merely
  hangs. A running Pod is therefore left to its owner until its deadline, unless a lock on this machine shows that the
  owner is dead. A Pod that has ended and was not removed was left by a dead server.
* All times are the API's, so a wrong clock on one server never makes it treat another server as dead.
"""

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from sandbox.engine import EngineInfo, ImageInfo, Images, Leftover, removed_on_failure
from sandbox.engines.k8s.api import Api, Object
from sandbox.engines.k8s.cluster import Cluster
from sandbox.engines.k8s.container import ROOM_SECONDS, START_SECONDS, PodContainer, Pods
from sandbox.engines.k8s.pod import SELECTOR, differences, pod
from sandbox.engines.k8s.status import has_ended, image_of, is_terminating, last_modified
from sandbox.engines.k8s.watch import PodWatch
from sandbox.errors import CapacityExhausted, EngineUnavailable, ImageMissing, IsolationRefused, PullFailed
from sandbox.isolation.rows import failure_summary
from sandbox.labels import DEADLINE, OWNER, STARTED, UPTIME_DEADLINE, Moment, labels
from sandbox.template import Limits, SandboxTemplate
from sandbox.waiting import Cancellation, refuse_cancelled

_LEFT_SECONDS: Final = 120.0  # seconds; far more than a live server needs to remove a Pod that has ended
_LOOK_AT_IMAGE: Final = "image"  # used instead of a call's id
_NOBODY: Final = (65534, 65534)
_NO_LIMIT: Final = 1 << 50  # bytes; the scheduler and the namespace's quota decide


@dataclass(eq=False)
class PodImages(Images):
    """The images of the nodes. An account without rights over nodes sees only the images of its own Pods."""

    _answer: Callable[[], object]
    _try_out: Callable[[str], str]
    _known: dict[str, str] = field(default_factory=dict)  # requested name -> content id
    _names: dict[str, str] = field(default_factory=dict)  # content id -> name that nodes know the image by

    def find(self, reference: str) -> ImageInfo | None:
        """Finds an image with a Pod that uses it and is never started. A node may pull it if it is named by digest."""
        self._answer()
        name = self.name_of(reference)
        if name not in self._known:
            try:
                made_from = self._try_out(name)
            except ImageMissing:
                return None
            named = name if "@" in name or name.startswith("sha256:") else made_from
            id_ = f"sha256:{named.rpartition('sha256:')[2]}"
            self._known[name] = self._known[named] = id_
            self._names[id_] = named
        id_ = self._known[name]
        return ImageInfo(reference, id_, id_, {})

    def name_of(self, image: str) -> str:
        return self._names.get(image, image)

    def names(self, *_repositories: str) -> tuple[str, ...]:
        """An empty tuple: the names of the nodes' images cannot be listed."""
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
        """`owner` is the owner of the Pods that look up images; by default a new id."""
        self.cluster = cluster
        self._owner = owner or secrets.token_hex(8)
        self._api = Api(cluster)
        live: dict[str, PodContainer] = {}
        self._watch = PodWatch(self._api, SELECTOR, self._on_pod_event, lambda: bool(live))
        self._pods = Pods(cluster, self._api, self._watch, live)
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
        major, minor = (int(text or 0) for text in digits)
        return EngineInfo(
            name="Kubernetes",
            version=str(version["gitVersion"]),
            api_version=(major, minor),
            # the Pods are only scheduled to nodes with this server's architecture
            architecture=os.uname().machine,
            cgroup_version="",
            security_options=("name=seccomp",),
            rootless=False,
            runtimes=(
                "Kubernetes",
            ),  # the API does not report the nodes' runtimes; a Pod with an unknown runtime is refused
            address=f"{cluster.server}/{cluster.namespace}",
            identity=f"{cluster.server}/{cluster.namespace}",
            memory_bytes=_NO_LIMIT,
            host=str(urlsplit(cluster.server).hostname),
            other_hosts=True,
            limits_by_node=True,
            reports_process=False,
            covers_paths=False,
            # a node reports the ends of its Pods once a second, or much later if it is busy
            end_seconds=30.0,
            removals=16,  # removals mostly wait for a node's report, and use the namespace's quota until then
        )

    # --- life cycle of a container ---

    def create(
        self, template: SandboxTemplate, labels: Mapping[str, str], cancel: Cancellation | None = None
    ) -> PodContainer:
        for mount in template.mounts:  # otherwise a node would create a missing folder as root
            if not Path(mount.source.path).exists():
                raise EngineUnavailable(f"there is no {mount.source.path} to mount.")
        return self._create(template, self.images.name_of(template.image), labels, cancel)

    def _create(
        self,
        template: SandboxTemplate,
        image: str,
        labels: Mapping[str, str],
        cancel: Cancellation | None = None,
    ) -> PodContainer:
        name = f"call-{secrets.token_hex(8)}"
        secrets_ = self.cluster.pull_secrets
        body = pod(template, image, name, labels, self._info.architecture, secrets_)
        created, end = None, time.monotonic() + ROOM_SECONDS
        while created is None:
            refuse_cancelled(cancel)
            try:
                created = self._api.create(body)
            except CapacityExhausted:
                if time.monotonic() > end:
                    raise
                time.sleep(ROOM_SECONDS / 40)
        container = PodContainer(self._pods, name, created=True)
        with removed_on_failure(container):
            if failures := tuple(differences(body["spec"], created["spec"])):
                raise IsolationRefused(
                    f"the cluster made a different Pod than asked, so nothing was run: {failure_summary(failures)}"
                )
        return container

    def container(self, id_: str) -> PodContainer:
        return PodContainer(self._pods, id_)

    def describe(self, _container: str) -> None:
        """None: the API reports nothing about mounts except the Pod's own specification."""

    def leftovers(self) -> tuple[Leftover, ...]:
        listing, now = self._api.pods(SELECTOR)
        return tuple(leftover(entry, now) for entry in listing["items"])

    def _on_pod_event(self, pod: Object) -> None:
        """Ends the stream of a Pod that is drained, evicted or on a lost node, so that its reader does not wait."""
        if is_terminating(pod):
            container = self._pods.live.get(pod["metadata"]["name"])
            if container is not None:
                container.end_stream()

    def _image_of_a_pod(self, reference: str) -> str:
        """The nodes' name for an image, found with a Pod that uses it and is never started. Raises ImageMissing."""
        template = SandboxTemplate("sha256:", ("true",), _NOBODY, Limits())
        container = self._create(template, reference, labels(self._owner, _LOOK_AT_IMAGE, START_SECONDS))
        try:
            container.attach()
            self._watch.wait_for(
                container.id, lambda entry: entry is not None and bool(image_of(entry)), START_SECONDS
            )
            if known := image_of(self._api.pod(container.id) or {}):
                return known
            raise EngineUnavailable(
                f"no node reports which image {reference} is. Name it by its digest: NAME@sha256:..."
            )
        finally:
            container.remove()


def leftover(pod: Object, now: float | None) -> Leftover:
    """A Pod as a `Leftover`, with a new deadline: now plus its planned lifetime minus its age.

    The age is measured by the API's clock, `now`. A Pod that ended a while ago gets a deadline in the past. The
    deadline is left out if `now` is None, because another clock could end a running call. The owner is left out if it
    is on another machine, because the locks in our folder say nothing about it.
    """
    marks = dict(pod["metadata"].get("annotations") or {})
    if marks.pop(UPTIME_DEADLINE, "").partition(" ")[0] != Moment.now().boot:
        marks.pop(OWNER, None)
    if now is None:
        marks.pop(DEADLINE, None)
    elif has_ended(pod) and now - last_modified(pod) > _LEFT_SECONDS:
        marks[DEADLINE] = "0"
    else:
        with contextlib.suppress(KeyError, ValueError):
            lasting = float(marks[DEADLINE]) - float(marks[STARTED])
            age = now - datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()
            marks[DEADLINE] = f"{time.time() + lasting - age:.3f}"
    return Leftover(str(pod["metadata"]["name"]), marks)
