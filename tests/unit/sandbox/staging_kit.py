"""Helpers for tests of staging, publication and undo: a workspace as a dict, a publication in one line."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from gdal_mcp.toolboxes.gdal.datasets.sidecars import Listings
from sandbox.outputs.dirops import DirOps
from sandbox.outputs.inspection import listing_of
from sandbox.outputs.staging import Staging, StagingArea
from sandbox.outputs.store import Publication, Published, Transfer
from sandbox.outputs.undo import Retention
from sandbox.workspace import RESERVED, Workspace, WorkspacePath, Workspaces

CALL = "call-0001"
# the container's user; a host that runs as root uses another user's ids
USER = (os.geteuid() or 65534, os.getegid() or 65534)

Tree = Mapping[str, bytes]  # relative path -> contents; a path that ends with a slash is an empty folder


def area_at(root: Path, moves: DirOps | None = None, keep: Retention | None = None) -> StagingArea:
    return StagingArea(Workspace.at(root, writable=True), keep or Retention(), moves or DirOps())


def place(area: StagingArea, name: str) -> WorkspacePath:
    """The target of an output with that name, as a plan would record it now."""
    return Workspaces((area.workspace,)).output(name)


def write(root: Path, tree: Tree) -> None:
    for name, contents in tree.items():
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents)


def tree(root: Path) -> dict[str, bytes]:
    """Every user file below a workspace."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.relative_to(root).parts[0] != RESERVED
    }


def leftovers(root: Path, folder: str = "staging") -> list[str]:
    return sorted(path.name for path in (root / RESERVED / folder).iterdir())


@dataclass(frozen=True)
class Plan:
    """An output and its planned target, with the companions to remove."""

    staged: Tree
    publications: tuple[Publication, ...]  # of top-level names, staged under the same name
    gone: tuple[WorkspacePath, ...]


def plan(area: StagingArea, staged: Tree) -> Plan:
    names = tuple(dict.fromkeys(name.split("/")[0] for name in staged))
    targets = {name: place(area, name) for name in names}
    gone = tuple(companion for target in targets.values() for companion in Listings().companions(target))
    return Plan(staged, tuple(Publication(name, target) for name, target in targets.items()), gone)


def fill(staging: Staging, staged: Tree) -> None:
    write(staging.path, staged)


def rearrange(
    area: StagingArea,
    moves: Mapping[str, str],
    removes: Iterable[str] = (),
    staged: Tree = MappingProxyType({}),
    call_id: str = CALL,
) -> Published:
    """Renames, removes and publishes at once, with a plan made now."""
    planned = plan(area, staged)
    transfers = [Transfer(place(area, source), place(area, target)) for source, target in moves.items()]
    return act(area, planned, transfers, [place(area, name) for name in removes], call_id)


def act(
    area: StagingArea,
    planned: Plan,
    transfers: Sequence[Transfer] = (),
    gone: Sequence[WorkspacePath] = (),
    call_id: str = CALL,
    between: Callable[[], object] = lambda: None,
) -> Published:
    """Runs `between` after the plan was made and before the call acts."""
    places = [*gone, *(path for transfer in transfers for path in (transfer.source, transfer.target))]
    listings = {path.relative: listing_of(path) for path in places if path.is_folder}
    between()
    with area.open(call_id, USER) as staging:
        fill(staging, planned.staged)
        staging.collect()
        return staging.publish(call_id, planned.publications, [*planned.gone, *gone], transfers, listings)


def publish(area: StagingArea, staged: Tree, call_id: str = CALL) -> Published:
    return act(area, plan(area, staged), call_id=call_id)


class Trail:
    """A checkpoint that records its calls and does something at one of them."""

    def __init__(self, act: Callable[[str], None] | None = None, at: int = -1) -> None:
        self.points: list[str] = []
        self._act = act
        self._at = at

    def __call__(self, point: str) -> None:
        self.points.append(point)
        if len(self.points) - 1 == self._at and self._act is not None:
            self._act(point)
