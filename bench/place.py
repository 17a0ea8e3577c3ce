"""The basis of every measurement: a temporary workspace, test data, and the engine and image of the calls."""

import math
import os
import platform
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.report import Section
from gdal_mcp import __version__, logs
from gdal_mcp.records.registry import Registry
from gdal_mcp.server.app import App, running
from gdal_mcp.settings import load_settings
from gdal_mcp.settings.state import StateFolder
from sandbox.labels import OWNER

COLD = ("--pool-max", "0")
REST_SECONDS = 60.0  # a refill takes half a second on an idle machine
LOOK_SECONDS = 0.1
LOOKS = 3  # equal observations in a row that count as rest
_UTIME, _STIME = 11, 12  # of what follows the name in /proc/PID/stat, by proc(5)
_BUSY = 0.5  # load of other work per processor from which only ratios count


class NotMeasurable(Exception):
    """This host lacks something that the comparison needs."""


@dataclass(frozen=True, slots=True)
class Place:
    """The folders, the engine and the image of a measurement. `app` is the server's own code in this process; it
    makes no calls.
    """

    workspace: Path
    scratch: Path  # writable for the container's user, on the workspace's file system
    state: Path
    docker: str  # the engine's command line client
    address: str  # address of the Docker or Podman that calls are compared with
    engine: str  # engine of the server: the same one, or the one in GDAL_MCP_ENGINE
    app: App

    def program(self, *words: str, name: str = "server") -> list[str]:
        """A `gdal-mcp` command with the settings of the server called `name`. `words` begin with the command."""
        settings = {
            "--workspace": self.workspace,
            "--state-dir": self.state / name,
            "--engine": self.engine,
            "--image": self.app.hosting.ready().image.reference,
            "--approval": "never",
        }
        options = [str(word) for pair in settings.items() for word in pair]
        return [sys.executable, "-m", "gdal_mcp", *words, *options]

    def python_environment(self) -> dict[str, str]:
        """The environment of processes that run this project's code, with compiled modules stored as in any
        installation.
        """
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**inherited, "PYTHONPYCACHEPREFIX": str(self.state / "compiled")}

    def docker_environment(self) -> dict[str, str]:
        return {**os.environ, "DOCKER_HOST": self.address}

    def receipt(self, call_id: str, name: str = "server") -> Mapping[str, Any]:
        """The record of a call of the server called `name`: command and times, which answers omit."""
        registry = Registry(StateFolder(self.state / name).registry)
        try:
            call = registry.call(call_id)
        finally:
            registry.close()
        return call.receipt if call else {}

    def new_name(self, suffix: str) -> str:
        return f"out-{secrets.token_hex(4)}{suffix}"

    def containers(self) -> dict[str, int | None]:
        """The containers of all measured servers, with the id of the first process; None if it does not run."""
        owners = {path.stem for path in self.state.rglob("servers/*.lock")}
        engine = self.app.hosting.ready().engine
        mine = [leftover.container for leftover in engine.leftovers() if leftover.labels.get(OWNER) in owners]
        return {id_: engine.container(id_).process() for id_ in mine}

    def rest(self, least: int = 0) -> int:
        """Waits until at least this many containers run, the same ones for a while, and none of them computes.

        After a warm call, the pool starts another slot and the old container is removed; neither must affect the next
        measurement. Returns the number of containers. Raises NotMeasurable if they do not come to rest.
        """
        end, before, same = time.monotonic() + REST_SECONDS, None, 0
        while time.monotonic() < end:
            now = {container: _used(pid) for container, pid in self.containers().items()}
            settled = None not in now.values() and len(now) >= least
            same = same + 1 if settled and now == before else 0
            if same == LOOKS:
                return len(now)
            before = now
            time.sleep(LOOK_SECONDS)
        raise NotMeasurable(f"the servers' containers did not come to rest within {REST_SECONDS:.0f} s")


def _used(pid: int | None) -> int | None:
    """The jiffies that a process has used; None if it does not exist, 0 for an engine whose processes run on another
    host.
    """
    if pid is None:
        return None
    with suppress(OSError):
        words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return int(words[_UTIME]) + int(words[_STIME])
    return 0


