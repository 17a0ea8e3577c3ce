"""Takes a publication back, forgets old ones, and puts right what a crash interrupted.

An undo is the same swaps in the opposite order and direction, under the same journal: what was replaced, removed
or renamed comes back to its name, and what was published goes to the slot it came from. Neither is destroyed.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from sandbox.errors import PathRefused, SandboxError, StagingFailed
from sandbox.outputs.filetree import opened_folder, remove
from sandbox.outputs.inspection import listing
from sandbox.outputs.journal import JournalDamaged, Mark, Record, State, load, valid_id
from sandbox.outputs.layout import DROPPED, Ground, Held, claim, failing, ids
from sandbox.outputs.moves import Place
from sandbox.outputs.store import Finding, Recovery, Undone
from sandbox.outputs.swap import Conflict, Entry, complete_all, stopped_midway, transact, untouched
from sandbox.workspace import Identity, Located, Workspace, open_folder


@dataclass(frozen=True, slots=True)
class Retention:
    """How much undo keeps in one workspace. The newest call is kept whatever its size, unless `calls` is 0."""

    calls: int = 50
    bytes: int = 20 << 30  # on disk, of what was replaced, removed or taken back


def undo(ground: Ground, call_id: str) -> Undone:
    """Takes one publication back. Raises StagingFailed when it cannot be; then no user file is changed."""
    with failing("undoing"), _claimed(ground, call_id) as held:
        record = load(held.folder, call_id)
        if record is None or record.state is not State.PUBLISHED:
            state = "unknown" if record is None else record.state.value
            raise StagingFailed(f"call {call_id} is {state}; only a published call can be undone.")
        entry = Entry(ground.workspace, call_id, held.folder, ground.moves)
        _refuse_changed(entry, record)
        try:
            transact(entry, record.backwards, record.to(State.UNDOING), State.UNDONE)
        except BaseException as error:
            taken_back = all(untouched(entry, step) for step in record.backwards)
            if taken_back:
                with suppress(OSError):  # else `recover` writes it
                    entry.save(record)
            elif isinstance(error, Exception):
                raise stopped_midway("undoing", entry, error) from error
            if isinstance(error, Conflict):
                raise StagingFailed(f"nothing was undone: {error}.") from error
            raise
    return _undone(ground.workspace, record)


def _undone(workspace: Workspace, record: Record) -> Undone:
    back = [_place(workspace, step.target, step.old) for step in record.steps if step.old is not None]
    back += [_place(workspace, step.origin, step.new) for step in record.steps if step.origin is not None]
    gone = [step.target for step in record.steps if step.old is None and step.origin is None]
    return Undone(record.call_id, tuple(back), tuple(_place(workspace, path, None) for path in gone))


@contextmanager
def _claimed(ground: Ground, call_id: str) -> Iterator[Held]:
    if not valid_id(call_id):
        raise StagingFailed(f"{call_id!r} is not the id of a call.")
    with ground.claiming():
        held = claim(ground.undo, call_id)
    if held is None:
        raise StagingFailed(f"call {call_id} is not kept for undo, or is in use. It may have been pruned.")
    try:
        yield held
    finally:
        held.close()


def _refuse_changed(entry: Entry, record: Record) -> None:
    listings = {content.target: content.listing for content in record.contents}
    for step in record.steps:
        status, kept = _status(entry.workspace, step.target), Place(entry.folder, step.slot).status()
        same = status is None if step.new is None else step.new.fits(status)
        if same and step.new is not None and step.new.is_folder:
            same = _listing(entry.workspace, step.target) == listings.get(step.target)
        if not same:
            raise StagingFailed(f"{str(step.target)!r} was changed since; undoing would lose that change.")
        if step.origin is not None and _status(entry.workspace, step.origin) is not None:
            raise StagingFailed(
                f"there is a {str(step.origin)!r} again; move it away, then what had that name can come back."
            )
        if step.old is not None and not step.old.fits(kept):
            raise StagingFailed(f"what {str(step.target)!r} was before is not kept any more.")


def _status(workspace: Workspace, target: PurePosixPath) -> os.stat_result | None:
    try:
        with open_folder(workspace, target.parent) as parent:
            return Place(parent, target.name).status()
    except PathRefused:
        return None


def _listing(workspace: Workspace, target: PurePosixPath) -> str:
    with open_folder(workspace, target.parent) as parent, opened_folder(parent, target.name) as folder:
        return listing(folder)


def _place(workspace: Workspace, path: PurePosixPath, mark: Mark | None) -> Located:
    """A name that a step gave or took; its identity as it is now, if it is what `mark` says."""
    status = _status(workspace, path)
    if status is None or mark is None or not mark.fits(status):
        return Located(workspace, path)
    return Located(workspace, path, Identity.of(status), mark.is_folder)


def prune(ground: Ground, keep: Retention) -> tuple[str, ...]:
    """Forgets the oldest calls over the bounds and returns their ids. Conflicts and open journals stay."""
    pruned = []
    kept_bytes = 0
    for place, record in enumerate(finished(ground)):
        kept_bytes += record.kept_bytes
        if place < keep.calls and (place == 0 or kept_bytes <= keep.bytes):
            continue
        with suppress(OSError):  # in use, or not ours to remove; the next publication tries again
            if (held := claim(ground.undo, record.call_id)) is not None:
                try:
                    ground.drop(record.call_id, held)
                finally:
                    held.close()
                pruned.append(record.call_id)
    return tuple(pruned)


def finished(ground: Ground) -> list[Record]:
    """Closed journals, the newest first."""
    found = []
    for call_id in ids(ground.undo):
        with suppress(OSError, JournalDamaged), opened_folder(ground.undo, call_id) as folder:
            record = load(folder, call_id)
            if record is not None and record.state in (State.PUBLISHED, State.UNDONE):
                found.append(record)
    return sorted(found, key=lambda record: (record.time_ns, record.call_id), reverse=True)


def recover(ground: Ground) -> tuple[Recovery, ...]:
    """Finishes or takes back what dead processes left, and removes their staging. Nothing living is touched.

    Call it once the dead servers' containers are gone. What it did can be called again without effect.
    """
    with failing("recovering"), ground.claiming():
        entries = {name: held for name in ids(ground.undo) if (held := _claim_open(ground, name))}
        stagings = {name: held for name in ids(ground.staging) if (held := claim(ground.staging, name))}
    recovered = [_recover_entry(ground, name, held) for name, held in entries.items()]
    findings = [finding for finding in recovered if finding is not None]
    told = {finding.staging_id for finding in findings}
    published = {record.staging_id: record for record in finished(ground)} if stagings else {}
    for name, held in stagings.items():
        try:
            with ground.moves.step("discard"):
                remove(ground.staging, name)
        except OSError as error:
            why = error.strerror or error
            findings.append(Recovery(name, name, Finding.DAMAGED, detail=f"staging stays: {why}"))
        else:
            if name not in told:
                findings.append(_swept(ground, name, published.get(name)))
        finally:
            held.close()
    return tuple(findings)


def _claim_open(ground: Ground, call_id: str) -> Held | None:
    """The entry of a dead process whose journal is missing, open or unreadable; None for every other one."""
    held = claim(ground.undo, call_id)
    if held is None:
        return None
    with suppress(JournalDamaged):
        record = load(held.folder, call_id)
        if record is not None and record.state not in (State.PREPARED, State.UNDOING):
            held.close()
            return None
    return held


def _recover_entry(ground: Ground, call_id: str, held: Held) -> Recovery | None:
    """None for what was being pruned or had been taken back: nothing to tell."""
    entry = Entry(ground.workspace, call_id, held.folder, ground.moves)
    try:
        record = load(held.folder, call_id)
        if record is not None:
            return _roll(ground, record, held, entry)
        forgotten = Place(held.folder, DROPPED).status() is not None
        ground.drop(call_id, held)
        return None if forgotten else Recovery(call_id, "", Finding.DISCARDED)
    except (OSError, SandboxError) as error:
        return Recovery(call_id, "", Finding.DAMAGED, kept_in=entry.path, detail=str(error))
    finally:
        held.close()


def _roll(ground: Ground, record: Record, held: Held, entry: Entry) -> Recovery:
    """Back when no step was begun, else forward to the end."""
    undoing = record.state is State.UNDOING
    steps = record.backwards if undoing else record.steps
    targets = tuple(_place(ground.workspace, step.target, step.new or step.old) for step in record.steps)
    if all(untouched(entry, step) for step in steps):
        if undoing:
            entry.save(record.to(State.PUBLISHED))
            return Recovery(record.call_id, record.staging_id, Finding.PUBLISHED, targets)
        ground.drop(record.call_id, held)
        return Recovery(record.call_id, record.staging_id, Finding.DISCARDED)
    conflicts = complete_all(entry, steps)
    after = State.UNDONE if undoing else State.PUBLISHED
    entry.settle(record, State.CONFLICT if conflicts else after)
    finding = Finding.CONFLICT if conflicts else Finding(after.value)
    targets = tuple(_place(ground.workspace, step.target, step.new) for step in steps)
    places = tuple(_place(ground.workspace, path, None) for step in conflicts for path in step.places)
    return Recovery(
        record.call_id, record.staging_id, finding, targets, places, entry.path if conflicts else ""
    )


def _swept(ground: Ground, staging_id: str, record: Record | None) -> Recovery:
    """A staging folder without an open journal: its process died before it published, or just after."""
    if record is None:
        return Recovery("", staging_id, Finding.DISCARDED)
    targets = tuple(_place(ground.workspace, step.target, step.new) for step in record.steps)
    return Recovery(record.call_id, staging_id, Finding(record.state.value), targets)
