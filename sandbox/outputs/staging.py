"""Where the outputs of containers are collected and published.

A container writes to a folder of its own (`area.open`, mounted by `mount`) and never to a workspace. When it is gone, the host
examines its output (`collect`) and puts all of it or nothing into the workspace (`publish`); a publication can be undone
(`undo`). Leaving the `with` block removes the rest. `area.recover()` at start cleans up after a crash.
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
from sandbox.outputs.layout import LockedFolder, StagingLayout, open_layout, staging_errors
from sandbox.outputs.publication import PublicationRequest, publish
from sandbox.outputs.store import (
    KeptPublication,
    Publication,
    Published,
    Recovery,
    Staged,
    StagingUsage,
    Transfer,
    Undone,
)
from sandbox.outputs.undo import Retention, kept, prune, recover, undo
from sandbox.template import STAGING_TARGET, Limits, Mount, SourceOf, host_source
from sandbox.workspace import RESERVED, Identity, Workspace, WorkspacePath, open_file, open_folder

_OUT = "out"
_DEFAULT_LIMITS = Limits()
_log = structlog.get_logger()


@dataclass(eq=False)
class StagingArea:
    """The outputs and the undo of one writable workspace. Safe to use from several threads and processes.

    Publishing renames files within the workspace's own file system, on this machine or in a volume that several machines mount.
    `run_in_background` runs work that a published call does not wait for, in any thread; `source` maps a folder to its mount source.
    """

    workspace: Workspace
    keep: Retention = field(default_factory=Retention)
    ops: DirOps = field(default_factory=DirOps)
    run_in_background: Callable[[Callable[[], None]], object] = lambda work: work()
    source: SourceOf = host_source

    def prepare(self) -> None:
        """Creates the store's own folder in the workspace, so that it can be masked. Raises StagingFailed if it is unsafe."""
        with self.layout():
            pass

    def replaces(self) -> bool:
        """True if the file system can swap two names atomically, determined by trying. If not, files cannot be replaced."""
        with staging_errors("trying to swap two names"), self.layout() as layout:
            try:
                layout.ops.require_exchange(layout.undo)
            except OutputRejected:
                return False
            return True

    def open(self, staging_id: str, user: tuple[int, int]) -> "Staging":
        """A new, empty folder for a container that runs as `user` (uid, gid). Raises StagingFailed."""
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
                            os.fchown(opened, *user)
                        out = os.dup(opened)
            except BaseException:
                with suppress(OSError):
                    remove(layout.staging, staging_id)
                locked.close()
                raise
        return Staging(self, staging_id, user, locked, out)

    def recover(self, *, discard: bool = True) -> tuple[Recovery, ...]:
        """Completes or reverts what dead processes left here. Call it once their containers are gone."""
        with self.layout() as layout:
            return recover(layout, discard=discard)

    def has_undo_entry(self, call_id: str) -> bool:
        """True if an undo entry of this id exists, damaged or not. Cheap."""
        return valid_id(call_id) and (self.workspace.root / RESERVED / "undo" / call_id).is_dir()

    def kept(self) -> tuple[KeptPublication, ...]:
        """The kept publications, undone ones included, newest first."""
        with staging_errors("reading the journals"), self.layout() as layout:
            return kept(layout)

    def undo(self, call_id: str) -> Undone:
        """Undoes a published call. Raises StagingFailed if it is unknown or a target has changed since."""
        with self.layout() as layout:
            return undo(layout, call_id)

    def prune(self) -> tuple[str, ...]:
        """Removes the oldest undo entries beyond the retention; returns their ids. Called after every publication."""
        with staging_errors("pruning undo"), self.layout() as layout:
            return prune(layout, self.keep)

    def prune_quietly(self) -> None:
        """Prunes in the background. What cannot be removed now is left for the next publication."""
        with suppress(SandboxError):
            self.prune()

    def layout(self) -> AbstractContextManager[StagingLayout]:
        return open_layout(self.workspace, self.ops)


