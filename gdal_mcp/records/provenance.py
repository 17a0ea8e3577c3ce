"""The inputs of a call with their digests.

Invariants:
* an input is opened before the command runs and read through that descriptor, so that a file that replaces it later
  is never taken for it;
* at most `limit` bytes are digested for one call, in one thread, while the call runs and `patience` seconds longer;
  an input without a digest has a reason;
* nothing here fails a call, or delays its end by more than `patience` and `_GRACE`. A thread that hangs on a file
  system ends by itself, and there are at most `_MOST_THREADS`.

Files that a dataset itself refers to, such as the sources of a VRT, are not covered.
"""

import _thread
import hashlib
import os
import stat
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

from sandbox.errors import PathRefused
from sandbox.outputs.filetree import walk
from sandbox.outputs.inspection import tree_digest
from sandbox.outputs.store import Part
from sandbox.workspace import Identity, WorkspacePath, open_file, open_folder

MAX_FILES: Final = 1000  # inputs and companions of one call that are recorded
MAX_PARTS: Final = 10_000  # files of a folder that is digested
DIGEST_GRACE: Final = 10.0  # seconds that a call waits for its digests after it has ended
# seconds for the current chunk and for a last check of the files; milliseconds on a disk that answers
_GRACE: Final = 2.0
_MOST_THREADS: Final = 64  # including threads that hang; far more than calls run at once
_MAX_OPEN: Final = 64  # descriptors open during a run; further files are opened when their turn comes
_CHUNK: Final = 1 << 18  # bytes between two checks if the call has ended; larger chunks are not faster
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_TOO_LARGE: Final = "it is larger than what the setting digest_size leaves for it"
_LATE: Final = "it was not digested before the call ended"
_CHANGED: Final = "it changed while it was read"
_UNREADABLE: Final = "it cannot be read"
_NO_THREAD: Final = "too many digests hang on slow file systems"
_THREADS: Final = threading.BoundedSemaphore(_MOST_THREADS)

Companions = Callable[[WorkspacePath], Iterable[Path]]  # the sidecar files of an input


@dataclass(slots=True)
class Material:
    """One input as it was when the call began. `changed` is True if it was different when the call ended.

    `sha256` of a folder is that of `sandbox.outputs.store.PublishedFile`. Without a digest, `reason` says why.
    """

    located: WorkspacePath
    companion: bool  # True for a sidecar file of an input
    identity: Identity | None = None  # None for one that could not be opened
    file: int | None = None  # open until `result` is called
    size: int = 0  # bytes; of a folder all its files together, 0 if they were not counted
    sha256: str | None = None
    reason: str = _LATE
    changed: bool = False

    @property
    def path(self) -> str:
        return str(self.located)

    def row(self) -> dict[str, Any]:
        """The row that is recorded: numbers, texts and only the flags that are true."""
        modified = self.identity.mtime_ns if self.identity else 0
        row: dict[str, Any] = {"path": self.path, "bytes": self.size, "modified": _time(modified)}
        row["sha256"] = self.sha256
        if self.sha256 is None:
            row["reason"] = self.reason
        marks = {"folder": self.located.is_folder, "companion": self.companion, "changed": self.changed}
        return row | {name: True for name, is_so in marks.items() if is_so}


class _NotDigested(Exception):
    """The reason why there is no digest."""


