"""What every container gets and does not get, on every engine. Pure.

This is the what; `sandbox.engines` says how in the words of each engine, and compares what came back.

Invariants:
* no capability, no network, no device, no environment but the template's; writable are the scratch space and the mounts that
  the template makes writable;
* what an image declares (command, environment, volumes, user, health check) is overridden or refused.

Left out on purpose: RLIMIT_NPROC, which counts every process of a user id on the host, so that one call would starve another;
the limit of processes counts per container.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from sandbox.template import SCRATCH_TARGET, Limits, SandboxTemplate

HOSTNAME: Final = "sandbox"  # fixed, so that outputs and messages do not depend on the container
CPU_PERIOD: Final = 100_000  # microseconds; what engines use when none is given

# Docker's own list, repeated because a list in a create body replaces it; then what tells a job about
# the host's kernel and disks.
MASKED: Final = (
    *("/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats"),
    *("/proc/cmdline", "/proc/config.gz", "/proc/diskstats", "/proc/kallsyms", "/proc/modules"),
    "/proc/partitions",
    *("/dev/mqueue", "/dev/pts"),  # writable for everybody; terminals are kernel code that no job needs
    # the image's, which a data file can name; nothing of ours looks a user up
    *("/etc/passwd", "/etc/group"),
    # closed to all but root, which the user of a rootless engine can be in a container
    *("/etc/shadow", "/etc/gshadow"),
)
_MASKED_BELOW_SYS: Final = ("/sys/devices/virtual/powercap", "/sys/firmware")
READ_ONLY: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


class Tmpfs(NamedTuple):
    """A file system in memory, without programs, set-user-id files and devices."""

    target: PurePosixPath
    options: tuple[str, ...]  # of its mount


def tmpfs(template: SandboxTemplate) -> Iterator[Tmpfs]:
    """The scratch space, and the empty file systems that cover the template's masks."""
    safe = ("noexec", "nosuid", "nodev")
    yield Tmpfs(SCRATCH_TARGET, ("rw", *safe, f"size={template.limits.scratch_bytes}", "mode=1777"))
    # one page: nothing is ever in it, and 0 would mean no limit
    yield from (Tmpfs(mask, ("ro", *safe, "size=4096", "mode=0555")) for mask in template.masks)


def masked(template: SandboxTemplate) -> tuple[str, ...]:
    """The hidden paths of a container: the listed ones, and everything below /sys except the folder that shows its limits."""
    below_sys = _MASKED_BELOW_SYS if template.cgroup_visible else ("/sys",)
    return (*MASKED, *below_sys, *map(str, template.pipes))


def rlimits(limits: Limits) -> dict[str, int]:
    """The resource limits of a process, soft and hard alike, by the names that engines use."""
    return {
        # core(5), fs/coredump.c: at 0 the kernel still hands cores to a program of the host's, as root, where core_pattern
        # names one; at 1 it makes none, neither there nor as a file
        "core": 1,
        # ends an orphan that computes, should the host that watches the clock be gone
        "cpu": int(limits.wall_seconds * max(limits.cpus, 1.0)) + 30,
        # an eighth below the memory limit, so that an allocation fails readably before a kill
        "data": limits.memory_bytes - limits.memory_bytes // 8,
        "fsize": limits.file_bytes,
        "nofile": limits.open_files,
    }
