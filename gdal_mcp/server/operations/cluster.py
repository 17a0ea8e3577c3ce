"""The rows of `doctor` for a cluster: rights, quota, admission, node, network and image.

Each comes from an API query or a trial.
"""

import copy
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final, Literal, NamedTuple

from gdal_mcp.settings import Settings
from sandbox.engines.k8s.api import Api
from sandbox.engines.k8s.cluster import Cluster
from sandbox.engines.k8s.engine import KubernetesEngine
from sandbox.engines.k8s.pod import parse_quantity
from sandbox.engines.k8s.trial import (
    NEEDED,
    NodeFindings,
    admission_error,
    call_pod,
    can_cluster_wide,
    exceed_quota,
    granted_rights,
    probe_node,
)
from sandbox.errors import IsolationRefused, SandboxError

State = Literal["ok", "warning", "failed"]
_LIMITED: Final = re.compile(r"limited: (.*?)(?:\. |$)")
_ADMISSION: Final = (1, 30)  # the first version in which an admission policy can restrict the Pods of calls
AGAIN: Final = "Correct this, then run doctor again."
# any of these rights, in every namespace or for the whole cluster, is more than calls need
_POWERS: Final = (
    ("pods", "create"),
    ("pods/exec", "create"),
    ("secrets", "get"),
    ("secrets", "list"),
    ("nodes/proxy", "get"),
    ("clusterrolebindings", "create"),
    ("persistentvolumes", "create"),
    ("serviceaccounts/token", "create"),
)
# changes to a Pod that this account could make unless admission refuses them
_HOSTILE: Final[dict[str, Callable[[dict[str, Any]], object]]] = {
    "the node's files": lambda spec: spec["volumes"].append({"name": "host", "hostPath": {"path": "/"}}),
    "the node's network": lambda spec: spec.update(hostNetwork=True),
    "root": lambda spec: spec.update(securityContext={"runAsUser": 0}),
}
_OTHER: Final[dict[str, Callable[[dict[str, Any]], object]]] = {
    "another image": lambda spec: spec["containers"][0].update(image="registry.invalid/other:latest"),
    "another command": lambda spec: spec["containers"][0].update(command=["sh"]),
}


class ClusterFinding(NamedTuple):
    state: State
    message: str
    fix: str = ""


def findings(settings: Settings) -> Iterator[tuple[str, ClusterFinding]]:
    """Findings by subject, in the order in which to fix them. An API that does not answer is a finding, too.

    Raises SandboxError without an API.
    """
    cluster = Cluster.from_address(settings.engine or "", settings.cluster_options())
    image = settings.image or ""
    with closing(Api(cluster)) as api, closing(KubernetesEngine(cluster)) as engine:
        version, architecture = engine.info().api_version, engine.info().architecture

        def let_in(changes: dict[str, Callable[[dict[str, Any]], object]]) -> list[str]:
            admitted = []
            for name, change in changes.items():
                pod = copy.deepcopy(call_pod(image, architecture))
                change(pod["spec"])
                if not admission_error(api, pod):
                    admitted.append(name)
            return admitted

        checks: dict[str, Callable[[], ClusterFinding]] = {
            "rights": lambda: rights(granted_rights(api)),
            "rights elsewhere": lambda: powers(
                [f"{verb} {name}" for name, verb in _POWERS if can_cluster_wide(api, name, verb)]
            ),
            "quota": lambda: quota(
                admission_error(api, exceed_quota(call_pod(image, architecture))), settings
            ),
            "pod security": lambda: security(let_in(_HOSTILE)),
            "admission": lambda: pinned(let_in(_OTHER), version),
        }
        for name, ask in checks.items():
            try:
                yield name, ask()
            except SandboxError as error:
                yield name, ClusterFinding("failed", str(error)[:300], AGAIN)
        yield "image on nodes", named(image)
        try:
            look = probe_node(engine, api, image, architecture)
        except IsolationRefused as error:
            reason = f"not tried, as no Pod but a call is let in: {error}"
            yield "network policy", ClusterFinding("ok", reason[:300])
        except SandboxError as error:
            yield "node", ClusterFinding("warning", str(error)[:300], AGAIN)
        else:
            yield "node", node(look, settings)
            yield "network policy", network(look)


