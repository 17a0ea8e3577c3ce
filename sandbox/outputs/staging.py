"""Collects and publishes the outputs of containers.

A container writes to its own folder (`area.open`, mounted by `mount`) and never to a workspace. After the container
has ended, the host examines its output (`collect`) and publishes all of it or nothing into the workspace (`publish`).
A publication can be undone (`undo`). Leaving the `with` block removes the rest. `area.recover()` cleans up after a
crash when a server starts.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType

import structlog

from sandbox.errors import OutputRejected, SandboxError, StagingFailed
from sandbox.mounted import check_traversable
from sandbox.outputs.copying import Copier, is_nearly_full
from sandbox.outputs.dirops import DirOps
from sandbox.outputs.filetree import measure, opened_file, opened_folder, remove
from sandbox.outputs.inspection import collect
from sandbox.outputs.journal import valid_id
from sandbox.outputs.layout import LockedFolder, StagingLayout, no_owners, open_layout, staging_errors
from sandbox.outputs.publication import PublicationRequest, publish
from sandbox.outputs.store import (
    Publication,
    Published,
    Recovery,
    Staged,
    StagingUsage,
    StoredPublication,
    Transfer,
    UndoResult,
)
from sandbox.outputs.undo import Retention, prune, publications_of, recover, undo
from sandbox.template import STAGING_TARGET, Limits, Mount, SourceOf, host_source
from sandbox.workspace import RESERVED, Identity, Workspace, WorkspacePath, open_file, open_folder

_OUT = "out"
_DEFAULT_LIMITS = Limits()
_log = structlog.get_logger()


@dataclass(eq=False)
class StagingArea:
    """The staging and undo store of one writable workspace. Safe for several threads and processes.

    Publishing renames files within the workspace's own file system, on this machine or in a volume that several
    machines mount. `run_in_background` runs work in any thread that a published call does not wait for. `source` maps
    a folder to its mount source.
    """

    workspace: Workspace
    keep: Retention = field(default_factory=Retention)
    ops: DirOps = field(default_factory=DirOps)
    run_in_background: Callable[[Callable[[], None]], object] = lambda work: work()
    source: SourceOf = host_source

    def prepare(self) -> None:
        """Creates the store's folder in the workspace, so that it can be masked.

        Raises StagingFailed if it is unsafe.
        """
        with self.layout():
            pass

    def replaces(self) -> bool:
        """True if the file system can swap two names atomically, which is tried. If not, files cannot be replaced."""
        with staging_errors("trying to swap two names"), self.layout() as layout:
            try:
                layout.ops.require_exchange(layout.undo)
            except OutputRejected:
                return False
            return True

    def open(self, staging_id: str, user: tuple[int, int]) -> "Staging":
        """Creates an empty folder for a container that runs as `user` (uid, gid). Raises StagingFailed."""
        if not valid_id(staging_id):
            raise StagingFailed(f"{staging_id!r} is not an id: 8 to 64 letters, digits, '-' and '_'.")
        own = os.geteuid()
        if 0 in user:
            raise StagingFailed("a container never runs as root; give the ids of the workspace's owner.")
        if own not in (0, user[0]):
            raise StagingFailed(f"the container would run as user {user[0]}; only user {own} may write here.")
        with staging_errors("making a staging folder"), self.layout() as layout:
            try:
                locked = layout.make(layout.staging, staging_id, "open")
            except FileExistsError as error:
                raise StagingFailed(f"staging {staging_id} exists; every container needs its own.") from error
            try:
                with layout.ops.step("open.out"):
                    os.mkdir(_OUT, 0o700, dir_fd=locked.folder)
                    with opened_folder(locked.folder, _OUT) as opened:
                        if own == 0:
                            _give(opened, user, self.workspace)
                        out = os.dup(opened)
            except BaseException:  # re-raised: no folder without an owner may remain
                with suppress(OSError):
                    remove(layout.staging, staging_id)
                locked.close()
                raise
        return Staging(self, staging_id, user, locked, out)

    def recover(self, *, discard: bool = True) -> tuple[Recovery, ...]:
        """Completes or reverts the publications of dead processes. Call it after their containers have ended."""
        with self.layout() as layout:
            return recover(layout, discard=discard)

    def has_undo_entry(self, call_id: str) -> bool:
        """True if an undo entry with this id exists, damaged or not. Does not read the entry."""
        return valid_id(call_id) and (self.workspace.root / RESERVED / "undo" / call_id).is_dir()

    def publications(self) -> tuple[StoredPublication, ...]:
        """The publications in the undo store, including undone ones, newest first."""
        with staging_errors("reading the journals"), self.layout() as layout:
            return publications_of(layout)

    def undo(self, call_id: str) -> UndoResult:
        """Undoes a published call. Raises StagingFailed if it is unknown or a target has changed since."""
        with self.layout() as layout:
            return undo(layout, call_id)

    def prune(self) -> tuple[str, ...]:
        """Removes the oldest undo entries beyond the retention, and returns their ids.

        Called after every publication.
        """
        with staging_errors("pruning undo"), self.layout() as layout:
            return prune(layout, self.keep)

    def prune_quietly(self) -> None:
        """Prunes and ignores failures. An entry that could not be removed is tried again after the next publication."""
        with suppress(SandboxError):
            self.prune()

    def layout(self) -> AbstractContextManager[StagingLayout]:
        return open_layout(self.workspace, self.ops)


def _give(folder: int, user: tuple[int, int], workspace: Workspace) -> None:
    """Makes the calls' user the owner of a folder. Raises StagingFailed if the file system has no owners."""
    try:
        os.fchown(folder, *user)
    except PermissionError as error:
        raise StagingFailed(no_owners(workspace, folder)) from error


