"""Results of steps, stored outside every workspace so that a workflow can be resumed.

A step's key is a digest of everything that decides its result: the image, the tool, the arguments, the contents of
the files it reads from workspaces, and the keys of the steps it uses. So a key is known before the step runs, and a
step whose key has a complete result does not run again.

Invariants:
* a result is recorded after all its files are in place, in one rename; a run that dies leaves files without a record,
  which nobody uses;
* a result whose files differ from the recorded ones is not used;
* no folder of a living run is removed, and none with a result that a living run uses;
* the folder is private; containers see only the files that their step names, read-only.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gdal_mcp.settings.state import put_private
from sandbox.workspace import Workspace

MAX_AGE: Final = 7 * 86_400.0  # seconds since a result was last used
MAX_BYTES: Final = 10 << 30  # bytes of all results together
_KEY: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_RUN: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)


def step_key(parts: Mapping[str, Any]) -> str:
    """The digest of everything that decides a step's result; `parts` is JSON."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StepResult:
    """The complete result of a step. `outputs` are absolute paths in the order of the step's outputs; `call` is the call that wrote them."""

    key: str
    call: str
    outputs: tuple[str, ...]
    digests: tuple[str, ...]  # SHA-256 of each output's files together, in the same order
    facts: tuple[Mapping[str, Any], ...] = ()  # the container's description of each output
    checks: tuple[Mapping[str, Any], ...] = ()  # warnings about the result, in the form of an answer
    transformations: tuple[Mapping[str, Any], ...] = ()  # changes of CRS, in the form of an answer


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run while it lasts; each step has a folder of its own in it."""

    path: Path
    owner: tuple[int, int]  # uid and gid of the containers

    def step(self, name: str) -> Path:
        """Makes the folder of a step, for the user of the containers."""
        folder = self.path / name
        folder.mkdir(mode=0o700, exist_ok=True)
        _give(folder, self.owner)
        return folder


@dataclass(frozen=True, slots=True)
class StepStore:
    """All results in one folder of the state folder. Safe to use from several threads and servers."""

    folder: Path
    max_age: float = MAX_AGE
    max_bytes: int = MAX_BYTES
    clock: Callable[[], float] = time.time

    @property
    def workspace(self) -> Workspace:
        """The store as a workspace for the steps of a workflow. No tool lists it, and no argument of a user can name
        it.
        """
        return Workspace(self.folder, writable=True)

    def prepare(self, owner: tuple[int, int]) -> None:
        """Makes the folder, which belongs to the user of the containers. Raises OSError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _give(self.folder, owner)

    @contextmanager
    def run(self, run_id: str, owner: tuple[int, int]) -> Iterator[RunFolder]:
        """The folder of a run. Its results stay after the run ends; files without a recorded result are removed."""
        if not _RUN.fullmatch(run_id):
            raise ValueError(f"{run_id!r} is not the id of a run")
        self.prepare(owner)
        try:
            with self._in_use(run_id, os.O_CREAT):
                path = self.folder / run_id
                path.mkdir(mode=0o700)
                _give(path, owner)
                yield RunFolder(path, owner)
        finally:
            self.prune()

    @contextmanager
    def hold(self, results: Iterable[StepResult]) -> Iterator[None]:
        """Prevents the removal of results. Raises FileNotFoundError if the files of one have been removed."""
        runs = {Path(path).relative_to(self.folder).parts[0] for result in results for path in result.outputs}
        with ExitStack() as stack:
            for run_id in runs:
                stack.enter_context(self._in_use(run_id))
            yield

    def find(self, key: str) -> StepResult | None:
        """The complete result of a key. None if there is none, or if its files were changed or removed."""
        path = self._record(key)
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            if any(_stamp(Path(name)) != stamp for name, stamp in record["files"].items()):
                return None
            os.utime(path, (self.clock(), self.clock()))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return StepResult(
            key,
            record["call"],
            tuple(record["outputs"]),
            tuple(record["digests"]),
            tuple(record["facts"]),
            tuple(record["checks"]),
            tuple(record["transformations"]),
        )

    def put(self, result: StepResult, files: Sequence[Path]) -> None:
        """Records a complete result; `files` are all files of its outputs. Raises OSError."""
        record = {
            "call": result.call,
            "outputs": result.outputs,
            "digests": result.digests,
            "facts": [dict(facts) for facts in result.facts],
            "checks": [dict(check) for check in result.checks],
            "transformations": [dict(transformation) for transformation in result.transformations],
            "files": {str(path): _stamp(path) for path in files},
        }
        put_private(self._record(result.key), json.dumps(record).encode())

    def prune(self) -> None:
        """Removes results that are too old or too large together, least recently used first, and leftovers of dead
        runs.
        """
        with suppress(OSError):
            records = sorted(self.folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
            total, used = 0, set[str]()
            for path in records:
                run, size = self._measured(path)
                total += size
                if self.clock() - path.stat().st_mtime > self.max_age or total > self.max_bytes or not run:
                    path.unlink(missing_ok=True)
                else:
                    used.add(run)
            for folder in self.folder.iterdir():
                if _RUN.fullmatch(folder.name) and folder.name not in used:
                    self._remove_unused(folder.name)

    def _remove_unused(self, run_id: str) -> None:
        """Removes the folder of a run, unless a process uses it. Raises OSError."""
        lock = os.open(self._lock(run_id), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(self.folder / run_id, ignore_errors=True)
            self._lock(run_id).unlink(missing_ok=True)
        except BlockingIOError:
            return
        finally:
            os.close(lock)

    @contextmanager
    def _in_use(self, run_id: str, flags: int = 0) -> Iterator[None]:
        """Marks the folder of a run as used by this process; several may use it. Raises FileNotFoundError."""
        path = self._lock(run_id)
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
            if not os.fstat(lock).st_nlink:  # the folder was removed before this process had the lock
                raise FileNotFoundError(errno.ENOENT, "the result of a step was removed", str(path))
            yield
        finally:
            os.close(lock)

    def _measured(self, record: Path) -> tuple[str, int]:
        """The run that made a recorded result, and the bytes of its files; "" and 0 if the record cannot be read."""
        try:
            files = json.loads(record.read_text(encoding="utf-8"))["files"]
            first = Path(next(iter(files))).relative_to(self.folder)
            return first.parts[0], sum(stamp[0] for stamp in files.values())
        except (OSError, ValueError, KeyError, TypeError, StopIteration):
            return "", 0

    def _record(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} is not a key")
        return self.folder / f"{key}.json"

    def _lock(self, run_id: str) -> Path:
        return self.folder / f"{run_id}.lock"


def _stamp(path: Path) -> list[int]:
    """Size in bytes, modification time in nanoseconds and inode of a file, without following links. Raises OSError."""
    status = path.lstat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _give(folder: Path, owner: tuple[int, int]) -> None:
    if os.geteuid() == 0:
        os.chown(folder, *owner)