def rights(granted: set[tuple[str, str]]) -> ClusterFinding:
    missing = {
        (name, verb)
        for name, verb in NEEDED
        if granted.isdisjoint((resource, what) for resource in (name, "*", "*.*") for what in (verb, "*"))
    }
    more = sorted(f"{verb} {name}" for name, verb in granted - NEEDED if (name, verb) != ("pods/log", "get"))
    if missing:
        shown = ", ".join(sorted(f"{verb} {name}" for name, verb in missing))
        return ClusterFinding(
            "failed", f"missing: {shown}", "Bind this account to the chart's Role gdal-mcp-calls."
        )
    if more:
        fix = "Bind this account to the chart's Role alone: who takes the server over has these rights."
        return ClusterFinding("warning", f"more than calls need: {', '.join(more)[:200]}", fix)
    return ClusterFinding("ok", "over Pods and their streams, and nothing else in the namespace")


def powers(names: list[str]) -> ClusterFinding:
    if names:
        fix = "Use an account of the server's own, and no role of the cluster for it."
        return ClusterFinding("warning", f"in every namespace: {', '.join(names)}", fix)
    return ClusterFinding("ok", "none over secrets, nodes, roles or the Pods of others")


def quota(text: str, settings: Settings) -> ClusterFinding:
    """The quota, read from the refusal of a Pod that requests everything."""
    limited = _LIMITED.search(text) if "exceeded quota" in text else None
    if limited is None:
        limits = (
            f"a Pod that requests everything is refused for another reason: {text}"[:250] if text else "none"
        )
        return ClusterFinding(
            "warning", limits, "Set a ResourceQuota on the namespace: pods, limits.memory, limits.cpu."
        )
    amounts = dict(pair.split("=", 1) for pair in limited[1].split(",") if "=" in pair)
    memory = parse_quantity(amounts.get("limits.memory", "")) or 0.0
    fitting, wanted = int(memory // settings.memory), settings.concurrent + settings.pool_max
    shown = f"{', '.join(f'{name} {value}' for name, value in amounts.items())}: {fitting} Pods of {settings.memory >> 20} MiB"
    if not settings.concurrent > 0 or fitting < wanted:
        fix = f"Set concurrent, and pool_max: together at most {fitting}; or raise the quota."
        return ClusterFinding(
            "warning", f"{shown}; {settings.concurrent} run and {settings.pool_max} wait", fix
        )
    return ClusterFinding("ok", shown)


def security(let_in: list[str]) -> ClusterFinding:
    if let_in:
        fix = (
            "Label the namespace pod-security.kubernetes.io/enforce=restricted (Kubernetes 1.25 and newer). "
            "Until then, anybody who takes over the server controls the nodes."
        )
        return ClusterFinding("warning", f"a Pod may have {', '.join(let_in)}", fix)
    return ClusterFinding("ok", f"no Pod with {', '.join(_HOSTILE)} is let in")


def pinned(let_in: list[str], version: tuple[int, int]) -> ClusterFinding:
    if not let_in:
        return ClusterFinding("ok", "lets in calls and nothing else")
    can = version >= _ADMISSION
    fix = "Install the chart with admission=on." if can else "Kubernetes 1.30 has policies that pin both."
    return ClusterFinding("warning", f"a Pod may have {' and '.join(let_in)}", fix)


def named(image: str) -> ClusterFinding:
    if "@sha256:" in image:
        return ClusterFinding("ok", "named by its digest: a node that lacks it fetches that very one")
    fix = "Name it by its digest, NAME@sha256:..., and let the nodes fetch it; else load it onto each node."
    return ClusterFinding("warning", f"{image or 'none named'}: a node that lacks it cannot fetch it", fix)


def node(look: NodeFindings, settings: Settings) -> ClusterFinding:
    facts = f"{look.node}: Linux {look.kernel}, Landlock {look.landlock or 'absent'}, {'a' if look.filtered else 'no'} filter of the runtime"
    if not look.landlock:
        fix = "Use nodes with Linux 5.13 or newer and landlock among their security modules (lsm=)."
        return ClusterFinding("warning" if "landlock" in settings.nodes_without else "failed", facts, fix)
    if not look.filtered:
        return ClusterFinding(
            "warning", facts, "Use a runtime whose RuntimeDefault profile of seccomp is in force."
        )
    return ClusterFinding("ok", facts)


def network(look: NodeFindings) -> ClusterFinding:
    if look.network:
        return ClusterFinding("ok", f"a plain Pod does not reach the cluster's API: {look.network}")
    fix = "Use a network that enforces NetworkPolicy, such as Calico or Cilium. Calls open no socket all the same: the gate's filter."
    return ClusterFinding("warning", "not enforced: a plain Pod reaches the cluster's API", fix)
