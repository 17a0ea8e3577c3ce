"""Containers that are weaker than requested, in Docker's terms: each weakness fails its own rows and no other.

For the engine without a daemon, `tests/engines/test_oci.py` weakens `config.json` in each point.
"""

from collections.abc import Callable
from typing import Any

import pytest

from sandbox import slot
from sandbox.engine import Engine
from sandbox.engines.docker import DockerEngine
from sandbox.errors import AttestationFailed
from sandbox.escape.cis import BENCHMARK
from sandbox.isolation.rows import Row
from tests.engines.kit import weaken_docker

pytestmark = [pytest.mark.engine, pytest.mark.claim("escape.doctor-tells")]


@pytest.fixture
def weaken(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., None]], None]:
    """`weaken(change)`: an engine in which `change` alters the request, and a server that does not check."""
    assert isinstance(engine, DockerEngine)

    def weaken_with(change: Callable[..., None]) -> None:
        weaken_docker(monkeypatch, change)
        monkeypatch.setattr(slot, "verify_isolation", lambda _template, _facts, **_: None)

    return weaken_with


def failed(rows: tuple[Row, ...]) -> set[str]:
    """The failed rows: by name, those of the benchmark by number."""
    return {row.cis if row.group == BENCHMARK else row.name for row in rows if row.verdict == "failed"}


def without_filter(_body: dict[str, Any], host: dict[str, Any]) -> None:
    host["SecurityOpt"] = ["no-new-privileges:true", "seccomp=unconfined"]


def with_power(body: dict[str, Any], host: dict[str, Any]) -> None:
    body["User"] = "0:0"
    host.update(ReadonlyRootfs=False, CapDrop=[], CapAdd=["SYS_ADMIN"])


def shared(body: dict[str, Any], host: dict[str, Any]) -> None:
    body.update(Hostname="", Env=[*body["Env"], "TOKEN=1"], NetworkDisabled=False)
    host.update(NetworkMode="host", PidMode="host", UTSMode="host", MaskedPaths=[], Ulimits=[])
    socket = {**host["Mounts"][0], "Source": "/var/run/docker.sock", "Target": "/run/docker.sock"}
    host["Mounts"] = [*host["Mounts"], socket]


WEAK = {
    "filter": (
        without_filter,
        {
            *("reach other programs through local sockets", "make devices, pipes, sockets and links"),
            *("run programs from scratch and memory", "ask prctl, ioctl and fcntl for more"),
            *("make system calls that no job needs", "open sockets of other families"),
            *("have a crash dumped on the host", "Seccomp", "5.22", "5.18", "5.32"),
        },
        {  # these depend on how the kernel is built and configured
            *("make and enter namespaces", "call the kernel as another architecture"),
            *("5.10", "5.16", "5.17", "5.19", "5.21", "5.31"),
        },
    ),
    "power": (
        with_power,
        {
            *("write outside scratch and output", "user", "mount /", "writable mounts", "5.4", "5.5", "5.13"),
            *("CapBnd", "CapEff", "CapPrm", "supplementary groups", "5.6", "5.26"),
            "read what tells of the host",  # the files belong to root
        },
        {
            *(
                "CapInh",
                "write the kernel's settings",
                "find writable settings of the kernel",
                "become another user",
            ),
            "user of a set-user-id program",
        },
    ),
    "sharing": (
        shared,
        {
            *("see other processes", "namespaces of its own", "host name", "find an engine's socket"),
            *("see below /sys", "read what tells of the host", "find the host's environment"),
            *("network interfaces", "foreign environment", "foreign mounts", "rlimit NOFILE", "process"),
            *("5.7", "5.8", "5.9", "5.10", "5.14", "5.16", "5.17", "5.19", "5.21", "5.30", "5.32"),
        },
        {  # queues, terminals, and checks in the same rows as those above
            *("write outside scratch and output", "open devices", "have a crash dumped on the host"),
            *("writable mounts", "mask", "mounts", "shared propagation"),
            *("5.5", "5.6", "5.13", "5.18", "5.20"),
            *(f"rlimit {name}" for name in ("CORE", "CPU", "DATA", "FSIZE")),
        },
    ),
}


@pytest.mark.parametrize("name", WEAK)
def test_weaker_container_fails_only_its_own_rows(escape, weaken, name):
    change, must, may = WEAK[name]
    weaken(change)
    rows = escape()
    assert not all(row.ok for row in rows)
    assert must <= failed(rows)
    assert failed(rows) <= must | may


def test_self_measured_weaker_container_is_not_tried(escape, weaken, monkeypatch):
    real = slot.verify_isolation
    weaken(lambda _body, host: host.update(CapDrop=[]))
    monkeypatch.setattr(slot, "verify_isolation", real)
    with pytest.raises(AttestationFailed):
        escape()


def test_command_reports_a_previously_attested_host(doctor, weaken):
    """The stored attestation of the host is used although its containers let things escape."""
    assert doctor()[0] == 0
    weaken(without_filter)
    code, text = doctor()
    assert code == 1
    assert "5.22" in text
