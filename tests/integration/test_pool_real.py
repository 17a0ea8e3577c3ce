"""The pool on the real engine: a call leaves nothing for the next, and slots and engines may die while slots wait."""

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from sandbox.capacity import LockFileCapacity
from sandbox.engine import Engine
from sandbox.engines.docker import DockerEngine
from sandbox.labels import OWNER
from sandbox.outcome import Exited, SandboxResult
from sandbox.outputs.staging import StagingArea
from sandbox.owner import Owner
from sandbox.pool.lease import SlotKey
from sandbox.pool.pool import WarmPool
from sandbox.pool.sizing import Sizes
from sandbox.program import delivered, worker_command
from sandbox.runner import Job, Runner
from sandbox.waiting import Cancellation
from sandbox.workspace import RESERVED, Workspace
from tests.conftest import TemplateMaker, handler
from tests.waiting import until

pytestmark = pytest.mark.engine

NUMBERS = itertools.count(1)
RUN = "found = {}\nexec(job['code'], {'found': found, 'report': report})\nreturn {'code': 0, **found}"

# changes everything that a job can reach and change
SPOIL = """
import ctypes, os, sys
from osgeo import gdal
for place in ("/tmp", "/staging", "/dev/shm", "/dev/mqueue", "/dev", "/proc/sys/kernel", "/work", "."):
    try:
        open(place + "/SPOILED", "w").write("SPOILED")
    except OSError:
        pass
os.environ["SPOILED"] = "SPOILED"
gdal.SetConfigOption("SPOILED", "SPOILED")
gdal.SetConfigOption("GDAL_CACHEMAX", "17")
gdal.FileFromMemBuffer("/vsimem/SPOILED", b"SPOILED")
libc = ctypes.CDLL(None)
found["shared memory"] = libc.shmget(0x5B011ED, 4096, 0o1666)
found["queue"] = libc.msgget(0x5B011ED, 0o1666)
os.chdir("/")
os.umask(0)
os.dup2(1, 77)
if os.fork() == 0:
    for number in (0, 1, 2):
        os.close(number)
    os.execv("/bin/sleep", ["SPOILED", "1000"])
"""

LOOK = """
import ctypes, os, socket
from osgeo import gdal
def listed(place):
    try:
        return sorted(os.listdir(place))
    except OSError as error:
        return type(error).__name__
def read(place):
    try:
        return open(place, errors="replace").read()
    except OSError as error:
        return type(error).__name__
libc = ctypes.CDLL(None)
umask = os.umask(0o22)
found.update({
    "tmp": listed("/tmp"), "staging": listed("/staging"), "shm": listed("/dev/shm"), "mqueue": listed("/dev/mqueue"),
    "reserved": listed(RESERVED), "environment": dict(os.environ), "cwd": os.getcwd(), "umask": umask,
    "processes": [name for name in os.listdir("/proc") if name.isdigit()],
    "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
    "ipc": [read("/proc/sysvipc/" + name).count("\\n") for name in ("shm", "sem", "msg")],
    "attached": [libc.shmget(0x5B011ED, 0, 0), libc.msgget(0x5B011ED, 0)],
    "abstract": read("/proc/net/unix").count("@"),
    "options": [gdal.GetConfigOption("SPOILED"), gdal.GetConfigOption("GDAL_CACHEMAX")],
    "vsimem": gdal.VSIStatL("/vsimem/SPOILED") is not None,
})
"""


@pytest.fixture(autouse=True)
def _nothing_is_left(engine: Engine, owner: Owner, workspace: Path) -> Iterator[None]:
    yield
    assert [leftover for leftover in engine.leftovers() if leftover.labels[OWNER] == owner.id] == []
    assert staged(workspace) == []


@pytest.fixture
def area(workspace: Path) -> StagingArea:
    new_area = StagingArea(Workspace.at(workspace, writable=True))
    new_area.prepare()
    return new_area


@pytest.fixture
def kinds(make_template: TemplateMaker, workspace: Path, area: StagingArea) -> tuple[SlotKey, SlotKey]:
    """Containers that only read and containers that write, with a handler that runs the code in its job."""
    template = replace(
        make_template(handler(RUN, prepare="from osgeo import gdal"), workspace=workspace),
        masks=(PurePosixPath(workspace / RESERVED),),
    )
    return SlotKey(template), SlotKey(template, area)


