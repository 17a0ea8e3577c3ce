"""An independent GDAL: a plain container of the same image, started by testcontainers and not by our engine code."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from sandbox.engines.discovery import discover

# testcontainers would otherwise pull a container of its own that removes ours; the `with` below does that
testcontainers_config.ryuk_disabled = True

STAGING = "/staging"
# none of our settings, but as much precision and as few threads as ours, so that equal means equal
ENVIRONMENT = {"GDAL_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True)
class Said:
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Oracle:
    """Runs GDAL commands. It reads everything below `sees` at the same paths as the host and writes below `out`."""

    container: DockerContainer
    sees: Path
    out: Path

    def run(self, *argv: str) -> Said:
        done = self.container.get_wrapped_container().exec_run(list(argv), demux=True, workdir="/tmp")
        stdout, stderr = (part.decode("utf-8", "replace") if part else "" for part in done.output)
        return Said(done.exit_code, stdout, stderr)

    def must(self, *argv: str) -> str:
        """What a command that must succeed prints."""
        said = self.run(*argv)
        assert said.code == 0, f"{argv}: {said.stderr or said.stdout}"
        return said.stdout

    def python(self, source: str, *arguments: str) -> str:
        return self.must("python3", "-c", source, *arguments)

    def folder(self, name: str) -> Path:
        """A new empty folder that it may write to."""
        made = self.out / name
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        return made

    def raster(self, path: Path) -> dict[str, Any]:
        """What GDAL says of a raster, with a checksum of every band."""
        return json.loads(self.must("gdalinfo", "-json", "-checksum", "-nomd", str(path)))

    def checksums(self, path: Path) -> list[int]:
        return [band["checksum"] for band in self.raster(path)["bands"]]

    def vector(self, path: Path) -> dict[str, Any]:
        """What GDAL says of a vector dataset, features included."""
        return json.loads(self.must("ogrinfo", "-json", "-features", str(path)))

    def counts(self, path: Path) -> list[int]:
        return [layer["featureCount"] for layer in self.vector(path)["layers"]]


@contextmanager
def oracle_over(image: str, sees: Path, network: str = "none") -> Iterator[Oracle]:
    """An oracle that reads below `sees`; its output folder lies there too."""
    endpoint, client = discover(os.environ.get("GDAL_MCP_ENGINE"))
    client.close()
    out = sees / "oracle"
    out.mkdir(exist_ok=True)
    container = (
        DockerContainer(
            image, docker_client_kw={"environment": {**os.environ, "DOCKER_HOST": endpoint.address}}
        )
        .with_command(["sleep", "infinity"])
        .with_volume_mapping(str(sees), str(sees), "ro")
        .with_volume_mapping(str(out), str(out), "rw")
        .with_envs(**ENVIRONMENT)
        .with_kwargs(network_mode=network, user=f"{os.getuid()}:{os.getgid()}", entrypoint=[])
    )
    with container:
        yield Oracle(container, sees, out)
