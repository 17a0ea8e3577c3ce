"""The values of the store of outputs (`staging.StagingArea`)."""

import os
from dataclasses import dataclass
from enum import StrEnum

from sandbox.template import Limits
from sandbox.workspace import Identity, WorkspacePath


@dataclass(frozen=True, slots=True)
class StagingUsage:
    """The usage of an output folder. A file counts with the larger of its size and its blocks."""

    bytes: int = 0
    files: int = 0  # folders are counted too: each costs an inode
    largest_bytes: int = 0
    # by any process: a file that was unlinked while open is in no folder
    disk_low: bool = False

    def exceeds(self, limits: Limits) -> bool:
        return (
            self.bytes > limits.staging_bytes
            or self.files > limits.staging_files
            or self.largest_bytes > limits.file_bytes
        )

    def add(self, status: os.stat_result) -> "StagingUsage":
        # a hole costs no disk, but the host reads and hashes it like data
        size = max(status.st_size, status.st_blocks * 512)
        return StagingUsage(self.bytes + size, self.files + 1, max(self.largest_bytes, size))


@dataclass(frozen=True, slots=True)
class Staged:
    """A top-level name that a job left and that can be published."""

    name: str
    is_folder: bool
    size: int  # bytes, all files of a folder together
    files: int  # regular files; 1 for a file
    identity: Identity


@dataclass(frozen=True, slots=True)
class Publication:
    """Publishes the staged name to a target. `target.identity` is what may be replaced there."""

    staged_name: str
    target: WorkspacePath


@dataclass(frozen=True, slots=True)
class Transfer:
    """Renames a file or folder of the workspace without copying. `target.identity` is what may be replaced there."""

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

    `sha256` of a folder is the SHA-256 over one line `<sha256>  <size>  <relative path>` and a line feed for each of
    `parts`, in UTF-8, sorted by the bytes of the path. Empty folders in it do not count.
    """

    located: WorkspacePath
    size: int  # bytes
    sha256: str
    parts: tuple[Part, ...] = ()  # of a folder
    listing: str = ""  # of a folder: tells if it was changed since


@dataclass(frozen=True, slots=True)
class Published:
    """`replaced`, `removed` and the sources of `moved` are as they were before; `undo_id` brings them back."""

    undo_id: str
    files: tuple[PublishedFile, ...]
    replaced: tuple[WorkspacePath, ...] = ()
    removed: tuple[WorkspacePath, ...] = ()
    moved: tuple[Transfer, ...] = ()  # the targets as they are now


@dataclass(frozen=True, slots=True)
class KeptPublication:
    """A kept publication that can be undone, or was undone. `files` have no parts."""

    call_id: str
    is_undone: bool
    files: tuple[PublishedFile, ...]


@dataclass(frozen=True, slots=True)
class Undone:
    """The result of an undo. `restored` is back at its name; `taken_away` was created by the call and has left the workspace."""

    call_id: str
    restored: tuple[WorkspacePath, ...]
    taken_away: tuple[WorkspacePath, ...]


class Finding(StrEnum):
    """The result of `recover` for one entry."""

    DISCARDED = "discarded"  # nothing had been published; the output is gone
    PUBLISHED = "published"  # all outputs are published, by the call itself or just now
    UNDONE = "undone"  # the undo is complete, by itself or just now
    CONFLICT = "conflict"  # a target was changed meanwhile; both versions are kept, in `kept_in`
    DAMAGED = "damaged"  # unreadable, or the system refused; left unchanged


@dataclass(frozen=True, slots=True)
class Recovery:
    """One interrupted call and its outcome. `targets` are the places it wrote to."""

    call_id: str
    staging_id: str
    finding: Finding
    targets: tuple[WorkspacePath, ...] = ()
    kept_in: str = ""  # a folder on the host
    detail: str = ""
