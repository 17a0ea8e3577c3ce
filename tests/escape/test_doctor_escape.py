"""`gdal-mcp doctor --escape`: nothing gets out of a container like a call's, and every weakness fails its rows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.cli import main
from gdal_mcp.commands.escape import table
from sandbox.errors import AttestationFailed
from sandbox.hardening import create_body
from sandbox.isolation import rows as rows_module
from sandbox.isolation.cis import BENCHMARK, CHECKS, Seen
from sandbox.isolation.rows import Row, Tried, rows
from sandbox.isolation.trying import Escape, try_to_escape
from tests.conftest import USER

pytestmark = [pytest.mark.engine, pytest.mark.claim("escape.doctor-tells")]

GROUPS = {"escape", "sight", "container", BENCHMARK}
NUMBERS = [f"5.{number}" for number in range(1, 33)]


@pytest.fixture
def escape(runner, engine, ground, like_a_call, cancel) -> Callable[[], Escape]:
    """`escape()`: all rows of one container like a call's."""

    def one() -> Escape:
        with ground.area.open("staging-0001", USER) as staging:
            return try_to_escape(runner, like_a_call(staging.path), engine.inspect, cancel)

    return one


def failed(found: Escape) -> set[str]:
    """What got out, by words or, of the benchmark, by number."""
    return {row.cis if row.group == BENCHMARK else row.tried for row in found.rows if row.verdict == "failed"}


# --- weaker containers fail the right rows ---


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
            *("have a crash dumped on the host", "seccomp", "5.22"),
        },
        {
            "make and enter namespaces",
            "call the kernel as another architecture",
        },  # as the kernel is built and set
    ),
    "power": (
        with_power,
        {
            *("write outside scratch and output", "user and groups", "5.4", "5.13"),
            *("capabilities CapBnd", "capabilities CapEff", "capabilities CapPrm"),
            "read what tells of the host",  # files of root's
        },
        {"capabilities CapInh", "write the kernel's settings", "find writable settings of the kernel"},
    ),
    "sharing": (
        shared,
        {
            *(
                "see other processes",
                "namespaces of its own",
                "learn the host's name",
                "find an engine's socket",
            ),
            *("see below /sys", "read what tells of the host", "find the host's environment"),
            *("find a network interface", "5.7", "5.10", "5.16", "5.19", "5.21", "5.30", "5.32"),
        },
        {
            "write outside scratch and output",
            "open devices",
            "have a crash dumped on the host",
        },  # queues, terminals
    ),
}


@pytest.mark.parametrize("name", WEAK)
def test_a_weaker_container_fails_its_own_rows_and_no_other(escape, weaken, name):
    change, must, may = WEAK[name]
    weaken(change)
    found = escape()
    assert not found.ok
    assert must <= failed(found)
    assert failed(found) <= must | may


def test_a_container_that_measures_itself_as_weaker_is_not_tried_at_all(escape, weaken, monkeypatch):
    from sandbox import slot

    real = slot._refuse_weaker
    weaken(lambda _body, host: host.update(CapDrop=[]))
    monkeypatch.setattr(slot, "_refuse_weaker", real)
    with pytest.raises(AttestationFailed):
        escape()


# --- the benchmark's checks ---


def test_every_check_of_the_benchmark_has_its_number_its_reason_and_its_settings(engine, make_template):
    body = create_body(make_template("pass"), engine._facts, {})
    assert [check.number for check in CHECKS] == NUMBERS
    assert all(check.title and check.how for check in CHECKS)
    assert {name for check in CHECKS for name in check.settings} <= {
        *body,
        *body["HostConfig"],
        "CgroupnsMode",
    }
    assert all(check.settings for check in CHECKS if check.judge)


def test_each_check_fails_for_a_container_that_asks_for_what_it_forbids(
    client, engine, make_template, ground
):
    """Made and inspected, never started."""
    body = create_body(make_template("pass"), engine._facts, {"purpose": "test"})
    source, socket = str(ground.workspace), "/var/run/docker.sock"
    shared_mount = {
        "Type": "bind",
        "Source": source,
        "Target": "/etc",
        "BindOptions": {"Propagation": "rshared"},
    }
    body["NetworkDisabled"] = False
    body["HostConfig"].update(
        Privileged=True, CapDrop=[], CapAdd=["ALL"], ReadonlyRootfs=False, SecurityOpt=["seccomp=unconfined"],
        NetworkMode="bridge", PortBindings={"80/tcp": [{"HostPort": "0"}]}, PidMode="host", IpcMode="host",
        UsernsMode="host", Memory=0, MemorySwap=0, NanoCpus=0, PidsLimit=0, CgroupParent="/elsewhere", Ulimits=[],
        RestartPolicy={"Name": "on-failure", "MaximumRetryCount": 9},
        Devices=[{"PathOnHost": "/dev/null", "PathInContainer": "/dev/x", "CgroupPermissions": "r"}],
        Mounts=[shared_mount, {"Type": "bind", "Source": socket, "Target": "/run/docker.sock"}],
    )  # fmt: skip
    body.update(Hostname="")
    body["HostConfig"]["UTSMode"] = "host"
    container = client.api.create_container_from_config(body)["Id"]
    try:
        seen = Seen(client.api.inspect_container(container), processes=2)
    finally:
        client.api.remove_container(container, force=True)
    verdicts = {check.number: check.found(seen)[0] for check in CHECKS}
    assert {number for number, verdict in verdicts.items() if verdict == "n/a"} == {
        *("5.1", "5.3", "5.23", "5.24", "5.27", "5.28")
    }
    assert verdicts["5.2"] == "warning"
    assert {number for number, verdict in verdicts.items() if verdict == "held"} == set()


