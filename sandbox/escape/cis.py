"""Section 5 of the CIS Docker Benchmark: each check with its implementation, judged by its evidence rows. Pure.

Numbers and titles are those of CIS Docker Benchmark 1.6.0 as in `tests/5_container_runtime.sh` of
docker-bench-security 1.6.0. Benchmarks up to 1.5.0 have swarm mode elsewhere, so 5.2 to 5.32 here are 5.1 to 5.31
there. That script reads the options of Docker's containers. Here, a check is judged by the measurements of a
container, which are the same for every engine.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from sandbox.isolation.rows import Row, few

BENCHMARK: Final = "CIS Docker Benchmark 1.6.0"
# of several verdicts, the first in this order counts
_WORST: Final = ("failed", "warning", "held", "note", "n/a")


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `how` says how it is fulfilled, or why it does not apply."""

    number: str
    title: str
    how: str
    applies: bool = True


_NO_EXEC: Final = "about how an administrator enters a container; the product never calls exec"
CHECKS: Final = (
    Check("5.1", "swarm mode is not enabled", "about the engine; our containers are made alone, never as tasks of a swarm", applies=False),
    Check("5.2", "an AppArmor profile is enabled", "the engine's default profile; an unconfined container is refused"),
    Check("5.3", "SELinux security options are set", "the engine's default label, never disabled"),
    Check("5.4", "capabilities are restricted", "all are dropped, none is added"),
    Check("5.5", "privileged containers are not used", "never"),
    Check("5.6", "sensitive host directories are not mounted", "workspaces, read-only, and one private output folder"),
    Check("5.7", "sshd is not run", "the job is the only process when it begins"),
    Check("5.8", "privileged ports are not mapped", "no port is"),
    Check("5.9", "only needed ports are open", "none is"),
    Check("5.10", "the host's network namespace is not shared", "a network namespace of its own, without an interface"),
    Check("5.11", "memory is limited", "and no swap"),
    Check("5.12", "CPU priority is set", "a share of the processors that cannot be exceeded"),
    Check("5.13", "the root file system is read-only", "always"),
    Check("5.14", "incoming traffic is bound to one interface", "none comes in"),
    Check("5.15", "restarts on failure are five at most", "a container is never started again, and removed after its job"),
    Check("5.16", "the host's process namespace is not shared", "one of its own"),
    Check("5.17", "the host's IPC namespace is not shared", "one of its own, without /dev/shm"),
    Check("5.18", "host devices are not exposed", "none is"),
    Check("5.19", "ulimits are set where needed", "core, cpu, data, fsize and nofile, soft and hard"),
    Check("5.20", "mount propagation is not shared", "rprivate"),
    Check("5.21", "the host's UTS namespace is not shared", "one of its own, with a fixed name"),
    Check("5.22", "the seccomp profile is not disabled", "our own, stricter than the default; a weaker one is refused"),
    Check("5.23", "exec is not used with privileges", _NO_EXEC, applies=False),
    Check("5.24", "exec is not used as root", _NO_EXEC, applies=False),
    Check("5.25", "the control group is confirmed", "the engine's own place; limits are read back from inside"),
    Check("5.26", "no additional privileges can be gained", "no-new-privileges"),
    Check("5.27", "container health is checked", "a container lives for one call, and its host watches it; a health check would run programs in it", applies=False),
    Check("5.28", "the image is the latest version", "the image is fixed by its content; `doctor` warns of a version with known flaws", applies=False),
    Check("5.29", "the number of processes is limited", "always"),
    Check("5.30", "the default bridge docker0 is not used", "no network is"),
    Check("5.31", "the host's user namespace is not shared", "the engine's remapping holds, and no container runs as root"),
    Check("5.32", "the engine's socket is not mounted", "never"),
)  # fmt: skip


def benchmark(rows: Iterable[Row]) -> Iterator[Row]:
    """A row for each check. A check that applies and has no evidence fails."""
    known = list(rows)
    for check in CHECKS:
        mine = [row for row in known if check.number in row.cis.split(", ")]
        if not check.applies:
            yield Row(BENCHMARK, check.title, "", check.how, "n/a", check.number)
        elif not mine:
            yield Row(BENCHMARK, check.title, check.how, "nothing was looked at", "failed", check.number)
        else:
            worst = min((row.verdict for row in mine), key=_WORST.index)
            names = [row.name for row in mine if row.verdict == worst]
            yield Row(BENCHMARK, check.title, check.how, few(names), worst, check.number)
