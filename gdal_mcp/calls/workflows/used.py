"""Records the files of workspaces that a step reads, and detects changes of them.

Invariants:
* the content decides whether a result can be used again: it is part of the key of a step;
* a file that was written after the check counts as changed, also with the same content: the step may have read it
  half-written.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Final

from gdal_mcp.plan import Draft
from gdal_mcp.records.provenance import Materials
from gdal_mcp.remote.places import local
from sandbox.errors import PathRefused
from sandbox.outputs.filetree import walk
from sandbox.workspace import RESERVED, Identity, Workspace, WorkspacePath, open_folder

Companions = Callable[[WorkspacePath], Iterable[Path]]

_UNHASHED: Final = "not digested"
_MAX_DIGESTS: Final = 10_000
# seconds in which a file can change and keep its modification time; FAT has the coarsest clock
_CLOCK: Final = 2.0


@dataclass(frozen=True, slots=True)
class UsedFile:
    """The state of a file or folder at one moment."""

    located: WorkspacePath
    content: str  # SHA-256; for content that is too large or unreadable, the file's identity and change time
    parts: tuple[tuple[str, Identity], ...] = ()  # entries, if this is a folder


@dataclass(frozen=True, slots=True)
class UsedFiles:
    """Records the state of files. `digests` caches the digests of unchanged files. Safe to use from several threads."""

    digests: dict[tuple[str, Identity, int], str | None] = field(default_factory=dict)
    clock: Callable[[], float] = time.time

    def read_by(
        self, draft: Draft, store: Workspace, companions: Companions, limit: int
    ) -> tuple[UsedFile, ...]:
        """The files that a step reads, with their sidecar files, as they are now. `limit` is in bytes.

        Results of other steps, in `store`, are not among them.
        """
        inputs = dict.fromkeys((*local(draft.inputs), *draft.looked_at))
        own = [located for located in inputs if located.workspace != store]
        files = dict.fromkeys(
            file for located in own for file in (located, *_find_companions(companions, located))
        )
        return tuple(self._look(located, limit) for located in files)

    def _look(self, known: WorkspacePath, limit: int) -> UsedFile:
        try:
            located = replace(known, identity=Identity.of(known.path.lstat()))
            parts = _list_parts(located) if located.is_folder else ()
        except (OSError, PathRefused):
            return UsedFile(replace(known, identity=None), _UNHASHED)
        content = (
            self._digest(located, limit) or f"{_UNHASHED}: {located.identity} {_changed_ns(located)} {parts}"
        )
        return UsedFile(located, content, parts)

    def _digest(self, located: WorkspacePath, limit: int) -> str | None:
        """The SHA-256 of a file or folder; None if it is too large or cannot be read."""
        identity = located.identity
        if identity is None or identity.size > limit:
            return None
        if located.is_folder or abs(self.clock() - identity.mtime_ns / 1e9) < _CLOCK:
            return Materials.digest(located)
        known = (str(located), identity, _changed_ns(located))
        if known not in self.digests:
            if len(self.digests) > _MAX_DIGESTS:
                self.digests.clear()
            self.digests[known] = Materials.digest(located)
        return self.digests[known]


def _changed_ns(located: WorkspacePath) -> int:
    """The kernel's change time of a file in nanoseconds; 0 if it is missing.

    Unlike the modification time, no program can set it.
    """
    try:
        return located.path.lstat().st_ctime_ns
    except OSError:
        return 0


def _list_parts(located: WorkspacePath) -> tuple[tuple[str, Identity], ...]:
    """Everything in a folder except for the server's own files. Raises OSError, PathRefused."""
    with open_folder(located.workspace, located.relative) as top:
        parts = ((entry.path, Identity.of(entry.status)) for entry in walk(top))
        return tuple(sorted(part for part in parts if PurePosixPath(part[0]).parts[0] != RESERVED))


def _find_companions(companions: Companions, located: WorkspacePath) -> list[WorkspacePath]:
    """The sidecar files of an input."""
    try:
        paths = sorted(companions(located))
    except (OSError, PathRefused):
        return []
    return [
        replace(located, relative=located.relative.parent / path.name, identity=None, is_folder=False)
        for path in paths
    ]
