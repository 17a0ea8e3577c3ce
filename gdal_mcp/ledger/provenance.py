"""What a call was made of: its inputs with their digests.

Invariants:
* an input is opened before the command runs and read through that descriptor, so that what a call puts in its place
  later is never taken for it;
* at most `limit` bytes are digested for one call; what is not digested says why;
* large inputs are digested with what the processors have to spare while the call runs, and at full speed once it has ended;
* nothing here fails a call: what cannot be read is a row with a reason.

Not known here are the files that a dataset itself refers to, such as the sources of a VRT.
"""

import hashlib
import os
import stat
import sys
import threading
import time
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from gdal_mcp.gdal.datasets.paths import family
from gdal_mcp.gdal.datasets.sidecar_files import Listings
from sandbox.errors import PathRefused
from sandbox.outputs.filetree import walk
from sandbox.outputs.inspection import tree_digest
from sandbox.outputs.store import Part
from sandbox.workspace import Identity, Located, open_file, open_folder

MAX_FILES: Final = 1000  # inputs and companions of one call that are recorded
MAX_PARTS: Final = 10_000  # files of a folder that is digested
PATIENCE: Final = 10.0  # seconds a call that has ended waits for its digests
_MAX_OPEN: Final = 64  # descriptors held during a run; what is beyond is opened when its turn comes
_CHUNK: Final = 1 << 18  # bytes between two looks at whether the call has ended; larger ones are no quicker
_AT_ONCE: Final = 32  # chunks after which the digests give way to the job: those of small inputs never do
_LEAST_PRIORITY: Final = 19
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_Made = TypeVar("_Made")
_Steps: TypeAlias = Generator[None, None, _Made]  # one chunk after another, so that any thread can go on

_TOO_LARGE: Final = "it is larger than what the setting digest_size leaves for it"
_LATE: Final = "it was not digested before the call ended"
_CHANGED: Final = "it changed while it was read"
_UNREADABLE: Final = "it cannot be read"


@dataclass(frozen=True, slots=True)
class Material:
    """One input as it was when the call began. `changed` says that it was not so any more when the call ended.

    `sha256` of a folder is that of `sandbox.outputs.inspection.Sealed`. Without one `reason` says why.
    """

    path: str
    size: int = 0  # bytes; of a folder all its files together, 0 when they were not counted
    modified_ns: int = 0
    sha256: str | None = None
    reason: str = _LATE
    folder: bool = False
    companion: bool = False  # came along with an input by its name
    changed: bool = False

    def row(self) -> dict[str, Any]:
        """As it is recorded: numbers, texts and only the marks that are true."""
        told: dict[str, Any] = {"path": self.path, "bytes": self.size, "modified": _time(self.modified_ns)}
        told["sha256"] = self.sha256
        if self.sha256 is None:
            told["reason"] = self.reason
        marks = {"folder": self.folder, "companion": self.companion, "changed": self.changed}
        return told | {name: True for name, is_so in marks.items() if is_so}


