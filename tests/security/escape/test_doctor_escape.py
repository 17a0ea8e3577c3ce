"""`gdal-mcp doctor --escape`: nothing escapes from a container like that of a call, and every weakness fails its
rows.
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from gdal_mcp.cli.doctor import table
from sandbox.escape.cis import BENCHMARK, CHECKS, benchmark
from sandbox.escape.escape import escape_rows
from sandbox.escape.rules import ATTEMPTS, CALLS, SIGHT
from sandbox.isolation.measured import FACTS, LIMITS_IN_FORCE
from sandbox.isolation.rows import Evidence, Row, judged

pytestmark = [pytest.mark.engine, pytest.mark.claim("escape.doctor-tells")]

GROUPS = {"escape", "sight", "container", "limits", BENCHMARK}
NUMBERS = [f"5.{number}" for number in range(1, 33)]

RULES = (*ATTEMPTS.values(), CALLS, *SIGHT, *FACTS, *LIMITS_IN_FORCE)
BY_HAND = {"5.1", "5.23", "5.24", "5.27", "5.28"}  # they do not apply


def test_every_benchmark_check_has_number_reason_and_evidence(attested, escape):
    assert [check.number for check in CHECKS] == NUMBERS
    assert all(check.title and check.how for check in CHECKS)
    assert {check.number for check in CHECKS if not check.applies} == BY_HAND
    rows = [row for row in escape() if row.group != BENCHMARK]
    for row in rows:
        assert set(row.cis.split(", ")) <= {"", *NUMBERS}
        # the check fails if any row that is evidence for it fails, and if there is no evidence
        spoiled = [
            replace(candidate, verdict="failed") if candidate is row else candidate for candidate in rows
        ]
        failing = {result.cis for result in benchmark(spoiled) if result.verdict == "failed"}
        assert failing == set(row.cis.split(", ")) - {""}
    assert {result.cis for result in benchmark([]) if result.verdict == "failed"} == {*NUMBERS} - BY_HAND


def test_security_module_counts_where_the_engine_has_it(make_template):
    for number, option, label, verdict in (
        ("5.2", "name=apparmor", "docker-default (enforce)", "held"),
        ("5.2", "name=apparmor", "unconfined", "failed"),
        ("5.2", "name=apparmor", "", "failed"),
        ("5.2", "name=seccomp", "", "warning"),
        ("5.3", "name=selinux", "system_u:system_r:container_t:s0", "held"),
        ("5.3", "name=selinux", "unconfined_u:unconfined_r:unconfined_t:s0", "failed"),
        ("5.3", "name=selinux", "", "failed"),
        ("5.3", "name=apparmor", "", "n/a"),
    ):
        look = {"sight": {"security label": label}}
        rows = judged(SIGHT, Evidence(make_template("pass"), look=look, security_options=(option,)))
        assert [row.verdict for row in rows if row.cis == number] == [verdict], (option, label)


def test_answer_without_findings_fails_every_dependent_row(make_template):
    for look in ({}, {"attempts": {}, "calls": {}, "sight": {}}, {"attempts": 3, "sight": []}):
        rows = escape_rows(Evidence(make_template("pass"), {}, look))
        believed = {row.name for row in rows if row.verdict in ("held", "note") and row.group != BENCHMARK}
        assert believed == {"runtime", "after its job"}


def test_what_was_not_tried_did_not_hold(make_template):
    attempts = {name: {"tried": "EPERM"} for name in ATTEMPTS}
    for emptied in (*ATTEMPTS, "calls"):
        if emptied == "other architectures":  # not every machine has another architecture
            continue
        calls = {} if emptied == "calls" else {"ptrace": "EPERM"}
        look = {"attempts": {**attempts, emptied: {}}, "calls": calls}
        rows = judged((*ATTEMPTS.values(), CALLS), Evidence(make_template("pass"), look=look))
        rule = CALLS if emptied == "calls" else ATTEMPTS[emptied]
        assert [row.name for row in rows if not row.ok] == [rule.name]


@pytest.fixture
def report(doctor) -> dict[str, Any]:
    code, text = doctor("--json")
    result = json.loads(text)
    assert (code, result["ok"]) == (0, True), text
    return dict(result)


def test_nothing_escapes_this_host_and_rows_have_findings(report):
    rows = [Row(**row) for row in report["rows"]]
    assert {row.group for row in rows} == GROUPS
    assert [row.cis for row in rows if row.group == BENCHMARK] == NUMBERS
    assert all(row.found for row in rows)
    shown = "\n".join(table(tuple(rows)))
    assert all(row.name in shown and row.found in shown for row in rows)


def test_without_an_engine_nothing_counts_as_success(doctor):
    code, text = doctor("--json", "--engine", "unix:///nonexistent.sock")
    assert (code, json.loads(text)["ok"]) == (3, False)
