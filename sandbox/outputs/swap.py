"""Swaps the contents of a target and a slot, from any state that a crash can leave, and back again.

Invariants:
* Nothing is deleted: a swap moves names, and the old content of a target ends in a slot of the entry.
* Only what the step expects is moved. Anything else is put back, and `Conflict` is raised.
* The name of a replaced file or folder always leads to the old or the new one, because the two are exchanged
  atomically.
* `complete` is idempotent: it finds what has happened from the inodes. The inverse step reverts a step.

The states of a step are below; N is new, O is old. A renamed file first moves from its origin to the slot. When a
rename is reverted, the file moves from the target to the slot, and then to the drain, which is its old name.

    slot  target
    N     O       before replacing        O     N       after
    N     -       before creating         -     N       after
    -     O       before removing         O     -       after
    N     N       linked and not yet unlinked, on a file system without RENAME_NOREPLACE
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

from sandbox.errors import PathRefused, SandboxError, StagingFailed
from sandbox.outputs.dirops import DirEntry, DirOps
from sandbox.outputs.filetree import disk_bytes
from sandbox.outputs.journal import Mark, Record, State, Step
from sandbox.outputs.layout import LockedFolder
from sandbox.workspace import open_folder


class Conflict(Exception):
    """A target is not what a step expects. Nothing was overwritten."""

    def __init__(self, step: Step, why: str) -> None:
        super().__init__(f"{str(step.target)!r} {why}")


def transact(
    what: str, entry: LockedFolder, during: Record, after: State, taken_back: Callable[[], None]
) -> None:
    """Writes the record `during`, performs its steps, and writes `after`. On failure, reverts and raises the error.

    `taken_back` is called once all steps are reverted. If reverting meets a conflict, the journal records it and
    every file is kept. If reverting fails, the journal stays open for `recover`, and StagingFailed says that `what`
    stopped midway.
    """
    steps = during.steps_to(after)
    try:
        entry.save(during)
        for step in steps:
            with _opened(entry, step) as swap:
                swap.complete()
        _sync(entry, steps)
        mark_finished(entry, during, after)
    except BaseException as error:  # raises another error, or re-raises this one, once everything is reverted
        # `after` may be on disk already, and a recovery after a crash must not rely on it
        with suppress(OSError):
            entry.save(during)
        with suppress(OSError, SandboxError):
            if complete_all(entry, [step.inverse() for step in reversed(steps)]):
                entry.save(replace(during, state=State.CONFLICT))
        if untouched(entry, steps):
            with suppress(OSError):  # if this fails, `recover` does it
                taken_back()
        elif isinstance(error, Exception):
            raise StagingFailed(
                f"{what} stopped midway: {error}. Nothing is lost: what is not in its place is in {entry.undo_path}. "
                "Restart the server to have it put right, or look there."
            ) from error
        raise


def complete_all(entry: LockedFolder, steps: Iterable[Step]) -> tuple[Step, ...]:
    """Completes as many steps as possible, from any state, and returns those in conflict.

    Raises OSError or SandboxError if a step failed, after all were tried.
    """
    conflicts, failure, tried = [], None, list(steps)
    for step in tried:
        try:
            with _opened(entry, step) as swap:
                swap.complete()
        except Conflict:
            conflicts.append(step)
        except (OSError, SandboxError) as error:
            failure = error
    _sync(entry, tried)
    if failure is not None:
        raise failure
    return tuple(conflicts)


def mark_finished(entry: LockedFolder, record: Record, state: State) -> None:
    """Records that the steps have ended, and the disk space that the slots use now."""
    size = sum(disk_bytes(entry.folder, step.slot) for step in record.steps)
    entry.save(replace(record, state=state, kept_bytes=size))


def _sync(entry: LockedFolder, steps: Iterable[Step]) -> None:
    """Syncs the folders in which steps changed names, so that the names survive a power cut."""
    ops = entry.layout.ops
    for folder in dict.fromkeys(path.parent for step in steps for path in step.places):
        with suppress(PathRefused), open_folder(entry.layout.workspace, folder) as opened:
            ops.sync("swap.sync", opened)
    ops.sync("swap.sync", entry.folder)


def untouched(entry: LockedFolder, steps: Iterable[Step]) -> bool:
    """True if no step was performed, or all were reverted."""
    for step in steps:
        slot = DirEntry(entry.folder, step.slot).status()
        starts_empty = step.new is None or step.origin is not None
        if slot is not None if starts_empty else not (step.new and step.new.fits(slot)):
            return False
        with suppress(Conflict), _opened(entry, step) as swap:
            # a link may already be at the target while the slot still has the file
            delivered = step.drain is not None and _is_at(swap.beyond, step.old)
            if delivered or _is_at(swap.target, step.new):
                return False
    return True


@dataclass(frozen=True, slots=True)
class _Swap:
    """One step with its open folders and names."""

    ops: DirOps
    step: Step
    slot: DirEntry
    target: DirEntry
    beyond: DirEntry | None  # the origin or the drain of a rename

    def complete(self) -> None:
        """Completes the step from any state. Raises Conflict or OSError."""
        new, old = self.step.new, self.step.old
        slot = self.slot.status()
        for other in (self.target, self.beyond):
            status = None if other is None else other.status()
            if slot is not None and status is not None and os.path.samestat(slot, status):
                self.ops.unlink(self.slot)  # completes a link and unlink that replaced a rename
                slot = None
        if slot is not None and not any(mark.fits(slot) for mark in (new, old) if mark is not None):
            raise Conflict(self.step, "was swapped with somebody else's file, which is kept")
        if self.step.drain is not None and _is_at(self.beyond, old):
            return
        if self.step.origin is not None and self.beyond is not None and new is not None:
            self._fetch(self.beyond, new)
        if new is not None and old is not None:
            self._replace(new, old)
        elif new is not None and new.fits(self.slot.status()):
            self._create(self.target, "was created meanwhile")
        elif new is None and old is not None and self.slot.status() is None:
            self._remove(old)
        drain = self.beyond if self.step.drain is not None else None
        if drain is not None and old is not None and old.fits(self.slot.status()):
            self._create(drain, "cannot get its old name back, which another file has now")

    def _fetch(self, origin: DirEntry, new: Mark) -> None:
        """Moves a renamed file from its origin to the slot."""
        if self.slot.status() is not None or _is_at(self.target, new):
            return  # already done
        if not new.fits(origin.status()):
            raise Conflict(self.step, "would be renamed from a file that is a different one now")
        self.ops.move("swap.fetch", origin, self.slot)
        if not new.fits(self.slot.status()):
            self.ops.move("swap.fetch", self.slot, origin)
            raise Conflict(self.step, "would be renamed from a file that was replaced meanwhile")

    def _replace(self, new: Mark, old: Mark) -> None:
        if not new.fits(self.slot.status()):
            return  # already done
        if not old.fits(self.target.status()):
            raise Conflict(self.step, "is no longer the same file")
        try:
            self.ops.exchange(self.slot, self.target)
        except FileNotFoundError as error:
            raise Conflict(self.step, "disappeared meanwhile") from error
        if not old.fits(self.slot.status()):
            self.ops.exchange(self.slot, self.target)
            raise Conflict(self.step, "became another file meanwhile")

    def _create(self, target: DirEntry, taken: str) -> None:
        try:
            self.ops.move("swap.create", self.slot, target)
        except FileExistsError as error:
            raise Conflict(self.step, taken) from error

    def _remove(self, old: Mark) -> None:
        target = self.target.status()
        if target is None:
            return  # another program removed it already
        if not old.fits(target):
            raise Conflict(self.step, "is a different file now")
        self.ops.move("swap.remove", self.target, self.slot)
        if not old.fits(self.slot.status()):
            self.ops.move("swap.remove", self.slot, self.target)
            raise Conflict(self.step, "became another file meanwhile")


@contextmanager
def _opened(entry: LockedFolder, step: Step) -> Iterator[_Swap]:
    layout = entry.layout
    with ExitStack() as opened:
        try:
            target, *others = (
                DirEntry(opened.enter_context(open_folder(layout.workspace, path.parent)), path.name)
                for path in step.places
            )
        except PathRefused as error:
            raise Conflict(step, "is in a folder that is gone or cannot be opened") from error
        slot = DirEntry(entry.folder, step.slot)
        yield _Swap(layout.ops, step, slot, target, others[0] if others else None)


def _is_at(entry: DirEntry | None, mark: Mark | None) -> bool:
    """True if the same file or folder is there, even if it was modified since."""
    status = None if entry is None else entry.status()
    return status is not None and mark is not None and status.st_ino == mark.inode
