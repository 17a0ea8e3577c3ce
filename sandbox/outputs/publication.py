"""Publishes the outputs of a job into the workspace: all or nothing, and never over an unexpected file.

The steps, which `docs/adr/0003-staging-and-publication.md` explains:
1. Check every target: it must be unchanged since the plan was made.
2. Seal the staged files and folders: owner, mode, SHA-256, fsync.
3. Move them into `undo/<call>/` and write the journal.
4. Remove what is to be removed, swap each staged file or folder with its target, then perform the renames.
5. Record the end in the journal. What was replaced is then in `undo/<call>/`.
A failure reverts every step. After a crash, `recover` completes or reverts the publication.
"""

import os
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from sandbox.errors import OutputRejected, SandboxError, StagingFailed
from sandbox.outputs.dirops import DirEntry
from sandbox.outputs.inspection import Permissions, listing_of, permissions_for, seal
from sandbox.outputs.journal import Content, Mark, Record, State, Step, valid_id
from sandbox.outputs.layout import LockedFolder, StagingLayout, staging_errors
from sandbox.outputs.store import Publication, Published, PublishedFile, Staged, Transfer
from sandbox.outputs.swap import Conflict, transact
from sandbox.workspace import RESERVED, Identity, WorkspacePath, open_folder


@dataclass(frozen=True, slots=True)
class PublicationRequest:
    """A requested publication and its staging."""

    call_id: str
    staging_id: str
    out: int  # descriptor of the open staging folder
    staged: Mapping[str, Staged]
    publications: tuple[Publication, ...]
    removes: tuple[WorkspacePath, ...]
    transfers: tuple[Transfer, ...]
    listings: Mapping[PurePosixPath, str]  # `listing_of` folders, by path relative to the workspace

    @property
    def removals(self) -> tuple[WorkspacePath, ...]:
        """The files and folders to remove, without duplicates and without targets that are replaced."""
        targets = {place.relative for place in self.targets}
        return tuple(
            {place.relative: place for place in self.removes if place.relative not in targets}.values()
        )

    @property
    def present_removals(self) -> tuple[WorkspacePath, ...]:
        return tuple(gone for gone in self.removals if gone.identity is not None)

    @property
    def targets(self) -> tuple[WorkspacePath, ...]:
        return (
            *(change.target for change in self.publications),
            *(change.target for change in self.transfers),
        )

    @property
    def unstaged(self) -> tuple[WorkspacePath, ...]:
        """The places that change without a staged file or folder: removed, renamed, or replaced by a renamed file."""
        renamed = (place for transfer in self.transfers for place in (transfer.source, transfer.target))
        return (*self.removals, *renamed)


def publish(layout: StagingLayout, request: PublicationRequest) -> Published:
    """Publishes the request. If it raises OutputRejected or StagingFailed, no user file has changed."""
    try:
        with staging_errors("publishing"):
            _check_request(layout, request)
            for place in request.unstaged:
                _check_unchanged(layout, place)
            permissions = [
                _check_unchanged(layout, publication.target) for publication in request.publications
            ]
            sealed = []
            for publication, rights in zip(request.publications, permissions, strict=True):
                output, staged = (
                    DirEntry(request.out, publication.staged_name),
                    request.staged[publication.staged_name],
                )
                sealed.append(seal(output, staged, publication.target, rights, layout.ops))
            # the contents of a removed folder must match the plan; the folder's own size and time do not show a change
            emptied = (
                publication.target
                for publication in request.publications
                if publication.target.relative in request.listings
            )
            for place in (*request.unstaged, *emptied):
                if place.is_folder and listing_of(place) != request.listings.get(place.relative):
                    raise OutputRejected(
                        f"something in {place} changed since the call was planned. Plan the call again."
                    )
            try:
                entry = layout.make(layout.undo, request.call_id, "entry")
            except FileExistsError as error:
                raise StagingFailed(f"call {request.call_id} has published before; use a new id.") from error
            with closing(entry):
                _publish_in(entry, request, _record(request, sealed))
    except StagingFailed:
        raise
    except SandboxError as error:  # callers of staging expect OutputRejected for a refused path
        raise OutputRejected(f"nothing was published: {error}") from error
    replaced = tuple(place for place in request.targets if place.identity is not None)
    moved = []
    for transfer in request.transfers:
        source = transfer.source
        now = replace(transfer.target, identity=source.identity, is_folder=source.is_folder)
        moved.append(replace(transfer, target=now))
    return Published(request.call_id, tuple(sealed), replaced, request.present_removals, tuple(moved))