@contextmanager
def place(parent: Path) -> Iterator[Place]:
    """Everything in one new folder below `parent`, removed at the end. Raises NotMeasurable, SandboxError."""
    docker = shutil.which("docker") or shutil.which("podman")
    if docker is None:
        raise NotMeasurable("the engine's client is not here to compare with. Install docker-cli or podman.")
    finding = [sys.executable, "-m", "scripts.find_engine", "--daemon"]
    opened = subprocess.run(finding, capture_output=True, text=True, check=False)
    if opened.returncode != 0:
        raise NotMeasurable(opened.stderr.strip())
    address = opened.stdout.split()[0]
    folder = Path(tempfile.mkdtemp(prefix="gdal-mcp-bench-", dir=parent))
    workspace, scratch, state = (folder / name for name in ("workspace", "scratch", "state"))
    try:
        for part in (workspace, scratch, state):
            part.mkdir()
        scratch.chmod(0o777)
        logs.configure("warning")
        settings = load_settings(
            workspaces=[workspace], state_dir=state / "in-process", approval="never", pool_max=0
        )
        with running(settings) as app:
            yield Place(workspace, scratch, state, docker, address, settings.engine or address, app)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def machine(where: Place, load_before: float) -> Section:
    """The machine, the engine and the image, and the load of the machine before the first measurement."""
    host, cpus = where.app.hosting.ready(), os.cpu_count() or 1
    image, info = host.image, host.info
    kind = "a local stand-in built from Debian, not the official image" if image.standin else "as pulled"
    busy = "; other work was running, so only ratios count" if load_before / cpus > _BUSY else ""
    api = ".".join(map(str, info.api_version))
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    rows = (
        ("processors", f"{cpus} x {model or platform.machine()}"),
        ("memory", f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"),
        ("kernel", f"{platform.system()} {platform.release()}"),
        ("engine", f"{info.name} {info.version}, API {api}, cgroup v{info.cgroup_version}"),
        ("image", f"{image.reference} ({kind}), GDAL {image.version}, {image.digest[:19]}"),
        ("server", f"gdal-mcp {__version__}, Python {platform.python_version()}"),
        ("load average before the run", f"{load_before:.1f}{busy}"),
    )
    return Section("Machine", "What this run was made on.", ("", ""), rows)


def write_hills(folder: Path, name: str, size: int) -> Path:
    """A byte raster of smooth hills with `size` rows and columns in UTM zone 33, as raw bytes with an ENVI header."""
    wave = bytes(round(127.5 + 127.5 * math.sin(i / 97)) for i in range(2 * size))
    path = folder / f"{name}.dat"
    with path.open("wb") as file:
        for row in range(size):
            shift = round((size - 1) * (0.5 + 0.5 * math.sin(row / 311)))
            file.write(wave[shift : shift + size])
    header = (
        f"ENVI\nsamples = {size}\nlines = {size}\nbands = 1\nheader offset = 0\ndata type = 1\n"
        "interleave = bsq\nbyte order = 0\nmap info = {UTM, 1, 1, 500000, 5200000, 30, 30, 33, North, WGS-84}\n"
    )
    path.with_suffix(".hdr").write_text(header, encoding="ascii")
    return path


def write_points(path: Path, count: int) -> None:
    """Writes a CSV file with this number of points in metres of UTM zone 33 and two attributes."""
    with path.open("w", encoding="ascii") as file:
        file.write("x,y,name,value\n")
        for number in range(count):
            across, down = number % 1000, number // 1000
            where = f"{400_000 + across * 37.5 + down % 7:.1f},{5_000_000 + down * 41.25 - across % 11:.1f}"
            file.write(f"{where},place {number * 7919 % count},{number * 31 % 1009}\n")


def bare(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of a container's environment that a plain process needs; otherwise GDAL's own defaults apply."""
    return {name: environment[name] for name in ("PATH", "HOME", "LC_ALL")}
