"""The resources that every container may and may not use, on every engine. Pure.

`sandbox.engines` translates this policy for each engine and compares the created containers with it. Invariants:
* A container has no capability, network or device, and no environment variables except the template's. Only the
  scratch space and the mounts that the template makes writable can be written.
* What an image declares (command, environment, volumes, user, health check) is overridden or refused.

RLIMIT_NPROC is left out on purpose: it counts every process of a user id on the host, so one call could block
another. The process limit counts per container.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from sandbox.template import SCRATCH_TARGET, Limits, SandboxTemplate

HOSTNAME: Final = "sandbox"  # fixed, so that outputs and messages do not depend on the container
CPU_PERIOD: Final = 100_000  # microseconds; the default of engines

# Docker's default list, repeated because a list in a create body replaces it; then paths that show the host's kernel
# and disks.
MASKED: Final = (
    *("/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats"),
    *("/proc/cmdline", "/proc/config.gz", "/proc/diskstats", "/proc/kallsyms", "/proc/modules"),
    "/proc/partitions",
    *("/dev/mqueue", "/dev/pts"),  # writable for all users; terminals are kernel code that no job needs
    # files of the image, which a data file could reference; our code never looks up a user
    *("/etc/passwd", "/etc/group"),
    # readable only for root, which a user of a rootless engine can be in a container
    *("/etc/shadow", "/etc/gshadow"),
)
_MASKED_BELOW_SYS: Final = ("/sys/devices/virtual/powercap", "/sys/firmware")
READ_ONLY: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


class Tmpfs(NamedTuple):
    """A file system in memory, without programs, set-user-id files and devices."""

    target: PurePosixPath
    options: tuple[str, ...]  # mount options


def tmpfs(template: SandboxTemplate) -> Iterator[Tmpfs]:
    """The scratch space, and the empty file systems that cover the template's masks."""
    safe = ("noexec", "nosuid", "nodev")
    yield Tmpfs(SCRATCH_TARGET, ("rw", *safe, f"size={template.limits.scratch_bytes}", "mode=1777"))
    # one page, because it stays empty and 0 would mean no limit
    yield from (Tmpfs(mask, ("ro", *safe, "size=4096", "mode=0555")) for mask in template.masks)


def masked_paths(template: SandboxTemplate) -> tuple[str, ...]:
    """The paths to mask: the fixed list, named pipes, and /sys. If control groups are visible, only parts of /sys."""
    below_sys = _MASKED_BELOW_SYS if template.cgroup_visible else ("/sys",)
    return (*MASKED, *below_sys, *map(str, template.pipes))


def rlimits(limits: Limits) -> dict[str, int]:
    """The resource limits of a process, by the names that engines use. Soft and hard limits are equal."""
    return {
        # core(5), fs/coredump.c: with 0, the kernel still passes core dumps to a program on the host, as root, if
        # core_pattern names one; with 1, it creates no core dumps at all
        "core": 1,
        # ends an orphaned process that uses the processor, if the host that enforces the deadline is gone
        "cpu": int(limits.wall_seconds * max(limits.cpus, 1.0)) + 30,
        # an eighth below the memory limit, so that an allocation fails with a readable error before the kernel kills
        # the process
        "data": limits.memory_bytes - limits.memory_bytes // 8,
        "fsize": limits.file_bytes,
        "nofile": limits.open_files,
    }
