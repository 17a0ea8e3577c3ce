"""A private output folder for each container, and what may be done with what it holds.

Use: `area.open(...)` before the container is made, and mount `mount`; when the container is gone
`collect`, then `publish`. Leaving the `with` block removes whatever is still there. `area.recover()` at start
puts right what a crash left.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType, TracebackType
from typing import Self

import structlog

from sandbox.errors import OutputRejected, SandboxError, StagingFailed
from sandbox.mounted import refuse_closed
from sandbox.outputs.copying import Copier
from sandbox.outputs.filetree import measure, opened_file, opened_folder, remove
from sandbox.outputs.inspection import collect
from sandbox.outputs.journal import Record, State, valid_id
from sandbox.outputs.layout import Ground, Held, failing, ground
from sandbox.outputs.moves import Moves
from sandbox.outputs.publication import Request, publish
from sandbox.outputs.store import (
    KeptPublication,
    Publication,
    Published,
    PublishedFile,
    Recovery,
    Staged,
    StagingUsage,
    Transfer,
    Undone,
)
from sandbox.outputs.undo import Retention, finished, prune, recover, undo
from sandbox.template import STAGING_TARGET, Limits, Mount, SourceOf, host_source
from sandbox.workspace import RESERVED, Identity, Located, Workspace, open_file, open_folder

_OUT = "out"
_DEFAULT_LIMITS = Limits()
_log = structlog.get_logger()
_NO_LISTINGS: Mapping[PurePosixPath, str] = MappingProxyType({})


def _at_once(work: Callable[[], None]) -> None:
    work()


# of the disk that staging lies on, never taken by a job: a server writes its records with it, a person logs in
_RESERVE_BYTES = 256 << 20
_RESERVE_PARTS = 50  # a small disk keeps one part in so many


class StagingArea:
    """The staging and undo of one writable workspace. Safe to use from several threads and processes."""

    def __init__(
        self,
        workspace: Workspace,
        keep: Retention | None = None,
        moves: Moves | None = None,
        later: Callable[[Callable[[], None]], object] = _at_once,
        source: SourceOf = host_source,
    ) -> None:
        """`later` is given work that a published call need not wait for, and has it done soon, by any thread. `source` says
        what the engine mounts for a folder of ours.
        """
        self.workspace = workspace
        self.later = later
        self.source = source
        self.keep = keep or Retention()
        self.moves = moves or Moves()

    def prepare(self) -> None:
        """Makes `.gdal-mcp`, so that it is there to be masked. Raises StagingFailed where it is not safe."""
        with ground(self.workspace, self.moves):
            pass

    def open(self, staging_id: str, user: tuple[int, int]) -> "Staging":
        """A new staging folder for a container that runs as `user` (uid, gid). Raises StagingFailed."""
        if not valid_id(staging_id):
            raise StagingFailed(f"{staging_id!r} is not an id: 8 to 64 letters, digits, '-' and '_'.")
        _refuse_user(user)
        with failing("making a staging folder"), ground(self.workspace, self.moves) as here:
            try:
                held = here.make(here.staging, staging_id, "open")
            except FileExistsError as error:
                raise StagingFailed(f"staging {staging_id} exists; every container needs its own.") from error
            try:
                out = _make_out(here, held, user)
            except BaseException:
                with suppress(OSError):
                    remove(here.staging, staging_id)
                held.close()
                raise
        return Staging(self, staging_id, user, held, out)

    def recover(self) -> tuple[Recovery, ...]:
        """Finishes or takes back what dead processes left here; call it once their containers are gone."""
        with ground(self.workspace, self.moves) as here:
            return recover(here)

    def undo(self, call_id: str) -> Undone:
        """Takes a published call back. Raises StagingFailed when it is unknown or a target changed since."""
        with ground(self.workspace, self.moves) as here:
            return undo(here, call_id)

    def remembers(self, call_id: str) -> bool:
        return valid_id(call_id) and (self.workspace.root / RESERVED / "undo" / call_id).is_dir()

    def kept(self) -> tuple[KeptPublication, ...]:
        with failing("reading the journals"), ground(self.workspace, self.moves) as here:
            return tuple(_kept(self.workspace, record) for record in finished(here))

    def prune(self) -> tuple[str, ...]:
        """Forgets the oldest calls beyond what is kept; returns their ids. Done after every publication."""
        with failing("pruning undo"), ground(self.workspace, self.moves) as here:
            return prune(here, self.keep)

    def prune_quietly(self) -> None:
        """The same for nobody who waits: what cannot be forgotten now is left to the next publication."""
        with suppress(SandboxError):
            self.prune()


class Staging:
    """One open staging folder. It lives until `discard`, or until its process dies and `recover` runs."""

    def __init__(
        self, area: StagingArea, staging_id: str, user: tuple[int, int], held: Held, out: int
    ) -> None:
        self.area = area
        self.staging_id = staging_id
        self.user = user
        self._held: Held | None = held
        self._out = out
        self._collected: dict[str, Staged] = {}

    @property
    def path(self) -> Path:
        """Where this process sees the folder that the container writes to. Nothing of the host is in it."""
        return self.area.workspace.root / RESERVED / "staging" / self.staging_id / _OUT

    @property
    def mount(self) -> Mount:
        """How the container sees it: read-write, at `STAGING_TARGET`."""
        return Mount(self.area.source(self.path), STAGING_TARGET, read_only=False)

    def usage(self, limits: Limits = _DEFAULT_LIMITS) -> StagingUsage:
        """What is in it right now; the count ends early over the limits. Meant for a job that is running.

        Not counted: what a job keeps open after unlinking it. It shows only in what is left of the disk.
        """
        with failing("measuring staging"):
            return replace(measure(self._folder, limits), disk_low=is_low(os.fstatvfs(self._folder)))

    def copy_in(
        self, located: Located, name: str, limits: Limits = _DEFAULT_LIMITS, seen: Path | None = None
    ) -> None:
        """Copies an existing file or folder in, owned by the container's user. Raises PathRefused, StagingFailed.

        What is at `located` must still be what `located` says. Root copies only what the container's user could read in a
        container that shows `seen` as the workspace; without it, the workspace itself. Holes stay holes; blocks are shared
        where the file system can.
        """
        place = located if seen is None else replace(located, workspace=replace(located.workspace, root=seen))
        user = self._other_user
        opened = open_folder(place.workspace, place.relative) if located.is_folder else open_file(place)
        with self._copying(name), opened as source:
            _refuse_changed(source, located)
            if user is not None:
                refuse_closed(place.workspace.root, place, user)
            copier = Copier(located.name, limits, owner=user, reader=user)
            (copier.folder if located.is_folder else copier.file)(source, self._folder, name)

    def copy_from(self, other: "Staging", name: str, limits: Limits = _DEFAULT_LIMITS) -> None:
        """Copies a file that lies in another open staging folder, to the same name. Raises StagingFailed."""
        with self._copying(name), opened_file(other._folder, name) as source:  # noqa: SLF001 - of its own class
            Copier(name, limits, owner=self._other_user).file(source, self._folder, name)

    def collect(self, limits: Limits = _DEFAULT_LIMITS) -> tuple[Staged, ...]:
        """The top-level entries that the job left, once its container is gone. Raises OutputRejected.

        Anything that is not a folder or a regular file with one name, any name that cannot be printed, and
        any excess over the limits refuses the whole.
        """
        with failing("reading the outputs"):
            staged = collect(self._folder, limits)
        self._collected = {one.name: one for one in staged}
        return staged

    def publish(
        self,
        call_id: str,
        publications: Sequence[Publication],
        removes: Sequence[Located] = (),
        transfers: Sequence[Transfer] = (),
        listings: Mapping[PurePosixPath, str] = _NO_LISTINGS,
    ) -> Published:
        """Publishes collected entries, all or none, and keeps what they replace for undo under `call_id`.

        `removes` is taken away and `transfers` renamed with the same promise; there may be nothing else. Of every
        folder among them `listings` has the `outputs.listing_of` from when the call was planned, by its place from
        the root; of a folder that is replaced it may. Raises OutputRejected or StagingFailed; the workspace is then as it was.
        """
        area = self.area
        wanted = tuple(publications), tuple(removes), tuple(transfers)
        request = Request(call_id, self.staging_id, self._folder, self._collected, *wanted, listings)
        with ground(area.workspace, area.moves) as here:
            published = publish(here, request)
        with suppress(RuntimeError):  # nobody does such work any more; a later publication prunes again
            area.later(area.prune_quietly)
        return published

    def discard(self) -> None:
        """Removes the folder with all that is in it. Raises StagingFailed if it cannot within a minute; `recover` may later."""
        if self._held is None:
            return
        held, self._held = self._held, None
        try:
            area = self.area
            with failing("removing a staging folder"), ground(area.workspace, area.moves) as here:
                self._remove(here)
        finally:
            os.close(self._out)
            held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.discard()
        except (
            StagingFailed
        ) as failure:  # rubbish is left to `recover`, and what became of the call is told all the same
            _log.warning("staging_stays", staging=self.staging_id, reason=str(failure))

    def _remove(self, here: Ground) -> None:
        with here.moves.step("discard"):
            remove(here.staging, self.staging_id)

    @property
    def _folder(self) -> int:
        if self._held is None:
            raise StagingFailed("this staging was discarded.")
        return self._out

    @property
    def _other_user(self) -> tuple[int, int] | None:
        """The container's user where it is not ours."""
        return self.user if os.geteuid() == 0 else None

    @contextmanager
    def _copying(self, name: str) -> Iterator[None]:
        """Whatever fails, nothing stays of what was copied to the name, which nothing may have had."""
        if name in ("", ".", "..") or "/" in name or not name.isprintable():
            raise StagingFailed(f"{name!r} cannot be the name of a staged file.")
        with failing(f"copying {name!r} to staging"):
            try:
                yield
            except FileExistsError:
                raise
            except BaseException:
                with suppress(OSError):
                    remove(self._folder, name)
                raise


