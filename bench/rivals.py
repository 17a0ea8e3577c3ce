"""What calls are compared with: `docker run` of the same argv, the plain process, and an in-process server."""

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from platformdirs import user_cache_path

from bench.clients import Call, sdk_client
from bench.place import NotMeasurable, Place
from sandbox.engines.docker_spec import create_body
from sandbox.template import STAGING_TARGET, Mount, host_source

PEER_VERSION = "1.1.3"
_PEER = user_cache_path("gdal-mcp-bench", appauthor=False) / f"gdal-mcp-{PEER_VERSION}"
_INSTALL_SECONDS = 900  # it brings its own GDAL, PROJ and NumPy: 400 MB

# Runs each command that comes as a line of JSON and says how long it took: the clock is inside the container, so neither
# the engine nor its client is in the figure.
_LOOP = """
import json, subprocess, sys, time
for line in sys.stdin:
    job = json.loads(line)
    begun = time.perf_counter()
    done = subprocess.run(job["argv"], env=job["env"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    took = time.perf_counter() - begun
    said = done.stdout[-500:].decode("utf-8", "replace")
    print(json.dumps({"seconds": took, "code": done.returncode, "said": said}), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Plain:
    """Starts plain processes inside one long-lived container without seccomp, limits or read-only mounts."""

    process: "subprocess.Popen[str]"

    def run(self, argv: Sequence[str], environment: Mapping[str, str]) -> float:
        """The seconds from the start of the process to its end. Raises NotMeasurable when it fails."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"argv": list(argv), "env": dict(environment)}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"code": "the container ended", "said": ""}')
        if answer["code"] != 0:
            raise NotMeasurable(f"{' '.join(argv)} ended with {answer['code']}: {answer['said']}")
        return float(answer["seconds"])


@contextmanager
def plain(place: Place) -> Iterator[Plain]:
    """Plain processes by the same user and on the same number of processors as a call gets."""
    hosting = place.app.hosting
    user, cpus = ":".join(map(str, hosting.user())), place.app.settings.limits().cpus
    flags = ["--interactive", "--network=none", "--security-opt=seccomp=unconfined", f"--cpus={cpus:g}"]
    flags += [f"--user={user}", *_folders(place), "--entrypoint=python3"]
    words = [place.docker, "run", "--rm", *flags, hosting.ready().image.id, "-I", "-c", _LOOP]
    with subprocess.Popen(
        words, env=place.docker_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Plain(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def docker_run(place: Place, flags: Sequence[str], argv: Sequence[str]) -> None:
    """One `docker run --rm` of the argv, to its end. Raises NotMeasurable when it fails."""
    image = place.app.hosting.ready().image.id
    words = [place.docker, "run", "--rm", *flags, f"--entrypoint={argv[0]}", image, *argv[1:]]
    done = subprocess.run(words, env=place.docker_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotMeasurable(f"docker run failed: {done.stderr.strip()[-500:]}")


def _folders(place: Place) -> tuple[str, ...]:
    return tuple(f"--volume={folder}:{folder}" for folder in (place.workspace, place.scratch))


@contextmanager
def hardened_flags(place: Place) -> Iterator[tuple[str, ...]]:
    """A call's create body as flags, as far as the client can say it: not the masked paths, not the missing loopback."""
    host = place.app.hosting.ready()
    written = Mount(host_source(place.scratch), STAGING_TARGET, read_only=False)
    template = place.app.hosting.template(host, written)
    body = create_body(template, host.info, {})
    asked = body["HostConfig"]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as profile:
        profile.write(asked["SecurityOpt"][1].partition("=")[2])
        profile.flush()
        options: list[tuple[str, Any]] = [
            *(("env", f"{name}={value}") for name, value in template.environment.items()),
            *(("tmpfs", f"{target}:{how}") for target, how in asked["Tmpfs"].items()),
            *(("mount", _mount(row)) for row in asked["Mounts"]),
            *(("ulimit", f"{row['Name']}={row['Soft']}:{row['Hard']}") for row in asked["Ulimits"]),
            *(("user", body["User"]), ("workdir", body["WorkingDir"]), ("hostname", body["Hostname"])),
            *(("network", "none"), ("ipc", "none"), ("dns", "127.0.0.1"), ("cap-drop", "ALL")),
            *(("security-opt", asked["SecurityOpt"][0]), ("security-opt", f"seccomp={profile.name}")),
            *(("memory", asked["Memory"]), ("memory-swap", asked["MemorySwap"])),
            *(("cpus", template.limits.cpus), ("pids-limit", asked["PidsLimit"]), ("log-driver", "none")),
            *([("runtime", template.runtime)] if template.runtime else []),
        ]
        yield ("--read-only", "--no-healthcheck", *(f"--{name}={value}" for name, value in options))


def _mount(row: Mapping[str, Any]) -> str:
    options = ["type=bind", f"source={row['Source']}", f"target={row['Target']}", "bind-propagation=rprivate"]
    return ",".join([*options, *(["readonly"] if row["ReadOnly"] else [])])


@contextmanager
def peer_client(place: Place) -> Iterator[Call]:
    """Calls of gdal-mcp's tools, a server that opens files in its own process. Raises NotMeasurable.

    The first time, it is installed from PyPI into an environment of its own in the user's cache folder.
    """
    program, mark = _PEER / "bin" / "gdal", _PEER / "complete"
    if not mark.exists():
        _install_peer()
        mark.touch()
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    quiet = {"FASTMCP_SHOW_CLI_BANNER": "false", "FASTMCP_LOG_LEVEL": "ERROR"}
    environment = {**kept, **quiet, "GDAL_MCP_WORKSPACES": str(place.workspace)}
    command = [str(program), "--transport", "stdio", "--log-level", "ERROR"]
    with sdk_client(command, environment, mode="legacy", quiet=True) as call:
        yield call


def _install_peer() -> None:
    sys.stderr.write(f"installing gdal-mcp {PEER_VERSION} into {_PEER}\n")
    words = [str(_PEER / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input"]
    words += ["--disable-pip-version-check", f"gdal-mcp=={PEER_VERSION}"]
    try:
        venv.create(_PEER, clear=True, with_pip=True)
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_INSTALL_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotMeasurable(f"gdal-mcp {PEER_VERSION} could not be installed: {error}") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise NotMeasurable(f"gdal-mcp {PEER_VERSION} could not be installed: {last[:200]}")
