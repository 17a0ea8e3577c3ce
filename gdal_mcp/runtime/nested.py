"""For a server that runs in a container: translates folders to the host's paths for its engine, and proves that map.

The map comes from the settings, else from the engine's description of the container that this process is in. It is
proven before anything runs, by one container that mounts every workspace and every staging folder through the map: in
each staging folder it must find the nonce that the server has just put there, and each workspace must be, by device
and inode, the folder that the server sees. If one pair is wrong, the whole map is refused.
"""

import re
import secrets
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final

from gdal_mcp.invoked import command
from gdal_mcp.settings.pathmap import PathMap
from sandbox.attestation import prove_folders
from sandbox.engine import ContainerDetails, Engine
from sandbox.errors import AttestationFailed, EngineUnavailable
from sandbox.isolation.rows import Row, failure_summary
from sandbox.mounted import MountPoint, mount_points
from sandbox.outputs.staging import StagingArea
from sandbox.portable import mount_table
from sandbox.runner import Runner
from sandbox.template import MountSource, SandboxTemplate
from sandbox.waiting import Cancellation

_ID: Final = re.compile(r"[0-9a-f]{64}")
# files that engines mount into each container, from a folder that is named after it
_OF_ENGINE: Final = ("/etc/hostname", "/etc/hosts", "/etc/resolv.conf")


def own_container(engine: Engine) -> ContainerDetails | None:
    """The container that this process runs in, if it is one of this engine's. Raises EngineUnavailable.

    An id alone proves nothing: the mounts of that container, as the engine reports them, must be mounted here.
    """
    points = _own_mounts()
    for number in _own_numbers(points):
        if (details := engine.describe(number)) is None:
            continue
        # with links resolved, as in the kernel's table: /var/run/docker.sock is mounted at /run/docker.sock
        mounts = {str(Path(inside).resolve()): outside for inside, outside in details.mounts.items()}
        if set(mounts) <= {point.target for point in points}:
            return replace(details, mounts=mounts)
    return None


def program() -> tuple[str, ...]:
    """The command by which a person on the host runs this program: in its container, if it is in one."""
    numbers = _own_numbers(_own_mounts())
    return ("docker", "exec", "-it", numbers[0][:12], "gdal-mcp") if numbers else command()


def in_container() -> bool:
    """True if an engine started this process in a container, by what it mounted there."""
    return bool(_own_numbers(_own_mounts()))


def is_lasting(folder: Path) -> bool:
    """True if files in a folder outlive the container that this process is in, if it is in one."""
    if not in_container():
        return True
    holding = [point for point in _own_mounts() if folder.is_relative_to(point.target)]
    inner = max(holding, key=lambda point: len(point.target))
    return inner.target != "/" and inner.type != "tmpfs"


def _own_mounts() -> tuple[MountPoint, ...]:
    table = mount_table()
    # only Linux has the table; elsewhere this process is not in a container
    return mount_points(table) if table else ()


def _own_numbers(points: Iterable[MountPoint]) -> tuple[str, ...]:
    roots = [point.root for point in points if point.target in _OF_ENGINE]
    return tuple(dict.fromkeys(number for root in roots for number in _ID.findall(root)))


class HostPaths:
    """Maps paths of this process to paths of the engine's host: a `SourceOf` that is complete after `ask`."""

    def __init__(self, configured: PathMap) -> None:
        """`configured` is the map of the settings; without one the engine is asked."""
        self._configured = configured
        self.map = configured

    def ask(self, engine: Engine) -> None:
        """Gets the map from the engine, unless the settings have one. Raises EngineUnavailable."""
        if not self._configured.pairs:
            own = own_container(engine)
            self.map = PathMap.of(own.mounts) if own is not None else self._configured

    def __call__(self, path: Path) -> MountSource:
        """The engine's source for a path. Raises AttestationFailed for a path that the map does not contain."""
        return self.map.source(path)


def prove(
    runner: Runner, template: SandboxTemplate, areas: Sequence[StagingArea], cancel: Cancellation
) -> tuple[Row, ...]:
    """Proves that containers like `template`, and those with staging in one of `areas`, see the server's own folders.

    Raises AttestationFailed, which names the folder and what to set.
    """
    with ExitStack() as stack:
        mounts, places = list(template.mounts), {}
        for number, area in enumerate(areas):
            staged = stack.enter_context(area.open(f"mapped-{secrets.token_hex(4)}", template.user))
            target = PurePosixPath(f"/staging-{number}")
            mounts.append(replace(staged.mount, target=target))
            places[target] = staged.path
        try:
            proven = prove_folders(runner, replace(template, mounts=tuple(mounts)), places, cancel)
        except EngineUnavailable as error:
            raise AttestationFailed(
                f"{error} If it is a folder that the engine does not find, correct path_map: INSIDE:HOST, with the folder as "
                "this server sees it and as the engine's host does."
            ) from error

    def named(name: str) -> str:
        """The name of a row with the folder's path for this server, instead of its path in the container."""
        target, _, rest = name.partition(" ")
        return f"{places.get(PurePosixPath(target), target)} {rest}, through the path map"

    rows = tuple(replace(row, group="path map", name=named(row.name)) for row in proven)
    if wrong := failure_summary(rows):
        raise AttestationFailed(
            f"containers do not see this server's folders, so no call is run: {wrong}. Set path_map to pairs INSIDE:HOST, "
            "with each folder as this server sees it and as the engine's host does."
        )
    return rows