def _kept(workspace: Workspace, record: Record) -> KeptPublication:
    folders = {step.target for step in record.steps if step.new is not None and step.new.is_folder}
    files = tuple(
        PublishedFile(Located(workspace, one.target, is_folder=one.target in folders), one.size, one.sha256)
        for one in record.contents
    )
    return KeptPublication(record.call_id, record.state is State.UNDONE, files)


def _make_out(here: Ground, held: Held, user: tuple[int, int]) -> int:
    with here.moves.step("open.out"):
        os.mkdir(_OUT, 0o700, dir_fd=held.folder)
        with opened_folder(held.folder, _OUT) as out:
            if os.geteuid() == 0:
                os.fchown(out, *user)
            return os.dup(out)


def _refuse_user(user: tuple[int, int]) -> None:
    own = os.geteuid()
    if 0 in user:
        raise StagingFailed("a container never runs as root; give the ids of the workspace's owner.")
    if own not in (0, user[0]):
        raise StagingFailed(f"the container would run as user {user[0]}; only user {own} could write here.")


def _refuse_changed(source: int, located: Located) -> None:
    if Identity.of(os.fstat(source)) != located.identity:
        raise OutputRejected(f"{located} was changed since the call was planned. Plan the call again.")


def is_low(disk: os.statvfs_result) -> bool:
    """Whether less is left of a disk than what no job may take."""
    reserve = min(_RESERVE_BYTES, disk.f_blocks * disk.f_frsize // _RESERVE_PARTS)
    return disk.f_bavail * disk.f_frsize < reserve
