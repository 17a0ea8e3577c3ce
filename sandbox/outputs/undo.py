"""Undoes a publication, prunes old ones, and recovers what a crash interrupted.

An undo performs the same swaps in the opposite order and direction, under the same journal. What was replaced,
removed or renamed returns to its name, and what was published returns to its slot. Neither is deleted.
"""

import os
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath

from sandbox.errors import PathRefused, SandboxError, StagingFailed
from sandbox.outputs.dirops import DirEntry
from sandbox.outputs.filetree import opened_folder
from sandbox.outputs.inspection import listing
from sandbox.outputs.journal import JournalDamaged, Mark, Record, State, load, valid_id
from sandbox.outputs.layout import DROPPED, LockedFolder, StagingLayout, ids, staging_errors
from sandbox.outputs.store import PublishedFile, Recovery, RecoveryOutcome, StoredPublication, UndoResult
from sandbox.outputs.swap import Conflict, complete_all, mark_finished, transact, untouched
from sandbox.workspace import Identity, Workspace, WorkspacePath, open_folder

_CLOSED = (State.PUBLISHED, State.UNDONE)


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits of the undo store of one workspace. The newest call is kept whatever its size, unless `calls` is 0."""

    calls: int = 50
    bytes: int = 20 << 30  # bytes on disk of what was replaced, removed or moved out by an undo


def undo(layout: StagingLayout, call_id: str) -> UndoResult:
    """Undoes one publication. If that is impossible, raises StagingFailed and changes no user file."""
    if not valid_id(call_id):
        raise StagingFailed(f"{call_id!r} is not the id of a call.")
    with staging_errors("undoing"):
        with layout.exclusive():
            entry = layout.claim(layout.undo, call_id)
        if entry is None:
            raise StagingFailed(
                f"call {call_id} is not kept for undo, or is in use. It may have been pruned."
            )
        with closing(entry):
            record = load(entry.folder, call_id)
            if record is None or record.state is not State.PUBLISHED:
                state = "unknown" if record is None else record.state.value
                raise StagingFailed(f"call {call_id} is {state}; only a published call can be undone.")
            _refuse_changed(entry, record)
            try:
                undoing = replace(record, state=State.UNDOING)
                transact("undoing", entry, undoing, State.UNDONE, partial(entry.save, record))
            except Conflict as error:
                raise StagingFailed(f"nothing was undone: {error}.") from error
    workspace, steps = layout.workspace, record.steps
    back = [_located(workspace, step.target, step.old) for step in steps if step.old is not None]
    back += [_located(workspace, step.origin, step.new) for step in steps if step.origin is not None]
    gone = [
        WorkspacePath(workspace, step.target) for step in steps if step.old is None and step.origin is None
    ]
    return UndoResult(call_id, tuple(back), tuple(gone))


def _refuse_changed(entry: LockedFolder, record: Record) -> None:
    workspace = entry.layout.workspace
    listings = {content.target: content.listing for content in record.contents}
    for step in record.steps:
        status, slot_status = _status(workspace, step.target), DirEntry(entry.folder, step.slot).status()
        same = status is None if step.new is None else step.new.fits(status)
        if same and step.new is not None and step.new.is_folder:
            with open_folder(workspace, step.target) as folder:
                same = listing(folder) == listings.get(step.target)
        if not same:
            raise StagingFailed(f"{str(step.target)!r} changed since; undoing would lose that change.")
        if step.origin is not None and _status(workspace, step.origin) is not None:
            raise StagingFailed(f"{str(step.origin)!r} exists again; move it away, then undo.")
        if step.old is not None and not step.old.fits(slot_status):
            raise StagingFailed(f"what {str(step.target)!r} was before is no longer kept.")


def _status(workspace: Workspace, target: PurePosixPath) -> os.stat_result | None:
    try:
        with open_folder(workspace, target.parent) as parent:
            return DirEntry(parent, target.name).status()
    except PathRefused:
        return None


def _located(workspace: Workspace, path: PurePosixPath, mark: Mark | None) -> WorkspacePath:
    """The place of a name that a step created or removed, with its current identity if that matches `mark`."""
    status = _status(workspace, path)
    if status is None or mark is None or not mark.fits(status):
        return WorkspacePath(workspace, path)
    return WorkspacePath(workspace, path, Identity.of(status), mark.is_folder)


def prune(layout: StagingLayout, keep: Retention) -> tuple[str, ...]:
    """Removes the oldest calls beyond the limits and returns their ids. Conflicts and open journals are kept."""
    pruned = []
    total_bytes = 0
    for number, record in enumerate(_finished(layout)):
        total_bytes += record.kept_bytes
        if number < keep.calls and (number == 0 or total_bytes <= keep.bytes):
            continue
        # the entry is in use, or we cannot remove it; the next publication tries again
        with suppress(OSError, JournalDamaged):
            if (entry := layout.claim(layout.undo, record.call_id)) is not None:
                with closing(entry):
                    # read again, because an undo that died meanwhile may have left the only copy of a file here
                    now = load(entry.folder, record.call_id)
                    if now is None or now.state not in _CLOSED:
                        continue
                    entry.drop()
                pruned.append(record.call_id)
    return tuple(pruned)


def publications_of(layout: StagingLayout) -> tuple[StoredPublication, ...]:
    """The publications in the undo store, newest first."""
    publications = []
    for record in _finished(layout):
        folders = {step.target for step in record.steps if step.new is not None and step.new.is_folder}
        files = []
        for content in record.contents:
            located = WorkspacePath(layout.workspace, content.target, is_folder=content.target in folders)
            files.append(PublishedFile(located, content.size, content.sha256))
        publications.append(StoredPublication(record.call_id, record.state is State.UNDONE, tuple(files)))
    return tuple(publications)


def _finished(layout: StagingLayout) -> list[Record]:
    """The closed journals, newest first."""
    records = []
    for call_id in ids(layout.undo):
        with suppress(OSError, JournalDamaged), opened_folder(layout.undo, call_id) as folder:
            record = load(folder, call_id)
            if record is not None and record.state in _CLOSED:
                records.append(record)
    return sorted(records, key=lambda record: (record.time_ns, record.call_id), reverse=True)


def recover(layout: StagingLayout, *, discard: bool = True) -> tuple[Recovery, ...]:
    """Completes or reverts the publications of dead processes, and removes their staging.

    Skips those of live processes. Idempotent. Without `discard`, staging folders are kept, because a dead server's
    container may still be about to use one.
    """
    with staging_errors("recovering"), layout.exclusive():
        entries = [entry for name in ids(layout.undo) if (entry := _claim_open(layout, name))]
        names = ids(layout.staging) if discard else []
        stagings = [claimed for name in names if (claimed := layout.claim(layout.staging, name))]
    recovered = [done for entry in entries if (done := _recover_entry(entry)) is not None]
    reported = {recovery.staging_id for recovery in recovered}
    published = {record.staging_id: record for record in _finished(layout)} if stagings else {}
    for staging in stagings:
        name = staging.name
        with closing(staging):
            try:
                with layout.ops.step("discard"):
                    staging.remove(layout.staging)
            except OSError as error:
                detail = f"staging stays: {error.strerror or error}"
                recovered.append(Recovery(name, name, RecoveryOutcome.DAMAGED, detail=detail))
                continue
        if name in reported:
            continue
        # without an open journal, its process died before it published, or just after
        if (record := published.get(name)) is None:
            recovered.append(Recovery("", name, RecoveryOutcome.DISCARDED))
            continue
        targets = tuple(_located(layout.workspace, step.target, step.new) for step in record.steps)
        recovered.append(Recovery(record.call_id, name, RecoveryOutcome(record.state.value), targets))
    return tuple(recovered)


def _claim_open(layout: StagingLayout, call_id: str) -> LockedFolder | None:
    """The entry of a dead process whose journal is missing, open or unreadable; None for any other entry."""
    entry = layout.claim(layout.undo, call_id)
    if entry is None:
        return None
    with suppress(JournalDamaged):
        record = load(entry.folder, call_id)
        if record is not None and record.state not in (State.PREPARED, State.UNDOING):
            entry.close()
            return None
    return entry


def _recover_entry(entry: LockedFolder) -> Recovery | None:
    """Recovers one entry. None if its removal had begun (pruned or reverted), because there is nothing to report."""
    call_id = entry.name
    with closing(entry):
        try:
            record = load(entry.folder, call_id)
            if record is not None:
                return _recover_record(entry, record)
            forgotten = DirEntry(entry.folder, DROPPED).status() is not None
            entry.drop()
            return None if forgotten else Recovery(call_id, "", RecoveryOutcome.DISCARDED)
        except (OSError, SandboxError) as error:
            return Recovery(call_id, "", RecoveryOutcome.DAMAGED, kept_in=entry.undo_path, detail=str(error))


def _recover_record(entry: LockedFolder, record: Record) -> Recovery:
    """Reverts the entry if no step was done; otherwise completes it."""
    workspace, undoing = entry.layout.workspace, record.state is State.UNDOING
    after = State.UNDONE if undoing else State.PUBLISHED
    steps = record.steps_to(after)
    if untouched(entry, steps):
        if undoing:
            targets = tuple(_located(workspace, step.target, step.new or step.old) for step in record.steps)
            entry.save(replace(record, state=State.PUBLISHED))
            return Recovery(record.call_id, record.staging_id, RecoveryOutcome.PUBLISHED, targets)
        entry.drop()
        return Recovery(record.call_id, record.staging_id, RecoveryOutcome.DISCARDED)
    conflicts = complete_all(entry, steps)
    state = State.CONFLICT if conflicts else after
    mark_finished(entry, record, state)
    targets = tuple(_located(workspace, step.target, step.new) for step in steps)
    kept_in = entry.undo_path if conflicts else ""
    return Recovery(record.call_id, record.staging_id, RecoveryOutcome(state.value), targets, kept_in)