class Materials:
    """The inputs of one call, digested in a thread of their own while the call runs, and to the end by whoever asks."""

    def __init__(self, inputs: Iterable[Located], limit: int, max_parts: int = MAX_PARTS) -> None:
        """Opens the inputs; `limit` is in bytes. Never raises."""
        self._held = ExitStack()
        self._stop = threading.Event()
        self._left = limit
        self._max_parts = max_parts
        self._watched: list[_Watched] = []
        for located, companion in islice(_with_companions(inputs), MAX_FILES):
            self._watched.append(self._watch(located, companion=companion))
        self._steps = self._work()
        self._thread = threading.Thread(target=self._aside, name="digests", daemon=True)

    @classmethod
    def start(cls, inputs: Iterable[Located], limit: int) -> "Materials":
        """The inputs, opened, with their digests under way. Follow it with `result`, whatever becomes of the call."""
        made = cls(inputs, limit)
        made._thread.start()
        return made

    def result(self, *, touched: Collection[Path] = (), patience: float = PATIENCE) -> tuple[Material, ...]:
        """The inputs, each before its companions, after at most `patience` seconds and the reading of two chunks.

        `touched` are the paths that the call itself wrote, replaced or took away: another file there is no surprise.
        """
        end = time.monotonic() + patience
        self._stop.set()
        self._thread.join()
        while time.monotonic() < end and _more(self._steps):
            pass
        self._steps.close()
        self._held.close()
        return tuple(_ended(one, touched) for one in self._watched)

    @staticmethod
    def digest(located: Located) -> str | None:
        """The digest of one file or folder, however large; None when it cannot be told."""
        made = Materials((), sys.maxsize, sys.maxsize)
        with made._held:
            one = made._watch(located, companion=False)
            return _all_of(made._digested(one)).sha256 if one.identity else None

    def _watch(self, located: Located, *, companion: bool) -> "_Watched":
        material = Material(str(located), folder=located.is_folder, companion=companion)
        file = None
        try:
            if not located.is_folder and len(self._watched) < _MAX_OPEN:
                file = self._held.enter_context(open_file(located))
            identity = Identity.of(os.fstat(file) if file is not None else _status(located))
        except (OSError, PathRefused):
            return _Watched(located, None, replace(material, reason=_UNREADABLE))
        size = 0 if located.is_folder else identity.size
        changed = located.identity not in (None, identity)
        known = replace(material, size=size, modified_ns=identity.mtime_ns, changed=changed)
        return _Watched(located, identity, known, file)

    def _aside(self) -> None:
        """What is left when somebody asks for the result goes on in their thread: this one may hardly get to run."""
        chunks = 0
        while not self._stop.is_set() and _more(self._steps):
            chunks += 1
            if chunks == _AT_ONCE:
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LEAST_PRIORITY)

    def _work(self) -> _Steps[None]:
        for one in self._watched:
            if one.identity is not None:
                one.material = yield from self._digested(one)
                yield

    def _digested(self, one: "_Watched") -> _Steps[Material]:
        try:
            if one.located.is_folder:
                with open_folder(one.located.workspace, one.located.relative) as top:
                    return (yield from self._folder(one, top))
            with _file_of(one) as file:
                digest = yield from self._read(file)
                return replace(one.material, sha256=digest)
        except _NotDigested as why:
            return replace(one.material, reason=str(why))
        except (OSError, PathRefused):
            return replace(one.material, reason=_UNREADABLE)

    def _folder(self, one: "_Watched", top: int) -> _Steps[Material]:
        if not one.located.relative.parts:
            raise _NotDigested("it is the whole workspace")
        parts = sorted((yield from self._parts(top)), key=lambda part: os.fsencode(part.relative))
        return replace(one.material, size=sum(part.size for part in parts), sha256=tree_digest(parts))

    def _parts(self, top: int) -> _Steps[list[Part]]:
        """Not through `opened_file`, which widens the mode of what bars us: these files are not ours."""
        parts: list[Part] = []
        for entry in walk(top):
            if entry.is_folder and not entry.blocked:
                continue
            if len(parts) == self._max_parts:
                raise _NotDigested(f"it holds more than {self._max_parts} files")
            if not stat.S_ISREG(entry.status.st_mode):
                raise _NotDigested("it holds a link, or something else that is no file")
            file = os.open(entry.name, _FILE, dir_fd=entry.folder)
            try:
                parts.append(Part(entry.path, entry.status.st_size, (yield from self._read(file))))
            finally:
                os.close(file)
            yield
        return parts

    def _read(self, file: int) -> _Steps[str]:
        """The SHA-256 of an open file, in hex. Raises _NotDigested."""
        before = Identity.of(os.fstat(file))
        if before.size > self._left:
            raise _NotDigested(_TOO_LARGE)
        self._left -= before.size
        total, offset = hashlib.sha256(), 0
        while chunk := os.pread(file, min(_CHUNK, before.size - offset), offset):
            total.update(chunk)
            offset += len(chunk)
            yield
        if offset != before.size or Identity.of(os.fstat(file)) != before:
            raise _NotDigested(_CHANGED)
        return total.hexdigest()


@dataclass(slots=True)
class _Watched:
    """An input and what is known of it so far. `identity` is None for one that could not be opened."""

    located: Located
    identity: Identity | None
    material: Material
    file: int | None = None  # open until the result is asked for


class _NotDigested(Exception):
    """Why there is no digest."""


def _more(steps: _Steps[None]) -> bool:
    """Takes the next step; whether there was one."""
    try:
        next(steps)
    except StopIteration:
        return False
    return True


def _all_of(steps: _Steps[_Made]) -> _Made:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: _Made = end.value
            return made


def _with_companions(inputs: Iterable[Located]) -> Iterator[tuple[Located, bool]]:
    """Every input once, each followed by the files that go with it by their names."""
    seen: set[Path] = set()
    given = list(inputs)
    own = {one.path for one in given}
    listings = Listings()
    for located in given:
        if located.path in seen:
            continue
        seen.add(located.path)
        yield located, False
        for path in _companions(located, listings):
            if path not in seen and path not in own:
                seen.add(path)
                yield Located(located.workspace, located.relative.parent / path.name), True


def _companions(located: Located, listings: Listings) -> tuple[Path, ...]:
    try:
        return family(located, listings)[1:]
    except (OSError, PathRefused):
        return ()


@contextmanager
def _file_of(one: _Watched) -> Iterator[int]:
    """The descriptor that is held, or a new one. Raises OSError, PathRefused, _NotDigested when it is changed."""
    with nullcontext(one.file) if one.file is not None else open_file(one.located) as file:
        if Identity.of(os.fstat(file)) != one.identity:
            raise _NotDigested(_CHANGED)
        yield file


def _ended(one: _Watched, touched: Collection[Path]) -> Material:
    if one.identity is None or one.located.path in touched:
        return one.material
    try:
        same = Identity.of(_status(one.located)) == one.identity
    except (OSError, PathRefused):
        same = False
    return one.material if same else replace(one.material, changed=True)


def _status(located: Located) -> os.stat_result:
    """What stands at a place, no link followed. Raises OSError, PathRefused."""
    with open_folder(located.workspace, located.relative.parent) as folder:
        return os.stat(located.name or ".", dir_fd=folder, follow_symlinks=False)


def _time(moment_ns: int) -> str:
    seconds, rest = divmod(moment_ns, 1_000_000_000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"
    except (
        ValueError,
        OverflowError,
        OSError,
    ):  # a file system keeps years that a calendar of four digits does not have
        return f"@{seconds}.{rest:09}"
