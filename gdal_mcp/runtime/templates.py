"""The containers of calls: the parts of the workspaces that they see, their user, and their limits.

Every folder is mounted at its own path. The server's own folder in a workspace and named pipes are covered.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gdal_mcp.runtime.connection import Host
from gdal_mcp.runtime.nested import HostPaths
from gdal_mcp.settings import Settings
from sandbox.errors import AttestationFailed
from sandbox.idmap import Views, sweep
from sandbox.mounted import ENTER, READ, check_traversable, mode_allows
from sandbox.outputs.staging import StagingArea
from sandbox.owner import Owner
from sandbox.pipes import Pipes, named_pipes
from sandbox.template import Limits, Mount, SandboxTemplate
from sandbox.workspace import RESERVED, WorkspacePath, Workspaces

NOBODY = 65534


@dataclass(frozen=True, slots=True)
class SandboxScope:
    """The parts of the workspaces that one call may see, and its limits."""

    workspaces: Workspaces
    limits: Limits
    # the mounted parts of the workspaces; None means the whole of each
    places: tuple[WorkspacePath, ...] | None = None

    @property
    def visible(self) -> tuple[WorkspacePath, ...]:
        """The mounted paths."""
        if self.places is not None:
            return self.places
        return tuple(
            WorkspacePath(workspace, PurePosixPath(), is_folder=True) for workspace in self.workspaces.items
        )


class Templates:
    """Builds the templates of a server's containers. Safe to use from several threads."""

    def __init__(
        self,
        settings: Settings,
        workspaces: Workspaces,
        owner: Owner,
        areas: Mapping[Path, StagingArea],
        paths: HostPaths,
    ) -> None:
        """`areas` maps the roots of the writable workspaces to their staging areas; `paths` maps folders to those of
        the engine.
        """
        self._settings = settings
        self._workspaces = workspaces
        self._owner = owner
        self._areas = areas
        self._paths = paths
        self._scope = SandboxScope(workspaces, settings.limits())
        self._views = Views(settings.state_dir / "views", owner)
        self._pipes: dict[Path, Pipes] = {}  # named pipes of each workspace

    def renew(self) -> None:
        """Removes what dead servers mounted, and lets the next template search for named pipes again."""
        self._pipes = {}
        sweep(self._settings.state_dir / "views", self._owner)

    def close(self) -> None:
        self._views.close()

    def build(self, host: Host, staging: Mount | None, scope: SandboxScope | None = None) -> SandboxTemplate:
        """The container of a call.

        `staging` is the folder that the call may write to, if any. The default scope is everything that the server
        may see.
        """
        scope = scope or self._scope
        user = self.user()
        return SandboxTemplate(
            image=host.image.id,
            command=host.program.command,
            program=host.program.program,
            user=user,
            limits=scope.limits,
            mounts=(
                *(self._mount(located, user) for located in scope.visible),
                *([staging] if staging else []),
            ),
            masks=tuple(
                self._covered(located.path for located in scope.visible if not located.relative.parts)
            ),
            pipes=tuple(self._pipes_in(scope)) if host.info.covers_paths else (),
            environment=host.toolbox.execution.environment(scope.limits, host.image.digest),
            runtime=self._settings.runtime,
            nodes_without=self._settings.nodes_without,
        )

    def _covered(self, roots: Iterable[Path]) -> Iterator[PurePosixPath]:
        """The server's own folder in each workspace that has one, or that gets one when a call writes there.

        Raises StagingFailed.
        """
        for root in roots:
            own, area = root / RESERVED, self._areas.get(root)
            there = own.is_dir() and not own.is_symlink()
            if not there and area is not None:
                area.prepare()
            if there or area is not None:
                yield PurePosixPath(own)

    def _pipes_in(self, scope: SandboxScope) -> Iterator[PurePosixPath]:
        """The known named pipes that a container would see and that still exist."""
        for located in scope.visible:
            for pipe in self.named_pipes(located.workspace.root).paths:
                if Path(pipe).is_relative_to(located.path) and Path(pipe).is_fifo():
                    yield PurePosixPath(pipe)

    def named_pipes(self, root: Path) -> Pipes:
        """The named pipes in a workspace, as found when the host was last set up."""
        if root not in self._pipes:
            self._pipes[root] = named_pipes(root)
        return self._pipes[root]

    def _mount(self, located: WorkspacePath, user: tuple[int, int]) -> Mount:
        """A read-only mount at its own path.

        For a path that was resolved by itself, the container must find the same inode.
        """
        source = self.mount_source(located.workspace.root)
        if os.geteuid() == 0:
            check_traversable(source, located, user)
        identity = located.identity
        device_and_inode = (identity.device, identity.inode) if identity is not None else None
        return Mount(
            self._paths(source / located.relative), PurePosixPath(located.path), identity=device_and_inode
        )

    def mount_source(self, root: Path) -> Path:
        """The path that containers mount for the workspace at `root`: the workspace itself, or a view of it.

        Raises AttestationFailed if the engine could not see the view.
        """
        source = self._views.source(root, self.user())
        if self._paths.map.pairs and source != root:
            raise AttestationFailed(
                f"the workspace {root} belongs to root and is closed to others. A server in a container cannot open it to "
                f"the calls' user, as its engine does not see what is mounted here. On the host: chmod o+rx {root}, or give "
                "it to a user that is not root."
            )
        return source

    def user(self) -> tuple[int, int]:
        """The user id and group id of containers, never root's.

        They are those of this process; if it is root, those of the owner of the first writable workspace, or of the
        first workspace.
        """
        uid, gid = os.geteuid(), os.getegid()
        if uid == 0:
            workspaces = self._workspaces.items
            owner = next(
                (workspace for workspace in workspaces if workspace.writable), workspaces[0]
            ).root.stat()
            uid, gid = owner.st_uid, owner.st_gid
        return (uid or NOBODY, gid or NOBODY)

    def readable(self, root: Path) -> bool:
        """True if the container's user may list and enter a workspace."""
        user = self.user()
        return mode_allows(self._views.source(root, user).stat(), user, READ | ENTER)
