"""An engine without a daemon: crun or runc, asked to create and to start, on an image that lies unpacked on this host.

Invariants:
* what is left of a container is found by our own id alone, in our folder and in the control groups, whatever its runtime knows;
* a container's folder is the first thing that is made of it and the last that goes, so that `leftovers` misses none;
* no process of ours stands between a container and this server: its streams are pipes, and its first process becomes our child;
* what the kernel shows of it is compared with what was asked before its first instruction.
"""

import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

from sandbox.engine import ContainerState, EngineInfo, Leftover, Wire, removed_on_failure
from sandbox.engines.oci.bundle import Bundle, bundles, sweep
from sandbox.engines.oci.config import config
from sandbox.engines.oci.confinement import confinement, security_options
from sandbox.engines.oci.fetching import fetch
from sandbox.engines.oci.kernel import ControlGroup, is_of, parent_group, weaker
from sandbox.engines.oci.pipes import PipeWire, piped
from sandbox.engines.oci.runtime import FLOORS, Runtime, installed, usable
from sandbox.engines.oci.store import ImageStore
from sandbox.errors import EngineUnavailable, IsolationRefused
from sandbox.isolation.policy import tmpfs
from sandbox.isolation.rows import told
from sandbox.labels import OWNER, Moment
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation, Process, readable

SCHEME: Final = "oci://"
_PR_SET_CHILD_SUBREAPER: Final = 36
_REMOVAL_SECONDS: Final = 20.0
_PAUSE: Final = 0.05  # seconds; to wait for a process's end costs less than to look at its groups meanwhile
_OTHERS_WRITE: Final = 0o022
_UNKNOWN: Final = -1  # the code of a process that was somebody else's child
_RUNTIMES: Final = (*FLOORS, "sh", "unshare")  # and what mounts a root before it becomes one
_PSEUDO: Final = (PurePosixPath("/proc"), PurePosixPath("/dev"), PurePosixPath("/sys"))


@dataclass(eq=False)
class _Made:
    """A container that this engine object made. `ending` is readable once its first process is gone."""

    wire: PipeWire | None  # until it is taken
    runtime: Runtime
    ending: "_First | None" = None
    started: bool = False
    ended: ContainerState | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def close(self) -> None:
        for one in (self.wire, self.ending):
            if one is not None:
                one.close()


