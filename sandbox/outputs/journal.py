"""What one publication does, written down before it is done: `undo/<call>/manifest.json`.

Values and their JSON. Files and folders are known by inode, size and time of change, not by device: device
numbers change from one boot to the next, and all that a journal names lies on the workspace's file system.
"""

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from sandbox.errors import StagingFailed
from sandbox.outputs.moves import Moves
from sandbox.workspace import RESERVED, Identity

MANIFEST = "manifest.json"
_TEMPORARY = MANIFEST + ".new"
_FORMAT = 2  # 1 knew no origin and no drain
_READABLE = (1, _FORMAT)
_MAX_BYTES = 64 << 20  # far above the largest real one; a longer file is not ours
_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
_SLOT = re.compile(r"[0-9]{1,9}")


class JournalDamaged(StagingFailed):
    """A journal cannot be read; what lies beside it is left alone."""


def valid_id(text: str) -> bool:
    """Whether a text may name a staging folder or an undo entry."""
    return _ID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Mark:
    """Enough to know a file or folder again after a rename, a crash or a reboot."""

    inode: int
    size: int
    mtime_ns: int
    is_folder: bool

    @classmethod
    def of(cls, status: os.stat_result) -> "Mark":
        return cls(status.st_ino, status.st_size, status.st_mtime_ns, stat.S_ISDIR(status.st_mode))

    @classmethod
    def expected(cls, identity: Identity, *, is_folder: bool) -> "Mark":
        return cls(identity.inode, identity.size, identity.mtime_ns, is_folder)

    def fits(self, status: os.stat_result | None) -> bool:
        """Whether this is what was marked. A folder is known by its inode: size and time move with use."""
        if status is None:
            return False
        found = Mark.of(status)
        if self.is_folder and found.is_folder:
            return self.inode == found.inode
        return self == found


@dataclass(frozen=True, slots=True)
class Step:
    """One swap of what is at a target with what is in a slot of the entry; either side may be empty.

    `new` starts in the slot and ends at the target, `old` the other way round. What is renamed passes through the
    slot: `new` comes there from its `origin`, or `old` goes on from there to its `drain`.
    """

    slot: str
    target: PurePosixPath  # from the workspace's root, as `origin` and `drain`
    new: Mark | None
    old: Mark | None
    origin: PurePosixPath | None = None
    drain: PurePosixPath | None = None

    def inverse(self) -> "Step":
        return replace(self, new=self.old, old=self.new, origin=self.drain, drain=self.origin)

    @property
    def places(self) -> tuple[PurePosixPath, ...]:
        """Every name in the workspace that the step gives or takes."""
        return tuple(one for one in (self.target, self.origin, self.drain) if one is not None)


@dataclass(frozen=True, slots=True)
class Content:
    """What was published at a target: bytes and SHA-256; `listing` tells if a folder was changed since."""

    target: PurePosixPath
    size: int
    sha256: str
    listing: str = ""


class State(StrEnum):
    PREPARED = "prepared"  # steps may have been done
    PUBLISHED = "published"  # all steps done
    UNDOING = "undoing"  # inverse steps may have been done
    UNDONE = "undone"
    CONFLICT = "conflict"  # somebody else changed a target meanwhile; both sides are kept, for a person


@dataclass(frozen=True, slots=True)
class Record:
    """The journal of one call."""

    call_id: str
    staging_id: str
    state: State
    time_ns: int  # when it was published; Unix time
    steps: tuple[Step, ...]
    contents: tuple[Content, ...]
    kept_bytes: int = 0  # disk used by what the slots hold

    def to(self, state: State) -> "Record":
        return replace(self, state=state)

    @property
    def backwards(self) -> tuple[Step, ...]:
        return tuple(step.inverse() for step in reversed(self.steps))


