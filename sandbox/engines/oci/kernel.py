"""The kernel's view of a container from outside, and its control groups, found by our own id.

A container is created before it is started: the kernel then shows its user, capabilities, limits, namespaces and mounts, and not
one instruction of the image has run. These facts are judged by the same rules as the worker's later measurements.
"""

import contextlib
import os
import platform
import re
import signal
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

from sandbox.errors import EngineUnavailable
from sandbox.isolation.measured import FACTS, LIMITS_IN_FORCE
from sandbox.isolation.policy import READ_ONLY, masked_paths
from sandbox.isolation.rows import Evidence, Row, judged, none, same
from sandbox.mounted import mount_points, mountinfo
from sandbox.template import SandboxTemplate

PARENT: Final = "gdal-mcp"  # parent of the control groups of all containers
_SERVERS: Final = (
    # control group for the processes of a server without root; a sibling of the containers' groups
    "gdal-mcp-servers"
)
_CONTROLLERS: Final = ("memory", "pids", "cpu")
# the containers' share of the processors while others need them, too, against the default of 100 in version 2 and of
# 1024 in version 1; a job takes seconds, and the server and the host's other programs should answer meanwhile
_WEIGHTS: Final = {"cpu.weight": "10", "cpu.shares": "102"}
_MOUNTED: Final = Path("/sys/fs/cgroup")
_NAMESPACES: Final = ("cgroup", "ipc", "mnt", "net", "pid", "uts")
# rules that need measurements from inside a container
_UNSEEN: Final = {"host name", "working folder", "environment", "writing to named pipes"}
_RLIMITS: Final = {
    "Max cpu time": "CPU",
    "Max file size": "FSIZE",
    "Max data size": "DATA",
    "Max core file size": "CORE",
    "Max open files": "NOFILE",
}
# names of the worker's facts -> the file in version 2, then in version 1
_LIMITS: Final = {
    "memory": ("memory.max", "memory.limit_in_bytes"),
    "swap": ("memory.swap.max", "memory.memsw.limit_in_bytes"),
    "pids": ("pids.max",),
    "cpu": ("cpu.max", "cpu.cfs_quota_us"),
    "cpu_period": ("cpu.cfs_period_us",),
}
_CAP_SYS_ADMIN: Final = 1 << 21


def deviations(
    template: SandboxTemplate, pid: int, group: "ControlGroup", *, filtered: bool
) -> tuple[Row, ...]:
    """The rows in which a created container differs from the request. Raises OSError if the container has ended.

    `filtered` is True if its seccomp filter is already in force.
    """
    unseen = _UNSEEN if filtered else {*_UNSEEN, "Seccomp"}
    rules = [rule for rule in (*FACTS, *LIMITS_IN_FORCE) if rule.name not in unseen]
    facts = _facts(pid, group)
    rows = judged(rules, Evidence(template, facts))
    others = (_namespaces(pid), _covers(template, pid, facts["mounts"]))
    return tuple(row for row in (*rows, *others) if not row.ok)


def _facts(pid: int, group: "ControlGroup") -> dict[str, Any]:
    """A container's properties as the kernel shows them, in the form of the worker's measurements."""
    own = Path("/proc") / str(pid)
    status = dict(line.split(":\t", 1) for line in _text(own / "status").splitlines() if ":\t" in line)
    limits = {line[:26].strip(): line[26:].split() for line in _text(own / "limits").splitlines()}
    return {
        "pid": int(status["NSpid"].split()[-1]),
        "status": {name: value.split() for name, value in status.items()},
        # no id maps are needed, because outside the container the status shows the host's ids
        "ids": {"uid": (), "gid": ()},
        "mounts": [point._asdict() for point in mount_points(_text(own / "mountinfo"))],
        "interfaces": [line.split(":")[0].strip() for line in _text(own / "net/dev").splitlines()[2:]],
        "rlimits": {
            name: tuple(int(value) if value.isdigit() else -1 for value in limits[title][:2])
            for title, name in _RLIMITS.items()
        },
        "cgroup": group.limits(),
    }


