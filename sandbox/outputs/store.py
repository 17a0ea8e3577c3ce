"""Where the outputs of containers are collected and published: the contract, and the values that it speaks in.

A container writes to an `OutputFolder` of its own and never to a workspace. When it is gone, the host looks at what it left
(`collect`) and puts all of it into the workspace or nothing (`publish`); a publication can be taken back (`undo`).
`staging.StagingArea` is the implementation for workspaces that this process can rename files in, on this machine or in a
volume that several machines mount.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Protocol, Self

from sandbox.template import Limits, Mount
from sandbox.workspace import Identity, Located, Workspace


@dataclass(frozen=True, slots=True)
class StagingUsage:
    """What is in an output folder. A file counts with its size or its blocks, whichever is more."""

    bytes: int = 0
    files: int = 0  # folders are counted too: each costs an inode
    largest_bytes: int = 0
    # whoever fills it, and with what: a file that was unlinked while it is open is in no folder
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
    """One top-level name that a job left, found fit to publish."""

    name: str
    is_folder: bool
    size: int  # bytes, all files of a folder together
    files: int  # regular files; 1 for a file
    identity: Identity


@dataclass(frozen=True, slots=True)
class Publication:
    """What is staged under a name goes to a target; `target.identity` says what may be replaced there.

    `removes` are sidecar files of the replaced dataset that would be wrong beside the new one, unless published too.
    """

    staged_name: str
    target: Located
    removes: tuple[Located, ...] = ()


@dataclass(frozen=True, slots=True)
class Transfer:
    """Renames a file or folder of the workspace, never copying it; `target.identity` says what may be replaced."""

    source: Located
    target: Located


@dataclass(frozen=True, slots=True)
class Part:
    """One regular file of a published folder."""

    relative: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file or folder that now stands in the workspace.

    `sha256` of a folder is the SHA-256 over one line `<sha256>  <size>  <relative path>` and a line feed for each of
    `parts`, in UTF-8, sorted by the bytes of the path. Empty folders in it do not count.
    """

    located: Located
    size: int  # bytes
    sha256: str
    parts: tuple[Part, ...] = ()  # of a folder


@dataclass(frozen=True, slots=True)
class Published:
    """`replaced`, `removed` and the sources of `moved` are as they were before; `undo_id` brings them back."""

    undo_id: str
    files: tuple[PublishedFile, ...]
    replaced: tuple[Located, ...] = ()
    removed: tuple[Located, ...] = ()
    moved: tuple[Transfer, ...] = ()  # the targets as they are now


@dataclass(frozen=True, slots=True)
class KeptPublication:
    """A publication that an undo could still take back, or has. `files` have no parts."""

    call_id: str
    is_undone: bool
    files: tuple[PublishedFile, ...]


@dataclass(frozen=True, slots=True)
class Undone:
    """`restored` is back at its name; `taken_away` was created by the call and is no longer in the workspace."""

    call_id: str
    restored: tuple[Located, ...]
    taken_away: tuple[Located, ...]


class Finding(StrEnum):
    """What `recover` made of what it found."""

    DISCARDED = "discarded"  # nothing had been published; the output is gone
    PUBLISHED = "published"  # every output is published, by the call itself or just now
    UNDONE = "undone"  # the undo is complete, by itself or just now
    CONFLICT = "conflict"  # a target was changed meanwhile; both sides are kept, `kept_in` says where
    DAMAGED = "damaged"  # not readable, or the system refused; left as it is


@dataclass(frozen=True, slots=True)
class Recovery:
    """One interrupted call and what became of it. `targets` are the places it wrote to."""

    call_id: str
    staging_id: str
    finding: Finding
    targets: tuple[Located, ...] = ()
    conflicts: tuple[Located, ...] = ()
    kept_in: str = ""  # a folder on the host
    detail: str = ""


class OutputFolder(AbstractContextManager["OutputFolder"], Protocol):
    """The output folder of one container, from before its start until `discard`. Leaving a `with` block discards it."""

    @property
    def staging_id(self) -> str: ...

    @property
    def path(self) -> Path:
        """Where this process sees the folder that the container writes to. Nothing of the host is in it."""

    @property
    def mount(self) -> Mount:
        """How the container sees it: read-write, at `STAGING_TARGET`."""

    def usage(self, limits: Limits = ...) -> StagingUsage:
        """What a running job has in it now; stops counting over the limits. Unlinked open files show only in `disk_low`."""

    def copy_in(self, located: Located, name: str, limits: Limits = ..., seen: Path | None = None) -> None:
        """Copies an existing file or folder in, owned by the container's user. Raises PathRefused, StagingFailed.

        What is at `located` must still be what `located` says. Root copies only what the container's user could read in a
        container that shows `seen` as the workspace; without it, the workspace itself.
        """

    def copy_from(self, other: Self, name: str, limits: Limits = ...) -> None:
        """Copies a file that lies in another folder of the same store, to the same name. Raises StagingFailed."""

    def collect(self, limits: Limits = ...) -> tuple[Staged, ...]:
        """The top-level entries that the job left, sorted by name, once its container is gone.

        Raises OutputRejected for any special file, hard link, unprintable name or excess over the limits.
        """

    def publish(
        self,
        call_id: str,
        publications: Sequence[Publication],
        removes: Sequence[Located] = (),
        transfers: Sequence[Transfer] = (),
        listings: Mapping[PurePosixPath, str] = ...,
    ) -> Published:
        """Publishes collected entries, all or none, and keeps what they replace for undo under `call_id`.

        `removes` is taken away and `transfers` renamed with the same promise; there may be nothing else. Of every
        folder among them `listings` has the `inspection.listing_of` from when the call was planned, by its path from
        the root; of a folder that is replaced it may. Raises OutputRejected or StagingFailed; the workspace is then as it was.
        """

    def discard(self) -> None:
        """Removes the folder with all that is in it. Raises StagingFailed when it cannot; `recover` may later."""


class OutputStore(Protocol):
    """The outputs and the undo of one writable workspace. Safe to use from several threads and processes."""

    @property
    def workspace(self) -> Workspace: ...

    def prepare(self) -> None:
        """Makes the store's own folder in the workspace, so that it can be masked. Raises StagingFailed if it is unsafe."""

    def replaces(self) -> bool:
        """Whether its file system can swap two names at once, found by trying; where it cannot, nothing is replaced."""

    def open(self, staging_id: str, user: tuple[int, int]) -> OutputFolder:
        """A new, empty folder for a container that runs as `user` (uid, gid). Raises StagingFailed."""

    def recover(self) -> tuple[Recovery, ...]:
        """Finishes or takes back what dead processes left here; call it once their containers are gone."""

    def remembers(self, call_id: str) -> bool:
        """Whether anything is kept under this id, be it damaged; cheap."""

    def kept(self) -> tuple[KeptPublication, ...]:
        """What was published, or published and undone, and is still kept, the newest first."""

    def undo(self, call_id: str) -> Undone:
        """Takes a published call back. Raises StagingFailed when it is unknown or a target changed since."""

    def prune(self) -> tuple[str, ...]:
        """Forgets the oldest calls beyond what is kept; returns their ids. Done after every publication."""
