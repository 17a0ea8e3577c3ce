"""Clients of a running server, and the contenders that its calls are compared with.

The clients are the official SDK's, and a minimal one for measurements that would show the client's own time. The
contenders are `docker run` of the same argv, the plain process, and an in-process server.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from platformdirs import user_cache_path

from bench.place import NotMeasurable, Place
from sandbox.engines.docker_spec import create_body
from sandbox.engines.opening import open_engine
from sandbox.template import STAGING_TARGET, Mount, host_source

Call = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@contextmanager
def sdk_client(
    command: list[str],
    environment: Mapping[str, str],
    mode: Literal["auto", "legacy"] = "auto",
    *,
    quiet: bool = False,
) -> Iterator[Call]:
    """Starts a server over stdio; calls return structured results, or raise NotMeasurable for a tool's error."""
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=dict(environment))
    with Path(os.devnull).open("w", encoding="utf-8") as unheard, start_blocking_portal() as portal:
        client = Client(stdio_client(parameters, errlog=unheard if quiet else sys.stderr), mode=mode)
        connection = portal.wrap_async_context_manager(client)
        connection.__enter__()

        def call(tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
            reply = portal.call(partial(client.call_tool, tool, dict(arguments)))
            if reply.is_error or reply.structured_content is None:
                raise NotMeasurable(f"{tool} failed: {str(reply.structured_content)[:500]}")
            return dict(reply.structured_content)

        try:
            yield call
        finally:  # without the exception, so that an error of this program is not wrapped into a group
            connection.__exit__(None, None, None)


class BareClient:
    """One server process, with one line of JSON at a time. Entering it makes the first request of its era."""

    def __init__(self, place: Place, *options: str, modern: bool = False, name: str = "server") -> None:
        self._modern = modern
        self._ids = count(1)
        self._process = subprocess.Popen(
            place.program("serve", *options, name=name),
            env=place.python_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        try:
            if self._modern:
                self.ask("server/discover", {})
            else:
                who = {"name": "bench", "version": "0"}
                self.ask("initialize", {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": who})
                self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        except BaseException:  # re-raised after the server has ended
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The result of one request while no other is in progress. Raises NotMeasurable on an error."""
        number = self.begin(method, params)
        while (answer := self.next_answer())[0] != number:
            pass
        return answer[1]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> int:
        """Begins a call and returns its id."""
        return self.begin("tools/call", {"name": tool, "arguments": arguments})

    def begin(self, method: str, params: Mapping[str, Any]) -> int:
        """Sends one request and returns its id."""
        number = next(self._ids)
        sent = {**params, "_meta": _META} if self._modern else dict(params)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": sent})
        return number

    def next_answer(self) -> tuple[int, Mapping[str, Any]]:
        """The id and the result of the next answer. Raises NotMeasurable on an error."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            if "method" in answer:
                continue
            if "result" not in answer or answer["result"].get("isError"):
                raise NotMeasurable(f"a request failed: {line[:500]!r}")
            return int(answer["id"]), dict(answer["result"])
        raise NotMeasurable("the server ended before it answered")

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def resident_megabytes(self) -> float:
        return resident_megabytes(self._process.pid)

    def count(self, kind: Literal["fd", "task"]) -> int:
        """The number of open descriptors or of threads of the server."""
        return len(list(Path(f"/proc/{self._process.pid}/{kind}").iterdir()))


@contextmanager
def served(
    place: Place, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[str, str, int]]:
    """The address of a new server over HTTP, a token for it and its process id."""
    environment = {**place.python_environment(), **settings}
    make = place.program("token", "new", "bench", "--scope", "gdal:read")
    token = subprocess.run(make, env=environment, capture_output=True, text=True, check=False).stdout.strip()
    command = place.program("serve", "--transport", "http", "--port", "0")
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url or not token:
            raise NotMeasurable("the server over HTTP did not start")
        yield url, token, process.pid
    finally:
        process.terminate()
        process.communicate()


def resident_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    row = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(row.split()[1]) * 1024 / 1e6


PEER_VERSION = "1.1.3"
_PEER = user_cache_path("gdal-mcp-bench", appauthor=False) / f"gdal-mcp-{PEER_VERSION}"
_INSTALL_SECONDS = 900  # it brings its own GDAL, PROJ and NumPy: 400 MB

# Runs each command that comes as a line of JSON and prints its duration: the clock is inside the container, so the
# figure contains neither the engine nor its client.
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
    user, cpus = ":".join(map(str, hosting.templates.user())), place.app.settings.limits().cpus
    flags = ["--interactive", "--network=none", "--security-opt=seccomp=unconfined", f"--cpus={cpus:g}"]
    flags += [f"--user={user}", *_folders(place), "--entrypoint=python3"]
    words = [place.docker, "run", "--rm", *flags, hosting.ready().image.reference, "-I", "-c", _LOOP]
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
    # by name, because without a daemon, ids belong to the separate store
    image = place.app.hosting.ready().image.reference
    words = [place.docker, "run", "--rm", *flags, f"--entrypoint={argv[0]}", image, *argv[1:]]
    done = subprocess.run(words, env=place.docker_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotMeasurable(f"docker run failed: {done.stderr.strip()[-500:]}")


def _folders(place: Place) -> tuple[str, ...]:
    return tuple(f"--volume={folder}:{folder}" for folder in (place.workspace, place.scratch))


@contextmanager
def hardened_flags(place: Place) -> Iterator[tuple[str, ...]]:
    """The create request of a call as command line flags, except the masked paths and the missing loopback, which
    have none.
    """
    host = place.app.hosting.ready()
    written = Mount(host_source(place.scratch), STAGING_TARGET, read_only=False)
    template = place.app.hosting.templates.build(host, written)
    with closing(open_engine(place.address)) as docker:
        body = create_body(template, docker.info(), {})
    host_config = body["HostConfig"]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as profile:
        profile.write(host_config["SecurityOpt"][1].partition("=")[2])
        profile.flush()
        options: list[tuple[str, Any]] = [
            *(("env", f"{name}={value}") for name, value in template.environment.items()),
            *(("tmpfs", f"{target}:{how}") for target, how in host_config["Tmpfs"].items()),
            *(("mount", _mount(row)) for row in host_config["Mounts"]),
            *(("ulimit", f"{row['Name']}={row['Soft']}:{row['Hard']}") for row in host_config["Ulimits"]),
            *(("user", body["User"]), ("workdir", body["WorkingDir"]), ("hostname", body["Hostname"])),
            *(("network", "none"), ("ipc", "none"), ("dns", "127.0.0.1"), ("cap-drop", "ALL")),
            *(("security-opt", host_config["SecurityOpt"][0]), ("security-opt", f"seccomp={profile.name}")),
            *(("memory", host_config["Memory"]), ("memory-swap", host_config["MemorySwap"])),
            *(
                ("cpus", template.limits.cpus),
                ("pids-limit", host_config["PidsLimit"]),
                ("log-driver", "none"),
            ),
            *([("runtime", template.runtime)] if template.runtime else []),
        ]
        yield ("--read-only", "--no-healthcheck", *(f"--{name}={value}" for name, value in options))


def _mount(row: Mapping[str, Any]) -> str:
    options = ["type=bind", f"source={row['Source']}", f"target={row['Target']}", "bind-propagation=rprivate"]
    return ",".join([*options, *(["readonly"] if row["ReadOnly"] else [])])


@contextmanager
def peer_client(place: Place) -> Iterator[Call]:
    """Calls of the tools of gdal-mcp, a server that opens files in its own process. Raises NotMeasurable.

    The first time, it is installed from PyPI into a separate environment in the user's cache folder.
    """
    program, mark = _PEER / "bin" / "gdal", _PEER / "complete"
    if not mark.exists():
        _install_peer()
        mark.touch()
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    quiet = {"FASTMCP_SHOW_CLI_BANNER": "false", "FASTMCP_LOG_LEVEL": "ERROR"}
    environment = {**inherited, **quiet, "GDAL_MCP_WORKSPACES": str(place.workspace)}
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
