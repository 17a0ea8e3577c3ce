"""Finds the engine and the image, and lets no call run before this host has been attested."""

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from gdal_mcp.runtime.cached import cached_attestation, compiled_program
from gdal_mcp.runtime.concurrency import concurrent_calls
from gdal_mcp.runtime.connection import Connection, Host
from gdal_mcp.runtime.image import Image, ImageUnsuitable, resolve, suitable
from gdal_mcp.runtime.leftovers import Leftovers
from gdal_mcp.runtime.nested import HostPaths, prove
from gdal_mcp.runtime.templates import SandboxScope, Templates
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.toolbox import Toolbox
from sandbox.attestation import attest, fingerprint
from sandbox.capacity import LockFileCapacity, machine_memory
from sandbox.engine import Engine, EngineInfo
from sandbox.errors import AttestationFailed, EngineUnavailable, SandboxError
from sandbox.escape.escape import try_to_escape
from sandbox.isolation.rows import Row
from sandbox.outputs.staging import StagingArea
from sandbox.owner import Owner
from sandbox.pool.lease import SlotKey
from sandbox.pool.pool import IDLE_MARGIN, WarmPool
from sandbox.pool.sizing import Sizes
from sandbox.portable import mount_table
from sandbox.program import delivered
from sandbox.runner import Job, Runner
from sandbox.waiting import Cancellation
from sandbox.workspace import Workspace, Workspaces

if TYPE_CHECKING:
    from sandbox.engines.opening import OpenedEngine, RejectedCandidate

