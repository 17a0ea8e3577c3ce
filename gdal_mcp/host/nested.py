"""A server that itself runs in a container: its engine is told the host's names of folders, and the map is proven.

Proven before anything runs, by one container that mounts every workspace and every staging place through the map: in
each staging place it must find the nonce that the server has just put there, and each workspace must be, by device and
inode, the folder that the server sees. A map that is wrong in one pair refuses the whole.
"""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from gdal_mcp.settings.pathmap import PathMap
from sandbox.attestation import prove_folders
from sandbox.cancel import Cancellation
from sandbox.engine import ContainerState, Engine, EngineInfo, Images, Leftover, Wire
from sandbox.errors import AttestationFailed, EngineUnavailable
from sandbox.isolation.rows import Row, told
from sandbox.outputs.staging import StagingArea
from sandbox.runner import Runner
from sandbox.template import Mount, SandboxTemplate


@dataclass(frozen=True, slots=True)
class MappedEngine:
    """An engine that is told the host's name of each folder; everything else is the engine's own."""

    inner: Engine
    path_map: PathMap

    def create(self, template: SandboxTemplate, labels: Mapping[str, str]) -> str:
        mounts = tuple(replace(one, source=self.path_map.host(one.source)) for one in template.mounts)
        return self.inner.create(replace(template, mounts=mounts), labels)

    def info(self) -> EngineInfo:
        return self.inner.info()

    @property
    def images(self) -> Images:
        return self.inner.images

    def close(self) -> None:
        self.inner.close()

    def attach(self, container: str) -> Wire:
        return self.inner.attach(container)

    def start(self, container: str) -> None:
        self.inner.start(container)

    def state(self, container: str) -> ContainerState | None:
        return self.inner.state(container)

    def process(self, container: str) -> int | None:
        return self.inner.process(container)

    def wait(self, container: str, seconds: float) -> ContainerState | None:
        return self.inner.wait(container, seconds)

    def remove(self, container: str) -> None:
        self.inner.remove(container)

    def leftovers(self) -> tuple[Leftover, ...]:
        return self.inner.leftovers()


def mapped(engine: Engine, path_map: PathMap) -> Engine:
    """The engine itself where no folder has another name."""
    return MappedEngine(engine, path_map) if path_map.pairs else engine


def prove(
    runner: Runner, template: SandboxTemplate, areas: Sequence[StagingArea], cancel: Cancellation
) -> tuple[Row, ...]:
    """That containers like `template`, and those with staging in one of `areas`, see the server's own folders.

    Raises AttestationFailed, which names the folder and what to set.
    """
    with ExitStack() as stack:
        mounts, places = list(template.mounts), {}
        for number, area in enumerate(areas):
            staged = stack.enter_context(area.open(f"mapped-{secrets.token_hex(4)}", template.user))
            target = PurePosixPath(f"/staging-{number}")
            mounts.append(Mount(str(staged.mount_source), target, read_only=False))
            places[target] = staged.mount_source
        try:
            found = prove_folders(runner, replace(template, mounts=tuple(mounts)), places, cancel)
        except EngineUnavailable as error:
            raise AttestationFailed(
                f"{error} If it is a folder that the engine does not find, correct path_map: INSIDE:HOST, with the folder as "
                "this server sees it and as the engine's host does."
            ) from error
    rows = tuple(replace(row, group="path map", name=_named(row.name, places)) for row in found)
    if wrong := told(rows):
        raise AttestationFailed(
            f"containers do not see this server's folders, so no call is run: {wrong}. Set path_map to pairs INSIDE:HOST, "
            "with each folder as this server sees it and as the engine's host does."
        )
    return rows


def _named(name: str, places: Mapping[PurePosixPath, Path]) -> str:
    """By the folder that this server sees, not by the place in the container that looked."""
    target, _, rest = name.partition(" ")
    return f"{places.get(PurePosixPath(target), target)} {rest}, through the path map"
