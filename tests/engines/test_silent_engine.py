"""Engines that silently omit a requested setting or add one: nothing runs there, whatever the setting is."""

import json
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import pytest

from gdal_mcp.runtime.image import Image
from sandbox.engines.discovery import DOCKER_SOCKET
from sandbox.engines.docker import DockerEngine
from sandbox.errors import IsolationRefused
from tests.engines.bench import LEAVE_A_MARK, Bench
from tests.engines.kit import bench_on
from tests.integration.engine_proxy import EngineProxy

pytestmark = [pytest.mark.engine, pytest.mark.claim("engine.silence-is-noticed")]
Body = dict[str, Any]
Change = Callable[[Body], None]
_CREATE = re.compile(rb"^POST \S*/containers/create[? ]")
_LENGTH = re.compile(rb"(?i)(content-length: )(\d+)")


class DroppingProxy(EngineProxy):
    """Applies `change` to the body of each create request on its way. `changed` counts the changes."""

    def __init__(self, path: Path, engine: str, change: Change) -> None:
        self.change, self.changed = change, 0
        super().__init__(path, engine)

    def _forward(self, source: socket.socket, target: socket.socket, asking: bool) -> None:
        super()._forward(_Rewritten(source, self._rewritten) if asking else source, target, asking)

    def _rewritten(self, head: bytes, body: bytes) -> bytes:
        request = json.loads(body)
        self.change(request)
        self.changed += 1
        changed = json.dumps(request).encode()
        return _LENGTH.sub(rb"\g<1>%d" % len(changed), head) + b"\r\n\r\n" + changed


class _Rewritten:
    """A connection whose create requests are read completely and changed; everything else is passed on unchanged."""

    def __init__(self, source: socket.socket, rewrite: Callable[[bytes, bytes], bytes]) -> None:
        self._source, self._rewrite = source, rewrite

    def recv(self, count: int) -> bytes:
        data = self._source.recv(count)
        if not _CREATE.match(data):
            return data
        while b"\r\n\r\n" not in data:
            data += self._source.recv(count)
        head, body = data.split(b"\r\n\r\n", 1)
        match = _LENGTH.search(head)
        assert match
        while len(body) < int(match[2]):
            body += self._source.recv(count)
        return self._rewrite(head, body)

    def shutdown(self, how: int) -> None:
        self._source.shutdown(how)


def without(*names: str) -> Change:
    """Removes fields, like an engine that does not know them."""

    def change(body: Body) -> None:
        for name in names:
            body.pop(name, None)
            body["HostConfig"].pop(name, None)

    return change


def without_security(word: str) -> Change:
    def change(body: Body) -> None:
        options = [option for option in body["HostConfig"]["SecurityOpt"] if word not in option]
        body["HostConfig"]["SecurityOpt"] = options

    return change


def host_settings(**more: Any) -> Change:
    return lambda body: body["HostConfig"].update(more)


def network_of_the_host(body: Body) -> None:
    # the engine refuses a host name with the host's network
    body.update(Hostname="", NetworkDisabled=False)
    body["HostConfig"]["NetworkMode"] = "host"


def writable_mounts(body: Body) -> None:
    for mount in body["HostConfig"]["Mounts"]:
        mount["ReadOnly"] = False


DEVICE = {"PathOnHost": "/dev/null", "PathInContainer": "/dev/x", "CgroupPermissions": "rwm"}
KINDS = {
    "memory": without("Memory", "MemorySwap"),
    "swap": without("MemorySwap"),
    "processes": without("PidsLimit"),
    "processors": without("NanoCpus"),
    "resource limits": without("Ulimits"),
    "capabilities": without("CapDrop"),
    "system calls": without_security("seccomp"),
    "privileges": without_security("no-new-privileges"),
    "network": without("NetworkMode", "NetworkDisabled"),
    "user": without("User"),
    "root": without("ReadonlyRootfs"),
    "mounts": without("Mounts"),
    "read-only": writable_mounts,
    "scratch": without("Tmpfs"),
    "masks": without("MaskedPaths"),
    "settings of the kernel": host_settings(ReadonlyPaths=[]),  # without it, the list is the same
    "shared memory": without("IpcMode"),
    "name": without("Hostname"),
    "logs": without("LogConfig"),
    "stdin": without("StdinOnce"),
    "environment": without("Env"),
    "labels": without("Labels"),
    "health check": without("Healthcheck"),
    "privileged": host_settings(Privileged=True),
    "a capability": host_settings(CapAdd=["SYS_ADMIN"]),
    "the host's network": network_of_the_host,
    "the host's processes": host_settings(PidMode="host"),
    "a folder": host_settings(Binds=["/etc:/host:ro"]),
    "a device": host_settings(Devices=[DEVICE]),
    "a group": host_settings(GroupAdd=["0"]),
    "a log": host_settings(LogConfig={"Type": "json-file", "Config": {}}),
    "another start": host_settings(RestartPolicy={"Name": "always", "MaximumRetryCount": 0}),
}


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DroppingProxy]:
    socket = os.environ.get("DOCKER_HOST", DOCKER_SOCKET).removeprefix("unix://")
    path: Path = tmp_path_factory.mktemp("proxy") / "engine.sock"
    new_proxy = DroppingProxy(path, socket, lambda _body: None)
    yield new_proxy
    new_proxy.close()


@pytest.fixture(scope="module")
def bench(proxy: DroppingProxy, image: Image) -> Iterator[Bench]:
    with (
        closing(docker.DockerClient(base_url=proxy.address)) as client,
        bench_on(DockerEngine(client), image.id, DockerEngine) as new_bench,
    ):
        yield new_bench


@pytest.fixture
def mark(bench: Bench) -> Iterator[Path]:
    """The mark that a container leaves if it ran."""
    place = bench.staging / "started"
    yield place
    place.unlink(missing_ok=True)


def test_what_passes_unchanged_is_made(bench: Bench, proxy: DroppingProxy, mark: Path) -> None:
    proxy.change, before = lambda _body: None, proxy.changed
    assert bench.run(LEAVE_A_MARK).code == 0
    assert proxy.changed == before + 1
    assert mark.exists()


@pytest.mark.claim("sandbox.read-back")
def test_silent_omissions_and_additions_are_noticed_before_running(bench, proxy, mark, subtests):
    for kind in KINDS:
        with subtests.test(kind=kind):
            proxy.change, before = KINDS[kind], proxy.changed
            with pytest.raises(IsolationRefused):
                bench.run(LEAVE_A_MARK)
            assert proxy.changed == before + 1
            assert not mark.exists()
            assert bench.ours() == {}