@dataclass(eq=False)
class Staging(AbstractContextManager["Staging"]):
    """The output folder of one container. It lives until `discard`, or until its process dies and `recover` runs."""

    area: StagingArea
    staging_id: str
    user: tuple[int, int]
    _locked: LockedFolder | None
    _out: int
    _collected: dict[str, Staged] = field(default_factory=dict, init=False)

    @property
    def path(self) -> Path:
        """The path of the container's output folder for this process. It contains nothing of the host."""
        return self.area.workspace.root / RESERVED / "staging" / self.staging_id / _OUT

    @property
    def mount(self) -> Mount:
        return Mount(self.area.source(self.path), STAGING_TARGET, read_only=False)

    def usage(self, limits: Limits = _DEFAULT_LIMITS) -> StagingUsage:
        """The current usage by a running job. Stops counting beyond the limits. Unlinked open files only show in `disk_low`."""
        with staging_errors("measuring staging"):
            return replace(measure(self._folder, limits), disk_low=is_nearly_full(os.fstatvfs(self._folder)))

    def copy_in(
        self,
        located: WorkspacePath,
        name: str,
        limits: Limits = _DEFAULT_LIMITS,
        seen: Path | None = None,
        check_cancelled: Callable[[], object] = lambda: None,
    ) -> None:
        """Copies an existing file or folder in, owned by the container's user. Raises PathRefused, StagingFailed.

        `check_cancelled` is called between its parts; an exception from it ends the copy, and nothing of it stays.
        What is at `located` must still be what `located` says. Root copies only what the container's user could read in a
        container that shows `seen` as the workspace; without it, the workspace itself.
        """
        place = located if seen is None else replace(located, workspace=replace(located.workspace, root=seen))
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
        """Copies a file from another folder of the same store, to the same name. Raises StagingFailed, and like `copy_in`."""
        with self._copying(name), opened_file(other._folder, name) as source:  # noqa: SLF001 - of its own class
            copier = Copier(name, limits, self._other_user, trusted=True, check_cancelled=check_cancelled)
            copier.file(source, self._folder, name)

    def collect(self, limits: Limits = _DEFAULT_LIMITS) -> tuple[Staged, ...]:
        """The top-level entries that the job left, sorted by name, once its container is gone.

        Raises OutputRejected for any special file, hard link, unprintable name or excess over the limits.
        """
        with staging_errors("reading the outputs"):
            staged = collect(self._folder, limits)
        self._collected = {one.name: one for one in staged}
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

        `removes` are removed and `transfers` renamed with the same guarantee; there may be nothing else. For every
        folder among them `listings` has the `inspection.listing_of` from when the call was planned, by its path from
        the root; of a folder that is replaced it may. Raises OutputRejected or StagingFailed; the workspace is then as it was.
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
        """Removes the folder with its contents. Raises StagingFailed if it cannot, after at most a minute."""
        if self._locked is None:
            return
        locked, self._locked = self._locked, None
        with ExitStack() as held:
            held.callback(locked.close)
            held.callback(os.close, self._out)
            with (
                staging_errors("removing a staging folder"),
                self.area.layout() as layout,
                layout.ops.step("discard"),
            ):
                locked.remove(layout.staging)

    def __exit__(self, *_: object) -> None:
        try:
            self.discard()
        except StagingFailed as failure:  # left to `recover`; the call still gets its result
            _log.warning("staging_stays", staging=self.staging_id, reason=str(failure))

    @property
    def _folder(self) -> int:
        if self._locked is None:
            raise StagingFailed("this staging was discarded.")
        return self._out

    @property
    def _other_user(self) -> tuple[int, int] | None:
        """The container's user if it is not ours."""
        return self.user if os.geteuid() == 0 else None

    @contextmanager
    def _copying(self, name: str) -> Iterator[None]:
        """Removes the copy at a name, which must have been free, if anything fails."""
        if name in ("", ".", "..") or "/" in name or not name.isprintable():
            raise StagingFailed(f"{name!r} cannot be the name of a staged file.")
        with staging_errors(f"copying {name!r} to staging"):
            try:
                yield
            except FileExistsError:
                raise
            except BaseException:
                with suppress(OSError):
                    remove(self._folder, name)
                raise