@pytest.fixture
def make(engine: DockerEngine, owner: Owner) -> Iterator[Callable[..., WarmPool]]:
    pools = []

    def new_pool(
        *standing: SlotKey, most: int = 8, engine: Engine = engine, capacity: LockFileCapacity | None = None
    ) -> WarmPool:
        pools.append(WarmPool(Runner(engine, owner.id, capacity), Sizes(1, most, 600.0), lambda: standing))
        pools[-1].keep()
        return pools[-1]

    yield new_pool
    for pool in pools:
        pool.close()


def staged(workspace: Path) -> list[str]:
    folder = workspace / RESERVED / "staging"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def filled(pool: WarmPool, *kinds: SlotKey) -> None:
    """Returns when one container of each kind waits and no other is being started."""
    until(lambda: {kinds.index(slot.kind) for slot in list(pool._inventory.idle)} == set(range(len(kinds))))
    until(lambda: not pool.figures().starting)


def call(pool: WarmPool, kind: SlotKey, code: str = "") -> tuple[str, SandboxResult]:
    """One call in its own thread, with its container and outcome."""
    cancel = Cancellation()
    name = f"call-{next(NUMBERS):04}"
    with pool.claim(kind, name, cancel) as lease:
        container = lease._claimed.slot.container.id
        result = lease.run(
            Job(name, lease.template, {"code": code}, result_only=lease.staging is None), cancel
        )
    cancel.close()
    return container, result


def looked(workspace: Path) -> str:
    return LOOK.replace("RESERVED", repr(str(workspace / RESERVED)))


@pytest.mark.claim("sandbox.calls-apart")
def test_nothing_of_one_call_is_seen_by_another(make, kinds, workspace):
    pool = make(*kinds)
    filled(pool, *kinds)
    look = looked(workspace)
    clean = [call(pool, kind, look)[1].final for kind in kinds]
    spoiled = [call(pool, kind, SPOIL) for kind in kinds]
    assert all(result.final["shared memory"] for _, result in spoiled)
    filled(pool, *kinds)
    after = [(kind, *call(pool, kind, look)) for kind in kinds]
    assert {result.usage.pool for _, _, result in after} == {"warm"}
    assert len({container for container, _ in spoiled} | {container for _, container, _ in after}) == 4
    for kind, before, (_, _, result) in zip(kinds, clean, after, strict=True):
        final = result.final
        assert "SPOILED" not in str(final)
        assert {**final, "usage": None} == {**before, "usage": None}
        # parent folders of the workspace, if the workspace of a test is below them
        assert set(final["tmp"]) <= {workspace.parts[2]}
        assert final["staging"] == ([] if kind.area else "FileNotFoundError")
        assert final["reserved"] == []
        assert final["shm"] == "FileNotFoundError"
        assert final["processes"] == ["1"]
        assert final["ipc"] == [1, 1, 1]  # the headings
        assert final["attached"] == [-1, -1]
        assert final["cwd"] == "/tmp"
        assert not final["vsimem"]


@pytest.mark.claim("sandbox.calls-apart")
def test_simultaneous_writers_do_not_see_each_other(make, kinds, workspace, cancel):
    """Another call's container writes at the same time, and a third waits with its own folder."""
    reads, writes = kinds
    pool = make(reads, writes)
    filled(pool, *kinds)
    with pool.claim(writes, "call-0001", cancel) as lease:
        assert lease.staging is not None
        (lease.staging.path / "SECRET").write_text("SECRET")
        for kind in kinds:
            final = call(pool, kind, looked(workspace))[1].final
            assert "SECRET" not in str(final)
            assert final["reserved"] == []
        result = lease.run(Job("call-0001", lease.template, {"code": looked(workspace)}), cancel)
        assert result.final["staging"] == ["SECRET"]


def test_killed_waiting_container_is_replaced_and_unused(make, kinds, engine):
    pool = make(kinds[0])
    for _ in range(2):
        filled(pool, kinds[0])
        victim = pool._inventory.idle[0].slot.container
        process = victim.process()
        assert process is not None
        os.kill(process, signal.SIGKILL)
        victim.wait(10.0)
        container, result = call(pool, kinds[0])
        assert result.outcome == Exited(0)
        assert container != victim.id


@pytest.mark.claim("sandbox.ends-by-itself")
def test_unclaimed_slot_ends_when_its_host_stops(runner, make_template):
    """The host process lives and keeps its streams open but does nothing, like a stopped server."""
    sent = delivered(worker_command(handler("return job"), idle_seconds=1.0))
    template = replace(make_template(""), command=sent.command, program=sent.program)
    idle = runner.launch(template, "call-0001")
    until(lambda: not idle.container.state().running)
    assert not idle.is_idle
    idle.remove()
