"""Published files, found by the call that made them and opened for those who may read them.

Invariants:
* only files in the registry are found; callers who may not see everybody's files find only those of their own calls;
* a file is opened at the path where it was published, without following any link;
* no byte is served from a file that differs from the published one: by its digest, or for a large file by the
  kernel's change time;
* a file is reported as unchanged only after that check.
"""

import os
import re
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from gdal_mcp.policy.identity import ADMIN, Principal
from gdal_mcp.records.registry import Artifact, Registry
from sandbox.errors import PathMissing, PathRefused
from sandbox.outputs.filetree import digest
from sandbox.portable import O_PATH_FLAG
from sandbox.workspace import Workspaces, open_file

FOLDER: Final = "inode/directory"  # the media type that is registered for a folder
# bytes; a larger file that was not touched since is not digested, because a client and a thread would wait for it
DIGEST_BYTES: Final = 64 << 20
_CALL: Final = re.compile(r"[0-9a-f]{8,64}", re.ASCII)
_REMEMBERED: Final = 10_000  # files whose comparison is remembered; some hundred bytes each


class Absent(Exception):
    """The file does not exist, or not for this caller."""


class Gone(Exception):
    """The file no longer exists as it was published; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A file's metadata. Programs cannot set the change time, so every write changes it."""

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
    """An open file that was published as `artifact`. Close it after use. A later fingerprint shows if it was changed."""

    artifact: Artifact
    file: int
    fingerprint: Fingerprint
    close: Callable[[], None]

    def is_in_place(self) -> bool:
        """True if the file is unchanged and still at its path."""
        try:
            now = os.open(self.artifact.path, O_PATH_FLAG | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return Fingerprint.of(now) == self.fingerprint
        finally:
            os.close(now)


@dataclass(frozen=True)
class ArtifactStore:
    """The published files of one server. Safe to use from several threads. Methods raise RegistryUnavailable."""

    registry: Registry
    # by artifact id: the fingerprint that was compared with the published file, and the result
    _compared: "OrderedDict[int, tuple[Fingerprint, bool]]" = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    # held while a file is digested, so that each file is digested only once
    _digesting: threading.Lock = field(default_factory=threading.Lock)

    def owner(self, call_id: str, viewer: Principal | None = None) -> str:
        """The principal of the call. Raises Absent, also for a call that `viewer`, if given, may not see."""
        mine = viewer.id if viewer is not None and not viewer.holds(ADMIN) else None
        call = self.registry.call(call_id, mine) if _CALL.fullmatch(call_id) else None
        if call is None:
            raise Absent
        return call.principal

    def find(self, call_id: str, name: str) -> Artifact:
        """A file of a call by its name, which is unique within the call. Raises Absent, Gone."""
        artifacts = [artifact for artifact in self.registry.artifacts_of(call_id) if artifact.name == name]
        if not artifacts or artifacts[-1].media_type == FOLDER:
            raise Absent
        if artifacts[-1].state == "retracted":
            raise Gone("the call was undone")
        if artifacts[-1].state == "superseded":
            raise Gone("a later call replaced it")
        return artifacts[-1]

    def open(self, artifact: Artifact, workspaces: Workspaces) -> Opened:
        """Opens a file. Raises Absent for one outside these workspaces, Gone for one that differs from the published
        file.
        """
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
            fingerprint = Fingerprint.of(file)
            if not self._verify(artifact, file, fingerprint):
                raise Gone("it was changed")
            return Opened(artifact, file, fingerprint, stack.pop_all().close)

    def is_unchanged(self, artifact: Artifact, file: int) -> bool:
        """True if an open file is the published one."""
        try:
            return self._verify(artifact, file, Fingerprint.of(file))
        except Gone:
            return False

    def quick_check(self, artifact: Artifact) -> bool | None:
        """Like `is_unchanged`, for the file at its path and without reading it. None if its metadata do not decide."""
        try:
            now = os.lstat(artifact.path)
        except (OSError, ValueError):
            return False
        if artifact.media_type == FOLDER:
            return None if stat.S_ISDIR(now.st_mode) else False
        if not stat.S_ISREG(now.st_mode) or now.st_size != artifact.size:
            return False
        return self._recall(artifact, Fingerprint.of(now), by_clock=True)

    def _recall(self, artifact: Artifact, fingerprint: Fingerprint, *, by_clock: bool) -> bool | None:
        """The result of an earlier comparison of the same fingerprint, or True if the file was not changed since it
        was registered.

        None if neither decides.
        """
        with self._lock:
            compared, same = self._compared.get(artifact.id, (None, False))
        if compared == fingerprint:
            return same
        return True if by_clock and fingerprint.changed_ns / 1e9 <= artifact.created else None

    def _verify(self, artifact: Artifact, file: int, fingerprint: Fingerprint) -> bool:
        """True if a file is the published one. It is digested only if nothing else decides. Raises Gone."""
        if fingerprint.size != artifact.size:
            return False
        recall = partial(self._recall, artifact, fingerprint, by_clock=fingerprint.size > DIGEST_BYTES)
        if (known := recall()) is not None:
            return known
        with self._digesting:
            known = recall()  # another thread may have compared it in the meantime
            if known is None:
                known = digest(file) == artifact.sha256
                if Fingerprint.of(file) != fingerprint:
                    raise Gone("it was changed")
                with self._lock:
                    self._compared[artifact.id] = (fingerprint, known)
                    while len(self._compared) > _REMEMBERED:
                        self._compared.popitem(last=False)
            return known