@pytest.mark.parametrize(
    ("number", "options", "inspected", "verdict"),
    [
        ("5.2", ("name=apparmor",), {"AppArmorProfile": "docker-default"}, "held"),
        ("5.2", ("name=apparmor",), {"AppArmorProfile": "unconfined"}, "failed"),
        ("5.2", ("name=apparmor",), {"AppArmorProfile": ""}, "failed"),
        ("5.2", ("name=seccomp",), {"AppArmorProfile": "docker-default"}, "warning"),
        ("5.3", ("name=selinux",), {"ProcessLabel": "system_u:system_r:container_t:s0"}, "held"),
        ("5.3", ("name=selinux",), {"ProcessLabel": ""}, "failed"),
        ("5.3", ("name=apparmor",), {"ProcessLabel": ""}, "n/a"),
    ],
)
def test_a_security_module_counts_where_the_engine_has_it(number, options, inspected, verdict):
    check = next(one for one in CHECKS if one.number == number)
    seen = Seen({"HostConfig": {"SecurityOpt": []}, **inspected}, options)
    assert check.found(seen)[0] == verdict


# --- answers that cannot be believed ---


@pytest.mark.parametrize(
    "answer", [{}, {"attempts": {}, "families": {}, "calls": {}, "looks": {}}, {"attempts": 3}]
)
def test_an_answer_without_its_findings_fails_every_row_that_rests_on_them(make_template, answer):
    found = rows(Tried(make_template("pass"), answer, {"HostConfig": {}}, (), {}))
    assert {row.group for row in found if row.verdict == "failed"} == GROUPS
    assert [row for row in found if row.verdict in ("held", "note")] == []


REFUSED = {"tried": "EPERM"}
GROUP_NAMES = (*rows_module._ATTEMPTS, "families", "calls")


@pytest.mark.parametrize("emptied", GROUP_NAMES)
def test_what_was_not_tried_did_not_hold(make_template, emptied):
    attempts = dict.fromkeys(rows_module._ATTEMPTS, REFUSED) | {"other architectures": {}}
    answer = {"attempts": attempts, "families": REFUSED, "calls": {"ptrace": "EPERM"}, "looks": {}}

    def verdicts() -> list[str]:
        found = rows(Tried(make_template("pass"), answer, {"HostConfig": {}}, (), {}))
        return [row.verdict for row in found if row.group == "escape"]

    assert set(verdicts()) == {"held"}
    (answer if emptied in answer else attempts)[emptied] = {}
    assert verdicts().count("failed") == 1


# --- the command ---


@pytest.fixture(scope="module")
def state(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture
def doctor(ground, state, capsys) -> Callable[..., tuple[int, str]]:
    """`doctor(*options)`: its exit code and what it prints."""

    def one(*options: str) -> tuple[int, str]:
        code = main(
            ["doctor", "--escape", *options, "--workspace", str(ground.workspace), "--state-dir", str(state)]
        )
        return code, capsys.readouterr().out

    return one


@pytest.fixture
def report(doctor) -> dict[str, Any]:
    code, text = doctor("--json")
    found = json.loads(text)
    assert (code, found["ok"]) == (0, True), text
    return dict(found)


def test_on_this_host_nothing_gets_out_and_every_row_says_what_was_found(report, doctor, weaken):
    found = [Row(**row) for row in report["rows"]]
    assert {row.group for row in found} == GROUPS
    assert [row.cis for row in found if row.group == BENCHMARK] == NUMBERS
    assert all(row.found for row in found)
    shown = "\n".join(table(Escape(tuple(found))))
    assert all(row.tried in shown and row.found in shown for row in found)
    # the same host with a weaker engine: its attestation is remembered, and its containers get out
    weaken(without_filter)
    code, text = doctor()
    assert code == 1
    assert "5.22" in text


def test_without_an_engine_nothing_was_tried_and_that_is_no_success(doctor):
    code, text = doctor("--json", "--engine", "unix:///nonexistent.sock")
    assert (code, json.loads(text)["ok"]) == (3, False)
