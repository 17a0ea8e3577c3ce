"""Swaps what is at a target with what is in a slot, from wherever a crash left it, and back again.

Invariants:
* nothing is ever deleted: a swap moves names; what was at a target ends in a slot of the entry;
* only what the step expects is moved; anything else is put back where it was and `Conflict` is raised;
* the name of what is replaced always leads to the old or the new file or folder, as the two are exchanged at once;
* `complete` is idempotent: what has happened is read from the inodes, never remembered. The inverse step takes
  a step back.

The states of a step; N is new, O is old. What is renamed comes from its origin into the slot first; on the way back what was
at the target goes on from the slot to the drain, which is the origin again.

    slot  target
    N     O       before replacing        O     N       after
    N     -       before creating         -     N       after
    -     O       before removing         O     -       after
    N     N       linked in and not yet unlinked, where a rename cannot refuse a name that is taken
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

from sandbox.errors import PathRefused, SandboxError, StagingFailed
from sandbox.outputs.dirops import DirEntry, DirOps
from sandbox.outputs.filetree import disk_bytes
from sandbox.outputs.journal import Mark, Record, State, Step, save
from sandbox.workspace import RESERVED, Workspace, open_folder


class Conflict(Exception):
    """A target is not what a step expects. Nothing was overwritten."""

    def __init__(self, step: Step, why: str) -> None:
        super().__init__(f"{str(step.target)!r} {why}")


@dataclass(frozen=True, slots=True)
class UndoEntry:
    """The folder in `undo/` in which one publication works; whoever made this value holds its lock."""

    workspace: Workspace
    call_id: str
    folder: int
    ops: DirOps

    @property
    def path(self) -> str:
        """Where it is on the host, for a person to look into."""
        return str(self.workspace.root / RESERVED / "undo" / self.call_id)

    def save(self, record: Record) -> None:
        save(record, self.folder, self.ops)

    def settle(self, record: Record, state: State) -> None:
        """Writes that the steps came to an end, and what is kept now."""
        kept = sum(disk_bytes(self.folder, step.slot) for step in record.steps)
        self.save(replace(record, state=state, kept_bytes=kept))

    def sync(self, steps: Iterable[Step]) -> None:
        """Makes the names that steps changed survive a power cut."""
        for folder in dict.fromkeys(path.parent for step in steps for path in step.places):
            with suppress(PathRefused), open_folder(self.workspace, folder) as opened:
                self.ops.sync("swap.sync", opened)
        self.ops.sync("swap.sync", self.folder)


def transact(entry: UndoEntry, steps: tuple[Step, ...], during: Record, after: State) -> None:
    """Writes `during`, does the steps, writes `after`. Whatever fails, takes them back and raises it.

    Where taking back meets a conflict, the journal says so and every file is kept; where it fails, the journal
    stays open for `recover`.
    """
    try:
        entry.save(during)
        for step in steps:
            complete(entry, step)
        entry.sync(steps)
        entry.settle(during, after)
    except BaseException:
        # `after` may have been written already, and recovery after a crash must not believe it
        with suppress(OSError):
            entry.save(during)
        with suppress(OSError, SandboxError):
            if complete_all(entry, [step.inverse() for step in reversed(steps)]):
                entry.save(during.to(State.CONFLICT))
        raise


def stopped_midway(what: str, entry: UndoEntry, error: BaseException) -> StagingFailed:
    """The failure to raise when steps could not be taken back either."""
    return StagingFailed(
        f"{what} stopped midway: {error}. Nothing is lost: what is not in its place is in {entry.path}. "
        "Restart the server to have it put right, or look there."
    )


def complete_all(entry: UndoEntry, steps: Iterable[Step]) -> tuple[Step, ...]:
    """Completes every step it can and returns those in conflict. Raises an OSError after all were tried."""
    conflicts, failure, tried = [], None, list(steps)
    for step in tried:
        try:
            complete(entry, step)
        except Conflict:
            conflicts.append(step)
        except (OSError, SandboxError) as error:
            failure = error
    entry.sync(tried)
    if failure is not None:
        raise failure
    return tuple(conflicts)


def complete(entry: UndoEntry, step: Step) -> None:
    """Brings a step to its end from wherever it stands. Raises Conflict or OSError."""
    with _opened(entry, step) as swap:
        swap.complete()


def untouched(entry: UndoEntry, step: Step) -> bool:
    """Whether nothing of a step has been done, or all of it was taken back."""
    slot = DirEntry(entry.folder, step.slot).status()
    starts_empty = step.new is None or step.origin is not None
    if slot is not None if starts_empty else not (step.new and step.new.fits(slot)):
        return False
    try:
        with _opened(entry, step) as swap:  # something may have arrived and not be gone from the slot yet
            delivered = step.drain is not None and _is_at(swap.beyond, step.old)
            return not (delivered or _is_at(swap.target, step.new))
    except Conflict:
        return True


@dataclass(frozen=True, slots=True)
class _Swap:
    """One step, with its names at hand."""

    ops: DirOps
    step: Step
    slot: DirEntry
    target: DirEntry
    beyond: DirEntry | None  # the origin or the drain of a step that renames

    def complete(self) -> None:
        new, old = self.step.new, self.step.old
        self._unlink_twin()
        slot = self.slot.status()
        if slot is not None and not any(mark.fits(slot) for mark in (new, old) if mark is not None):
            raise Conflict(self.step, "was exchanged with somebody else's file, which is kept")
        if self.step.drain is not None and _is_at(self.beyond, old):
            return
        if self.step.origin is not None and self.beyond is not None and new is not None:
            self._fetch(self.beyond, new)
        if new is not None and old is not None:
            self._replace(new, old)
        elif new is not None and new.fits(self.slot.status()):
            self._create(self.target, "has come into being meanwhile")
        elif new is None and old is not None and self.slot.status() is None:
            self._remove(old)
        drain = self.beyond if self.step.drain is not None else None
        if drain is not None and old is not None and old.fits(self.slot.status()):
            self._create(drain, "cannot have its old name back, which is another file's now")

    def _unlink_twin(self) -> None:
        """Ends a link that stands for a rename."""
        slot = self.slot.status()
        for other in (self.target, self.beyond):
            status = None if other is None else other.status()
            if slot is not None and status is not None and os.path.samestat(slot, status):
                self.ops.unlink(self.slot)
                return

    def _fetch(self, origin: DirEntry, new: Mark) -> None:
        """What is renamed leaves its origin for the slot."""
        if self.slot.status() is not None or _is_at(self.target, new):
            return  # done
        if not new.fits(origin.status()):
            raise Conflict(self.step, "would get a file that is another one now")
        self.ops.move("swap.fetch", origin, self.slot)
        if not new.fits(self.slot.status()):
            self.ops.move("swap.fetch", self.slot, origin)
            raise Conflict(self.step, "would get a file that became another one meanwhile")

    def _replace(self, new: Mark, old: Mark) -> None:
        if not new.fits(self.slot.status()):
            return  # done
        if not old.fits(self.target.status()):
            raise Conflict(self.step, "is not the file it was")
        try:
            self.ops.exchange(self.slot, self.target)
        except FileNotFoundError as error:
            raise Conflict(self.step, "vanished meanwhile") from error
        if not old.fits(self.slot.status()):
            self.ops.exchange(self.slot, self.target)
            raise Conflict(self.step, "became another file meanwhile")

    def _create(self, target: DirEntry, taken: str) -> None:
        try:
            self.ops.create(self.slot, target)
        except FileExistsError as error:
            raise Conflict(self.step, taken) from error

    def _remove(self, old: Mark) -> None:
        target = self.target.status()
        if target is None:
            return  # gone by itself
        if not old.fits(target):
            raise Conflict(self.step, "is another file now")
        self.ops.move("swap.remove", self.target, self.slot)
        if not old.fits(self.slot.status()):
            self.ops.move("swap.remove", self.slot, self.target)
            raise Conflict(self.step, "became another file meanwhile")


@contextmanager
def _opened(entry: UndoEntry, step: Step) -> Iterator[_Swap]:
    with ExitStack() as opened:
        try:
            target, *others = (
                DirEntry(opened.enter_context(open_folder(entry.workspace, path.parent)), path.name)
                for path in step.places
            )
        except PathRefused as error:
            raise Conflict(step, "is in a folder that is gone or cannot be opened") from error
        slot = DirEntry(entry.folder, step.slot)
        yield _Swap(entry.ops, step, slot, target, others[0] if others else None)


def _is_at(entry: DirEntry | None, mark: Mark | None) -> bool:
    """Whether this very file or folder is there, even if it was written to since."""
    status = None if entry is None else entry.status()
    return status is not None and mark is not None and status.st_ino == mark.inode
