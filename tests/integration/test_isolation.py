"""What a job sees of the host and of other jobs, through the runner, on the real engine."""

import errno
import secrets
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from sandbox.labels import labels
from sandbox.outcome import Exited
from sandbox.outputs.staging import StagingArea
from sandbox.runner import Job
from sandbox.slot import launch
from sandbox.waiting import Cancellation
from sandbox.workspace import Workspace
from tests.conftest import ENVIRONMENT, USER, handler

pytestmark = pytest.mark.engine

LOOK = """
import socket, subprocess

def attempt(action):
    try: action()
    except OSError as error: return error.errno
    return 0

def write(path):
    return attempt(lambda: open(path, "x").close())

def program(path):
    with open(path, "w") as file: file.write("#!/bin/sh\\nexit 0\\n")
    os.chmod(path, 0o755)
    return attempt(lambda: subprocess.run([path], check=True))

def entries(path):
    try: return sorted(os.listdir(path))
    except OSError: return []

def status():
    rows = (line.split(":", 1) for line in open("/proc/self/status"))
    return {name: value.split() for name, value in rows}

root, reserved = job["workspace"], job["workspace"] + "/.gdal-mcp"
return {
    "code": 0,
    "devices": [line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]],
    "routes": open("/proc/net/route").readlines()[1:],
    "sockets": {name: attempt(lambda: socket.socket(getattr(socket, name)).close())
                for name in ("AF_INET", "AF_INET6", "AF_PACKET", "AF_NETLINK")},
    "text": open(root + "/input.txt").read(),
    "written": {path: write(path + "/new")
                for path in (root, reserved, "/", "/etc", "/usr", "/var/tmp", "/dev", "/proc", "/staging", "/tmp")},
    "changed": {
        "overwrite": attempt(lambda: open(root + "/input.txt", "r+").close()),
        "unlink": attempt(lambda: os.unlink(root + "/input.txt")),
        "rename": attempt(lambda: os.rename(root + "/input.txt", root + "/other")),
        "chmod": attempt(lambda: os.chmod(root + "/input.txt", 0o777)),
    },
    "reserved": entries(reserved),
    "environment": dict(os.environ),
    "first": open("/proc/1/environ").read().split("\\0"),
    "pids": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    "pid": os.getpid(),
    "ids": [*os.getresuid(), *os.getresgid()],
    "groups": os.getgroups(),
    "status": status(),
    "become": {
        "uid": attempt(lambda: os.setuid(0)),
        "gid": attempt(lambda: os.setgid(0)),
        "groups": attempt(lambda: os.setgroups([0])),
        "chroot": attempt(lambda: os.chroot("/tmp")),
    },
    "program": program("/tmp/program"),
    "mounts": [line.split(" ")[4:6] for line in open("/proc/self/mountinfo")],
}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A workspace with an input and with what an earlier call of somebody else left in the reserved folder."""
    root = tmp_path_factory.mktemp("workspace")
    root.chmod(0o777)
    (root / "input.txt").write_text("input")
    (root / "input.txt").chmod(0o666)
    return root


@pytest.fixture(scope="module")
def secret():
    """Something that is in this process's environment and in no container's."""
    value = secrets.token_hex(8)
    patch = pytest.MonkeyPatch()
    patch.setenv("GDAL_MCP_TEST_SECRET", value)
    yield value
    patch.undo()


@pytest.fixture(scope="module")
def seen(runner, make_template, place, secret):
    """The answer of one job that looks around and tries things."""
    cancel = Cancellation()
    with StagingArea(Workspace.at(place, writable=True)).open("staging-0001", USER) as staging:
        (place / ".gdal-mcp/secret").write_text(secret)
        made = make_template(handler(LOOK), workspace=place, staging=staging.path)
        template = replace(made, masks=(PurePosixPath(place / ".gdal-mcp"),))
        result = runner.run(Job("call-0001", template, {"workspace": str(place)}), cancel)
    cancel.close()
    assert result.outcome == Exited(0), result.stderr
    return result.final


def test_there_is_no_interface_but_the_loopback_and_no_socket_to_use_it(seen):
    assert set(seen["devices"]) <= {"lo"}
    assert seen["routes"] == []
    assert set(seen["sockets"]) == {"AF_INET", "AF_INET6", "AF_PACKET", "AF_NETLINK"}
    assert all(seen["sockets"].values())


def test_only_staging_and_scratch_can_be_written(seen, place):
    assert {path for path, failure in seen["written"].items() if failure == 0} == {"/staging", "/tmp"}
    assert seen["written"][str(place)] == errno.EROFS


def test_an_input_can_be_read_but_not_changed(seen, place):
    assert seen["text"] == "input"
    assert all(seen["changed"].values())
    assert {one.name for one in place.iterdir()} == {"input.txt", ".gdal-mcp"}
    assert (place / "input.txt").read_text() == "input"
    assert (place / "input.txt").stat().st_mode & 0o777 == 0o666


