"""Published files, found by the call that made them and opened for those who may read them.

Invariants:
* only what the registry lists is found, and to one who may not see everybody's only what a call of theirs made;
* a file is opened without following any link, at the very place where it was published;
* no byte is given out of a file that is not what was published, as far as its digest or the kernel's clock can tell;
* a file that changes while it is read is not read further.
"""

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

from gdal_mcp.access.identity import ADMIN, Principal
from gdal_mcp.ledger.registry import Artifact, Registry
from sandbox.errors import PathMissing, PathRefused
from sandbox.files.filetree import digest
from sandbox.workspace import Workspaces, open_file

FOLDER: Final = "inode/directory"  # what `records` registers for one
DIGEST_BYTES: Final = (
    64 << 20
)  # up to here a file is digested when it is first asked for; a fraction of a second
_CALL: Final = re.compile(r"[0-9a-f]{8,64}", re.ASCII)
_REMEMBERED: Final = 10_000  # files; some hundred bytes each


class Absent(Exception):
    """There is no such file, or none for this caller."""


class Gone(Exception):
    """There was such a file; the message says what became of it, in few words."""


class Busy(Exception):
    """A large file has to be compared with what was published, and another one is just now."""


@dataclass(frozen=True, slots=True)
class Print:
    """What an open file looked like. The change time cannot be set by programs, so no write leaves all of it as it was."""

    device: int
    inode: int
    size: int  # bytes
    changed_ns: int
    written_ns: int

    @classmethod
    def of(cls, file: int) -> "Print":
        now = os.fstat(file)
        return cls(now.st_dev, now.st_ino, now.st_size, now.st_ctime_ns, now.st_mtime_ns)


@dataclass(slots=True)
class Opened:
    """An open file that was published as `artifact`. It must be closed."""

    artifact: Artifact
    file: int
    print: Print
    close: Callable[[], None]

    def read(self, start: int, length: int) -> bytes:
        """Bytes of what was published; fewer at its end. Raises Gone when it is not that any more."""
        data = os.pread(self.file, length, start)
        if Print.of(self.file) != self.print:
            raise Gone("it was changed while it was read")
        return data


@dataclass(frozen=True)
class Shelf:
    """The published files of one server. For several threads. Methods raise RegistryUnavailable."""

    registry: Registry
    _known: "OrderedDict[int, Print]" = field(
        default_factory=OrderedDict
    )  # by artifact, what was found unchanged
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _digesting: threading.Lock = field(default_factory=threading.Lock)  # one at a time, and each file once
    _digesting_large: threading.Lock = field(default_factory=threading.Lock)

    def owner(self, call_id: str, of: Principal | None = None) -> str:
        """Whose call it is; if `of` is given, only of calls that this one may see. Raises Absent."""
        mine = of.id if of is not None and not of.holds(ADMIN) else None
        call = self.registry.call(call_id, mine) if _CALL.fullmatch(call_id) else None
        if call is None:
            raise Absent
        return call.principal

    def files(self, call_id: str) -> tuple[Artifact, ...]:
        """What a call published and the registry still lists."""
        return tuple(one for one in self.registry.artifacts_of(call_id) if one.state == "listed")

    def find(self, call_id: str, name: str) -> Artifact:
        """A file of a call by its name, which no two of one call share. Raises Absent, Gone."""
        made = [one for one in self.registry.artifacts_of(call_id) if one.name == name]
        if not made or made[-1].media_type == FOLDER:
            raise Absent
        if made[-1].state == "retracted":
            raise Gone("the call was undone")
        if made[-1].state == "superseded":
            raise Gone("a later call replaced it")
        return made[-1]

    def open(self, artifact: Artifact, workspaces: Workspaces) -> Opened:
        """Raises Absent for a workspace that is not among these, Gone for anything but what was published, Busy."""
        with ExitStack() as stack:
            try:
                located = workspaces.input(artifact.path)
                if str(located) != artifact.path:
                    raise Gone("a link stands in its place")
                file = stack.enter_context(open_file(located))
            except PathMissing as error:
                raise Gone("it was taken away") from error
            except PathRefused as error:
                raise Absent from error
            seen = self._checked(artifact, file)
            return Opened(artifact, file, seen, stack.pop_all().close)

    def _checked(self, artifact: Artifact, file: int) -> Print:
        seen = Print.of(file)
        if seen.size != artifact.size:
            raise Gone("it was changed")
        if self._is_known(artifact, seen) or _untouched(artifact, seen):
            return seen
        with self._turn(seen.size):
            if not self._is_known(artifact, seen):
                if digest(file) != artifact.sha256 or Print.of(file) != seen:
                    raise Gone("it was changed")
                self._remember(artifact, seen)
        return seen

    @contextmanager
    def _turn(self, size: int) -> Iterator[None]:
        """Small files wait for each other; of the large, nobody waits, so that no thread does. Raises Busy."""
        small = size <= DIGEST_BYTES
        lock = self._digesting if small else self._digesting_large
        if not lock.acquire(blocking=small):
            raise Busy
        try:
            yield
        finally:
            lock.release()

    def _is_known(self, artifact: Artifact, seen: Print) -> bool:
        with self._lock:
            return self._known.get(artifact.id) == seen

    def _remember(self, artifact: Artifact, seen: Print) -> None:
        with self._lock:
            self._known[artifact.id] = seen
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)


def _untouched(artifact: Artifact, seen: Print) -> bool:
    """Whether a file is too large to be digested for one request, and by the kernel's clock is as it was registered."""
    return seen.size > DIGEST_BYTES and seen.changed_ns / 1e9 <= artifact.created
