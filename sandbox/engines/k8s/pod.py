"""Translates the policy to a Pod's specification, and compares it with the Pod that the cluster created. Pure.

The gate (`gate.py`) does what a Pod's specification cannot, before it executes the command: the complete seccomp
filter, the Landlock rules, the resource limits, the environment, and the wait for the start. What only the node
decides (the process limit, the network interfaces) is measured inside the container.
"""

import base64
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, Final

from sandbox.errors import IsolationRefused
from sandbox.isolation.policy import HOSTNAME, MASKED, rlimits
from sandbox.isolation.rows import Row, differs
from sandbox.labels import DEADLINE, OWNER, STARTED
from sandbox.program import source
from sandbox.session import WIRE_SLACK
from sandbox.template import SCRATCH_TARGET, Limits, SandboxTemplate, VolumePath

CONTAINER: Final = "worker"
APP, OWNER_LABEL = "gdal-call", "gdal-mcp-owner"
SELECTOR: Final = f"app={APP}"
# name of the architecture in the kernel -> name in Kubernetes
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
GRACE_SECONDS: Final = 1  # seconds of a normal deletion; 0 would force every deletion
# a Pod's planned lifetime plus this is its deadline, after which its node ends it
ORPHAN_SECONDS: Final = 300
_LOST_NODE_SECONDS: Final = 5
# seconds that the gate waits for the start, which comes through the attached stream
START_SECONDS: Final = 90
# the CPU limit divided by this is requested: a Pod waits most of its life, and calls share processors as with other
# engines
_CPU_REQUEST: Final = 8
# factor for the log's size: the node logs all output, with some extra bytes for each piece
_LOG_FACTOR: Final = 1.25
_LOG_SLACK: Final = 64 << 20
_COVERED: Final = ("/dev/shm", "/dev/mqueue")  # noqa: S108 - places in the container, covered with nothing
# files that every Pod has and no job needs to read or write; the gate makes them inaccessible
_CLOSED: Final = (
    *MASKED,
    *("/etc/resolv.conf", "/etc/hosts", "/dev/termination-log", "/dev/kmsg"),
)
# fields that the API fills in, or that an admission controller may set without weakening the container
_FILLED_IN: Final = {
    "spec": {
        *("nodeName", "serviceAccount", "serviceAccountName", "schedulerName", "priority"),
        *("priorityClassName", "preemptionPolicy", "overhead", "runtimeClassName"),
    },
    "containers": {"terminationMessagePath", "terminationMessagePolicy"},
}
_QUANTITY: Final = re.compile(r"(\d+(?:\.\d+)?)(m|k|[KMGTP]i?)?")
_POWERS: Final = {"": 1.0, "m": 0.001, "k": 1e3} | {
    f"{letter}{two}": float((1024 if two else 1000) ** power)
    for power, letter in enumerate("KMGTP", 1)
    for two in ("", "i")
}


def pod(  # noqa: PLR0913, PLR0917 - what a Pod is made from
    template: SandboxTemplate,
    image: str,
    name: str,
    labels: Mapping[str, str],
    architecture: str,
    pull_secrets: Sequence[str] = (),
) -> dict[str, Any]:
    """The body of a request to create a Pod for this template.

    `image` is the name that nodes know the image by, and `architecture` the kernel's name. `pull_secrets` are names
    of Secrets that nodes use to pull the image.

    Raises IsolationRefused for a mount that is not on a claim, and for an architecture without a seccomp filter.
    """
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": APP, OWNER_LABEL: labels[OWNER]},
            "annotations": dict(labels),
        },
        "spec": {
            **_spec(template, image, architecture, float(labels[DEADLINE]) - float(labels[STARTED])),
            **({"imagePullSecrets": [{"name": secret} for secret in pull_secrets]} if pull_secrets else {}),
        },
    }


def _spec(template: SandboxTemplate, image: str, architecture: str, seconds: float) -> dict[str, Any]:
    uid, gid = template.user
    volumes, mounts = _storage(template)
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "hostname": HOSTNAME,
        "hostNetwork": False,
        "hostPID": False,
        "hostIPC": False,
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["127.0.0.1"]},
        "activeDeadlineSeconds": math.ceil(seconds) + ORPHAN_SECONDS,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "nodeSelector": {"kubernetes.io/os": "linux", "kubernetes.io/arch": ARCHITECTURES[architecture]},
        **({"runtimeClassName": template.runtime} if template.runtime else {}),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": uid,
            "runAsGroup": gid,
            # the gate then loads our own filter, which is stricter
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{state}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": _LOST_NODE_SECONDS,
            }
            for state in ("not-ready", "unreachable")
        ],
        "containers": [_container(template, image, architecture, mounts)],
        "volumes": volumes,
    }


