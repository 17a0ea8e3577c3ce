"""Published files, found by the call that made them and opened for those who may read them.

Invariants:
* only what the registry lists is found, and to one who may not see everybody's only what a call of theirs made;
* a file is opened without following any link, at the very place where it was published;
* no byte is given out of a file that is not what was published, as far as its digest or the kernel's clock can tell;
* a file that changes while it is read is not read further;
* of nothing is it said that it is what was published unless that was seen.
"""

import os
import re
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from gdal_mcp.access.identity import ADMIN, Principal
from gdal_mcp.ledger.registry import Artifact, Registry
from sandbox.errors import PathMissing, PathRefused
from sandbox.outputs.filetree import digest
from sandbox.workspace import Workspaces, open_file

FOLDER: Final = "inode/directory"  # what `records` registers for one
# up to here a file is digested when it is first asked for: a fraction of a second
DIGEST_BYTES: Final = 64 << 20
_CALL: Final = re.compile(r"[0-9a-f]{8,64}", re.ASCII)
_REMEMBERED: Final = 10_000  # files; some hundred bytes each


class Absent(Exception):
    """There is no such file, or none for this caller."""


class Gone(Exception):
    """There was such a file; the message says what became of it, in few words."""


class Busy(Exception):
    """A large file has to be compared with what was published, and another one is just now."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a file looked like. The change time cannot be set by programs, so no write leaves all of it as it was."""

    device: int
    inode: int
    size: int  # bytes
    changed_ns: int
    written_ns: int

    @classmethod
    def of(cls, file: int | os.stat_result) -> "Fingerprint":
        now = os.fstat(file) if isinstance(file, int) else file
        return cls(now.st_dev, now.st_ino, now.st_size, now.st_ctime_ns, now.st_mtime_ns)


@dataclass(slots=True)
class Opened:
    """An open file that was published as `artifact`. It must be closed."""

    artifact: Artifact
    file: int
    fingerprint: Fingerprint
    close: Callable[[], None]

    def read(self, start: int, length: int) -> bytes:
        """Bytes of what was published; fewer at its end. Raises Gone when it is not that any more."""
        data = os.pread(self.file, length, start)
        if Fingerprint.of(self.file) != self.fingerprint:
            raise Gone("it was changed while it was read")
        return data


@dataclass(frozen=True)
class ArtifactStore:
    """The published files of one server. For several threads. Methods raise RegistryUnavailable."""

    registry: Registry
    # by artifact: the fingerprint that was compared with what was published, and whether it was the same
    _compared: "OrderedDict[int, tuple[Fingerprint, bool]]" = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _digesting: threading.Lock = field(default_factory=threading.Lock)  # one at a time, and each file once
    _digesting_large: threading.Lock = field(default_factory=threading.Lock)

    def owner(self, call_id: str, viewer: Principal | None = None) -> str:
        """Whose call it is; if `viewer` is given, only of calls that this one may see. Raises Absent."""
        mine = viewer.id if viewer is not None and not viewer.holds(ADMIN) else None
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
            seen = Fingerprint.of(file)
            if not self._verify(artifact, file, seen):
                raise Gone("it was changed")
            return Opened(artifact, file, seen, stack.pop_all().close)

    def is_unchanged(self, artifact: Artifact, file: int) -> bool | None:
        """Whether an open file is what was published; None where only reading more of it than one request may would tell."""
        seen = Fingerprint.of(file)
        if seen.size == artifact.size and seen.size > DIGEST_BYTES:
            return self._guess(artifact, seen)
        try:
            return self._verify(artifact, file, seen)
        except Gone:
            return False

    def quick_check(self, artifact: Artifact) -> bool | None:
        """The same of what stands in its place, without reading any of it; None where that does not tell."""
        try:
            now = os.lstat(artifact.path)
        except (OSError, ValueError):
            return False
        if artifact.media_type == FOLDER:
            return None if stat.S_ISDIR(now.st_mode) else False
        if not stat.S_ISREG(now.st_mode) or now.st_size != artifact.size:
            return False
        return self._guess(artifact, Fingerprint.of(now))

    def _recall(self, artifact: Artifact, seen: Fingerprint) -> bool | None:
        """What an earlier comparison of the same fingerprint found; None where there was none."""
        with self._lock:
            compared, same = self._compared.get(artifact.id, (None, False))
        return same if compared == seen else None

    def _guess(self, artifact: Artifact, seen: Fingerprint) -> bool | None:
        """The same, else what the kernel's clock tells: a file that is as it was when it was registered."""
        known = self._recall(artifact, seen)
        return True if known is None and seen.changed_ns / 1e9 <= artifact.created else known

    def _verify(self, artifact: Artifact, file: int, seen: Fingerprint) -> bool:
        """Whether it is the same, by its digest where it is small or nothing else tells. Raises Gone, Busy."""
        if seen.size != artifact.size:
            return False
        is_small = seen.size <= DIGEST_BYTES
        known = self._recall(artifact, seen) if is_small else self._guess(artifact, seen)
        if known is not None:
            return known
        # small files wait for each other; of the large, nobody waits, so that no thread does
        lock = self._digesting if is_small else self._digesting_large
        if not lock.acquire(blocking=is_small):
            raise Busy
        try:
            known = self._recall(artifact, seen)  # another thread may just have compared it
            return self._digest(artifact, file, seen) if known is None else known
        finally:
            lock.release()

    def _digest(self, artifact: Artifact, file: int, seen: Fingerprint) -> bool:
        """Compares it whole. Raises Gone."""
        same = digest(file) == artifact.sha256
        if Fingerprint.of(file) != seen:
            raise Gone("it was changed")
        with self._lock:
            self._compared[artifact.id] = (seen, same)
            while len(self._compared) > _REMEMBERED:
                self._compared.popitem(last=False)
        return same
