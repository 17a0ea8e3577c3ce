"""An independent GDAL: a plain container of the same image, started by testcontainers and not by our engine code.

It has none of our settings: GDAL's own number of threads (one), its own cache, no limits, no overrides. With our
settings, a fault of GDAL that only they cause would be on both sides.
"""

import itertools
import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docker.utils.socket import frames_iter
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from sandbox.engines.discovery import discover
from tests.oci_store import docker_address

# otherwise testcontainers would pull another image for a container that removes ours; the `with` below removes it
testcontainers_config.ryuk_disabled = True

STAGING = "/staging"
# one process in the container runs everything: an exec through the engine for each of about a hundred commands took
# longer than the commands. Programs are separate processes; Python sources run in a fork of that process, which has
# loaded GDAL once
_RUNS = """
import gc, json, os, subprocess, sys, tempfile, traceback

def program(argv):
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True)
    except OSError as error:
        return 127, b"", str(error).encode()
    return done.returncode, done.stdout, done.stderr

def python(source, argv):
    from osgeo import gdal, ogr, osr
    gdal.DontUseExceptions()  # as it is, but loaded with all that the choice loads
    streams = [tempfile.TemporaryFile() for _ in range(2)]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for number, stream in enumerate(streams, 1):
                os.dup2(stream.fileno(), number)
            sys.argv, names = ["-c", *argv], {"__name__": "__main__"}
            exec(compile(source, "<source>", "exec"), names)
            names.clear()
            gc.collect()  # datasets that are still open are written
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)  # threads that libraries had are not here to be waited for
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for stream in streams:
        stream.seek(0)
    return code, *(stream.read() for stream in streams)

for line in sys.stdin:
    number, source, argv = json.loads(line)
    code, *printed = program(argv) if source is None else python(source, argv)
    print(json.dumps([number, code, *(part.decode("utf-8", "replace") for part in printed)]), flush=True)
"""
_RASTER = """
import json, sys
from osgeo import gdal
gdal.UseExceptions()
print(json.dumps(gdal.Info(sys.argv[1], options=["-json", "-checksum", "-nomd"])))
"""
_VECTOR = """
import json, sys
from osgeo import gdal
gdal.UseExceptions()
print(json.dumps(gdal.VectorInfo(sys.argv[1], options=["-json", "-features"])))
"""


@dataclass(frozen=True)
class Said:
    """The output of a command."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Oracle:
    """Runs GDAL commands. It reads everything below `sees` at the same paths as the host, and writes below `out`."""

    runs: "_Commands"
    sees: Path
    out: Path

    def run(self, *argv: str) -> Said:
        return self.runs.execute(None, argv)

    def must(self, *argv: str) -> str:
        """The output of a command that must succeed."""
        return _succeeded(self.run(*argv), argv)

    def python(self, source: str, *arguments: str) -> str:
        """The output of a Python program that must succeed."""
        return _succeeded(self.runs.execute(source, arguments), arguments)

    def folder(self, name: str) -> Path:
        """A new empty folder to which it may write."""
        empty = self.out / name
        shutil.rmtree(empty, ignore_errors=True)
        empty.mkdir(parents=True)
        return empty

    def raster(self, path: Path) -> dict[str, Any]:
        """GDAL's description of a raster, with a checksum of every band."""
        return json.loads(self.python(_RASTER, str(path)))

    def checksums(self, path: Path) -> list[int]:
        return [band["checksum"] for band in self.raster(path)["bands"]]

    def vector(self, path: Path) -> dict[str, Any]:
        """GDAL's description of a vector dataset, including features."""
        return json.loads(self.python(_VECTOR, str(path)))

    def counts(self, path: Path) -> list[int]:
        return [layer["featureCount"] for layer in self.vector(path)["layers"]]


def _succeeded(result: Said, argv: tuple[str, ...]) -> str:
    assert result.code == 0, f"{argv}: {result.stderr or result.stdout}"
    return result.stdout


@dataclass(frozen=True)
class _Commands:
    """The process in the container that runs everything, one command at a time.

    Its answers are numbered: a test that was ended by its time limit left an answer that belongs to no later command.
    """

    connection: socket.socket
    lock: threading.Lock = field(default_factory=threading.Lock)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def execute(self, source: str | None, argv: tuple[str, ...]) -> Said:
        received = {1: bytearray(), 2: bytearray()}
        with self.lock:
            number = next(self.numbers)
            self.connection.sendall(json.dumps([number, source, argv]).encode() + b"\n")
            for stream, data in frames_iter(self.connection, tty=False):
                received[stream] += data
                *lines, received[1] = received[1].split(b"\n")
                for answered, *rest in map(json.loads, lines):
                    if answered == number:
                        return Said(*rest)
        raise AssertionError(f"the oracle's process ended: {received[2].decode()}")


@contextmanager
def _running_commands(container: DockerContainer) -> Iterator[_Commands]:
    wrapped = container.get_wrapped_container()
    api = wrapped.client.api
    execution = api.exec_create(wrapped.id, ["python3", "-c", _RUNS], stdin=True, workdir="/tmp")
    stream = api.exec_start(execution["Id"], socket=True)
    connection = stream._sock
    try:
        yield _Commands(connection)
    finally:
        connection.close()
        stream._response.close()


@contextmanager
def oracle_over(image: str, sees: Path, network: str = "none") -> Iterator[Oracle]:
    """An oracle that reads below `sees`, where its output folder is too."""
    endpoint, client = discover(docker_address())
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
        .with_kwargs(network_mode=network, user=f"{os.getuid()}:{os.getgid()}", entrypoint=[])
    )
    with container, _running_commands(container) as runs:
        yield Oracle(runs, sees, out)
