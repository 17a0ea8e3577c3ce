"""Takes a publication back, forgets old ones, and puts right what a crash interrupted.

An undo is the same swaps in the opposite order and direction, under the same journal: what was replaced, removed
or renamed comes back to its name, and what was published goes to the slot it came from. Neither is destroyed.
"""

import os
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from sandbox.errors import PathRefused, SandboxError, StagingFailed
from sandbox.outputs.dirops import DirEntry
from sandbox.outputs.filetree import opened_folder, remove
from sandbox.outputs.inspection import listing
from sandbox.outputs.journal import JournalDamaged, Mark, Record, State, load, valid_id
from sandbox.outputs.layout import DROPPED, LockedFolder, StagingLayout, claim, ids, staging_errors
from sandbox.outputs.store import Finding, KeptPublication, PublishedFile, Recovery, Undone
from sandbox.outputs.swap import Conflict, UndoEntry, complete_all, stopped_midway, transact, untouched
from sandbox.workspace import Identity, Located, Workspace, open_folder


@dataclass(frozen=True, slots=True)
class Retention:
    """How much undo keeps in one workspace. The newest call is kept whatever its size, unless `calls` is 0."""

    calls: int = 50
    bytes: int = 20 << 30  # on disk, of what was replaced, removed or taken back


def undo(layout: StagingLayout, call_id: str) -> Undone:
    """Takes one publication back. Raises StagingFailed when it cannot be; then no user file is changed."""
    with staging_errors("undoing"), closing(_claimed(layout, call_id)) as locked:
        record = load(locked.folder, call_id)
        if record is None or record.state is not State.PUBLISHED:
            state = "unknown" if record is None else record.state.value
            raise StagingFailed(f"call {call_id} is {state}; only a published call can be undone.")
        entry = UndoEntry(layout.workspace, call_id, locked.folder, layout.ops)
        _refuse_changed(entry, record)
        try:
            transact(entry, record.backwards, record.to(State.UNDOING), State.UNDONE)
        except BaseException as error:
            if all(untouched(entry, step) for step in record.backwards):
                with suppress(OSError):  # else `recover` writes it
                    entry.save(record)
            elif isinstance(error, Exception):
                raise stopped_midway("undoing", entry, error) from error
            if isinstance(error, Conflict):
                raise StagingFailed(f"nothing was undone: {error}.") from error
            raise
    workspace, steps = layout.workspace, record.steps
    back = [_located(workspace, step.target, step.old) for step in steps if step.old is not None]
    back += [_located(workspace, step.origin, step.new) for step in steps if step.origin is not None]
    gone = [Located(workspace, step.target) for step in steps if step.old is None and step.origin is None]
    return Undone(call_id, tuple(back), tuple(gone))


def _claimed(layout: StagingLayout, call_id: str) -> LockedFolder:
    if not valid_id(call_id):
        raise StagingFailed(f"{call_id!r} is not the id of a call.")
    with layout.exclusive():
        locked = claim(layout.undo, call_id)
    if locked is None:
        raise StagingFailed(f"call {call_id} is not kept for undo, or is in use. It may have been pruned.")
    return locked


def _refuse_changed(entry: UndoEntry, record: Record) -> None:
    listings = {content.target: content.listing for content in record.contents}
    for step in record.steps:
        status, kept = _status(entry.workspace, step.target), DirEntry(entry.folder, step.slot).status()
        same = status is None if step.new is None else step.new.fits(status)
        if same and step.new is not None and step.new.is_folder:
            with open_folder(entry.workspace, step.target) as folder:
                same = listing(folder) == listings.get(step.target)
        if not same:
            raise StagingFailed(f"{str(step.target)!r} changed since; undoing would lose that change.")
        if step.origin is not None and _status(entry.workspace, step.origin) is not None:
            raise StagingFailed(f"{str(step.origin)!r} exists again; move it away, then undo.")
        if step.old is not None and not step.old.fits(kept):
            raise StagingFailed(f"what {str(step.target)!r} was before is no longer kept.")


def _status(workspace: Workspace, target: PurePosixPath) -> os.stat_result | None:
    try:
        with open_folder(workspace, target.parent) as parent:
            return DirEntry(parent, target.name).status()
    except PathRefused:
        return None


def _located(workspace: Workspace, path: PurePosixPath, mark: Mark | None) -> Located:
    """A name that a step gave or took; its identity as it is now, if it is what `mark` says."""
    status = _status(workspace, path)
    if status is None or mark is None or not mark.fits(status):
        return Located(workspace, path)
    return Located(workspace, path, Identity.of(status), mark.is_folder)


def prune(layout: StagingLayout, keep: Retention) -> tuple[str, ...]:
    """Forgets the oldest calls over the bounds and returns their ids. Conflicts and open journals stay."""
    pruned = []
    kept_bytes = 0
    for number, record in enumerate(_finished(layout)):
        kept_bytes += record.kept_bytes
        if number < keep.calls and (number == 0 or kept_bytes <= keep.bytes):
            continue
        with suppress(OSError):  # in use, or not ours to remove; the next publication tries again
            if (locked := claim(layout.undo, record.call_id)) is not None:
                with closing(locked):
                    layout.drop(record.call_id, locked)
                pruned.append(record.call_id)
    return tuple(pruned)


