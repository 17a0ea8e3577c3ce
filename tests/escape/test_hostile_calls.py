"""Hostile code that speaks to the kernel: every raw attempt of one container, as it ended."""

import json
import os
import platform
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pytest

from sandbox.attestation import everything, looking
from sandbox.isolation.seccomp import rules
from sandbox.isolation.syscalls import NUMBERS
from sandbox.outcome import Exited
from sandbox.program import source
from sandbox.runner import Job
from sandbox.waiting import Cancellation
from tests import python
from tests.conftest import USER
from tests.escape.conftest import SECRET

pytestmark = pytest.mark.engine

# from 424 on a call has the same number on every architecture; of these jobs may make these
ALLOWED = {"close_range": 436, "openat2": 437, "faccessat2": 439, "fchmodat2": 452, "mseal": 462}
NEWER = {f"number_{number}": number for number in range(424, 1024) if number not in ALLOWED.values()}
REFUSED = {"EPERM", "ENOSYS", "ENOTSUP"}
NAMESPACES = ("NEWNS", "NEWCGROUP", "NEWUTS", "NEWIPC", "NEWUSER", "NEWPID", "NEWNET")


# the same program as code of `run_python`, which runs in a process of its own
AS_CODE = f"{source('sandbox.isolation', 'look.py')}\nimport gdal_mcp_job as here\nhere.result(run(here.arguments, None)['look'])"


@pytest.fixture(scope="module", params=["worker", "run_python"])
def answer(request, runner, make_template, ground) -> Mapping[str, Any]:
    """What one container said that tried everything, also every newer call by its number."""
    asked = everything(platform.machine())
    asked["calls"]["numbers"] |= NEWER
    with closing(Cancellation()) as cancel, ground.area.open("staging-0001", USER) as staging:
        template = looking(make_template("pass", workspace=ground.workspace, staging=staging.path))
        if request.param == "run_python":
            template = python.like_run_python(template)
            asked = python.request(AS_CODE, arguments=asked)
        result = runner.run(Job("escape", template, asked, staging), cancel)
        left = os.listdir(staging.path)
    assert result.outcome == Exited(0), result.stderr
    look = json.loads(result.stdout)["result"] if result.stdout else result.final["look"]
    return {**look, "left": left, "as": request.param}


@pytest.mark.claim("escape.no-sockets", "sandbox.own-seccomp")
def test_no_socket_of_any_family_but_the_local_one_can_be_had_and_that_one_reaches_nobody(answer):
    assert set(answer["attempts"]["sockets"]) == {str(family) for family in range(46)} - {"1"}
    assert set(answer["attempts"]["sockets"].values()) <= REFUSED
    assert set(answer["attempts"]["local sockets"].values()) == {"EPERM"}


@pytest.mark.claim("escape.no-kernel-calls", "sandbox.own-seccomp")
def test_no_call_that_jobs_do_not_need_reaches_the_kernel_not_even_one_that_is_newer_than_this_code(answer):
    refused = {name for kind in ("refused", "answered") for group in rules()[kind] for name in group["names"]}
    assert refused & set(NUMBERS[platform.machine()]) <= set(answer["calls"])
    assert set(NEWER) <= set(answer["calls"])
    assert {name: said for name, said in answer["calls"].items() if said not in REFUSED} == {}


@pytest.mark.claim("escape.no-kernel-calls")
def test_the_table_of_numbers_names_what_the_profile_refuses():
    for architecture in ("x86_64", "aarch64"):
        groups = [group for kind in ("refused", "answered") for group in rules()[kind]]
        ours = [group for group in groups if group.get("architecture", architecture) == architecture]
        assert set(NUMBERS[architecture]) == {name for group in ours for name in group["names"]}


@pytest.mark.claim("escape.no-kernel-calls")
def test_calls_through_another_architecture_end_the_process(answer):
    expected = {"x32": "SIGSYS", "32-bit": "SIGSYS"} if platform.machine() == "x86_64" else {}
    assert answer["attempts"]["other architectures"] == expected


@pytest.mark.claim("escape.no-namespaces")
def test_no_namespace_is_made_or_entered_and_nothing_is_mounted(answer):
    found = answer["attempts"]["namespaces"]
    assert {f"{way} {name}" for name in NAMESPACES for way in ("unshare", "clone")} <= set(found)
    assert len([name for name in found if name.startswith("setns")]) >= len(NAMESPACES)
    assert set(found.values()) == {"EPERM"}
    assert set(answer["attempts"]["mounts"].values()) == {"EPERM"}


@pytest.mark.claim("escape.no-host-writes")
def test_nothing_of_the_image_the_workspace_or_the_kernel_can_be_written(answer, ground):
    tried = answer["attempts"]["writing"]
    assert {"/", "/etc", "/dev", "/proc", "/sys", str(ground.workspace)} <= set(tried)
    assert "SUCCEEDED" not in tried.values()
    assert "SUCCEEDED" not in answer["attempts"]["kernel settings"].values()
    assert answer["sight"]["settings"] == []


@pytest.mark.claim("escape.no-devices")
def test_nothing_but_files_and_folders_can_be_made_and_nothing_is_left_of_the_attempts(answer):
    made = answer["attempts"]["nodes"]
    assert len(made) == 12
    assert "SUCCEEDED" not in made.values()
    assert answer["left"] == []
    assert set(answer["sight"]["devices"]) <= {
        f"/dev/{name}" for name in ("full", "null", "random", "urandom", "zero", "tty")
    }


@pytest.mark.claim("escape.no-programs-in-scratch")
def test_no_program_runs_from_scratch_or_from_memory_nor_is_its_code_loaded(answer):
    assert "SUCCEEDED" not in answer["attempts"]["programs"].values()


@pytest.mark.claim("escape.no-power")
def test_no_right_is_gained_and_no_limit_raised(answer):
    for group in ("identities", "requests", "limits"):
        assert set(answer["attempts"][group].values()) == {"EPERM"}, group
    limits = {"RLIMIT_CORE", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE"}
    assert limits <= set(answer["attempts"]["limits"])


@pytest.mark.claim("escape.no-core-dump")
def test_a_crash_is_dumped_nowhere_and_the_limit_that_prevents_it_stays(answer):
    assert answer["attempts"]["crashes"] == {"have one dumped": "EPERM", "allow dumps": "EPERM"}


@pytest.mark.claim("escape.sees-nothing")
def test_nothing_of_the_host_is_seen_but_what_is_said_in_the_notes(answer, ground):
    looks = answer["sight"]
    for name in ("secrets", "sys", "engines", "specials", "descriptors"):
        assert looks[name] == [], name
    ours = {"worker": 1, "run_python": 2}[answer["as"]]
    assert (looks["processes"][0], len(looks["processes"])) == (1, ours)
    assert SECRET not in str(looks)
