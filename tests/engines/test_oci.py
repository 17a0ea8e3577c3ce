"""The engine without a daemon passes all checks with each runtime, and leaves nothing when a process is killed."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest

from gdal_mcp.runtime.image import Image
from sandbox.attestation import with_probe
from sandbox.engines.oci import bundle as bundle_module
from sandbox.engines.oci import container as container_module
from sandbox.engines.oci import engine as engine_module
from sandbox.engines.oci.engine import OciEngine
from sandbox.engines.oci.kernel import hierarchies, parent_group
from sandbox.engines.oci.runtime import LEAST_MEMORY
from sandbox.errors import CapacityExhausted, EngineUnavailable, IsolationRefused, SandboxError
from sandbox.labels import labels
from sandbox.mounted import mountinfo
from sandbox.slot import launch
from tests.engines.bench import LEAVE_A_MARK, TAKE_MEMORY, WAIT_FOR_THE_END, Bench
from tests.engines.checks import conforms
from tests.engines.kit import bench_on
from tests.engines.known import OCI
from tests.oci_store import oci_engine
from tests.waiting import until

pytestmark = pytest.mark.engine
MOMENTS = 12  # number of moments at which a runtime is killed, each a little later
SERVERS = 6  # number of servers that are killed, each a step later


@pytest.fixture(scope="module")
def oci(client: docker.DockerClient, image: Image) -> Iterator[OciEngine]:
    engine = oci_engine(client, image)
    yield engine
    engine.close()


@pytest.fixture(scope="module", params=["crun", pytest.param("runc", marks=pytest.mark.nightly)])
def bench(request: pytest.FixtureRequest, oci: OciEngine, image: Image) -> Iterator[Bench]:
    if shutil.which(request.param) is None:
        raise AssertionError(f"{request.param} is not here. `make engines` installs it where it may.")
    gone = OciEngine(Path("/nonexistent/engine"))
    with bench_on(oci, image.id, lambda: gone, request.param) as new_bench:
        yield new_bench


def groups_of(container: str) -> list[Path]:
    return [hierarchy / parent_group()[1:] / container for hierarchy in hierarchies()]


def of_this_host(container: str) -> list[str]:
    """Everything on the host that names a container: control groups, mounts, processes."""
    groups = [str(group) for group in groups_of(container) if group.exists()]
    mounts = [line for line in mountinfo().splitlines() if container in line]
    processes = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (place / "cgroup").read_text() + (place / "cmdline").read_bytes().decode(errors="replace")
            processes += [place.name] if container in text and "Z" not in (place / "stat").read_text() else []
    return [*groups, *mounts, *processes]


@pytest.mark.claim(
    "engine.oci-does-what-an-engine-must",
    "files.mounts-only",
    "network.no-interface",
    "resources.limits-hard",
    "sandbox.not-root",
    "sandbox.nothing-of-the-host-shown",
)
def test_it_conforms_with_each_runtime(bench: Bench, subtests: pytest.Subtests) -> None:
    conforms(bench, subtests, OCI.exemptions)


def inner(config: dict[str, Any], *path: str) -> dict[str, Any]:
    for step in path:
        config = config[step]
    return config


def without(*path: str) -> Callable[[dict[str, Any]], object]:
    return lambda config: inner(config, *path[:-1]).pop(path[-1])


def with_value(*path: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda config: inner(config, *path[:-1]).update({path[-1]: value})


def mounted(**row: Any) -> Callable[[dict[str, Any]], object]:
    return lambda config: config["mounts"].append(row)


def namespace(name: str) -> Callable[[dict[str, Any]], object]:
    def change(config: dict[str, Any]) -> None:
        rows = config["linux"]["namespaces"]
        config["linux"]["namespaces"] = [row for row in rows if row["type"] != name]
        if name == "uts":
            del config["hostname"]  # a runtime refuses to set this on the host

    return change


def writable(config: dict[str, Any]) -> None:
    binds = (mount for mount in config["mounts"] if mount["type"] == "bind")
    row = next(mount for mount in binds if {"ro", "rro"} & {*mount["options"]})
    row["options"] = [{"ro": "rw", "rro": "rrw"}.get(option, option) for option in row["options"]]


HOST = {"type": "bind", "source": "/etc", "options": ["rbind", "ro"]}
SHARED = {"type": "tmpfs", "source": "tmpfs", "options": ["rw"]}
ALL = {kind: ["CAP_CHOWN", "CAP_SYS_ADMIN"] for kind in ("bounding", "effective", "permitted")}
WEAKER: dict[str, Callable[[dict[str, Any]], object]] = {
    "user": with_value("process", "user", "uid", value=0),
    "groups": with_value("process", "user", "additionalGids", value=[0]),
    "capabilities": with_value("process", "capabilities", value=ALL),
    "no new privileges": with_value("process", "noNewPrivileges", value=False),
    "rlimits": lambda config: config["process"]["rlimits"].pop(),
    "workspace": writable,
    "mount of the host": mounted(destination="/opt", **HOST),
    "shared memory": mounted(destination="/dev/shm", **SHARED),
    "writable memory": mounted(destination="/mnt", **SHARED),
    "masked paths": lambda config: config["linux"]["maskedPaths"].remove("/proc/cmdline"),
    "read-only paths": lambda config: config["linux"]["readonlyPaths"].remove("/proc/sys"),
    "memory": without("linux", "resources", "memory"),
    "cpu": without("linux", "resources", "cpu"),
    "processes": without("linux", "resources", "pids"),
    **{f"namespace {name}": namespace(name) for name in ("pid", "network", "ipc", "uts", "cgroup")},
}

REAL = engine_module.config


def weaken(monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, Any]], object]) -> None:
    """Makes the engine write a changed configuration."""

    def weaker(*arguments: Any, **named: Any) -> dict[str, Any]:
        configuration = REAL(*arguments, **named)
        change(configuration)
        return configuration

    monkeypatch.setattr(engine_module, "config", weaker)


@pytest.mark.claim("engine.oci-is-read-back", "sandbox.read-back", "engine.silence-is-noticed")
def test_runtime_omissions_are_noticed_before_the_first_instruction(bench, subtests, monkeypatch):
    rootless = bench.engine.info().rootless
    # without it, crun loads the filter first, which then refuses the remaining calls; a user namespace provides no
    # other user and no /proc of other processes
    by_itself = {"no new privileges"} | ({"user", "namespace pid"} if rootless else set())
    for name, change in WEAKER.items():
        if rootless and name == "groups":  # it provides no other group either, so there is nothing to notice
            continue
        weaken(monkeypatch, change)
        with subtests.test(weaker=name):
            with pytest.raises(SandboxError if name in by_itself else IsolationRefused):
                bench.engine.create(bench.template(LEAVE_A_MARK), labels(bench.owner, "call", 60.0))
            assert not (bench.staging / "started").exists()
            assert bench.ours() == {}


def test_missing_filter_is_noticed_by_the_first_job(bench, monkeypatch):
    weaken(monkeypatch, without("linux", "seccomp"))
    with pytest.raises(IsolationRefused):
        launch(bench.engine, with_probe(bench.template("")), labels(bench.owner, "call", 60.0), set())
    assert bench.ours() == {}


def test_memory_limit_too_small_for_runtime_is_refused(bench: Bench) -> None:
    least = LEAST_MEMORY[bench.runtime]
    enough = replace(bench.limits, memory_bytes=max(least, 96 << 20))
    for _ in range(5):
        assert bench.run("print('started')", limits=enough).stdout == b"started\n"
    if least:
        with pytest.raises(CapacityExhausted):
            bench.run("", limits=replace(enough, memory_bytes=least - 1))
    assert bench.ours() == {}


@pytest.mark.claim("sandbox.no-mount-is-missed")
def test_mounts_below_a_workspace_are_read_only_too(bench: Bench) -> None:
    below = bench.workspace / "below"
    below.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", below], check=True)
    try:
        assert bench.run(f"open({str(below / 'made')!r}, 'w')").code != 0
        assert os.listdir(below) == []
    finally:
        subprocess.run(["umount", below], check=True)
        below.rmdir()


def test_container_leaves_no_host_mount_or_image_folder(bench: Bench) -> None:
    with bench.waiting() as (container, _):
        assert [line for line in mountinfo().splitlines() if container.id in line] == []
        process = container.process()
        assert process is not None
        assert os.path.isdir(f"/proc/{process}/root{bench.workspace}")
        assert isinstance(bench.engine, OciEngine)
        assert not (bench.engine.images.rootfs(bench.image) / str(bench.workspace)[1:]).exists()
    assert of_this_host(container.id) == []


def test_containers_yield_the_processors_to_the_host(bench: Bench) -> None:
    with bench.created(bench.template(WAIT_FOR_THE_END)):
        parents = [hierarchy / parent_group()[1:] for hierarchy in hierarchies()]
        defaults = {"cpu.weight": 100, "cpu.shares": 1024}
        files = [
            (parent / name, default)
            for parent in parents
            for name, default in defaults.items()
            if (parent / name).exists()
        ]
        assert files
        for path, default in files:
            assert int(path.read_text()) <= default // 10


@pytest.mark.claim("engine.oci-leaves-nothing", "sandbox.removed")
def test_runtime_killed_at_any_moment_leaves_nothing(bench, monkeypatch):
    """Each kill is a little later, over the time that this machine needs to create a container."""
    began = time.monotonic()
    with bench.created(bench.template(WAIT_FOR_THE_END)):
        took = time.monotonic() - began
    created: list[str] = []
    real = bundle_module.Bundle.create_argv

    def words(self: Any, container: str) -> list[str]:
        created.append(container)
        moment = took * len(created) / MOMENTS
        threading.Timer(moment, container_module._kill_runtimes, (container,)).start()
        return real(self, container)

    monkeypatch.setattr(bundle_module.Bundle, "create_argv", words)
    failed = 0
    for _ in range(MOMENTS):
        try:
            with bench.created(bench.template(WAIT_FOR_THE_END)):
                pass
        except EngineUnavailable:
            failed += 1
    assert failed > 0
    assert bench.ours() == {}
    until(lambda: [name for name in created if of_this_host(name)] == [])


def test_what_a_killed_runtime_left_frozen_is_removed(bench: Bench) -> None:
    """Runtimes freeze a container to clean it up, and in version 1, a frozen process cannot die."""
    for start in (False, True):
        with bench.created(bench.template(WAIT_FOR_THE_END)) as container:
            if start:
                container.start()
            for group in groups_of(container.id):
                for name, text in (("freezer.state", "FROZEN"), ("cgroup.freeze", "1")):
                    if (group / name).exists():
                        (group / name).write_text(text)
            OciEngine(bench.engine.root).container(container.id).remove()
            assert of_this_host(container.id) == []


SERVER = """
import sys
from pathlib import Path
from tests.engines.bench import Bench
from sandbox.engines.oci.engine import OciEngine
from sandbox.labels import labels
root, image, folder, owner, runtime = sys.argv[1:]
bench = Bench(OciEngine(Path(root)), image, Path(folder), runtime, owner=owner)
for number in range(1000):
    # deaf to the end of its stdin, as a job may be
    program = "import time; print('ready', flush=True); time.sleep(1000)"
    container = bench.engine.create(bench.template(program), labels(owner, "call", 60.0))
    print(container.id, flush=True)
    wire = container.start()
    print("started", flush=True)
