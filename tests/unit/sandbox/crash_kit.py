"""Kills a process at any step of a scenario, and examines the leftovers."""

import atexit
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from crash_scenarios import ALL_AT_ONCE, KILLED, NOTHING_REPLACED, PUBLICATIONS, Dying, Work
from staging_kit import Trail, area_at, leftovers, tree

from sandbox.outputs.dirops import POINTS, DirOps
from sandbox.outputs.staging import StagingArea
from sandbox.outputs.store import RecoveryOutcome

# each with True if the file system supports the flags of renameat2; without them nothing is replaced
BOTH = {"native": (ALL_AT_ONCE, True), "links": (NOTHING_REPLACED, False)}
EVERY = {**{name: (scenario, True) for name, scenario in PUBLICATIONS.items()}, **BOTH}


class Forks:
    """A small process that does work in its own children."""

    def __init__(self) -> None:
        program = Path(__file__).with_name("crash_child.py")
        self._process = subprocess.Popen(
            [sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ended(self, work: Callable[[], object]) -> int:
        """The exit code of a process that does this work; 0 if it finished."""
        sending, telling = self._process.stdin, self._process.stdout
        assert sending is not None
        assert telling is not None
        pickle.dump(work, sending)
        sending.flush()
        return pickle.load(telling)

    def close(self) -> None:
        self._process.communicate(timeout=60)


@cache
def _forks() -> Forks:
    forks = Forks()
    atexit.register(forks.close)
    return forks


def in_child(work: Callable[[], object]) -> int:
    return _forks().ended(work)


def each_step(
    tmp_path: Path, setup: Callable[[Path], None], work: Callable[[StagingArea], object], *, native: bool
) -> Iterator[tuple[int, str, Path]]:
    """For every checkpoint of this work: its number, its name and a fresh workspace."""
    trail = Trail()
    first = tmp_path / "first"
    first.mkdir(parents=True)
    setup(first)
    work(area_at(first, DirOps(trail, native=native)))
    assert set(trail.points) <= set(POINTS)
    for number, point in enumerate(trail.points):
        root = tmp_path / f"at-{number}"
        root.mkdir()
        setup(root)
        yield number, point, root


def killed(root: Path, number: int, work: Work, *, native: bool) -> None:
    assert in_child(Dying(work, root, number, native)) == KILLED


def settled(area: StagingArea) -> dict[str, bytes]:
    """The workspace after recovery, which must complete in one run, need no help and leave nothing behind."""
    findings = {finding.outcome for finding in area.recover()}
    assert not findings & {RecoveryOutcome.CONFLICT, RecoveryOutcome.DAMAGED}
    contents = tree(area.workspace.root)
    assert leftovers(area.workspace.root) == []
    assert area.recover() == ()
    assert tree(area.workspace.root) == contents
    return contents


def first_point(
    tmp_path: Path,
    point: str,
    work: Callable[[StagingArea], object],
    setup: Callable[[Path], None],
    *,
    native: bool,
) -> int:
    """The number of the first checkpoint with this name, counted in a separate workspace."""
    setup(tmp_path / "twin")
    trail = Trail()
    work(area_at(tmp_path / "twin", DirOps(trail, native=native)))
    return next(number for number, passed in enumerate(trail.points) if passed.startswith(point))
