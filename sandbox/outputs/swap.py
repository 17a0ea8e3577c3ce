"""Swaps what is at a target with what is in a slot, from wherever a crash left it, and back again.

Invariants:
* nothing is ever deleted: a swap moves names; what was at a target ends in a slot of the entry;
* only what the step expects is moved; anything else is put back where it was and `Conflict` is raised;
* a replaced file's name always leads to the old or the new file; a folder's too where the file system can
  exchange names (elsewhere it is missing for an instant, ended by `complete` after a crash);
* `complete` is idempotent: what has happened is read from the inodes, never remembered. The inverse step takes
  a step back.

The states of a step that replaces; N is new, O is old, `=` marks a second name of the same file:

    slot  target  aside
    N     O       -      before
    O     N       -      after: one exchange away
    N     O       =      without exchange: a file has a second name
    N     -       O      without exchange: a folder, or a file without hard links, was moved aside
    -     N       O      without exchange: the new one is in
    N     =       -/O    linked in, not yet unlinked; also for a new file

What is renamed comes from its origin into the slot first, and the step goes on as above. On the way back what was
at the target goes on from the slot to the drain, which is the origin again.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

from sandbox.errors import PathRefused, SandboxError, StagingFailed
from sandbox.outputs.filetree import disk_bytes
from sandbox.outputs.journal import Mark, Record, State, Step, save
from sandbox.outputs.moves import Moves, Place
from sandbox.workspace import RESERVED, Workspace, open_folder


class Conflict(Exception):
    """A target is not what a step expects. Nothing was overwritten."""

    def __init__(self, step: Step, why: str) -> None:
        super().__init__(f"{str(step.target)!r} {why}")
        self.step = step


@dataclass(frozen=True, slots=True)
class Entry:
    """The folder in `undo/` in which one publication works; whoever made this value holds its lock."""

    workspace: Workspace
    call_id: str
    folder: int
    moves: Moves

    def save(self, record: Record) -> None:
        save(record, self.folder, self.moves)

    @property
    def path(self) -> str:
        """Where it is on the host, for a person to look into."""
        return str(self.workspace.root / RESERVED / "undo" / self.call_id)

    def settle(self, record: Record, state: State) -> None:
        """Writes that the steps came to an end, and what is kept now."""
        kept = sum(disk_bytes(self.folder, step.slot) for step in record.steps)
        self.save(replace(record, state=state, kept_bytes=kept))


@dataclass(frozen=True, slots=True)
class _Swap:
    """One step with its three places at hand."""

    entry: Entry
    step: Step
    slot: Place
    target: Place
    aside: Place
    beyond: Place | None  # the origin or the drain of a step that renames

    @property
    def moves(self) -> Moves:
        return self.entry.moves

    def refuse(self, why: str) -> Conflict:
        return Conflict(self.step, why)


@contextmanager
def _at_hand(entry: Entry, step: Step) -> Iterator[_Swap]:
    slot, aside = Place(entry.folder, step.slot), Place(entry.folder, step.slot + ".aside")
    with ExitStack() as opened:
        try:
            target, *others = (
                Place(opened.enter_context(open_folder(entry.workspace, path.parent)), path.name)
                for path in step.places
            )
        except PathRefused as error:
            raise Conflict(step, "is in a folder that is gone or cannot be opened") from error
        yield _Swap(entry, step, slot, target, aside, others[0] if others else None)


def complete(entry: Entry, step: Step) -> None:
    """Brings a step to its end from wherever it stands. Raises Conflict or OSError."""
    with _at_hand(entry, step) as swap:
        _make_whole(swap)
        if step.drain is not None and _at(swap.beyond, step.old):
            _part(swap)  # all before was done too
            return
        if step.origin is not None:
            _fetch(swap, step.new)
        _exchange_sides(swap)
        if step.drain is not None:
            _deliver(swap, step.old)


def _exchange_sides(swap: _Swap) -> None:
    new, old = swap.step.new, swap.step.old
    if new is not None and old is not None:
        _replace(swap, new, old)
    elif new is not None:
        _put_in(swap, new)
    else:
        assert old is not None, "a step has a new or an old side"
        _take_away(swap, old)


def untouched(entry: Entry, step: Step) -> bool:
    """Whether nothing of a step has been done, or all of it was taken back."""
    slot = Place(entry.folder, step.slot).status()
    if Place(entry.folder, step.slot + ".aside").status() is not None:
        return False
    starts_empty = step.new is None or step.origin is not None
    if slot is not None if starts_empty else not (step.new and step.new.fits(slot)):
        return False
    try:
        with _at_hand(entry, step) as swap:
            return not _arrived(swap)
    except Conflict:
        return True


def _arrived(swap: _Swap) -> bool:
    """Whether something has reached its last place, even if it is not gone from the slot yet."""
    step = swap.step
    return _at(swap.target, step.new) or (step.drain is not None and _at(swap.beyond, step.old))


def _at(place: Place | None, mark: Mark | None) -> bool:
    """Whether this very file or folder is there, even if it was written to since."""
    status = None if place is None else place.status()
    return status is not None and mark is not None and status.st_ino == mark.inode


def complete_all(entry: Entry, steps: Iterable[Step]) -> tuple[Step, ...]:
    """Completes every step it can and returns those in conflict. Raises an OSError after all were tried."""
    conflicts, failure, tried = [], None, list(steps)
    for step in tried:
        try:
            complete(entry, step)
        except Conflict:
            conflicts.append(step)
        except (OSError, SandboxError) as error:
            failure = error
    sync(entry, tried)
    if failure is not None:
        raise failure
    return tuple(conflicts)


def sync(entry: Entry, steps: Iterable[Step]) -> None:
    """Makes the names that steps changed survive a power cut."""
    for folder in dict.fromkeys(path.parent for step in steps for path in step.places):
        with suppress(PathRefused), open_folder(entry.workspace, folder) as opened:
            entry.moves.sync("swap.sync", opened)
    entry.moves.sync("swap.sync", entry.folder)


def transact(entry: Entry, steps: tuple[Step, ...], during: Record, after: State) -> None:
    """Writes `during`, does the steps, writes `after`. Whatever fails, takes them back and raises it.

    Where taking back meets a conflict, the journal says so and every file is kept; where it fails, the journal
    stays open for `recover`.
    """
    try:
        entry.save(during)
        for step in steps:
            complete(entry, step)
        sync(entry, steps)
        entry.settle(during, after)
    except BaseException:
        _take_back(entry, steps, during)
        raise


def stopped_midway(what: str, entry: Entry, error: BaseException) -> StagingFailed:
    """The failure to raise when steps could not be taken back either."""
    return StagingFailed(
        f"{what} stopped midway: {error}. Nothing is lost: what is not in its place is in {entry.path}. "
        "Restart the server to have it put right, or look there."
    )


def _take_back(entry: Entry, steps: tuple[Step, ...], during: Record) -> None:
    with suppress(OSError):  # `after` may stand there already, and a crash from here on must not believe it
        entry.save(during)
    with suppress(OSError, SandboxError):
        if complete_all(entry, [step.inverse() for step in reversed(steps)]):
            entry.save(during.to(State.CONFLICT))


def _make_whole(swap: _Swap) -> None:
    """From a state between before and after to the one or the other."""
    slot, target = swap.slot.status(), swap.target.status()
    if slot is not None and _same(slot, target):
        swap.moves.unlink(swap.slot)
        slot = None
    if swap.aside.status() is None:
        known = any(mark.fits(slot) for mark in (swap.step.new, swap.step.old) if mark is not None)
        if slot is not None and not known:
            raise swap.refuse("was exchanged with somebody else's file, which is kept")
    elif slot is None:
        swap.moves.move("swap.settle", swap.aside, swap.slot)
    else:
        _put_back(swap)


def _fetch(swap: _Swap, new: Mark | None) -> None:
    """What is renamed leaves its origin for the slot."""
    origin = swap.beyond
    assert new is not None, "a step with an origin has something to fetch"
    assert origin is not None, "its folder is open"
    slot = swap.slot.status()
    if slot is not None and _same(slot, origin.status()):  # on its way back it was linked, not yet unlinked
        swap.moves.unlink(swap.slot)
        slot = None
    if slot is not None or _at(swap.target, new):
        return  # done
    if not new.fits(origin.status()):
        raise swap.refuse("would get a file that is another one now")
    swap.moves.move("swap.fetch", origin, swap.slot)
    if not new.fits(swap.slot.status()):
        swap.moves.move("swap.fetch", swap.slot, origin)
        raise swap.refuse("would get a file that became another one meanwhile")


def _deliver(swap: _Swap, old: Mark | None) -> None:
    """What was renamed gets its first name back."""
    assert old is not None, "a step with a drain has something to deliver"
    assert swap.beyond is not None, "its folder is open"
    if not old.fits(swap.slot.status()):
        return  # it had gone from the target by itself
    try:
        swap.moves.create(swap.slot, swap.beyond)
    except FileExistsError as error:
        raise swap.refuse("cannot have its old name back, which is another file's now") from error


def _part(swap: _Swap) -> None:
    """Ends a link that stands for a rename to the drain."""
    slot = swap.slot.status()
    if slot is not None and swap.beyond is not None and _same(slot, swap.beyond.status()):
        swap.moves.unlink(swap.slot)


def _take_away(swap: _Swap, old: Mark) -> None:
    target = swap.target.status()
    if swap.slot.status() is not None or target is None:
        return  # done, or gone by itself
    if not old.fits(target):
        raise swap.refuse("is another file now")
    swap.moves.move("swap.remove", swap.target, swap.slot)
    if not old.fits(swap.slot.status()):
        swap.moves.move("swap.remove", swap.slot, swap.target)
        raise swap.refuse("became another file meanwhile")


def _put_in(swap: _Swap, new: Mark) -> None:
    if not new.fits(swap.slot.status()):
        return  # done
    try:
        swap.moves.create(swap.slot, swap.target)
    except FileExistsError as error:
        raise swap.refuse("has come into being meanwhile") from error


def _replace(swap: _Swap, new: Mark, old: Mark) -> None:
    if not new.fits(swap.slot.status()):
        return  # done
    if not old.fits(swap.target.status()):
        raise swap.refuse("is not the file it was")
    if _exchange(swap, old):
        return
    _set_aside(swap, old)
    if old.fits(swap.target.status()):
        swap.moves.over(swap.slot, swap.target)
    else:
        _put_in(swap, new)
    swap.moves.move("swap.settle", swap.aside, swap.slot)


def _exchange(swap: _Swap, old: Mark) -> bool:
    """False where the file system cannot. What turns out not to be the old file is exchanged back."""
    try:
        if not swap.moves.exchange("swap.exchange", swap.slot, swap.target):
            return False
    except FileNotFoundError as error:
        raise swap.refuse("vanished meanwhile") from error
    if not old.fits(swap.slot.status()):
        swap.moves.exchange("swap.exchange", swap.slot, swap.target)
        raise swap.refuse("became another file meanwhile")
    return True


def _set_aside(swap: _Swap, old: Mark) -> None:
    try:
        linked = not old.is_folder and swap.moves.link(swap.target, swap.aside)
        if not linked:
            swap.moves.move("swap.aside", swap.target, swap.aside)
    except FileNotFoundError as error:
        raise swap.refuse("vanished meanwhile") from error
    if not old.fits(swap.aside.status()):
        _put_back(swap)
        raise swap.refuse("became another file meanwhile")
    swap.moves.sync("swap.sync", swap.entry.folder)  # the second name is on disk before the first one goes


def _put_back(swap: _Swap) -> None:
    """What was set aside gets its name back, unless that name leads to something else by now."""
    aside, target = swap.aside.status(), swap.target.status()
    if target is None:
        try:
            swap.moves.create(swap.aside, swap.target)
        except FileExistsError as error:
            raise swap.refuse("has come into being meanwhile") from error
    elif aside is not None and _same(aside, target):
        swap.moves.unlink(swap.aside)
    else:
        raise swap.refuse("became another file meanwhile")


def _same(one: os.stat_result, other: os.stat_result | None) -> bool:
    return other is not None and (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
