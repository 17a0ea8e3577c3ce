"""The place of a benchmark: a temporary folder with a workspace, the image and the engine that calls use."""

import math
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gdal_mcp.host.image import Image, resolve
from gdal_mcp.settings import Settings, load_settings
from sandbox.engines.discovery import discover
from sandbox.engines.images import DockerImages

ALWAYS_COLD = ("--pool-max", "0")


class NotMeasurable(Exception):
    """Something that the comparison needs is not on this host."""


@dataclass(frozen=True, slots=True)
class Arena:
    """Where things are, and what they run on."""

    workspace: Path
    scratch: Path  # writable for the container's user, on the workspace's file system
    state: Path
    address: str  # of the engine
    program: str  # the engine's command line client
    image: Image
    options: tuple[str, ...] = ()  # of the server, besides those that every one here has

    def settings(self, pool_max: int | None = 0) -> Settings:
        """For the server's parts in this process, which share no state with a server beside it; None is the default pool."""
        return load_settings(
            pool_max=pool_max,
            workspaces=[self.workspace],
            state_dir=self.state / ("in-process" if pool_max == 0 else "in-process-warm"),
            engine=self.address,
            image=self.image.reference,
            approval="never",
        )

    def serving(self, *options: str) -> "Arena":
        """The same place with a server that has these options too."""
        return replace(self, options=(*self.options, *options))

    def serve_command(self) -> list[str]:
        """The server as a client starts it."""
        options = {
            "--workspace": self.workspace,
            "--state-dir": self.state / "server",
            "--engine": self.address,
            "--image": self.image.reference,
            "--approval": "never",
        }
        words = [str(word) for pair in options.items() for word in pair]
        return [sys.executable, "-m", "gdal_mcp", "serve", *words, *self.options]

    def python_environment(self) -> dict[str, str]:
        """For processes that run our code: with compiled modules kept, as in any installation."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**kept, "PYTHONPYCACHEPREFIX": str(self.state / "compiled")}

    def run_program(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command of the engine's client. Raises NotMeasurable with what it said when it fails."""
        done = subprocess.run(
            [self.program, *words], env=self.environment(), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise NotMeasurable(f"{self.program} {words[0]} failed: {done.stderr.strip()[-500:]}")
        return done

    def environment(self) -> dict[str, str]:
        """For the engine's client: the same engine as the server's."""
        return {**os.environ, "DOCKER_HOST": self.address}

    def new_name(self, suffix: str = ".tif") -> str:
        return f"out-{secrets.token_hex(4)}{suffix}"


@contextmanager
def arena(parent: Path) -> Iterator[Arena]:
    """Everything in one new folder below `parent`, removed at the end. Raises NotMeasurable, SandboxError."""
    program = shutil.which("docker") or shutil.which("podman")
    if program is None:
        raise NotMeasurable("the engine's client is not here to compare with. Install docker-cli or podman.")
    place, client = discover()
    image = resolve(DockerImages(client.api), os.environ.get("GDAL_MCP_IMAGE") or None)
    client.close()
    folder = Path(tempfile.mkdtemp(prefix="gdal-mcp-bench-", dir=parent))
    try:
        made = Arena(
            folder / "workspace", folder / "scratch", folder / "state", place.address, program, image
        )
        for one in (made.workspace, made.scratch, made.state):
            one.mkdir()
        made.scratch.chmod(0o777)
        yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
    """CSV with so many points in metres of UTM zone 33 and two attributes."""
    with path.open("w", encoding="ascii") as file:
        file.write("x,y,name,value\n")
        for number in range(count):
            across, down = number % 1000, number // 1000
            place = f"{400_000 + across * 37.5 + down % 7:.1f},{5_000_000 + down * 41.25 - across % 11:.1f}"
            file.write(f"{place},place {number * 7919 % count},{number * 31 % 1009}\n")