def _container(
    template: SandboxTemplate, image: str, architecture: str, mounts: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "name": CONTAINER,
        "image": image,
        # with a digest, a node that pulls the image gets the attested one; an id contains no registry to pull from
        "imagePullPolicy": "IfNotPresent" if "@" in image else "Never",
        "command": [argument.replace("$", "$$") for argument in gated(template, architecture)],
        "workingDir": str(SCRATCH_TARGET),
        "stdin": True,
        "stdinOnce": True,
        "securityContext": {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": _resources(template.limits),
        "volumeMounts": mounts,
    }


def _resources(limits: Limits) -> dict[str, dict[str, str]]:
    milli = round(limits.cpus * 1000)
    log = int((limits.stdout_bytes + WIRE_SLACK) * _LOG_FACTOR) + limits.stderr_bytes + _LOG_SLACK
    # the memory request equals the limit, because a node that runs out of memory ends other Pods
    same = {"memory": str(limits.memory_bytes), "ephemeral-storage": str(log)}
    return {
        "limits": {"cpu": f"{milli}m", **same},
        "requests": {"cpu": f"{max(1, milli // _CPU_REQUEST)}m", **same},
    }


def _storage(template: SandboxTemplate) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The volumes, and their mounts."""
    scratch = {"medium": "Memory", "sizeLimit": str(template.limits.scratch_bytes)}
    volumes: list[dict[str, Any]] = [
        {"name": "scratch", "emptyDir": scratch},
        {"name": "nothing", "emptyDir": {"medium": "Memory", "sizeLimit": "4096"}},
    ]
    mounts: list[dict[str, Any]] = [{"name": "scratch", "mountPath": str(SCRATCH_TARGET)}]
    claims: dict[str, str] = {}
    for mount in template.mounts:
        place = mount.source
        if not isinstance(place, VolumePath):
            raise IsolationRefused(
                f"{place.path} is on no claim that Pods can mount. Add a pair FOLDER:CLAIM or FOLDER:CLAIM/SUBPATH to path_map."
            )
        volume = claims.setdefault(place.volume, f"claim-{len(claims)}")
        below = {} if place.subpath.as_posix() == "." else {"subPath": place.subpath.as_posix()}
        mounts.append({"name": volume, "mountPath": str(mount.target), "readOnly": mount.read_only, **below})
    volumes += [
        {"name": volume, "persistentVolumeClaim": {"claimName": claim}} for claim, volume in claims.items()
    ]
    shown = () if template.cgroup_visible else ("/sys",)
    covered = (*_COVERED, *shown, *map(str, template.masks))
    mounts += [{"name": "nothing", "mountPath": path, "readOnly": True} for path in covered]
    return volumes, mounts


def gated(template: SandboxTemplate, architecture: str) -> Iterator[str]:
    """The arguments of the gate, followed by the template's command."""
    writable = [str(mount.target) for mount in template.mounts if not mount.read_only]
    config = {
        "rlimits": rlimits(template.limits),
        "environment": dict(template.environment),
        "filter": base64.b64encode(bpf(architecture)).decode(),
        "writable": [str(SCRATCH_TARGET), *writable],
        "readable": [str(mount.target) for mount in template.mounts if mount.read_only],
        "closed": list(_CLOSED),
        "start_seconds": START_SECONDS,
    }
    yield from ("python3", "-I", "-c", source(__package__, "gate.py"), json.dumps(config))
    yield from template.command


def bpf(architecture: str) -> bytes:
    """`seccomp.json` compiled to BPF, which a process can load; built by `scripts/seccomp_bpf.py`.

    Raises IsolationRefused for an architecture without a filter.
    """
    if architecture not in ARCHITECTURES:
        raise IsolationRefused(f"there is no filter of system calls for {architecture!r}.")
    return resources.files(__package__).joinpath(f"seccomp-{architecture}.bpf").read_bytes()


# --- comparison with the created Pod ---


def differences(requested: Any, created: Any, name: str = "spec") -> Iterator[Row]:
    """The fields in which the created Pod's spec differs from the request or has additional values; empty if none."""
    kind = name.rpartition(".")[2].partition("[")[0]
    # an admission controller may add entries: they affect the choice of nodes and how these pull the image, whose
    # digest is fixed
    if kind in ("tolerations", "nodeSelector", "imagePullSecrets"):
        ours, theirs = requested or (), created or ()
        if any(key not in theirs or (kind == "nodeSelector" and theirs[key] != ours[key]) for key in ours):
            yield differs(name, requested, created)
    elif isinstance(requested, Mapping) and isinstance(created, Mapping):
        free = _FILLED_IN.get(kind, set())
        for key in sorted({*requested, *created}):
            if key in requested or key not in free:
                yield from differences(requested.get(key), created.get(key), f"{name}.{key}")
    elif isinstance(requested, list) and isinstance(created, list) and len(requested) == len(created):
        for number, (wanted, actual) in enumerate(zip(requested, created, strict=True)):
            yield from differences(wanted, actual, f"{name}[{number}]")
    elif not _same(requested, created):
        yield differs(name, requested, created)


def _same(requested: Any, actual: Any) -> bool:
    """True if the values are equal.

    False, empty and absent values count as equal, and so do quantities such as 1 and 1000m.
    """
    if not requested and not actual:
        return True
    if isinstance(requested, str) and isinstance(actual, str) and requested != actual:
        amounts = parse_quantity(requested), parse_quantity(actual)
        return None not in amounts and amounts[0] == amounts[1]
    return bool(requested == actual)


def parse_quantity(text: str) -> float | None:
    """The value of a Kubernetes quantity such as 250m or 2Gi; None if the text is not a quantity."""
    match = _QUANTITY.fullmatch(text)
    return float(match[1]) * _POWERS[match[2] or ""] if match else None