def test_the_reserved_folder_is_covered_by_an_empty_one(seen, place):
    assert (place / ".gdal-mcp/secret").exists()
    assert seen["reserved"] == []
    assert seen["written"][str(place / ".gdal-mcp")] == errno.EROFS


def test_the_environment_is_the_template_s_and_nothing_of_the_host_s(seen, secret):
    assert seen["environment"] == ENVIRONMENT
    assert set(filter(None, seen["first"])) == {f"{name}={value}" for name, value in ENVIRONMENT.items()}
    assert secret not in str(seen)


def test_the_process_is_the_only_one_it_sees(seen):
    assert (seen["pid"], seen["pids"]) == (1, [1])


def test_the_process_is_nobody_with_power_and_stays_so(seen):
    assert set(seen["ids"][:3]) == {USER[0]}
    assert set(seen["ids"][3:]) == {USER[1]}
    assert 0 not in seen["groups"]
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(seen["status"][name][0], 16) == 0
    assert seen["status"]["NoNewPrivs"] == ["1"]
    assert set(seen["become"]) == {"uid", "gid", "groups", "chroot"}
    assert all(seen["become"].values())


def test_a_program_in_scratch_does_not_run(seen):
    assert seen["program"] == errno.EACCES


def test_no_mount_that_a_job_can_write_lets_a_program_gain_rights(seen):
    options = {target: set(given.split(",")) for target, given in seen["mounts"]}
    assert {"nosuid", "nodev", "noexec"} <= options["/tmp"]
    assert {target for target, given in options.items() if "rw" in given and "nosuid" not in given} <= {
        "/staging"  # no-new-privileges covers it
    }


SETUID = """
import stat, subprocess
paths = [f"{place}/{name}" for place in ("/usr/bin", "/bin") for name in ("su", "passwd", "mount", "umount")]
path = next(path for path in paths if os.path.exists(path) and os.stat(path).st_mode & stat.S_ISUID)
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
with subprocess.Popen([path], **pipes) as process:  # once this returns, the process is that program
    rows = dict(line.split(":", 1) for line in open(f"/proc/{process.pid}/status"))
    process.stdin.close()
return {"code": 0, "owner": os.stat(path).st_uid, "uids": rows["Uid"].split()}
"""


def test_a_setuid_program_of_the_image_gives_no_rights(run):
    result = run(SETUID)
    assert result.outcome == Exited(0), result.stderr
    assert result.final["owner"] == 0
    assert result.final["uids"] == [str(USER[0])] * 4


# --- two containers ---

MARK = "mark-of-the-first"
LEAVE = f"""
import subprocess
left = []
for place in ("/tmp", "/dev/shm", "/staging", "/var/tmp", "/run", "/dev", "/dev/mqueue"):
    try:
        open(place + "/{MARK}", "x").close()
        left.append(place)
    except OSError:
        pass
subprocess.Popen(["sh", "-c", "read _ # {MARK}"], stdin=subprocess.PIPE)
"""
FIND = f"""
found = []
for place in ("/tmp", "/dev/shm", "/staging", "/var/tmp", "/run", "/dev", "/dev/mqueue"):
    if os.path.lexists(place + "/{MARK}"): found.append(place)
commands = [open(f"/proc/{{name}}/cmdline").read() for name in os.listdir("/proc") if name.isdigit()]
return {{"code": 0, "found": found, "commands": commands, "environment": dict(os.environ),
        "hostname": os.uname().nodename, "pid": os.getpid()}}
"""


@pytest.fixture
def area(workspace):
    return StagingArea(Workspace.at(workspace, writable=True))


def found_by_another(run, area):
    with area.open("staging-0002", USER) as staging:
        result = run(FIND, staging=staging.path)
    assert result.outcome == Exited(0), result.stderr
    return result.final


def assert_saw_nothing(final):
    assert final["found"] == []
    assert len(final["commands"]) == 1
    assert final["environment"] == ENVIRONMENT


def test_a_container_finds_nothing_of_the_one_before_it(run, area):
    with area.open("staging-0001", USER) as staging:
        first = run(
            LEAVE + "return {'code': 0, 'left': left, 'hostname': os.uname().nodename}",
            staging=staging.path,
        )
        assert {"/tmp", "/staging"} <= set(first.final["left"])
        assert Path(staging.path, MARK).exists()
        final = found_by_another(run, area)
    assert_saw_nothing(final)
    assert final["hostname"] == first.final["hostname"]


def test_a_container_finds_nothing_of_one_that_runs_beside_it(engine, owner, make_template, run, area):
    leave = LEAVE.strip().replace("\n", "\n    ")
    with area.open("staging-0001", USER) as staging:
        template = make_template(handler("", leave), staging=staging.path)
        slot = launch(engine, template, labels(owner.id, "call-0002", 60.0))
        try:
            assert Path(staging.path, MARK).exists()
            final = found_by_another(run, area)
            assert engine.state(slot.container).running
        finally:
            slot.remove()
    assert_saw_nothing(final)