class _First(Process):
    """A container's first process, which is a child of ours once its runtime has ended."""

    def exit_code(self) -> int:
        """As a shell tells it, of a child of ours that has ended."""
        try:
            ended = os.waitid(os.P_PIDFD, self.descriptor, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            ended = None
        if ended is None:
            return _UNKNOWN
        return ended.si_status if ended.si_code == os.CLD_EXITED else 128 + ended.si_status


class OciEngine:
    """The containers and images below one folder of this host, which is one user's alone. `prepared` makes the folder."""

    def __init__(self, root: Path, runtime: str = "") -> None:
        """`runtime` (crun, runc) makes the containers whose template names none; by default the first that is installed."""
        self.root, self._preferred, self._rootless = root, runtime, os.geteuid() != 0
        self.images = ImageStore(root, fetch)
        self._containers, self._states = root / "containers", root / "runtime"
        self._made: dict[str, _Made] = {}

    def prepared(self) -> "OciEngine":
        """Itself, once its folders are there. Raises EngineUnavailable where it cannot be used."""
        # what separates the options of an overlay cannot be in its name
        if set(":,\\") & set(str(self.root)) or not self.root.is_absolute():
            raise EngineUnavailable(
                f"{self.root} cannot be an engine's folder: name one without : , and \\, from the root on."
            )
        parent_group()
        try:
            for one in (self.root, self._containers, self._states, self.images.folder):
                one.mkdir(parents=True, exist_ok=True, mode=0o700)
                status = one.stat()
                # whoever writes there says what is run, and what is killed and removed afterwards
                if status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
                    raise EngineUnavailable(
                        f"{one} belongs to user {status.st_uid}, or others may write to it. Name a folder of this user's alone."
                    )
        except OSError as error:
            raise EngineUnavailable(f"{self.root} cannot be made: {error.strerror or error}.") from error
        self.info()
        sweep(self._containers)
        return self

    def close(self) -> None:
        for one in [*self._made.values()]:
            one.close()

    def info(self) -> EngineInfo:
        self._answer()
        return self._info

    @cached_property
    def _info(self) -> EngineInfo:
        runtimes = self._runtimes
        return EngineInfo(
            name=runtimes[0].name,
            version=runtimes[0].version,
            api_version=(1, 0),  # of the runtime specification
            architecture=os.uname().machine,
            # as engines say it: 2 only where no controller is left to version 1
            cgroup_version="2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "1",
            security_options=("name=seccomp", *security_options()),
            rootless=self._rootless,
            runtimes=tuple(one.name for one in runtimes),
            address=f"{SCHEME}{self.root}",
            identity=str(self.root),
            host=os.uname().nodename,
            boot=Moment.now().boot,
            same_kernel=True,
        )

    @cached_property
    def _runtimes(self) -> tuple[Runtime, ...]:
        return tuple(sorted(usable(installed()), key=lambda one: one.name != self._preferred))

    def _runtime(self, name: str) -> Runtime:
        for one in self._runtimes:
            if name in ("", one.name):
                return one
        raise EngineUnavailable(
            f"there is no runtime {name!r} that this engine may use. Leave the setting out."
        )

    def create(
        self, template: SandboxTemplate, labels: Mapping[str, str], _cancel: Cancellation | None = None
    ) -> str:
        self._answer()
        image, runtime = self.images.rootfs(template.image), self._runtime(template.runtime)
        container = secrets.token_hex(32)
        bundle, group = Bundle(self._containers, container), ControlGroup(f"{parent_group()}/{container}")
        machine = os.uname().machine
        told_runtime = config(template, group.path, machine, confinement(), rootless=self._rootless)
        binds = [(mount.target, Path(mount.host_path).is_file()) for mount in template.mounts]
        folders = (*_PSEUDO, *(one.target for one in tmpfs(template)))
        targets = [*binds, *((one, False) for one in folders)]  # each with whether it is a file
        try:
            bundle.write(labels, told_runtime)
        except OSError as error:
            raise EngineUnavailable(f"{self.root} cannot be written to: {error}") from error
        wire, theirs = piped()
        made = self._made[container] = _Made(wire, runtime)

        def run_create(within: Sequence[str]) -> None:
            # once the runtime has ended, its container's first process is this one's child, and so its exit code ours
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            words = bundle.create_words(container)
            runtime.run(words, self._states / runtime.name, bundle.log, theirs, within)

        with removed_on_failure(self, container):
            try:
                bundle.with_root(image, targets, run_create)
            finally:
                for one in theirs:
                    os.close(one)
            pid = bundle.pid or 0
            try:
                made.ending = _First(pid)
                # crun puts the filter of system calls in force with the start alone
                found = weaker(template, pid, group, filtered=runtime.name == "runc")
            except OSError as error:
                raise EngineUnavailable(f"a container ended before its start: {error}") from error
            if found:
                raise IsolationRefused(
                    f"{runtime.name} made a weaker container than asked, so nothing was run: {told(found)}"
                )
        return container

    def attach(self, container: str) -> Wire:
        made = self._ours(container)
        wire, made.wire = made.wire, None
        if wire is None:
            raise EngineUnavailable(f"the streams of container {container[:12]} were taken before.")
        return wire

    def start(self, container: str) -> None:
        made = self._ours(container)
        log = Bundle(self._containers, container).log
        made.runtime.run(["start", container], self._states / made.runtime.name, log)
        made.started = True

    def state(self, container: str) -> ContainerState | None:
        self._answer()
        bundle, made = Bundle(self._containers, container), self._made.get(container)
        with made.lock if made else contextlib.nullcontext():
            if not bundle.folder.is_dir():
                return None
            if made is None or made.ending is None:
                running = is_of(bundle.pid or 0, container)
                return ContainerState(running, 0 if running else _UNKNOWN, bundle.group.wanted_memory())
            if made.ended is None and readable([made.ending], 0):
                code, memory = made.ending.exit_code(), bundle.group.wanted_memory()
                made.ended = ContainerState(running=False, exit_code=code, out_of_memory=memory)
            return made.ended or ContainerState(running=True, exit_code=0, out_of_memory=False)

    def process(self, container: str) -> int | None:
        state, made = self.state(container), self._made.get(container)
        if state is None or not state.running or (made is not None and not made.started):
            return None
        return Bundle(self._containers, container).pid

    def describe(self, _container: str) -> None:
        """Of others' containers it knows nothing, and it is not used from inside of one."""

    def wait(self, container: str, seconds: float) -> ContainerState | None:
        made = self._made.get(container)
        if made is not None and made.ending is not None:
            readable([made.ending], seconds)
        return self.state(container)

    def remove(self, container: str) -> None:
        self._answer()
        bundle, made = Bundle(self._containers, container), self._made.get(container)
        with made.lock if made else contextlib.nullcontext():
            if not bundle.folder.is_dir():
                return
            bundle.close()
            self._end(container, bundle.group, made.ending if made is not None else None)
            for runtime in self._states.iterdir():
                shutil.rmtree(runtime / container, ignore_errors=True)
            try:
                bundle.remove()
            except OSError as error:
                raise EngineUnavailable(f"{bundle.folder} cannot be removed: {error}") from error
            if made is not None:
                made.close()
            self._made.pop(container, None)

    @staticmethod
    def _end(container: str, group: ControlGroup, first: "_First | None") -> None:
        """Ends all processes of a container, and the runtimes that work on it, unless its `first` process is known."""
        end = time.monotonic() + _REMOVAL_SECONDS
        if first is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(first.descriptor, signal.SIGKILL)
        while True:
            at_work = not readable([first], _PAUSE) if first is not None else _kill_runtimes(container)
            if group.cleared() and not at_work:
                break
            if time.monotonic() > end:
                raise EngineUnavailable(f"container {container[:12]} holds processes that do not end.")
            if first is None:
                time.sleep(_PAUSE)
        if first is not None:
            first.exit_code()

    def leftovers(self) -> tuple[Leftover, ...]:
        self._answer()
        found = ((name, Bundle(self._containers, name).labels) for name in bundles(self._containers))
        return tuple(Leftover(name, labels) for name, labels in found if OWNER in labels)

    def _ours(self, container: str) -> _Made:
        self._answer()
        if (made := self._made.get(container)) is None:
            raise EngineUnavailable(f"container {container[:12]} is not one that this server made.")
        return made

    def _answer(self) -> None:
        if not self._containers.is_dir():
            raise EngineUnavailable(f"there is no {self._containers}. Run `gdal-mcp setup`.")


def _kill_runtimes(container: str) -> bool:
    """Kills those that still work on a container; whether there was one."""
    found = False
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (place / "cmdline").read_bytes().split(b"\0")
            if container.encode() in words and Path(os.fsdecode(words[0])).name in _RUNTIMES:
                os.kill(int(place.name), signal.SIGKILL)
                found = True
    return found
