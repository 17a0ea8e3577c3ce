"""Finds the engine and the image, and lets no call run before this host has been attested."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import structlog

from gdal_mcp.runtime.cached import cached_attestation, compiled_program
from gdal_mcp.runtime.connection import Connection, Host
from gdal_mcp.runtime.image import ImageUnsuitable, resolve, suitable
from gdal_mcp.runtime.nested import HostPaths, prove
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.toolbox import Toolbox
from sandbox.attestation import attest, fingerprint
from sandbox.capacity import LockFileCapacity, machine_memory
from sandbox.engine import Engine
from sandbox.errors import AttestationFailed, CapacityExhausted, EngineUnavailable, SandboxError
from sandbox.escape.escape import try_to_escape
from sandbox.idmap import Views, sweep
from sandbox.isolation.rows import Row
from sandbox.labels import OWNER
from sandbox.mounted import ENTER, READ, check_traversable, mode_allows
from sandbox.outputs.staging import StagingArea
from sandbox.owner import Owner
from sandbox.pipes import Pipes, named_pipes
from sandbox.pool.lease import SlotKey
from sandbox.pool.pool import IDLE_MARGIN, WarmPool
from sandbox.pool.sizing import Sizes
from sandbox.portable import mount_table
from sandbox.program import delivered
from sandbox.reaper import reap
from sandbox.runner import Job, Runner
from sandbox.template import Limits, Mount, SandboxTemplate
from sandbox.waiting import Cancellation
from sandbox.workspace import RESERVED, Workspace, WorkspacePath, Workspaces

if TYPE_CHECKING:
    from sandbox.engines.opening import OpenedEngine, PassedOver

NOBODY = 65534
REAP_SECONDS = 5.0  # seconds that a set-up waits for the removal of dead servers' leftovers

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SandboxScope:
    workspaces: Workspaces
    limits: Limits
    # the mounted parts of the workspaces; None means the whole of each
    places: tuple[WorkspacePath, ...] | None = None

    @property
    def seen(self) -> tuple[WorkspacePath, ...]:
        if self.places is not None:
            return self.places
        return tuple(WorkspacePath(one, PurePosixPath(), is_folder=True) for one in self.workspaces.items)


class Hosting:
    """The hosts of all toolboxes, each with its own engine, image and pool. Safe to use from several threads."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of a server, which `app` alone puts together
        self,
        settings: Settings,
        workspaces: Workspaces,
        owner: Owner,
        areas: Mapping[Path, StagingArea],
        toolboxes: Sequence[Toolbox],
        paths: HostPaths,
        recover_staging: Callable[[], None],
    ) -> None:
        """`areas` are the staging areas of the writable workspaces, by their roots; each toolbox has an image of its own.

        `paths` tells them and this where their folders are for the engine. `recover_staging` removes what dead servers staged, once
        none of their Pods is left; it is asked for on a cluster alone.
        """
        self._settings = settings
        self._toolboxes = tuple(toolboxes)
        self._workspaces = workspaces
        self._confines = SandboxScope(workspaces, settings.limits())
        self._owner = owner
        self._areas = areas
        self._connections = {
            one.name: Connection(partial(self._set_up, one), self._is_there) for one in self._toolboxes
        }
        self._lock = threading.Lock()  # over the capacity, for assignments only
        self._capacity: LockFileCapacity | None = None
        self._warm = False
        self._mapped: set[Path] = set()  # roots of staging areas that containers were proven to see
        self._reaping = threading.Lock()
        self._unremoved: set[str] = set()
        self._pipes: dict[Path, Pipes] = {}  # named pipes of each workspace
        self._views = Views(settings.state_dir / "views", owner)
        self._recover_staging = recover_staging
        self._pods_left = True  # True if dead servers may have left containers
        self.paths = paths
        self.passed_over: tuple[PassedOver, ...] = ()  # engines that were tried before the one in use
        self._cancel = Cancellation()  # ends an attestation in progress when the server ends

    def ready(self, toolbox: Toolbox | None = None, *, fresh: bool = False) -> Host:
        """The host to run a toolbox on, by default the first. `fresh` ignores earlier attestations. Raises
        SandboxError.
        """
        return self._connections[(toolbox or self._toolboxes[0]).name].ready(fresh=fresh)

    def known_image(self) -> str:
        """The reference of the default toolbox's image if calls have run on it. Does not ask the host."""
        host = self._connections[self._toolboxes[0].name].host
        return host.image.reference if host else ""

    def keep_warm(self) -> None:
        """Starts to keep containers ready for calls. Raises SandboxError when this host cannot be used."""
        self._warm = True
        self.ready().pool.keep()

    def failed(self, host: Host) -> None:
        """Call it after a call on this host failed: if its engine or image is gone, the next call connects again."""
        self._owner.leaves_lock = (
            True  # an engine that stopped answering may have created a container without reporting it
        )
        _forget_trials()
        self._connections[host.toolbox.name].check(host)

    def invalidate(self, host: Host) -> None:
        """Notes that the engine or the image of this host is gone: the next call connects again."""
        self._owner.leaves_lock = True
        _forget_trials()
        self._connections[host.toolbox.name].drop(host)

    def _hosts(self) -> tuple[Host, ...]:
        hosts = (one.host for one in self._connections.values())
        return tuple(one for one in hosts if one is not None)

    def _pools(self) -> Iterable[WarmPool]:
        return [host.pool for host in self._hosts()]

    def reap(self) -> tuple[str, ...]:
        """Removes what dead servers left behind, if the engine was ever needed. Raises EngineUnavailable."""
        hosts = self._hosts()
        return self._reap(hosts[0].engine) if hosts else ()

    def _reap_for_a_while(self, engine: Engine) -> None:
        """Removes leftovers of dead servers for some time before the first call. A leftover that the engine does not
        remove delays nobody.
        """

        def until_done() -> None:
            try:
                self._reap(engine)
            except SandboxError as error:
                _log.info("not_reaped", reason=str(error))

        reaping = threading.Thread(target=until_done, name="reaping", daemon=True)
        reaping.start()
        reaping.join(REAP_SECONDS)

    def _reap(self, engine: Engine) -> tuple[str, ...]:
        if not self._reaping.acquire(blocking=False):
            return ()  # another thread is doing it, perhaps for long
        try:
            removed = reap(engine, self._owner, self._unremoved)
            self._unremoved.difference_update(removed)
            if engine.info().other_hosts and (removed or self._pods_left):
                owners = [one.labels.get(OWNER, "") for one in engine.leftovers()]
                # an owner without a name is another machine's server, which may be dead
                self._pods_left = any(not owner or self._owner.is_dead(owner) for owner in owners)
                if not self._pods_left:
                    self._recover_staging()
        finally:
            self._reaping.release()
        return removed

    def close(self) -> None:
        """Ends an attestation in progress. Returns when its container is gone."""
        self._cancel.set()
        closing = [threading.Thread(target=one.close, name="closing") for one in self._connections.values()]
        for one in closing:
            one.start()
        for one in closing:
            one.join()
        if self._unremoved:
            self._owner.leaves_lock = True
        with self._lock:
            if self._capacity is not None:
                self._capacity.close()
                self._capacity = None
        self._views.close()
        self._cancel.close()

    def _open(self, *, fresh: bool = False) -> "OpenedEngine":
        # imported here: the engine's client library takes a twentieth of the start, and the first answers do not need
        # it
        from sandbox.engines.opening import open_first  # noqa: PLC0415

        settings = self._settings
        return open_first(settings.engine, self._owner.id, settings.cluster_options(), fresh=fresh)

    def _is_there(self, host: Host) -> bool:
        """True if the engine answers as it did at set-up, and has the image. A failed container changes neither."""
        try:
            with closing(self._open().engine) as engine:
                return engine.info() == host.info and engine.images.find(host.image.id) is not None
        except SandboxError:
            return False

    def _set_up(self, toolbox: Toolbox, fresh: bool) -> Host:  # noqa: FBT001 - of a function that is passed on
        self._pipes = {}
        with ExitStack() as held:
            opened = self._open(fresh=fresh)  # its engine may hold connections, and a thread
            held.callback(opened.engine.close)
            self.passed_over = opened.passed_over
            for one in opened.passed_over:
                if not one.absent:
                    _log.info("engine_passed_over", engine=one.candidate, reason=one.reason)
            try:
                host = self._host_on(opened.engine, toolbox, held, fresh=fresh)
            except EngineUnavailable:
                _forget_trials()
                raise
            held.pop_all()
        return host

    def _host_on(self, engine: Engine, toolbox: Toolbox, opened: ExitStack, *, fresh: bool) -> Host:
        # the configured image is that of the first toolbox, on which other images are built
        named = toolbox is self._toolboxes[0] or toolbox.image.base is not None
        image = resolve(engine.images, toolbox.image, self._settings.image if named else None)
        info = engine.info()
        self.paths.ask(engine)
        # memory of the engine's machine; if it is not reported, the engine runs on this one
        memory = info.memory_bytes or machine_memory().get("MemTotal", 0)
        runner = Runner(engine, self._owner.id, self._shared_capacity(memory), self._unremoved)
        sweep(self._settings.state_dir / "views", self._owner)
        self._reap_for_a_while(engine)
        runtime = self._settings.runtime
        # a cluster itself refuses what it does not have
        if runtime and not info.other_hosts and runtime not in info.runtimes:
            raise AttestationFailed(
                f"runtime {runtime!r} is asked for, but this engine has {', '.join(info.runtimes)}. Install it, or leave the "
                "setting out."
            )
        # a waiting container does not see later mounts; without a mount table no container waits
        none = Sizes(0, 0, self._settings.pool_seconds)
        sizes = self._settings.sizes() if mount_table() is not None else none
        pool = WarmPool(runner, sizes, lambda: self._standing(host), self._pools)
        opened.callback(pool.close)
        concurrent = capacity(
            info.cpus or os.cpu_count() or 1,
            memory,
            self._settings.limits(),
            self._settings.memory_share,
            self._settings.concurrent,
        )
        command = toolbox.execution.program(self._settings.pool_seconds + IDLE_MARGIN)
        host = Host(engine, info, runner, pool, concurrent, toolbox, image, delivered(command))
        proven: tuple[Row, ...] = ()
        if self.paths.map.pairs:
            # in every process, and first: mounts may change, and with a wrong map all other checks are wrong
            areas = tuple(area for root, area in self._areas.items() if not self._is_of_state(root))
            proven = prove(runner, self.template(host, None), areas, self._cancel)
            self._mapped = {root for root in self._areas if not self._is_of_state(root)}
        attested = (*proven, *self._attested(host, fresh=fresh))
        if not image.version:
            image = suitable(replace(image, version=self._asked_version(host)), toolbox.image)
        if reason := toolbox.execution.incompatible(image.version):
            raise ImageUnsuitable(reason)
        path = self._settings.state_dir / f"program-{toolbox.name}"
        program = compiled_program(runner, self.template(host, None), command, path, self._cancel)
        host = replace(host, image=image, attested=attested, program=program)
        if self._warm:
            pool.keep()
        return host

    def _shared_capacity(self, memory_bytes: int) -> LockFileCapacity:
        """The memory for all containers together, of all toolboxes."""
        total = int(memory_bytes * self._settings.memory_share)
        with self._lock:
            if self._capacity is None:
                self._capacity = LockFileCapacity(self._settings.state_dir / "memory", total)
            self._capacity.total_bytes = total
            return self._capacity

    def _standing(self, host: Host) -> tuple[SlotKey, ...]:
        """The kinds that are kept ready before any call: one that reads, and one that writes to the first workspace."""
        nothing = replace(self._confines, places=()) if host.toolbox.analysis.only_inputs else None
        template = self.template(host, None, nothing)
        writable = [] if self._settings.read_only else [*self._areas.values()][:1]
        return tuple(SlotKey(template, area) for area in (None, *writable))

    def kind(self, host: Host, home: Path | None, scope: SandboxScope | None = None) -> SlotKey:
        """The containers for calls that write to the workspace at `home`, or for those that only read.

        Raises AttestationFailed for a folder that the engine cannot mount.
        """
        if home is not None and self.paths.map.pairs and home not in self._mapped:
            prove(host.runner, self.template(host, None), (self._areas[home],), self._cancel)
            self._mapped.add(home)
        return SlotKey(self.template(host, None, scope), self._areas[home] if home is not None else None)

    def _is_of_state(self, root: Path) -> bool:
        """True for the results of workflows' steps: the state of a server in a container need not be where the engine can mount it."""
        return root.is_relative_to(self._settings.state_dir)

    def _asked_version(self, host: Host) -> str:
        """The version that the library itself reports, from a container of an image whose labels do not have it."""
        toolbox, found = host.toolbox, ""
        if toolbox.execution.version_request is not None:
            job = Job(
                f"version-{self._owner.id}", self.template(host, None), toolbox.execution.version_request
            )
            final = host.runner.run(job, self._cancel).final or {}
            found = toolbox.image.version({}, f":{toolbox.execution.tool_version(final)}")
        if not found:
            raise ImageUnsuitable(
                f"the version of {toolbox.title} in {host.image.reference} cannot be told. Use another image."
            )
        return found

    def template(
        self, host: Host, staging: Mount | None, scope: SandboxScope | None = None
    ) -> SandboxTemplate:
        """The container of a call. `staging` is the folder that it may write to, if any. The default scope is all of
        the server's.
        """
        scope = scope or self._confines
        user = self.user()
        return SandboxTemplate(
            image=host.image.id,
            command=host.program.command,
            program=host.program.program,
            user=user,
            limits=scope.limits,
            mounts=(*(self._mount(one, user) for one in scope.seen), *([staging] if staging else [])),
            masks=tuple(self._covered(one.path for one in scope.seen if not one.relative.parts)),
            pipes=tuple(self._pipes_in(scope)) if host.info.covers_paths else (),
            environment=host.toolbox.execution.environment(scope.limits, host.image.digest),
            runtime=self._settings.runtime,
            nodes_without=self._settings.nodes_without,
        )

    def _covered(self, roots: Iterable[Path]) -> Iterator[PurePosixPath]:
        """The server's own folder in each workspace that has one, or gets one when a call writes there. Raises
        StagingFailed.
        """
        for root in roots:
            own, area = root / RESERVED, self._areas.get(root)
            there = own.is_dir() and not own.is_symlink()
            if not there and area is not None:
                area.prepare()
            if there or area is not None:
                yield PurePosixPath(own)

    def _pipes_in(self, scope: SandboxScope) -> Iterator[PurePosixPath]:
        """The named pipes in what a container sees that were found and still exist."""
        for seen in scope.seen:
            for pipe in self.named_pipes(seen.workspace.root).paths:
                if Path(pipe).is_relative_to(seen.path) and Path(pipe).is_fifo():
                    yield PurePosixPath(pipe)

    def covers_paths(self) -> bool | None:
        """True if the engine of the default toolbox covers named pipes; None if it is not known yet."""
        host = self._connections[self._toolboxes[0].name].host
        return host.info.covers_paths if host else None

    def named_pipes(self, root: Path) -> Pipes:
        """The named pipes in a workspace, as found when the host was last set up."""
        if root not in self._pipes:
            self._pipes[root] = named_pipes(root)
        return self._pipes[root]

    def _mount(self, located: WorkspacePath, user: tuple[int, int]) -> Mount:
        """A read-only mount at its own path. For a path that was resolved by itself, the container must find the same
        inode.
        """
        source = self.seen(located.workspace.root)
        if os.geteuid() == 0:
            check_traversable(source, located, user)
        identity = located.identity
        told = (identity.device, identity.inode) if identity is not None else None
        return Mount(self.paths(source / located.relative), PurePosixPath(located.path), identity=told)

    def seen(self, root: Path) -> Path:
        """The path that containers mount for the workspace at `root`: its own, or that of a view.

        Raises AttestationFailed for a view that the engine could not see.
        """
        source = self._views.source(root, self.user())
        if self.paths.map.pairs and source != root:
            raise AttestationFailed(
                f"the workspace {root} belongs to root and is closed to others. A server in a container cannot open it to "
                f"the calls' user, as its engine does not see what is mounted here. On the host: chmod o+rx {root}, or give "
                "it to a user that is not root."
            )
        return source

    def try_to_escape(self) -> tuple[Row, ...]:
        """The attempts to escape from a container like a call's, and their results. Raises SandboxError."""
        host = self.ready()
        with self._staging_area().open(f"escape-{self._owner.id}", self.user()) as staging:
            template = self.template(host, staging.mount)
            return try_to_escape(host.runner, template, host.attested, self._cancel)

    def user(self) -> tuple[int, int]:
        """The user of containers, never root: this process's ids, or those of the first workspace's owner if this
        process is root.
        """
        uid, gid = os.geteuid(), os.getegid()
        if uid == 0:
            workspaces = self._workspaces.items
            owner = next((one for one in workspaces if one.writable), workspaces[0]).root.stat()
            uid, gid = owner.st_uid, owner.st_gid
        return (uid or NOBODY, gid or NOBODY)

    def readable(self, root: Path) -> bool:
        """True if the container's user may list and enter a workspace."""
        user = self.user()
        return mode_allows(self._views.source(root, user).stat(), user, READ | ENTER)

    def _staging_area(self) -> StagingArea:
        """The staging area of a writable workspace, or one in the state folder if there is none."""
        own = StagingArea(Workspace(self._settings.state_dir, writable=True), source=self.paths)
        return next(iter(self._areas.values()), own)

    def _attested(self, host: Host, *, fresh: bool) -> tuple[Row, ...]:
        template = self.template(host, None)
        depends_on = [  # a change of any of these values starts a new attestation
            {**asdict(host.info), "rlimits": sorted(host.info.rlimits)},
            template.image,
            template.user,
            asdict(template.limits),
            template.runtime,
            template.nodes_without,
            [str(mount.target) for mount in template.mounts],
            dict(template.environment),
            fingerprint(),
            [tuple(map(str, pair)) for pair in self.paths.map.pairs],
        ]

        def prove() -> tuple[Row, ...]:
            host.engine.images.check(host.image.id)
            if self.paths.map.pairs and not self._areas:
                # no container of this server may write, and its state may be where the engine cannot mount it
                return attest(host.runner, template, None, self._cancel)
            with self._staging_area().open(f"attest-{self._owner.id}", self.user()) as staging:
                return attest(host.runner, self.template(host, staging.mount), staging.path, self._cancel)

        path = self._settings.state_dir / f"attestation-{host.toolbox.name}.json"
        return cached_attestation(path, depends_on, prove, fresh=fresh)


def _forget_trials() -> None:
    """Forgets passed trials: an engine that passed its trial does not work now, so every candidate is tried again."""
    from sandbox.engines.trial import forget_results  # noqa: PLC0415 - loaded with the engine

    forget_results()


CALLS_PER_CPU = 2  # more calls would not be faster


def capacity(cpus: int, memory_bytes: int, limits: Limits, share: float, concurrent: int = 0) -> int:
    """How many calls may run at once on a machine, by its processors and by the share of its memory for containers.

    `concurrent` replaces the number by processors; memory limits that too. Raises CapacityExhausted if not even one
    fits.
    """
    usable = int(memory_bytes * share)
    fitting = usable // limits.memory_bytes
    if fitting < 1:
        raise CapacityExhausted(
            f"one call may use {limits.memory_bytes >> 20} MiB of memory, but all of them together only {usable >> 20} MiB, "
            f"which is {share:.0%} of this machine's. Lower --memory, or raise --memory-share."
        )
    return min(fitting, concurrent or CALLS_PER_CPU * max(cpus, 1))