def _namespaces(pid: int) -> Row:
    names = _NAMESPACES if os.geteuid() == 0 else (*_NAMESPACES, "user")

    def of(process: int | str) -> dict[str, str]:
        return {name: os.readlink(f"/proc/{process}/ns/{name}") for name in names}  # noqa: PTH115 - no path

    ours, theirs = of("self"), of(pid)
    judgement = same("none", ", ".join(name for name in names if ours[name] == theirs[name]) or "none")
    return Row("container", "namespaces shared with the host", *judgement[:3])


def _covers(template: SandboxTemplate, pid: int, mounts: list[dict[str, Any]]) -> Row:
    """The row on masked and read-only paths. Each needs its own mount, unless the path does not exist."""
    read_only = {row["target"]: "ro" in row["options"] for row in mounts}
    unmasked = [path for path in masked_paths(template) if path not in read_only]
    writable = [path for path in READ_ONLY if not read_only.get(path)]
    bare = [path for path in (*unmasked, *writable) if os.path.lexists(f"/proc/{pid}/root{path}")]
    return Row("container", "paths of the host uncovered", *none(bare)[:3])


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape")


def is_of(pid: int, container: str) -> bool:
    """True if a process is in the control groups of a container. Pids are reused, but container ids never are."""
    try:
        return f"/{PARENT}/{container}" in _text(Path(f"/proc/{pid}/cgroup"))
    except OSError:
        return False


class ControlGroup:
    """The control groups of one container: one folder in version 2, one folder for each hierarchy in version 1."""

    def __init__(self, path: str) -> None:
        self.path = path  # as named in the runtime's configuration

    def _folders(self) -> list[Path]:
        folders = (Path(f"{point}{self.path}") for point in hierarchies())
        return [folder for folder in folders if folder.is_dir()]

    def limits(self) -> dict[str, str | None]:
        """The limits in force, by the names of the worker's measurements."""
        folders = self._folders()
        texts = {name: _first(folders, *files) for name, files in _LIMITS.items()}
        return {name: text.strip() if text is not None else None for name, text in texts.items()}

    def was_oom_killed(self) -> bool:
        """True if the kernel's OOM killer ended a process in the container."""
        text = _first(self._folders(), "memory.events", "memory.oom_control") or ""
        return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in text.splitlines())

    def kill_and_remove(self) -> bool:
        """Kills all processes in the control groups and removes them. True once they are removed; call it until then."""
        gone = True
        for point in hierarchies():
            folder = Path(f"{point}{self.path}")
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:  # contains processes
                _kill(folder)
                gone = False
        return gone


def lower_weight(parent: str) -> None:
    """Lets other programs of the host use the processors before the containers below `parent`.

    Without contention it changes nothing. Call it after a container is created, because only then the parent has its
    files.
    """
    for path in (Path(f"{point}{parent}/{name}") for point in hierarchies() for name in _WEIGHTS):
        if os.access(path, os.F_OK):
            with contextlib.suppress(OSError):  # a slower answer of the server, but no weaker isolation
                path.write_text(_WEIGHTS[path.name], encoding="ascii")


def _first(folders: Iterable[Path], *names: str) -> str | None:
    for path in (f"{folder}/{name}" for name in names for folder in folders):
        # checking is cheaper than an exception, and most folders have none of the files
        if os.access(path, os.F_OK):
            with contextlib.suppress(OSError):
                return _text(Path(path))
    return None


def _kill(folder: Path) -> None:
    pids: list[str] = []
    with contextlib.suppress(OSError):  # removed meanwhile
        pids = _text(folder / "cgroup.procs").split()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    # in version 2, cgroup.kill also kills new processes; in version 1, a runtime that is killed during clean-up leaves
    # its group frozen, and frozen processes do not die
    for name, text in (("cgroup.kill", "1"), ("freezer.state", "THAWED")) if pids else ():
        with contextlib.suppress(OSError):
            (folder / name).write_text(text, encoding="ascii")