def _publish_in(entry: LockedFolder, request: PublicationRequest, record: Record) -> None:
    ops = entry.layout.ops
    try:
        if any(step.new is not None and step.old is not None for step in record.steps):
            ops.require_exchange(entry.folder)
        for number, publication in enumerate(request.publications, len(request.present_removals)):
            # moved into its slot, so that the staging folder can always be removed
            ops.move(
                "adopt", DirEntry(request.out, publication.staged_name), DirEntry(entry.folder, str(number))
            )
        os.fsync(entry.layout.undo)
    except BaseException:  # re-raised: nothing is published yet, so nothing may stay
        with suppress(OSError):
            entry.drop()
        raise
    try:
        transact("publishing", entry, record, State.PUBLISHED, entry.drop)
    except Conflict as error:
        raise OutputRejected(f"nothing was published: {error}. Plan the call again.") from error


def _check_request(layout: StagingLayout, request: PublicationRequest) -> None:
    """Checks that a request is consistent. Raises OutputRejected, StagingFailed."""
    if not valid_id(request.call_id):
        raise StagingFailed(f"{request.call_id!r} is not an id: 8 to 64 letters, digits, '-' and '_'.")
    if not request.targets and not request.removals:
        raise OutputRejected("there is nothing to publish.")
    for publication in request.publications:
        staged = request.staged.get(publication.staged_name)
        if staged is None:
            raise OutputRejected(f"{publication.staged_name!r} is not among the collected outputs.")
        _refuse_other_kind(publication.target, is_folder=staged.is_folder)
    if len({publication.staged_name for publication in request.publications}) != len(request.publications):
        raise OutputRejected("one output is to be published twice.")
    for transfer in request.transfers:
        source, target = transfer.source, transfer.target
        if source.identity is None:
            raise OutputRejected(f"{source} does not exist, so it cannot be renamed.")
        _refuse_other_kind(target, is_folder=source.is_folder)
        if target.identity is not None and target.identity.inode == source.identity.inode:
            # a hard link, or a name that differs only in case on some file systems
            raise OutputRejected(f"{target} is already another name of {source}.")
    _check_places(layout, request)


def _check_places(layout: StagingLayout, request: PublicationRequest) -> None:
    places = [*request.targets, *(transfer.source for transfer in request.transfers), *request.removals]
    for place in places:
        parts = place.relative.parts
        if place.workspace.root != layout.workspace.root:
            raise OutputRejected(f"{place} is not in the workspace of its staging folder.")
        if not parts or ".." in parts or parts[0] == RESERVED:
            raise OutputRejected(f"{place} cannot be an output.")
    taken = {place.relative for place in places}
    nested = any(parent in taken for relative in taken for parent in relative.parents)
    if nested or len(taken) != len(places):
        raise OutputRejected("two outputs have the same target, or one lies in the other.")


def _refuse_other_kind(target: WorkspacePath, *, is_folder: bool) -> None:
    if target.identity is not None and target.is_folder != is_folder:
        raise OutputRejected(f"{target} would turn from file to folder or back. Use another name.")


def _check_unchanged(layout: StagingLayout, target: WorkspacePath) -> Permissions:
    """Checks that a target is unchanged since the plan. Returns the permissions for an output there.

    Raises OutputRejected.
    """
    with open_folder(layout.workspace, target.relative.parent) as parent:
        device = os.fstat(parent).st_dev
        if device != os.fstat(layout.base).st_dev:
            raise OutputRejected(f"{target} is on another file system, where publishing would not be atomic.")
        status = DirEntry(parent, target.name).status()
        if status is not None and status.st_dev != device:
            raise OutputRejected(f"{target} is a mount, which cannot be moved. Unmount it first.")
    if (None if status is None else Identity.of(status)) != target.identity:
        raise OutputRejected(f"{target} was changed since the call was planned. Plan the call again.")
    with open_folder(layout.workspace, PurePosixPath()) as root:
        return permissions_for(status, os.fstat(root))


def _record(request: PublicationRequest, sealed: list[PublishedFile]) -> Record:
    steps: list[Step] = []
    contents: list[Content] = []
    # removals come first, because SQLite would replay a stale -wal file into a new database
    for gone in request.present_removals:
        steps.append(Step(str(len(steps)), gone.relative, None, _mark(gone)))
    for publication, published in zip(request.publications, sealed, strict=True):
        steps.append(
            Step(
                str(len(steps)),
                publication.target.relative,
                _mark(published.located),
                _mark(publication.target),
            )
        )
        contents.append(
            Content(publication.target.relative, published.size, published.sha256, published.listing)
        )
    for transfer in request.transfers:
        source, target = transfer.source, transfer.target
        step = Step(str(len(steps)), target.relative, _mark(source), _mark(target), origin=source.relative)
        steps.append(step)
        contents.append(Content(target.relative, 0, "", request.listings.get(source.relative, "")))
    now = time.time_ns()
    return Record(request.call_id, request.staging_id, State.PREPARED, now, tuple(steps), tuple(contents))


def _mark(place: WorkspacePath) -> Mark | None:
    """The mark by which a file or folder is recognised later; None if it did not exist."""
    return None if place.identity is None else Mark.of(place.identity, is_folder=place.is_folder)
