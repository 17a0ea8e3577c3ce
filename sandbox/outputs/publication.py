"""Puts what a job left into the workspace: all of it or nothing, never over something unexpected.

The order, which `docs/adr/0003-staging-and-publication.md` argues for:
1. look at every target: what is there must be what was there when the plan was made;
2. seal what is staged: owner, mode, SHA-256, fsync;
3. move it into `undo/<call>/` and write the journal;
4. take away what is to go, swap each staged file or folder with its target, then rename what gets another name;
5. write into the journal that it is done. What was replaced lies in `undo/<call>/` by now.
A failure takes every step back; a crash is finished or taken back by `recover`.
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from sandbox.errors import OutputRejected, StagingFailed
from sandbox.outputs.inspection import Manner, Sealed, listing_of, manner_of, seal
from sandbox.outputs.journal import Content, Mark, Record, State, Step, valid_id
from sandbox.outputs.layout import Ground, Held, failing, refused_as
from sandbox.outputs.moves import Place
from sandbox.outputs.store import Publication, Published, PublishedFile, Staged, Transfer
from sandbox.outputs.swap import Conflict, Entry, stopped_midway, transact, untouched
from sandbox.workspace import RESERVED, Identity, Located, open_folder


@dataclass(frozen=True, slots=True)
class Request:
    """One publication to make, with the staging it comes from."""

    call_id: str
    staging_id: str
    out: int  # the open staging folder
    staged: Mapping[str, Staged]
    publications: tuple[Publication, ...]
    removes: tuple[Located, ...] = ()  # beyond those of the publications
    transfers: tuple[Transfer, ...] = ()
    listings: Mapping[PurePosixPath, str] = field(default_factory=dict)  # `listing_of` folders, by place

    @property
    def removals(self) -> tuple[Located, ...]:
        """All that is to be taken away, once each, without what is replaced."""
        targets = {one.relative for one in self.targets}
        asked = (*self.removes, *(gone for one in self.publications for gone in one.removes))
        return tuple({gone.relative: gone for gone in asked if gone.relative not in targets}.values())

    @property
    def targets(self) -> tuple[Located, ...]:
        published = (one.target for one in self.publications)
        return (*published, *(one.target for one in self.transfers))

    @property
    def uprooted(self) -> tuple[Located, ...]:
        """The places that change without a staged file or folder for them."""
        renamed = (place for one in self.transfers for place in (one.source, one.target))
        return (*self.removals, *renamed)


def publish(ground: Ground, request: Request) -> Published:
    """Publishes. Raises OutputRejected or StagingFailed; then no user file is changed."""
    with refused_as(OutputRejected, "nothing was published"), failing("publishing"):
        _check_request(ground, request)
        for place in request.uprooted:
            _look(ground, place)
        manners = [_look(ground, one.target) for one in request.publications]
        sealed = [
            seal(Place(request.out, name), _collected(request.staged[name]), manner, ground.moves)
            for name, manner in zip((one.staged_name for one in request.publications), manners, strict=True)
        ]
        _check_listings(request)
        try:
            held = ground.make(ground.undo, request.call_id, "entry")
        except FileExistsError as error:
            raise StagingFailed(f"call {request.call_id} has published before; use a new id.") from error
        try:
            _publish_in(ground, held, request, sealed)
        finally:
            held.close()
        return _published(request, sealed)


def _publish_in(ground: Ground, held: Held, request: Request, sealed: list[Sealed]) -> None:
    entry = Entry(ground.workspace, request.call_id, held.folder, ground.moves)
    record = _record(request, sealed)
    try:
        _adopt(entry, request)
        os.fsync(ground.undo)
    except BaseException:
        with suppress(OSError):
            ground.drop(request.call_id, held)
        raise
    try:
        transact(entry, record.steps, record, State.PUBLISHED)
    except BaseException as error:
        taken_back = all(untouched(entry, step) for step in record.steps)
        if taken_back:
            with suppress(OSError):  # rubbish by now, which `recover` removes too
                ground.drop(request.call_id, held)
        elif isinstance(error, Exception):
            raise stopped_midway("publishing", entry, error) from error
        if isinstance(error, Conflict):
            raise OutputRejected(f"nothing was published: {error}. Plan the call again.") from error
        raise


def _collected(staged: Staged) -> Mark:
    return Mark.expected(staged.identity, is_folder=staged.is_folder)


def _adopt(entry: Entry, request: Request) -> None:
    """Moves what is staged into its slots, so that the staging folder may go whatever happens."""
    first = _removing_steps(request)
    for number, one in enumerate(request.publications, len(first)):
        entry.moves.move("adopt", Place(request.out, one.staged_name), Place(entry.folder, str(number)))


def _check_request(ground: Ground, request: Request) -> None:
    if not valid_id(request.call_id):
        raise StagingFailed(f"{request.call_id!r} is not an id: 8 to 64 letters, digits, '-' and '_'.")
    if not request.targets and not request.removals:
        raise OutputRejected("there is nothing to publish.")
    for one in request.publications:
        staged = request.staged.get(one.staged_name)
        if staged is None:
            raise OutputRejected(f"{one.staged_name!r} is not among the collected outputs.")
        if one.target.identity is not None and one.target.is_folder != staged.is_folder:
            raise OutputRejected(f"{one.target} would turn from file to folder or back. Use another name.")
    if len({one.staged_name for one in request.publications}) != len(request.publications):
        raise OutputRejected("one output is to be published twice.")
    for transfer in request.transfers:
        _check_transfer(transfer)
    sources = (one.source for one in request.transfers)
    _check_places(ground, [*request.targets, *sources, *request.removals])


def _check_transfer(transfer: Transfer) -> None:
    source, target = transfer.source, transfer.target
    if source.identity is None:
        raise OutputRejected(f"{source} does not exist, so it gets no other name.")
    if target.identity is None:
        return
    if target.is_folder != source.is_folder:
        raise OutputRejected(f"{target} would turn from file to folder or back. Use another name.")
    if target.identity.inode == source.identity.inode:  # by a hard link, or by another case of letters
        raise OutputRejected(f"{target} is another name of {source} already.")


def _check_places(ground: Ground, places: list[Located]) -> None:
    for place in places:
        parts = place.relative.parts
        if place.workspace.root != ground.workspace.root:
            raise OutputRejected(f"{place} is in another workspace than its staging.")
        if not parts or ".." in parts or parts[0] == RESERVED:
            raise OutputRejected(f"{place} is no place for an output.")
    taken = {place.relative for place in places}
    nested = any(parent in taken for relative in taken for parent in relative.parents)
    if nested or len(taken) != len(places):
        raise OutputRejected("two outputs have the same target, or one lies in the other.")


def _look(ground: Ground, place: Located) -> Manner:
    """Finds at a place what the plan found there. Raises OutputRejected when it is anything else."""
    with open_folder(ground.workspace, place.relative.parent) as parent:
        if os.fstat(parent).st_dev != os.fstat(ground.base).st_dev:
            raise OutputRejected(f"{place} is on another file system, where publishing would not be atomic.")
        status = Place(parent, place.name).status()
        if status is not None and status.st_dev != os.fstat(parent).st_dev:
            raise OutputRejected(f"{place} is a mount, which cannot be moved. Unmount it first.")
    found = None if status is None else Identity.of(status)
    if found != place.identity:
        raise OutputRejected(f"{place} was changed since the call was planned. Plan the call again.")
    with open_folder(ground.workspace, PurePosixPath()) as root:
        return manner_of(status, os.fstat(root))


def _check_listings(request: Request) -> None:
    """What is in a folder that goes must be what the plan saw, as its own size and time do not tell."""
    replaced = (one.target for one in request.publications if one.target.relative in request.listings)
    for place in (*request.uprooted, *replaced):
        if place.is_folder and listing_of(place) != request.listings.get(place.relative):
            raise OutputRejected(
                f"something in {place} was changed since the call was planned. Plan it again."
            )


def _removing_steps(request: Request) -> list[Step]:
    present = [gone for gone in request.removals if gone.identity is not None]
    return [Step(str(number), gone.relative, None, _mark(gone)) for number, gone in enumerate(present)]


def _record(request: Request, sealed: list[Sealed]) -> Record:
    steps = _removing_steps(request)  # first: a stale -wal beside a new database would be replayed into it
    contents = []
    for one, made in zip(request.publications, sealed, strict=True):
        steps.append(Step(str(len(steps)), one.target.relative, made.mark, _mark(one.target)))
        contents.append(Content(one.target.relative, made.size, made.sha256, made.listing))
    for transfer in request.transfers:
        steps.append(_renaming_step(str(len(steps)), transfer))
        held = request.listings.get(transfer.source.relative, "")
        contents.append(Content(transfer.target.relative, 0, "", held))
    return Record(
        request.call_id, request.staging_id, State.PREPARED, time.time_ns(), tuple(steps), tuple(contents)
    )


def _renaming_step(slot: str, transfer: Transfer) -> Step:
    source, target = transfer.source, transfer.target
    return Step(slot, target.relative, _mark(source), _mark(target), origin=source.relative)


def _mark(place: Located) -> Mark | None:
    return None if place.identity is None else Mark.expected(place.identity, is_folder=place.is_folder)


def _published(request: Request, sealed: list[Sealed]) -> Published:
    files = tuple(
        PublishedFile(
            replace(one.target, identity=made.identity, is_folder=made.is_folder),
            made.size,
            made.sha256,
            made.parts,
        )
        for one, made in zip(request.publications, sealed, strict=True)
    )
    replaced = tuple(one for one in request.targets if one.identity is not None)
    removed = tuple(gone for gone in request.removals if gone.identity is not None)
    return Published(request.call_id, files, replaced, removed, tuple(map(_moved, request.transfers)))


def _moved(transfer: Transfer) -> Transfer:
    source = transfer.source
    there = replace(transfer.target, identity=source.identity, is_folder=source.is_folder)
    return Transfer(source, there)