@cache
def hierarchies() -> tuple[Path, ...]:
    """The mount points of the control group hierarchies of both versions."""
    return tuple(
        Path(point.target) for point in mount_points(mountinfo()) if point.type in ("cgroup", "cgroup2")
    )


def obstacle() -> str:
    """The reason why this process cannot create containers without a daemon, with any runtime; "" if it can.

    In a container, it usually cannot.
    """
    if platform.system() != "Linux":
        return "containers without a daemon need Linux"
    if os.geteuid() != 0:
        return "this user is not root; a user who was delegated control groups names it: --engine oci"
    try:
        match = re.search(r"^CapEff:\s*([0-9a-f]+)", _text(Path("/proc/self/status")), re.MULTILINE)
    except OSError:
        return "the capabilities of this process cannot be read in /proc, as on systems other than Linux"
    if match is None or not int(match[1], 16) & _CAP_SYS_ADMIN:
        return "this process may not mount anything, as in most containers (it lacks CAP_SYS_ADMIN)"
    if all(os.statvfs(folder).f_flag & os.ST_RDONLY for folder in hierarchies()):
        return "no control groups are mounted here that this process may write to, as in most containers"
    return ""


def parent_group() -> str:
    """The parent of the containers' control groups. Raises EngineUnavailable if limits could not be enforced."""
    return f"/{PARENT}" if os.geteuid() == 0 else _parent_group_of_user()


@cache
def _parent_group_of_user() -> str:
    """The parent within the control group that was delegated to this process.

    The process moves itself and the others of its group to a child group, because a group with processes cannot enable
    controllers for its children, cgroups(7).
    """
    own = delegated_group()
    if refused := delegation_error(delegated_controllers(own)):
        raise EngineUnavailable(refused)
    try:
        for name in (_SERVERS, PARENT):
            (own / name).mkdir(exist_ok=True)
        for pid in _text(own / "cgroup.procs").split():
            with contextlib.suppress(ProcessLookupError):
                (own / _SERVERS / "cgroup.procs").write_text(pid, encoding="ascii")
        for folder in (own, own / PARENT):
            (folder / "cgroup.subtree_control").write_text("+memory +pids +cpu", encoding="ascii")
    except OSError as error:
        raise EngineUnavailable(
            f"{own} is delegated, but nothing can be bound in it: {error}. {_HOW}"
        ) from error
    return f"/{(own / PARENT).relative_to(_MOUNTED)}"


def delegated_group(mounted: Path = _MOUNTED, groups: Path = Path("/proc/self/cgroup")) -> Path:
    """The control group of version 2 that was delegated to this process, even if the process has left it.

    `mounted` is the mount point of version 2, and `groups` a file that names the process's own group, cgroups(7).
    """
    own = mounted / _text(groups).rpartition("0::/")[2].strip()
    return own.parent if own.name == _SERVERS else own


def delegated_controllers(own: Path) -> frozenset[str]:
    """The controllers that this process may use. None with version 1, which cannot be delegated safely."""
    with contextlib.suppress(OSError):
        if os.access(own, os.W_OK):
            return frozenset(_text(own / "cgroup.controllers").split())
    return frozenset()


def delegation_error(delegated: frozenset[str]) -> str:
    """The reason why a user without root cannot create containers without a daemon; empty if nothing is missing."""
    if missing := ", ".join(name for name in _CONTROLLERS if name not in delegated):
        return f"without root nothing would bound a container's {missing} here, so nothing is run. {_HOW}"
    return ""


_HOW: Final = (
    "Run the server as root, use Docker, or on a system with control groups of version 2 alone have them delegated: "
    "systemd-run --user --scope --property=Delegate=yes gdal-mcp serve ... Where that is not enough, systemd gives a user too "
    "little: put `[Service]` and `Delegate=cpu memory pids` into /etc/systemd/system/user@.service.d/delegate.conf, and log in again."
)
