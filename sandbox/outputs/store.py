"""The values of the store of outputs (`staging.StagingArea`)."""

import os
from dataclasses import dataclass
from enum import StrEnum

from sandbox.template import Limits
from sandbox.workspace import Identity, WorkspacePath


@dataclass(frozen=True, slots=True)
class StagingUsage:
    """The usage of an output folder. The size of a file is the larger of its length and its blocks on disk."""

    bytes: int = 0
    files: int = 0  # includes folders, because each uses an inode
    largest_bytes: int = 0
    # counts the use by all processes; a file that was unlinked while open is in no folder
    disk_low: bool = False

    def exceeds(self, limits: Limits) -> bool:
        return (
            self.bytes > limits.staging_bytes
            or self.files > limits.staging_files
            or self.largest_bytes > limits.file_bytes
        )

    def add(self, status: os.stat_result) -> "StagingUsage":
        # a hole uses no disk space, but the host reads and hashes it like data
        size = max(status.st_size, status.st_blocks * 512)
        return StagingUsage(self.bytes + size, self.files + 1, max(self.largest_bytes, size))


@dataclass(frozen=True, slots=True)
class Staged:
    """A top-level entry that a job left and that can be published."""

    name: str
    is_folder: bool
    size: int  # bytes; for a folder, of all its files
    files: int  # number of regular files; 1 for a file
    identity: Identity


@dataclass(frozen=True, slots=True)
class Publication:
    """Publishes a staged entry to a target. Only the file with `target.identity` may be replaced there."""

    staged_name: str
    target: WorkspacePath


@dataclass(frozen=True, slots=True)
class Transfer:
    """Renames a file or folder of the workspace. Only the file with `target.identity` may be replaced at the target."""

    source: WorkspacePath
    target: WorkspacePath


@dataclass(frozen=True, slots=True)
class Part:
    """One regular file of a published folder."""

    relative: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file or folder that was published into the workspace.

    For a folder, `sha256` is the SHA-256 over one line `<sha256>  <size>  <relative path>` and a line feed for each
    of `parts`, in UTF-8, sorted by the bytes of the path. Empty folders in it are ignored.
    """

    located: WorkspacePath
    size: int  # bytes
    sha256: str
    parts: tuple[Part, ...] = ()  # only of a folder
    listing: str = ""  # only of a folder: detects later changes


@dataclass(frozen=True, slots=True)
class Published:
    """The result of a publication.

    `replaced`, `removed` and the sources of `moved` describe the files before it; an undo with `undo_id` restores
    them.
    """

    undo_id: str
    files: tuple[PublishedFile, ...]
    replaced: tuple[WorkspacePath, ...] = ()
    removed: tuple[WorkspacePath, ...] = ()
    moved: tuple[Transfer, ...] = ()  # the targets have their current identities


@dataclass(frozen=True, slots=True)
class StoredPublication:
    """A publication in the undo store that can be undone, or was undone. `files` have no parts."""

    call_id: str
    is_undone: bool
    files: tuple[PublishedFile, ...]


@dataclass(frozen=True, slots=True)
class UndoResult:
    """The result of an undo.

    `restored` are back at their names; `taken_away` were created by the call and have been moved out of the
    workspace.
    """

    call_id: str
    restored: tuple[WorkspacePath, ...]
    taken_away: tuple[WorkspacePath, ...]


class RecoveryOutcome(StrEnum):
    """The result of `recover` for one entry."""

    DISCARDED = "discarded"  # nothing was published; the output was removed
    PUBLISHED = "published"  # all outputs are published, by the call itself or by the recovery
    UNDONE = "undone"  # the undo is complete, by itself or by the recovery
    CONFLICT = "conflict"  # a target was changed meanwhile; both versions are kept, in `kept_in`
    DAMAGED = "damaged"  # the entry is unreadable, or a system call failed; left unchanged


@dataclass(frozen=True, slots=True)
class Recovery:
    """The outcome for one interrupted call. `targets` are the places that it wrote to."""

    call_id: str
    staging_id: str
    outcome: RecoveryOutcome
    targets: tuple[WorkspacePath, ...] = ()
    kept_in: str = ""  # a folder on the host
    detail: str = ""