@dataclass(eq=False)
class Staging(AbstractContextManager["Staging"]):
    """The output folder of one container. It exists until `discard`, or until its process dies and `recover` runs."""

    area: StagingArea
    staging_id: str
    user: tuple[int, int]
    _locked: LockedFolder | None
    _out: int
    _collected: dict[str, Staged] = field(default_factory=dict, init=False)

    @property
    def path(self) -> Path:
        """The path of the container's output folder on the host.

        It contains only what the container or `copy_in` wrote.
        """
        return self.area.workspace.root / RESERVED / "staging" / self.staging_id / _OUT

    @property
    def mount(self) -> Mount:
        return Mount(self.area.source(self.path), STAGING_TARGET, read_only=False)

    def usage(self, limits: Limits = _DEFAULT_LIMITS) -> StagingUsage:
        """The current usage by a running job. Stops counting beyond the limits.

        Files that were unlinked while open only show in `disk_low`.
        """
        with staging_errors("measuring staging"):
            return replace(measure(self._folder, limits), disk_low=is_nearly_full(os.fstatvfs(self._folder)))

    def copy_in(
        self,
        located: WorkspacePath,
        name: str,
        limits: Limits = _DEFAULT_LIMITS,
        visible_at: Path | None = None,
        check_cancelled: Callable[[], object] = lambda: None,
    ) -> None:
        """Copies an existing file or folder into staging, owned by the container's user.

        `check_cancelled` is called between its parts; an exception from it ends the copy and removes it. The file
        must still have the identity in `located`. If this process is root, it copies only what the container's user
        could read in a container that shows `visible_at` (by default, the workspace itself) as the workspace. Raises
        PathRefused, StagingFailed, OutputRejected.
        """
        place = (
            located
            if visible_at is None
            else replace(located, workspace=replace(located.workspace, root=visible_at))
        )
        user = self._other_user
        opened = open_folder(place.workspace, place.relative) if located.is_folder else open_file(place)
        with self._copying(name), opened as source:
            if Identity.of(os.fstat(source)) != located.identity:
                raise OutputRejected(f"{located} changed since the call was planned. Plan the call again.")
            if user is not None:
                check_traversable(place.workspace.root, place, user)
            copier = Copier(located.name, limits, user, check_cancelled=check_cancelled)
            (copier.folder if located.is_folder else copier.file)(source, self._folder, name)

    def copy_from(
        self,
        other: "Staging",
        name: str,
        limits: Limits = _DEFAULT_LIMITS,
        check_cancelled: Callable[[], object] = lambda: None,
    ) -> None:
        """Copies a file from another staging folder to the same name.

        Raises StagingFailed, and the errors of `copy_in`.
        """
        with self._copying(name), opened_file(other._folder, name) as source:  # noqa: SLF001 - of its own class
            copier = Copier(name, limits, self._other_user, trusted=True, check_cancelled=check_cancelled)
            copier.file(source, self._folder, name)

    def collect(self, limits: Limits = _DEFAULT_LIMITS) -> tuple[Staged, ...]:
        """The top-level entries that the job left, sorted by name. Call it after the container has ended.

        Raises OutputRejected for a special file, a hard link, an unprintable name, or more than the limits.
        """
        with staging_errors("reading the outputs"):
            staged = collect(self._folder, limits)
        self._collected = {output.name: output for output in staged}
        return staged

    def publish(
        self,
        call_id: str,
        publications: Sequence[Publication],
        removes: Sequence[WorkspacePath] = (),
        transfers: Sequence[Transfer] = (),
        listings: Mapping[PurePosixPath, str] = MappingProxyType({}),
    ) -> Published:
        """Publishes collected entries, all or none, and keeps what they replace for undo under `call_id`.

        `removes` are removed and `transfers` renamed with the same guarantee; a publication may consist of these
        only. `listings` contains the `inspection.listing_of` at the time of the plan, by path relative to the
        workspace. It is required for every folder that is removed or renamed, and optional for a folder that is
        replaced. Raises OutputRejected or StagingFailed; the workspace is then unchanged.
        """
        wanted = tuple(publications), tuple(removes), tuple(transfers)
        request = PublicationRequest(
            call_id, self.staging_id, self._folder, self._collected, *wanted, listings
        )
        with self.area.layout() as layout:
            published = publish(layout, request)
        with suppress(RuntimeError):  # the background threads have ended; a later publication prunes again
            self.area.run_in_background(self.area.prune_quietly)
        return published

    def discard(self) -> None:
        """Removes the folder with its contents. Raises StagingFailed if it cannot, after a minute at most."""
        if self._locked is None:
            return
        locked, self._locked = self._locked, None
        with ExitStack() as cleanup:
            cleanup.callback(locked.close)
            cleanup.callback(os.close, self._out)
            with (
                staging_errors("removing a staging folder"),
                self.area.layout() as layout,
                layout.ops.step("discard"),
            ):
                locked.remove(layout.staging)

    def __exit__(self, *_: object) -> None:
        try:
            self.discard()
        except StagingFailed as failure:  # `recover` removes it later; the call still returns its result
            _log.warning("staging_stays", staging=self.staging_id, reason=str(failure))

    @property
    def _folder(self) -> int:
        if self._locked is None:
            raise StagingFailed("this staging was discarded.")
        return self._out

    @property
    def _other_user(self) -> tuple[int, int] | None:
        """The container's user if this process is root; None otherwise, because it is then this process's user."""
        return self.user if os.geteuid() == 0 else None

    @contextmanager
    def _copying(self, name: str) -> Iterator[None]:
        """Removes the copy at `name` if the block fails. The name must not be in use."""
        if name in ("", ".", "..") or "/" in name or not name.isprintable():
            raise StagingFailed(f"{name!r} cannot be the name of a staged file.")
        with staging_errors(f"copying {name!r} to staging"):
            try:
                yield
            except FileExistsError:
                raise
            except BaseException:  # re-raised: half a copy must not be published
                with suppress(OSError):
                    remove(self._folder, name)
                raise
