"""`gdal-mcp doctor --escape`: nothing gets out of a container like a call's, and every weakness fails its rows."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.cli import main
from gdal_mcp.commands.doctor import table
from sandbox.attestation import attest, escape_rows, try_to_escape
from sandbox.errors import AttestationFailed
from sandbox.isolation.cis import BENCHMARK, CHECKS, benchmark
from sandbox.isolation.measured import FACTS, LIMITS_IN_FORCE
from sandbox.isolation.rows import Evidence, Row, judged
from sandbox.isolation.tried import ATTEMPTS, CALLS, SIGHT
from tests.conftest import USER

pytestmark = [pytest.mark.engine, pytest.mark.claim("escape.doctor-tells")]

GROUPS = {"escape", "sight", "container", "limits", BENCHMARK}
NUMBERS = [f"5.{number}" for number in range(1, 33)]


@pytest.fixture
def attested(runner, ground, like_a_call, cancel) -> tuple[Row, ...]:
    """This host as it is."""
    with ground.area.open("staging-0000", USER) as staging:
        return attest(runner, like_a_call(staging.path), staging.path, cancel)


@pytest.fixture
def escape(runner, ground, like_a_call, attested, cancel) -> Callable[[], tuple[Row, ...]]:
    """`escape()`: all rows of one container like a call's."""

    def one() -> tuple[Row, ...]:
        with ground.area.open("staging-0001", USER) as staging:
            return try_to_escape(runner, like_a_call(staging.path), attested, cancel)

    return one


def failed(found: tuple[Row, ...]) -> set[str]:
    """What got out, by words or, of the benchmark, by number."""
    return {row.cis if row.group == BENCHMARK else row.name for row in found if row.verdict == "failed"}


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
            *("have a crash dumped on the host", "Seccomp", "5.22", "5.18", "5.32"),
        },
        {  # as the kernel is built and set, and the checks that go with them
            *("make and enter namespaces", "call the kernel as another architecture"),
            *("5.10", "5.16", "5.17", "5.19", "5.21", "5.31"),
        },
    ),
    "power": (
        with_power,
        {
            *("write outside scratch and output", "user", "mount /", "writable mounts", "5.4", "5.5", "5.13"),
            *("CapBnd", "CapEff", "CapPrm", "supplementary groups", "5.6", "5.26"),
            "read what tells of the host",  # files of root's
        },
        {
            *("CapInh", "write the kernel's settings", "find writable settings of the kernel", "become root"),
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
        {  # queues, terminals, and what shares rows with those above
            *("write outside scratch and output", "open devices", "have a crash dumped on the host"),
            *(
                "writable mounts",
                "mask",
                "mounts",
                "5.5",
                "5.6",
                "5.13",
                "5.18",
                "5.20",
                "shared propagation",
            ),
            *(f"rlimit {name}" for name in ("CORE", "CPU", "DATA", "FSIZE")),
        },
    ),
}


@pytest.mark.parametrize("name", WEAK)
def test_a_weaker_container_fails_its_own_rows_and_no_other(escape, weaken, name):
    change, must, may = WEAK[name]
    weaken(change)
    found = escape()
    assert not all(row.ok for row in found)
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


RULES = (*ATTEMPTS.values(), CALLS, *SIGHT, *FACTS, *LIMITS_IN_FORCE)
BY_HAND = {"5.1", "5.23", "5.24", "5.27", "5.28"}  # they do not apply


def test_every_check_of_the_benchmark_has_its_number_its_reason_and_its_evidence(attested, escape):
    assert [check.number for check in CHECKS] == NUMBERS
    assert all(check.title and check.how for check in CHECKS)
    assert {check.number for check in CHECKS if not check.applies} == BY_HAND
    rows = [row for row in escape() if row.group != BENCHMARK]
    for row in rows:
        assert set(row.cis.split(", ")) <= {"", *NUMBERS}
        # the check fails with any row that is evidence for it, and without evidence
        spoiled = [replace(one, verdict="failed") if one is row else one for one in rows]
        failing = {one.cis for one in benchmark(spoiled) if one.verdict == "failed"}
        assert failing == set(row.cis.split(", ")) - {""}
    assert {one.cis for one in benchmark([]) if one.verdict == "failed"} == {*NUMBERS} - BY_HAND


@pytest.mark.parametrize(
    ("number", "option", "label", "verdict"),
    [
        ("5.2", "name=apparmor", "docker-default (enforce)", "held"),
        ("5.2", "name=apparmor", "unconfined", "failed"),
        ("5.2", "name=apparmor", "", "failed"),
        ("5.2", "name=seccomp", "", "warning"),
        ("5.3", "name=selinux", "system_u:system_r:container_t:s0", "held"),
        ("5.3", "name=selinux", "unconfined_u:unconfined_r:unconfined_t:s0", "failed"),
        ("5.3", "name=selinux", "", "failed"),
        ("5.3", "name=apparmor", "", "n/a"),
    ],
)
def test_a_security_module_counts_where_the_engine_has_it(make_template, number, option, label, verdict):
    evidence = Evidence(
        make_template("pass"), look={"sight": {"security label": label}}, security_options=(option,)
    )
    assert [row.verdict for row in judged(SIGHT, evidence) if row.cis == number] == [verdict]


# --- answers that cannot be believed ---


def test_an_answer_without_its_findings_fails_every_row_that_rests_on_them(make_template):
    for look in ({}, {"attempts": {}, "calls": {}, "sight": {}}, {"attempts": 3, "sight": []}):
        found = escape_rows(Evidence(make_template("pass"), {}, look))
        believed = {row.name for row in found if row.verdict in ("held", "note") and row.group != BENCHMARK}
        assert believed == {"runtime", "after its job"}


def test_what_was_not_tried_did_not_hold(make_template):
    attempts = {name: {"tried": "EPERM"} for name in ATTEMPTS}
    for emptied in (*ATTEMPTS, "calls"):
        if emptied == "other architectures":  # not every machine has one
            continue
        look = {
            "attempts": {**attempts, emptied: {}},
            "calls": {} if emptied == "calls" else {"ptrace": "EPERM"},
        }
        found = judged((*ATTEMPTS.values(), CALLS), Evidence(make_template("pass"), look=look))
        rule = CALLS if emptied == "calls" else ATTEMPTS[emptied]
        assert [row.name for row in found if not row.ok] == [rule.name]


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
    shown = "\n".join(table(tuple(found)))
    assert all(row.name in shown and row.found in shown for row in found)
    # the same host with a weaker engine: its attestation is remembered, and its containers get out
    weaken(without_filter)
    code, text = doctor()
    assert code == 1
    assert "5.22" in text


def test_without_an_engine_nothing_was_tried_and_that_is_no_success(doctor):
    code, text = doctor("--json", "--engine", "unix:///nonexistent.sock")
    assert (code, json.loads(text)["ok"]) == (3, False)