_log = structlog.get_logger()


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
        """`areas` maps the roots of the writable workspaces to their staging areas; each toolbox has an image of its
        own.

        `paths` maps folders to those of the engine. `recover_staging` removes what dead servers staged; on a cluster
        it is called after the last of their Pods is gone.
        """
        self._settings = settings
        self._toolboxes = tuple(toolboxes)
        self._workspaces = workspaces
        self._owner = owner
        self._areas = areas
        self._connections = {
            toolbox.name: Connection(partial(self._set_up, toolbox), self._is_there)
            for toolbox in self._toolboxes
        }
        self._lock = threading.Lock()  # protects the capacity; held only for assignments
        self._capacity: LockFileCapacity | None = None
        self._warm = False
        self._mapped: set[Path] = set()  # roots of staging areas that containers were proven to see
        self._cancel = Cancellation()  # ends an attestation in progress when the server ends
        self._leftovers = Leftovers(owner, recover_staging, self._cancel)
        self.templates = Templates(settings, workspaces, owner, areas, paths)
        self.paths = paths
        self.passed_over: tuple[RejectedCandidate, ...] = ()  # engines that were tried before the one in use

    def ready(self, toolbox: Toolbox | None = None, *, fresh: bool = False) -> Host:
        """The host to run a toolbox on, by default the first. `fresh` ignores earlier attestations. Raises
        SandboxError.
        """
        return self._connections[(toolbox or self._toolboxes[0]).name].ready(fresh=fresh)

    def known_image(self) -> str:
        """The reference of the default toolbox's image if calls have run on it. Does not contact the engine."""
        host = self._connections[self._toolboxes[0].name].host
        return host.image.reference if host else ""

    def keep_warm(self) -> None:
        """Starts to keep containers ready for calls. Raises SandboxError when this host cannot be used."""
        self._warm = True
        self.ready().pool.keep()

    def failed(self, host: Host) -> None:
        """Reports that a call on this host failed: if its engine or image is gone, the next call connects again."""
        self._owner.leaves_lock = (
            True  # an engine that stopped answering may have created a container without reporting it
        )
        _forget_trials()
        self._connections[host.toolbox.name].check(host)

    def invalidate(self, host: Host) -> None:
        """Reports that the engine or the image of this host is gone: the next call connects again."""
        self._owner.leaves_lock = True
        _forget_trials()
        self._connections[host.toolbox.name].drop(host)

    def _hosts(self) -> tuple[Host, ...]:
        hosts = (connection.host for connection in self._connections.values())
        return tuple(host for host in hosts if host is not None)

    def _pools(self) -> Iterable[WarmPool]:
        return [host.pool for host in self._hosts()]

    def reap(self) -> tuple[str, ...]:
        """Removes what dead servers left behind, if the engine was ever needed. Raises EngineUnavailable."""
        hosts = self._hosts()
        return self._leftovers.remove(hosts[0].engine) if hosts else ()

    def close(self) -> None:
        """Ends an attestation in progress. Returns when its container is gone."""
        self._cancel.set()
        closing = [
            threading.Thread(target=connection.close, name="closing")
            for connection in self._connections.values()
        ]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()
        if self._leftovers.unremoved:
            self._owner.leaves_lock = True
        with self._lock:
            if self._capacity is not None:
                self._capacity.close()
                self._capacity = None
        self.templates.close()
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
        with ExitStack() as stack:
            opened = self._open(fresh=fresh)  # its engine may hold connections, and a thread
            stack.callback(opened.engine.close)
            self.passed_over = opened.passed_over
            for skipped in opened.passed_over:
                if not skipped.absent:
                    _log.info("engine_passed_over", engine=skipped.candidate, reason=skipped.reason)
            try:
                host = self._host_on(opened.engine, toolbox, stack, fresh=fresh)
            except EngineUnavailable:
                _forget_trials()
                raise
            stack.pop_all()
        return host

    def _host_on(self, engine: Engine, toolbox: Toolbox, opened: ExitStack, *, fresh: bool) -> Host:
        # the configured image is that of the first toolbox, on which other images are built
        named = toolbox is self._toolboxes[0] or toolbox.image.base is not None
        image = resolve(engine.images, toolbox.image, self._settings.image if named else None)
        info = engine.info()
        self.paths.ask(engine)
        # memory of the engine's machine; if it is not reported, the engine runs on this one
        memory = info.memory_bytes or machine_memory().get("MemTotal", 0)
        runner = Runner(engine, self._owner.id, self._shared_capacity(memory), self._leftovers.unremoved)
        self.templates.renew()
        self._leftovers.remove_for_a_while(engine)
        self._require_runtime(info)
        pool = WarmPool(runner, self._pool_sizes(), lambda: self._waiting_kinds(host), self._pools)
        opened.callback(pool.close)
        concurrent = concurrent_calls(
            info.cpus or os.cpu_count() or 1,
            memory,
            self._settings.limits(),
            self._settings.memory_share,
            self._settings.concurrent,
        )
        command = toolbox.execution.program(self._settings.pool_seconds + IDLE_MARGIN)
        host = Host(engine, info, runner, pool, concurrent, toolbox, image, delivered(command))
        # first, and in every process: mounts may change, and with a wrong map all other checks are wrong
        proven = self._prove_map(host)
        host = replace(host, attested=(*proven, *self._attested(host, fresh=fresh)))
        host = replace(host, image=self._require_version(host))
        path = self._settings.state_dir / f"program-{toolbox.name}"
        program = compiled_program(runner, self.templates.build(host, None), command, path, self._cancel)
        host = replace(host, program=program)
        if self._warm:
            pool.keep()
        return host

    def _require_runtime(self, info: EngineInfo) -> None:
        """Raises AttestationFailed if the engine lacks the runtime of the settings. A cluster itself refuses an
        unknown runtime.
        """
        runtime = self._settings.runtime
        if runtime and not info.other_hosts and runtime not in info.runtimes:
            raise AttestationFailed(
                f"the settings ask for runtime {runtime!r}, but this engine has {', '.join(info.runtimes)}. Install it, or "
                "remove the setting."
            )

    def _pool_sizes(self) -> Sizes:
        """The sizes of the pool.

        Without a mount table, no container waits, because a waiting container does not see later mounts.
        """
        return (
            self._settings.sizes() if mount_table() is not None else Sizes(0, 0, self._settings.pool_seconds)
        )

    def _prove_map(self, host: Host) -> tuple[Row, ...]:
        """Proves that containers see this server's folders through the path map. Empty without a map."""
        if not self.paths.map.pairs:
            return ()
        areas = {root: area for root, area in self._areas.items() if not self._is_in_state(root)}
        rows = prove(host.runner, self.templates.build(host, None), tuple(areas.values()), self._cancel)
        self._mapped = set(areas)
        return rows

    def _require_version(self, host: Host) -> Image:
        """The image with its version. Raises ImageUnsuitable if it is unknown, or not one that the toolbox can use."""
        image = host.image
        if not image.version:
            image = suitable(replace(image, version=self._request_version(host)), host.toolbox.image)
        if reason := host.toolbox.execution.incompatible(image.version):
            raise ImageUnsuitable(reason)
        return image

    def _shared_capacity(self, memory_bytes: int) -> LockFileCapacity:
        """The memory for all containers together, of all toolboxes."""
        total = int(memory_bytes * self._settings.memory_share)
        with self._lock:
            if self._capacity is None:
                self._capacity = LockFileCapacity(self._settings.state_dir / "memory", total)
            self._capacity.total_bytes = total
            return self._capacity

    def _waiting_kinds(self, host: Host) -> tuple[SlotKey, ...]:
        """The kinds of containers kept ready before any call: one that reads, and one that writes to the first
        workspace.
        """
        scope = (
            SandboxScope(self._workspaces, self._settings.limits(), ())
            if host.toolbox.analysis.only_inputs
            else None
        )
        template = self.templates.build(host, None, scope)
        writable = [] if self._settings.read_only else [*self._areas.values()][:1]
        return tuple(SlotKey(template, area) for area in (None, *writable))

    def kind(self, host: Host, home: Path | None, scope: SandboxScope | None = None) -> SlotKey:
        """The containers for calls that write to the workspace at `home`, or for those that only read.

        Raises AttestationFailed for a folder that the engine cannot mount.
        """
        if home is not None and self.paths.map.pairs and home not in self._mapped:
            prove(host.runner, self.templates.build(host, None), (self._areas[home],), self._cancel)
            self._mapped.add(home)
        return SlotKey(
            self.templates.build(host, None, scope), self._areas[home] if home is not None else None
        )

    def _is_in_state(self, root: Path) -> bool:
        """True if a folder is in the server's state, such as the results of workflow steps.

        If the server runs in a container, the engine may be unable to mount its state.
        """
        return root.is_relative_to(self._settings.state_dir)

    def _request_version(self, host: Host) -> str:
        """The version that the library itself reports, from a container of an image whose labels do not have it."""
        toolbox, version = host.toolbox, ""
        if toolbox.execution.version_request is not None:
            job = Job(
                f"version-{self._owner.id}",
                self.templates.build(host, None),
                toolbox.execution.version_request,
            )
            final = host.runner.run(job, self._cancel).final or {}
            version = toolbox.image.version({}, f":{toolbox.execution.tool_version(final)}")
        if not version:
            raise ImageUnsuitable(
                f"the version of {toolbox.title} in {host.image.reference} is unknown. Use another image."
            )
        return version

    def covers_paths(self) -> bool | None:
        """True if the engine of the default toolbox covers named pipes; None if it is not known yet."""
        host = self._connections[self._toolboxes[0].name].host
        return host.info.covers_paths if host else None

    def try_to_escape(self) -> tuple[Row, ...]:
        """The attempts to escape from a container like a call's, and their results. Raises SandboxError."""
        host = self.ready()
        with self._staging_area().open(f"escape-{self._owner.id}", self.templates.user()) as staging:
            template = self.templates.build(host, staging.mount)
            return try_to_escape(host.runner, template, host.attested, self._cancel)

    def _staging_area(self) -> StagingArea:
        """The staging area of a writable workspace, or one in the state folder if there is none."""
        own = StagingArea(Workspace(self._settings.state_dir, writable=True), source=self.paths)
        return next(iter(self._areas.values()), own)

    def _attested(self, host: Host, *, fresh: bool) -> tuple[Row, ...]:
        template = self.templates.build(host, None)
        depends_on = [  # a change of any of these values starts a new attestation
            asdict(host.info),
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
        path = self._settings.state_dir / f"attestation-{host.toolbox.name}.json"
        return cached_attestation(path, depends_on, lambda: self._attest(host), fresh=fresh)

    def _attest(self, host: Host) -> tuple[Row, ...]:
        host.engine.images.check(host.image.id)
        if self.paths.map.pairs and not self._areas:
            # no container of this server may write, and the engine may be unable to mount its state
            return attest(host.runner, self.templates.build(host, None), None, self._cancel)
        with self._staging_area().open(f"attest-{self._owner.id}", self.templates.user()) as staging:
            return attest(host.runner, self.templates.build(host, staging.mount), staging.path, self._cancel)


def _forget_trials() -> None:
    """Forgets passed trials: an engine that passed its trial does not work now, so every candidate is tried again."""
    from sandbox.engines.trial import forget_results  # noqa: PLC0415 - loaded with the engine

    forget_results()
