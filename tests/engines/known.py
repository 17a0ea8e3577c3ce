"""The engines that the suite runs on, with their exemptions. The tables of `docs/engines.md` are generated from it."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Exemption:
    """A check that an engine is known to fail, with the reason. If the check passes, that is an error.

    An exemption that `varies` is not tried.
    """

    check: str
    reason: str
    varies: bool = False  # the check fails only on some machines and at some times


@dataclass(frozen=True, slots=True)
class Known:
    """One engine as it was tested."""

    name: str
    tried: str
    outcome: str
    exemptions: tuple[Exemption, ...] = ()


def _exempt(reason: str, checks: str, *, varies: bool = False) -> tuple[Exemption, ...]:
    return tuple(Exemption(check, reason, varies) for check in checks.split())


_NO_LIMITS: Final = (
    "only root can use control groups of version 1, so the engine has no limits, and nothing runs"
)
DOCKER: Final = Known("Docker, runc", "20.10 with runc 1.1, control groups of version 1", "calls run")
PODMAN: Final = Known(
    "Podman, as root",
    "4.3 with crun 1.8, control groups of version 1",
    "calls run",
    _exempt(
        "its monitor does not notice the kernel's OOM killer on control groups of version 1; such a call ends as killed",
        "limit.memory-told",
        varies=True,
    ),
)
DOCKER_ROOTLESS: Final = Known(
    "Docker, rootless",
    "20.10 with rootlesskit 1.1 and runc 1.1, control groups of version 1, its refusal taken away",
    "refused: version 1 gives it no limits",
    _exempt(_NO_LIMITS, "limit.memory limit.memory-told limit.pids attestation")
    + _exempt(_NO_LIMITS, "limit.cpus", varies=True),  # a busy machine limits it too
)
PODMAN_ROOTLESS: Final = Known(
    "Podman, rootless",
    "4.3 with crun 1.8, control groups of version 1, its refusal taken away",
    "refused: version 1 gives it no limits",
    _exempt(_NO_LIMITS, "limit.memory limit.memory-told limit.pids attestation")
    + _exempt(_NO_LIMITS, "limit.cpus", varies=True),
)
_EMULATED: Final = (
    *_exempt(
        "the kernel that it is tried on has an emulated processor, which counts its machine's time as its own",
        "limit.cpus",
        varies=True,
    ),
    *_exempt(
        "that kernel, User Mode Linux, gives no memory above the limit and does not kill either, as it "
        "counts no `oom` of any process; so the limit of processor time ends the job",
        "limit.memory-told",
        varies=True,
    ),
)
PODMAN_DELEGATED: Final = Known(
    "Podman, rootless, with delegated control groups",
    "4.3 with crun 1.8 and systemd 252, control groups of version 2 with memory, pids and cpu delegated, Linux 6.1",
    "calls run",
    _EMULATED,
)
DOCKER_DELEGATED: Final = Known(
    "Docker, rootless, with delegated control groups",
    "20.10 with rootlesskit 1.1, runc 1.1 and systemd 252, control groups of version 2 with memory, pids and cpu delegated, Linux 6.1",
    "calls run",
    _EMULATED,
)
OCI: Final = Known(
    "oci: crun or runc, no daemon", "crun 1.8 and runc 1.1, control groups of version 1", "calls run"
)
OCI_ROOTLESS: Final = Known(
    "oci without root: crun",
    "crun 1.8, control groups of version 2 with memory, pids and cpu delegated, Linux 6.1",
    "calls run",
    _EMULATED,
)
GVISOR: Final = Known(
    "Docker, gVisor",
    "release 20221219 with `--network=none`, and 256 processes, as its own threads count among them",
    "refused by attestation",
    (
        *_exempt(
            "this release ignores our filter; with `--oci-seccomp` it does, but refuses calls in words of its own, so "
            "that no thread can be started",
            "seccomp.in-force seccomp.calls seccomp.sockets",
        ),
        *_exempt(
            "nodes of devices can be made by anybody; they are of gVisor's devices, not the host's", "devices"
        ),
        *_exempt(
            "paths are not masked; what /proc and /sys tell is of gVisor's kernel, not the host's", "host"
        ),
        *_exempt(
            "it does not enforce RLIMIT_DATA, so a job that needs more memory is ended instead", "limit.data"
        ),
        *_exempt(
            "gVisor counts processor time by a clock of its own, by which the host's limit cannot be told",
            "limit.cpus",
            varies=True,
        ),
        *_exempt(
            "its processes show neither CapAmb nor NoNewPrivs, no filter and no control groups", "attestation"
        ),
    ),
)
MEMORY: Final = Known(
    "In memory",
    "threads of this process",
    "for tests of other code; refused by attestation",
    (
        *_exempt(
            "a thread isolates nothing and limits nothing, so attestation refuses it",
            """user capabilities no-new-privileges seccomp.in-force seccomp.calls seccomp.sockets network root.read-only
            shared-memory mount.read-only mount.writable mask scratch environment host devices processes limit.rlimits
            limit.file limit.open-files limit.data limit.memory limit.memory-told limit.pids limit.cpus attestation""",
        ),
        *_exempt("a crash of a thread would be the whole process's", "end.crash"),
    ),
)
KUBERNETES: Final = Known(
    "Kubernetes",
    "1.20 with containerd 1.6 and runc 1.1, control groups of version 1; the limit of processes is the node's own",
    "calls run",
)
KNOWN: Final = (
    DOCKER,
    DOCKER_ROOTLESS,
    DOCKER_DELEGATED,
    PODMAN_ROOTLESS,
    PODMAN_DELEGATED,
    OCI,
    OCI_ROOTLESS,
    PODMAN,
    KUBERNETES,
    GVISOR,
    MEMORY,
)
