"""The write-ahead journal of one publication: `undo/<call>/manifest.json`. Values and their JSON.

Files and folders are identified by inode, size and modification time, not by device. Device numbers can change with a
reboot, and everything in a journal is on the workspace's file system.
"""

import json
import os
import re
import stat
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import PurePosixPath
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, TypeAdapter

from sandbox.errors import StagingFailed
from sandbox.outputs.dirops import DirOps
from sandbox.parsing import parse_json
from sandbox.workspace import RESERVED, Identity

MANIFEST = "manifest.json"
_TEMPORARY = MANIFEST + ".new"
_FORMAT = 2
_MAX_BYTES = 64 << 20  # bytes; far larger than any real journal; a larger file is not ours
_MAX_VALUES = 1_000_000  # members and elements; a published file has about thirty
_ID = "[A-Za-z0-9_-]{8,64}"


class JournalDamaged(StagingFailed):
    """A journal cannot be read. Its entry is left unchanged."""


def valid_id(text: str) -> bool:
    """True if a text is a valid name of a staging folder or an undo entry."""
    return re.fullmatch(_ID, text) is not None


def _inside(value: Any) -> PurePosixPath:
    """Parses a path relative to the workspace, in normalized form. Raises ValueError, TypeError."""
    path = PurePosixPath(value)
    if str(path) != value or path.is_absolute() or not path.parts or ".." in path.parts:
        raise ValueError("not a place in the workspace")
    if path.parts[0] == RESERVED or "\0" in value:
        raise ValueError("not a place for a user's file")
    return path


# a journal may come from a downloaded folder, so these rules validate what is read; values that we write are not
# checked
Id = Annotated[str, Field(pattern=f"^{_ID}$")]
Place = Annotated[PurePosixPath, BeforeValidator(_inside)]  # relative to the workspace


class Mark(NamedTuple):
    """Identifies a file or folder after a rename, a crash or a reboot."""

    inode: int
    size: int
    mtime_ns: int
    is_folder: bool

    @classmethod
    def of(cls, identity: Identity, *, is_folder: bool) -> "Mark":
        return cls(identity.inode, identity.size, identity.mtime_ns, is_folder)

    def fits(self, status: os.stat_result | None) -> bool:
        """True if this is the marked file or folder.

        A folder is compared by inode only, because size and time change with use.
        """
        if status is None:
            return False
        if self.is_folder and stat.S_ISDIR(status.st_mode):
            return self.inode == status.st_ino
        return self == Mark.of(Identity.of(status), is_folder=stat.S_ISDIR(status.st_mode))


@dataclass(frozen=True, slots=True)
class Step:
    """One swap between a target and a slot of the entry; either side may be empty.

    `new` starts in the slot and ends at the target, and `old` the other way round. A renamed file passes through the
    slot: `new` comes to the slot from its `origin`, or `old` goes from the slot to its `drain`.
    """

    slot: Annotated[str, Field(pattern="^[0-9]{1,9}$")]
    target: Place
    new: Mark | None
    old: Mark | None
    origin: Place | None = None
    drain: Place | None = None

    def __post_init__(self) -> None:
        if self.new is None and self.old is None:
            raise ValueError("a step that does nothing")
        if (self.origin and not self.new) or (self.drain and not self.old) or (self.origin and self.drain):
            raise ValueError("a step that renames nothing, or two things")

    def inverse(self) -> "Step":
        return replace(self, new=self.old, old=self.new, origin=self.drain, drain=self.origin)

    @property
    def places(self) -> tuple[PurePosixPath, ...]:
        """All names in the workspace that the step creates or removes."""
        return tuple(path for path in (self.target, self.origin, self.drain) if path is not None)


@dataclass(frozen=True, slots=True)
class Content:
    """The content that was published at a target: bytes and SHA-256. `listing` detects later changes in a folder."""

    target: Place
    size: int
    sha256: str
    listing: str = ""


class State(StrEnum):
    PREPARED = "prepared"  # some steps may have been done
    PUBLISHED = "published"  # all steps are done
    UNDOING = "undoing"  # some inverse steps may have been done
    UNDONE = "undone"
    # another program changed a target meanwhile; both versions are kept, and the user decides
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Record:
    """The journal of one call."""

    call_id: Id
    staging_id: Id
    state: State
    time_ns: int  # time of publication in nanoseconds since the epoch
    steps: tuple[Step, ...]
    contents: tuple[Content, ...]
    kept_bytes: int = 0  # disk space used by the slots

    def steps_to(self, state: State) -> tuple[Step, ...]:
        """The steps that lead to PUBLISHED, or back to UNDONE."""
        return tuple(step.inverse() for step in reversed(self.steps)) if state is State.UNDONE else self.steps


def save(record: Record, folder: int, ops: DirOps) -> None:
    """Writes the record to disk, atomically and durably."""
    fields = asdict(record)
    data = {"format": _FORMAT, "call": fields.pop("call_id"), "staging": fields.pop("staging_id"), **fields}
    with ops.step("record.write"):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(_TEMPORARY, flags, 0o600, dir_fd=folder)
        with os.fdopen(file, "w", encoding="ascii") as text:
            json.dump(data, text, default=str)  # a path is written as text
            text.flush()
            os.fsync(file)
    with ops.step("record.rename"):
        os.rename(_TEMPORARY, MANIFEST, src_dir_fd=folder, dst_dir_fd=folder)
    ops.sync("record.sync", folder)


def load(folder: int, call_id: str) -> Record | None:
    """The record of an entry; None if it was never written. Raises JournalDamaged."""
    try:
        file = os.open(MANIFEST, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalDamaged(f"the journal of {call_id} cannot be opened: {error.strerror}.") from error
    with os.fdopen(file, "rb") as stream:
        try:
            data = parse_json(stream.read(_MAX_BYTES), _MAX_VALUES)
            [_FORMAT].index(data["format"])  # raises ValueError for any other format
            fields = {**data, "call_id": data["call"], "staging_id": data["staging"]}
            record = _records().validate_python(fields)
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise JournalDamaged(f"the journal of {call_id} is invalid; its files are left alone.") from error
    if record.call_id != call_id:
        raise JournalDamaged(f"the journal in {call_id} is of another call; its files are left alone.")
    return record


@cache
def _records() -> TypeAdapter[Record]:
    return TypeAdapter(Record)