class Materials:
    """The inputs of one call, digested in a separate thread while the call runs."""

    def __init__(
        self,
        inputs: Iterable[WorkspacePath],
        limit: int,
        companions: Companions = lambda _located: (),
        max_parts: int = MAX_PARTS,
    ) -> None:
        """Opens the inputs and starts to digest them, up to `limit` bytes. Never raises. Always call `result`
        afterwards.
        """
        self._open_files = ExitStack()
        self._digested, self._stop, self._ended = threading.Event(), threading.Event(), threading.Event()
        self._touched: Collection[Path] = ()
        self._left = limit
        self._max_parts = max_parts
        self._materials: list[Material] = []
        for located, companion in islice(_with_companions(inputs, companions), MAX_FILES):
            self._materials.append(self._watch(located, companion=companion))
        if not self._materials:
            self._ended.set()
        elif _THREADS.acquire(blocking=False):
            # not with `threading`, which would wait until the thread runs
            _thread.start_new_thread(self._work, ())
        else:
            self._open_files.close()
            self._materials = [
                replace(material, file=None, reason=_NO_THREAD) for material in self._materials
            ]
            self._ended.set()

    def _work(self) -> None:
        """Does everything that may hang, so that the call's own thread never does."""
        try:
            with self._open_files:
                for material in self._materials:
                    self._digest(material)
                self._digested.set()
                self._stop.wait()
            for material in self._materials:
                if material.identity is not None and material.located.path not in self._touched:
                    material.changed |= self._differs(material)
        finally:
            _THREADS.release()
            self._ended.set()

    def result(
        self, *, touched: Collection[Path] = (), patience: float = DIGEST_GRACE
    ) -> tuple[Material, ...]:
        """The inputs, each followed by its sidecar files, after at most `patience` and `_GRACE` seconds.

        `touched` are the paths that the call itself wrote, replaced or removed: another file at such a path is
        expected.
        """
        if not self._ended.is_set():
            self._digested.wait(patience)
        self._touched = touched
        self._stop.set()
        self._ended.wait(_GRACE)
        # a thread that hangs may continue with its own copy
        return tuple(replace(material) for material in self._materials)

    @staticmethod
    def _differs(material: Material) -> bool:
        try:
            return Identity.of(_status(material.located)) != material.identity
        except (OSError, PathRefused):
            return True

    @staticmethod
    def digest(located: WorkspacePath) -> str | None:
        """The digest of one file or folder of any size. None if it cannot be computed."""
        materials = Materials((), sys.maxsize, max_parts=sys.maxsize)
        with materials._open_files:
            material = materials._watch(located, companion=False)
            materials._digest(material)
            return material.sha256

    def _watch(self, located: WorkspacePath, *, companion: bool) -> Material:
        material = Material(located, companion)
        try:
            if not located.is_folder and len(self._materials) < _MAX_OPEN:
                material.file = self._open_files.enter_context(open_file(located))
            material.identity = Identity.of(
                os.fstat(material.file) if material.file is not None else _status(located)
            )
        except (OSError, PathRefused):
            material.reason = _UNREADABLE
            return material
        material.size = 0 if located.is_folder else material.identity.size
        material.changed = located.identity not in (None, material.identity)
        return material

    def _digest(self, material: Material) -> None:
        if material.identity is None:
            return
        try:
            if material.located.is_folder:
                material.size, material.sha256 = self._folder(material.located)
                return
            with (
                nullcontext(material.file)
                if material.file is not None
                else open_file(material.located) as file
            ):
                material.sha256 = self._read(file, material.identity)
        except _NotDigested as why:
            material.reason = str(why)
        except (OSError, PathRefused):
            material.reason = _UNREADABLE

    def _folder(self, located: WorkspacePath) -> tuple[int, str]:
        """The size and digest of a folder.

        Does not use `opened_file`, which changes modes to get access: these files are not ours.
        """
        if not located.relative.parts:
            raise _NotDigested("it is the whole workspace")
        parts: list[Part] = []
        with open_folder(located.workspace, located.relative) as top:
            for entry in walk(top):
                if entry.is_folder and not entry.blocked:
                    continue
                if len(parts) == self._max_parts:
                    raise _NotDigested(f"it holds more than {self._max_parts} files")
                if not stat.S_ISREG(entry.status.st_mode):
                    raise _NotDigested("it holds a link, or something else that is not a file")
                file = os.open(entry.name, _FILE, dir_fd=entry.folder)
                try:
                    parts.append(Part(entry.path, entry.status.st_size, self._read(file)))
                finally:
                    os.close(file)
        parts.sort(key=lambda part: os.fsencode(part.relative))
        return sum(part.size for part in parts), tree_digest(parts)

    def _read(self, file: int, known: Identity | None = None) -> str:
        """The SHA-256 of an open file, in hex. Raises _NotDigested, also when it is not the `known` file."""
        before = Identity.of(os.fstat(file))
        if known not in (None, before):
            raise _NotDigested(_CHANGED)
        if before.size > self._left:
            raise _NotDigested(_TOO_LARGE)
        self._left -= before.size
        total, offset = hashlib.sha256(), 0
        while chunk := os.pread(file, min(_CHUNK, before.size - offset), offset):
            if self._stop.is_set():
                raise _NotDigested(_LATE)
            total.update(chunk)
            offset += len(chunk)
        if offset != before.size or Identity.of(os.fstat(file)) != before:
            raise _NotDigested(_CHANGED)
        return total.hexdigest()


def _with_companions(
    inputs: Iterable[WorkspacePath], companions: Companions
) -> Iterator[tuple[WorkspacePath, bool]]:
    """Every input once, each followed by the files that go with it by their names."""
    by_path: dict[Path, WorkspacePath] = {}
    for source in inputs:
        by_path.setdefault(source.path, source)
    seen = set(by_path)
    for located in by_path.values():
        yield located, False
        try:
            beside = list(companions(located))
        except (OSError, PathRefused):
            beside = []
        for path in beside:
            if path not in seen:
                seen.add(path)
                yield WorkspacePath(located.workspace, located.relative.parent / path.name), True


def _status(located: WorkspacePath) -> os.stat_result:
    """The status of a path, without following links. Raises OSError, PathRefused."""
    with open_folder(located.workspace, located.relative.parent) as folder:
        return os.stat(located.name or ".", dir_fd=folder, follow_symlinks=False)


def _time(moment_ns: int) -> str:
    seconds, rest = divmod(moment_ns, 1_000_000_000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"
    except (ValueError, OverflowError, OSError):
        # file systems store years that a calendar of four digits does not have
        return f"@{seconds}.{rest:09}"