"""


@pytest.mark.claim("engine.oci-leaves-nothing", "sandbox.removed")
def test_containers_of_killed_server_are_removed_by_next(bench, tmp_path):
    tmp_path.chmod(0o755)
    for number in range(SERVERS):
        folder = tmp_path / str(number)
        folder.mkdir()
        words = (str(bench.engine.root), bench.image, str(folder), bench.owner, bench.runtime)
        command = [sys.executable, "-c", SERVER, *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            for _ in range(number + 1):  # created, started, and during the next one
                server.stdout.readline()
            server.send_signal(signal.SIGKILL)
        left = bench.ours()
        assert left or number == 0
        another = OciEngine(bench.engine.root)  # an engine of another server
        for container in left:
            another.container(container).remove()
            assert another.container(container).state() is None
            # a runtime that the server had just forked finds nothing to do, and ends
            until(lambda container=container: of_this_host(container) == [])
    assert bench.ours() == {}


def test_another_server_sees_container_states_and_ends_them(bench: Bench) -> None:
    another = OciEngine(bench.engine.root)
    with bench.waiting() as (container, _):
        theirs = another.container(container.id)
        assert theirs.process() == container.process()
        assert theirs.state().running
        for started in (theirs, container):
            with pytest.raises(EngineUnavailable):
                started.start()
        theirs.remove()
        assert container.state() is None
        assert container.process() is None


def test_another_server_sees_out_of_memory_too(bench: Bench) -> None:
    with bench.created(bench.template(TAKE_MEMORY, str(bench.limits.memory_bytes + (64 << 20)))) as container:
        container.start()
        container.wait(300.0)
        assert OciEngine(bench.engine.root).container(container.id).state().out_of_memory


@pytest.mark.claim("engine.oci-bounded-or-refused")
def test_nobody_else_uses_it_where_nothing_is_delegated() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o777)
        child = os.fork()
        if child == 0:
            os.setgid(65534)
            os.setuid(65534)
            try:
                OciEngine(Path(folder, "engine")).prepared()
            except EngineUnavailable:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert os.listdir(folder) == []


def test_folder_writable_by_others_is_refused(tmp_path: Path) -> None:
    """Its contents decide what runs and which control groups are emptied afterwards."""
    changes = {"theirs": lambda path: os.chown(path, 65534, 65534), "open": lambda path: path.chmod(0o770)}
    for name, change in changes.items():
        folder = tmp_path / name
        (folder / "containers").mkdir(parents=True)
        change(folder / "containers")
        with pytest.raises(EngineUnavailable):
            OciEngine(folder).prepared()


def test_folder_name_unusable_for_overlays_is_refused(tmp_path: Path) -> None:
    for name in ("a:b", "a,b", "a\\b"):
        with pytest.raises(SandboxError):
            OciEngine(tmp_path / name).prepared()
