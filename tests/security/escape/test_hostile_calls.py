"""Hostile code that calls the kernel directly: every raw attempt of one container and its result."""

import json
import os
import platform
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pytest

from sandbox.attestation import with_probe
from sandbox.escape.escape import full_job, further
from sandbox.escape.syscalls import NUMBERS
from sandbox.isolation.seccomp import rules
from sandbox.outcome import Exited
from sandbox.program import source
from sandbox.runner import Job
from sandbox.waiting import Cancellation
from tests import python
from tests.conftest import USER
from tests.security.escape.conftest import SECRET

pytestmark = pytest.mark.engine

# from 424 on, a system call has the same number on every architecture; jobs may use these of them
ALLOWED = {
    "close_range": 436, "openat2": 437, "faccessat2": 439, "fchmodat2": 452, "mseal": 462,
    "landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446,
}  # fmt: skip
NEWER = {f"number_{number}": number for number in range(424, 1024) if number not in ALLOWED.values()}
REFUSED = {"EPERM", "ENOSYS", "ENOTSUP"}
NAMESPACES = ("NEWNS", "NEWCGROUP", "NEWUTS", "NEWIPC", "NEWUSER", "NEWPID", "NEWNET")
HARMLESS = {f"/dev/{name}" for name in ("full", "null", "random", "urandom", "zero", "tty")}
ODD = {"x32": "SIGSYS", "32-bit": "SIGSYS"} if platform.machine() == "x86_64" else {}
# group of attempts -> some attempts that it must contain, and the permitted results of each; None permits every result
# but success
TRIED: dict[str, tuple[set[str], set[str] | None]] = {
    "sockets": ({str(family) for family in range(46)} - {"1"}, REFUSED),
    "local sockets": ({"connect to a file", "take an abstract name"}, {"EPERM"}),
    "other architectures": ({*ODD}, {"SIGSYS"}),
    "namespaces": ({f"{way} {name}" for name in NAMESPACES for way in ("unshare", "clone")} | {"setns user"}, {"EPERM"}),
    "mounts": ({"mount a tmpfs", "remount / for writing", "chroot"}, {"EPERM"}),
    "writing": ({"/", "/etc", "/dev", "/proc", "/sys"}, None),
    "kernel settings": ({"/proc/sys/kernel/core_pattern"}, None),
    "nodes": ({"a block device in /tmp", "a socket in /staging", "a symbolic link in /staging"}, None),
    "programs": ({"run one from /tmp", "load code from /tmp", "run one from memory"}, None),
    "identities": ({"become another user"}, {"EPERM"}),
    "requests": ({"PR_SET_MM", "TIOCSTI", "F_SETLEASE"}, {"EPERM"}),
    "limits": ({f"RLIMIT_{name}" for name in ("CORE", "CPU", "DATA", "FSIZE", "NOFILE")}, {"EPERM"}),
    "crashes": ({"have one dumped", "allow dumps"}, {"EPERM"}),
}  # fmt: skip


# the same program as code of `run_python`, which runs in a separate process
AS_CODE = f"{source('sandbox.isolation', 'probe.py')}{further()}\nimport gdal_mcp_job as here\nhere.result(run(here.arguments, None)['look'])"


@pytest.fixture(scope="module", params=["worker", "run_python"])
def answer(request, runner, make_template, ground) -> Mapping[str, Any]:
    """The report of one container that tried everything, including every newer system call by its number."""
    job_input = full_job(platform.machine())
    job_input["calls"]["numbers"] |= NEWER
    with closing(Cancellation()) as cancel, ground.area.open("staging-0001", USER) as staging:
        template = with_probe(
            make_template("pass", workspace=ground.workspace, staging=staging.path), further()
        )
        if request.param == "run_python":
            template = python.like_run_python(template)
            job_input = python.request(AS_CODE, arguments=job_input)
        result = runner.run(Job("escape", template, job_input, staging), cancel)
        left = os.listdir(staging.path)
    assert result.outcome == Exited(0), result.stderr
    look = json.loads(result.stdout)["result"] if result.stdout else result.final["look"]
    return {**look, "left": left, "as": request.param}


@pytest.mark.claim(
    "escape.no-core-dump",
    "escape.no-devices",
    "escape.no-host-writes",
    "escape.no-kernel-calls",
    "escape.no-namespaces",
    "escape.no-power",
    "escape.no-programs-in-scratch",
    "escape.no-sockets",
    "sandbox.own-seccomp",
)
def test_no_attempt_of_any_group_works(answer, engine, ground, subtests):
    for group, (known, ends) in TRIED.items():
        with subtests.test(group):
            tried = dict(answer["attempts"][group])
            assert known <= set(tried)
            if engine.info().limits_by_node:  # a Pod's scratch cannot be mounted without it: ADR 28
                tried.pop("load code from /tmp", None)
            assert set(tried.values()) <= ends if ends else "SUCCEEDED" not in tried.values()
    assert str(ground.workspace) in answer["attempts"]["writing"]
    assert answer["left"] == []


@pytest.mark.claim("escape.no-kernel-calls", "sandbox.own-seccomp")
def test_unneeded_and_unknown_system_calls_are_blocked(answer):
    refused = {name for kind in ("refused", "answered") for group in rules()[kind] for name in group["names"]}
    assert refused & set(NUMBERS[platform.machine()]) <= set(answer["calls"])
    assert set(NEWER) <= set(answer["calls"])
    assert {name: outcome for name, outcome in answer["calls"].items() if outcome not in REFUSED} == {}


@pytest.mark.claim("escape.no-kernel-calls")
def test_number_table_names_what_the_profile_refuses():
    for architecture in ("x86_64", "aarch64"):
        groups = [group for kind in ("refused", "answered") for group in rules()[kind]]
        ours = [group for group in groups if group.get("architecture", architecture) == architecture]
        assert set(NUMBERS[architecture]) == {name for group in ours for name in group["names"]}


@pytest.mark.claim("escape.no-devices", "escape.no-host-writes", "escape.sees-nothing")
def test_only_documented_host_facts_are_visible(answer):
    looks = answer["sight"]
    for name in ("secrets", "sys", "engines", "specials", "descriptors", "settings"):
        assert looks[name] == [], name
    assert set(looks["devices"]) <= HARMLESS
    ours = {"worker": 1, "run_python": 2}[answer["as"]]
    assert (looks["processes"][0], len(looks["processes"])) == (1, ours)
    assert SECRET not in str(looks)