def kept(layout: StagingLayout) -> tuple[KeptPublication, ...]:
    """What is still kept, the newest first."""
    found = []
    for record in _finished(layout):
        folders = {step.target for step in record.steps if step.new is not None and step.new.is_folder}
        files = []
        for one in record.contents:
            located = Located(layout.workspace, one.target, is_folder=one.target in folders)
            files.append(PublishedFile(located, one.size, one.sha256))
        found.append(KeptPublication(record.call_id, record.state is State.UNDONE, tuple(files)))
    return tuple(found)


def _finished(layout: StagingLayout) -> list[Record]:
    """Closed journals, the newest first."""
    found = []
    for call_id in ids(layout.undo):
        with suppress(OSError, JournalDamaged), opened_folder(layout.undo, call_id) as folder:
            record = load(folder, call_id)
            if record is not None and record.state in (State.PUBLISHED, State.UNDONE):
                found.append(record)
    return sorted(found, key=lambda record: (record.time_ns, record.call_id), reverse=True)


def recover(layout: StagingLayout) -> tuple[Recovery, ...]:
    """Finishes or takes back what dead processes left, and removes their staging. Nothing living is touched.

    Call it once the dead servers' containers are gone. What it did can be called again without effect.
    """
    with staging_errors("recovering"), layout.exclusive():
        entries = {name: locked for name in ids(layout.undo) if (locked := _claim_open(layout, name))}
        stagings = {name: locked for name in ids(layout.staging) if (locked := claim(layout.staging, name))}
    recovered = [_recover_entry(layout, name, locked) for name, locked in entries.items()]
    findings = [finding for finding in recovered if finding is not None]
    told = {finding.staging_id for finding in findings}
    published = {record.staging_id: record for record in _finished(layout)} if stagings else {}
    for name, locked in stagings.items():
        with closing(locked):
            try:
                with layout.ops.step("discard"):
                    remove(layout.staging, name)
            except OSError as error:
                detail = f"staging stays: {error.strerror or error}"
                findings.append(Recovery(name, name, Finding.DAMAGED, detail=detail))
                continue
        if name in told:
            continue
        # no journal of it is open: its process died before it published, or just after
        if (record := published.get(name)) is None:
            findings.append(Recovery("", name, Finding.DISCARDED))
            continue
        targets = tuple(_located(layout.workspace, step.target, step.new) for step in record.steps)
        findings.append(Recovery(record.call_id, name, Finding(record.state.value), targets))
    return tuple(findings)


def _claim_open(layout: StagingLayout, call_id: str) -> LockedFolder | None:
    """The entry of a dead process whose journal is missing, open or unreadable; None for every other one."""
    locked = claim(layout.undo, call_id)
    if locked is None:
        return None
    with suppress(JournalDamaged):
        record = load(locked.folder, call_id)
        if record is not None and record.state not in (State.PREPARED, State.UNDOING):
            locked.close()
            return None
    return locked


def _recover_entry(layout: StagingLayout, call_id: str, locked: LockedFolder) -> Recovery | None:
    """None for what was being pruned or had been taken back: nothing to tell."""
    entry = UndoEntry(layout.workspace, call_id, locked.folder, layout.ops)
    with closing(locked):
        try:
            record = load(locked.folder, call_id)
            if record is not None:
                return _roll(layout, record, locked, entry)
            forgotten = DirEntry(locked.folder, DROPPED).status() is not None
            layout.drop(call_id, locked)
            return None if forgotten else Recovery(call_id, "", Finding.DISCARDED)
        except (OSError, SandboxError) as error:
            return Recovery(call_id, "", Finding.DAMAGED, kept_in=entry.path, detail=str(error))


def _roll(layout: StagingLayout, record: Record, locked: LockedFolder, entry: UndoEntry) -> Recovery:
    """Back when no step was begun, else forward to the end."""
    undoing = record.state is State.UNDOING
    steps = record.backwards if undoing else record.steps
    targets = tuple(_located(layout.workspace, step.target, step.new or step.old) for step in record.steps)
    if all(untouched(entry, step) for step in steps):
        if undoing:
            entry.save(record.to(State.PUBLISHED))
            return Recovery(record.call_id, record.staging_id, Finding.PUBLISHED, targets)
        layout.drop(record.call_id, locked)
        return Recovery(record.call_id, record.staging_id, Finding.DISCARDED)
    conflicts = complete_all(entry, steps)
    after = State.UNDONE if undoing else State.PUBLISHED
    entry.settle(record, State.CONFLICT if conflicts else after)
    finding = Finding.CONFLICT if conflicts else Finding(after.value)
    targets = tuple(_located(layout.workspace, step.target, step.new) for step in steps)
    places = tuple(_located(layout.workspace, path, None) for step in conflicts for path in step.places)
    kept_in = entry.path if conflicts else ""
    return Recovery(record.call_id, record.staging_id, finding, targets, places, kept_in)