def save(record: Record, folder: int, moves: Moves) -> None:
    """Puts a record in place of the last one, at once and durably."""
    with moves.step("record.write"):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(_TEMPORARY, flags, 0o600, dir_fd=folder)
        with os.fdopen(file, "w", encoding="ascii") as text:
            json.dump(_written(record), text)
            text.flush()
            os.fsync(file)
    with moves.step("record.rename"):
        os.rename(_TEMPORARY, MANIFEST, src_dir_fd=folder, dst_dir_fd=folder)
    moves.sync("record.sync", folder)


def load(folder: int, call_id: str) -> Record | None:
    """The record in an entry, None when none was ever put there. Raises JournalDamaged."""
    try:
        file = os.open(MANIFEST, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalDamaged(f"the journal of {call_id} cannot be opened: {error.strerror}.") from error
    with os.fdopen(file, "rb") as stream:
        try:
            record = _read(json.loads(stream.read(_MAX_BYTES)))
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise JournalDamaged(
                f"the journal of {call_id} is unreadable; its files are left alone."
            ) from error
    if record.call_id != call_id:
        raise JournalDamaged(f"the journal in {call_id} is of another call; its files are left alone.")
    return record


def _written(record: Record) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "call": record.call_id,
        "staging": record.staging_id,
        "state": record.state.value,
        "time_ns": record.time_ns,
        "kept_bytes": record.kept_bytes,
        "steps": [
            {
                "slot": step.slot,
                "target": str(step.target),
                "new": _written_mark(step.new),
                "old": _written_mark(step.old),
                "origin": _written_path(step.origin),
                "drain": _written_path(step.drain),
            }
            for step in record.steps
        ],
        "contents": [
            {"target": str(one.target), "size": one.size, "sha256": one.sha256, "listing": one.listing}
            for one in record.contents
        ],
    }


def _written_mark(mark: Mark | None) -> list[int] | None:
    return None if mark is None else [mark.inode, mark.size, mark.mtime_ns, int(mark.is_folder)]


def _written_path(path: PurePosixPath | None) -> str | None:
    return None if path is None else str(path)


def _read(data: Mapping[str, Any]) -> Record:
    if data["format"] not in _READABLE:
        raise ValueError("an unknown format")
    return Record(
        call_id=_text(data["call"], _ID),
        staging_id=_text(data["staging"], _ID),
        state=State(data["state"]),
        time_ns=int(data["time_ns"]),
        steps=tuple(_read_step(step) for step in data["steps"]),
        contents=tuple(
            Content(_inside(one["target"]), int(one["size"]), str(one["sha256"]), str(one["listing"]))
            for one in data["contents"]
        ),
        kept_bytes=int(data["kept_bytes"]),
    )


def _read_step(data: Mapping[str, Any]) -> Step:
    step = Step(
        _text(data["slot"], _SLOT),
        _inside(data["target"]),
        _read_mark(data["new"]),
        _read_mark(data["old"]),
        _read_path(data.get("origin")),
        _read_path(data.get("drain")),
    )
    if step.new is None and step.old is None:
        raise ValueError("a step that does nothing")
    if (step.origin and not step.new) or (step.drain and not step.old) or (step.origin and step.drain):
        raise ValueError("a step that renames nothing, or two things")
    return step


def _read_path(value: Any) -> PurePosixPath | None:
    return None if value is None else _inside(value)


def _read_mark(data: Any) -> Mark | None:
    if data is None:
        return None
    inode, size, mtime_ns, is_folder = data
    return Mark(int(inode), int(size), int(mtime_ns), bool(is_folder))


def _text(value: Any, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError("not such a name")
    return value


def _inside(value: Any) -> PurePosixPath:
    """A path from the root, as written here: a journal that came with a downloaded folder may lie."""
    path = PurePosixPath(value)
    if str(path) != value or path.is_absolute() or not path.parts or ".." in path.parts:
        raise ValueError("not a place in the workspace")
    if path.parts[0] == RESERVED or "\0" in value:
        raise ValueError("not a place for a user's file")
    return path
