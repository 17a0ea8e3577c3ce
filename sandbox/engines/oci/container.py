"""A container without a daemon, from the runtime's `create` to its removal.

Invariants:
* The remains of a container are found only by our own id, in our folder and in the control groups, and never through
  its runtime.
* No other process of ours is between a container and this server: its streams are pipes, and its first process
  becomes our child.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from sandbox.engine import AttachedStreams, ContainerState
from sandbox.engines.oci.bundle import Bundle
from sandbox.engines.oci.kernel import ControlGroup, is_of
from sandbox.engines.oci.pipes import PipeStreams, piped
from sandbox.engines.oci.runtime import FLOORS, Runtime
from sandbox.errors import EngineUnavailable
from sandbox.waiting import Cancellation, Process, readable

_PR_SET_CHILD_SUBREAPER: Final = 36
_REMOVAL_SECONDS: Final = 20.0
# seconds between two checks; waiting for the end of a process is cheaper than polling its control groups
_PAUSE: Final = 0.05
_UNKNOWN: Final = -1  # the exit code of a process that is not our child
_RUNTIMES: Final = (
    *FLOORS,
    "sh",
    "unshare",
)  # sh and unshare mount a root before they execute the runtime


class _First(Process):
    """A container's first process, which is a child of ours once its runtime has ended."""

    def exit_code(self) -> int:
        """The exit code of an ended child process, as a shell reports it."""
        try:
            ended = os.waitid(os.P_PIDFD, self.descriptor, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            ended = None
        if ended is None:
            return _UNKNOWN
        return ended.si_status if ended.si_code == os.CLD_EXITED else 128 + ended.si_status


class OciContainer:
    """One container: its bundle, its control groups and, for its creator, its streams and its first process."""

    def __init__(self, containers: Path, states: Path, container: str) -> None:
        self.id = container
        self._containers, self._states = containers, states
        self._bundle = Bundle(containers, container)
        self._wire: PipeStreams | None = None
        # set only in the process that created the container, until the start
        self._runtime: Runtime | None = None
        self._first: _First | None = None  # readable once that process has ended
        self._ended: ContainerState | None = None
        self._lock = threading.Lock()

    def create(self, image: Path, targets: Sequence[tuple[PurePosixPath, bool]], runtime: Runtime) -> int:
        """Lets the runtime create the container on an image, with mount points for `targets`.

        Returns the pid of its first process.
        """
        self._wire, theirs = piped()
        self._runtime = runtime

        def run_create(wrapper: Sequence[str]) -> None:
            # once the runtime has ended, the container's first process is our child, so we get its exit code
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            words = self._bundle.create_argv(self.id)
            runtime.run(words, self._states / runtime.name, self._bundle.log, theirs, wrapper)

        try:
            self._bundle.with_root(image, targets, run_create)
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        pid = self._bundle.pid or 0
        try:
            self._first = _First(pid)
        except OSError as error:
            raise EngineUnavailable(f"a container ended before its start: {error}") from error
        return pid

    def start(self, _cancel: Cancellation | None = None) -> AttachedStreams:
        refuse_absent(self._containers)
        with self._lock:
            wire, runtime, self._runtime = self._wire, self._runtime, None
        if wire is None or runtime is None:
            raise EngineUnavailable(f"container {self.id[:12]} was not created here, or was started before.")
        runtime.run(["start", self.id], self._states / runtime.name, self._bundle.log)
        return wire

    def state(self) -> ContainerState | None:
        refuse_absent(self._containers)
        with self._lock:
            if not self._bundle.folder.is_dir():
                return None
            if self._first is None:
                running = is_of(self._bundle.pid or 0, self.id)
                return ContainerState(
                    running, 0 if running else _UNKNOWN, self._bundle.group.was_oom_killed()
                )
            if self._ended is None and readable([self._first], 0):
                code, memory = self._first.exit_code(), self._bundle.group.was_oom_killed()
                self._ended = ContainerState(running=False, exit_code=code, out_of_memory=memory)
            return self._ended or ContainerState(running=True, exit_code=0, out_of_memory=False)

    def process(self) -> int | None:
        state = self.state()
        if state is None or not state.running or self._runtime is not None:
            return None
        return self._bundle.pid

    def wait(self, seconds: float) -> ContainerState | None:
        if (first := self._first) is not None:
            readable([first], seconds)
        return self.state()

    def remove(self) -> None:
        refuse_absent(self._containers)
        with self._lock:
            if self._bundle.folder.is_dir():
                self._bundle.close()
                self._end(self._bundle.group)
                for runtime in self._states.iterdir():
                    shutil.rmtree(runtime / self.id, ignore_errors=True)
                try:
                    self._bundle.remove()
                except OSError as error:
                    raise EngineUnavailable(f"{self._bundle.folder} cannot be removed: {error}") from error
            self._close()

    def _close(self) -> None:
        if self._first is not None:
            self._first.exit_code()  # otherwise it would remain a zombie
            self._first.close()
        if self._wire is not None:
            self._wire.close()
        self._wire = self._first = self._runtime = None

    def _end(self, group: ControlGroup) -> None:
        """Kills all processes of the container and, unless its first process is known, the runtimes that work on it."""
        end, first = time.monotonic() + _REMOVAL_SECONDS, self._first
        if first is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(first.descriptor, signal.SIGKILL)
        while True:
            at_work = not readable([first], _PAUSE) if first is not None else _kill_runtimes(self.id)
            if group.kill_and_remove() and not at_work:
                break
            if time.monotonic() > end:
                raise EngineUnavailable(f"container {self.id[:12]} holds processes that do not end.")
            if first is None:
                time.sleep(_PAUSE)


def refuse_absent(containers: Path) -> None:
    """Raises EngineUnavailable if the folder of containers is missing, for example because its user removed it."""
    if not containers.is_dir():
        raise EngineUnavailable(f"there is no {containers}. Run `gdal-mcp setup`.")


def _kill_runtimes(container: str) -> bool:
    """Kills the runtimes that still work on a container. True if there was one."""
    found = False
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (place / "cmdline").read_bytes().split(b"\0")
            if container.encode() in words and Path(os.fsdecode(words[0])).name in _RUNTIMES:
                os.kill(int(place.name), signal.SIGKILL)
                found = True
    return found
