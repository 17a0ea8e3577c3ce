"""What a container made from the create body can and cannot do, seen from inside, on the real engine."""

import errno
import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from hardening_box import ENVIRONMENT, LIMITS, USER, open_box

from sandbox.hardening import HOSTNAME
from sandbox.isolation.seccomp import rules
from sandbox.isolation.syscalls import NUMBERS

pytestmark = pytest.mark.engine

KILLED = 137  # 128 + SIGKILL
BAD_SYSTEM_CALL = 159  # 128 + SIGSYS


@pytest.fixture(scope="module")
def box(image_id, tmp_path_factory):
    with open_box(image_id, tmp_path_factory.mktemp("box")) as opened:
        yield opened


# --- one container that looks around ---


@pytest.fixture(scope="module")
def seen(box):
    return box.program("look.py").answer


@pytest.mark.claim("sandbox.not-root")
def test_the_process_has_the_user_s_ids_and_no_other(seen):
    uid, gid = map(str, USER)
    assert seen["status"]["Uid"] == [uid] * 4
    assert seen["status"]["Gid"] == [gid] * 4
    assert set(seen["groups"]) <= {USER[1]}


@pytest.mark.claim("sandbox.not-root")
def test_the_process_has_no_capability_and_can_gain_none(seen):
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(seen["status"][name][0], 16) == 0
    assert seen["status"]["NoNewPrivs"] == ["1"]
    assert seen["status"]["Seccomp"] == ["2"]


@pytest.mark.claim("sandbox.environment")
def test_the_process_sees_our_environment_only(seen):
    assert seen["environment"] == ENVIRONMENT


@pytest.mark.claim("sandbox.nothing-of-the-host-shown")
def test_the_process_is_alone_in_an_anonymous_place(seen):
    assert seen["pid"] == 1
    assert seen["hostname"] == HOSTNAME
    assert seen["folder"] == "/tmp"


@pytest.mark.claim("network.no-interface")
def test_there_is_no_network(seen):
    assert set(seen["interfaces"]) <= {"lo"}
    assert {line.split()[-1] for line in seen["addresses"]} <= {"lo"}
    assert seen["routes"] == []


@pytest.mark.claim("files.mounts-only")
def test_only_the_asked_files_of_the_host_are_there(seen):
    engine = {"proc", "tmpfs", "devpts", "sysfs", "mqueue", "cgroup", "cgroup2", "overlay"}
    foreign = {target for target, _, kind in seen["mounts"] if kind not in engine}
    assert foreign - {"/etc/hostname", "/etc/hosts", "/etc/resolv.conf"} == {"/workspace", "/staging"}
    modes = {target: options[0] for target, options, _ in seen["mounts"]}
    assert (modes["/workspace"], modes["/staging"], modes["/"]) == ("ro", "rw", "ro")


@pytest.mark.claim("sandbox.nothing-of-the-host-shown")
def test_the_host_s_machine_terminals_and_other_calls_are_not_shown(seen):
    assert seen["listed"] == {
        "/sys": [],
        "/dev/pts": [],
        "/workspace": seen["listed"]["/workspace"],
        "/workspace/.gdal-mcp": [],
    }
    assert "input.txt" in seen["listed"]["/workspace"]
    assert not seen["shared_memory"]
    assert all(seen["masked"].values())


@pytest.mark.claim("files.mounts-only")
def test_only_scratch_and_staging_can_be_written(seen):
    assert {place for place, failure in seen["written"].items() if failure == 0} == {"/tmp", "/staging"}


@pytest.mark.claim("sandbox.scratch")
def test_no_program_runs_from_scratch(seen):
    assert seen["program"] == errno.EACCES


@pytest.mark.claim("resources.limits-hard")
def test_the_limits_of_the_process_are_ours_and_hard(seen):
    asked = {
        "CORE": 1,
        "CPU": LIMITS.cpu_seconds,
        "DATA": LIMITS.data_bytes,
        "FSIZE": LIMITS.file_bytes,
        "NOFILE": LIMITS.open_files,
    }
    assert seen["limits"] == {name: [value, value] for name, value in asked.items()}


# --- what a job needs works ---


def test_gdal_and_python_do_all_their_work(box):
    roomy = replace(LIMITS, memory_bytes=1 << 30, pids=64, file_bytes=64 << 20, open_files=256, cpus=1.0)
    formats = {
        "netCDF": "o.nc",
        "BAG": "o.bag",
        "GPKG": "o.gpkg",
        "COG": "o.tif",
        "Zarr": "o.zarr",
        "PNG": "o.png",
    }
    found = box.program("work.py", json.dumps(formats), limits=roomy).answer
    assert found["block"] == [256, 256]
    assert set(found["formats"].values()) <= {256, "no driver"}
    assert {found["formats"][name] for name in ("COG", "GPKG")} == {256}
    for name in ("program", "unnamed until whole", "parallel warp"):
        assert found[name][0] == 0, found[name]
    assert found["threads"] == [256] * 4
    assert (found["database"], found["event loop"], found["callback"]) == (1, 0, 5)
    made = box.staging / "c.tif"
    assert (made.stat().st_uid, made.stat().st_gid) == USER
    assert list(box.staging.glob("tiles/*/*/*.png"))
    assert found["copy"] == (box.staging / "copy.tif").stat().st_size > 0


# --- what it does not need is refused ---


@pytest.fixture(scope="module")
def agent(box, tmp_path_factory):
    """A program of the host's that listens on a socket file in the workspace, for everybody."""
    place = Path(box.template.mounts[0].source) / "agent"
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(place.parent, os.O_PATH)
        server.bind(f"/proc/self/fd/{here}/agent")  # a socket's path has a short limit
        os.close(here)
        place.chmod(0o777)
        server.listen()
        yield place


@pytest.fixture(scope="module")
def numbers(box):
    return NUMBERS[box.facts.architecture]


@pytest.fixture(scope="module")
def attacked(box, agent, numbers):
    return box.program("attack.py", json.dumps(dict(numbers))).answer


@pytest.fixture(scope="module")
def unfiltered(box, agent):
    """The same attacks without a profile, and with everything else as it is."""
    code = (Path(__file__).parent / "inside/attack.py").read_text()
    body = box.body("python3", "-I", "-c", code, "{}")
    body["HostConfig"]["SecurityOpt"] = ["no-new-privileges:true", "seccomp=unconfined"]
    return box.run(body).answer["attacks"]


@pytest.mark.claim("sandbox.own-seccomp")
def test_every_attack_is_refused_but_a_socket_pair_works(attacked):
    assert {name for name, failure in attacked["attacks"].items() if failure == 0} == {
        "socket pair",
        "local socket",
    }


@pytest.mark.claim("sandbox.own-seccomp")
def test_it_is_the_profile_that_refuses(attacked, unfiltered):
    worked = {name for name, failure in unfiltered.items() if failure == 0}
    assert {
        "connect to a socket in the workspace",
        "pipe in staging",
        "symlink in staging",
        "program in memory",
        "lease on a file",
        "splice",
        "AF_INET",
        "AF_NETLINK",
    } <= worked


def test_every_refused_call_fails_with_the_errno_that_the_profile_names(attacked, numbers):
    expected = {
        name: errno.EPERM for group in rules()["refused"] for name in group["names"] if name in numbers
    }
    for group in rules()["answered"]:
        expected |= {name: getattr(errno, group["errno"]) for name in group["names"]}
    assert attacked["calls"] == expected


@pytest.mark.claim("sandbox.own-seccomp")
def test_a_call_through_another_architecture_ends_the_process(box):
    if box.facts.architecture == "x86_64":  # x32 numbers have bit 30 set; aarch64 has nothing like it
        code = "import ctypes; ctypes.CDLL(None).syscall(0x40000000 | 39)"
        assert box.python(code).code == BAD_SYSTEM_CALL


# --- limits have an effect ---


@pytest.mark.claim("resources.limits-hard")
def test_memory_that_the_process_limit_does_not_count_ends_in_an_out_of_memory_kill(box):
    code = """
        import mmap
        shared = mmap.mmap(-1, 512 << 20)
        while True:
            shared.write(bytes(1 << 20))
    """
    ended = box.python(code)
    assert ended.code == KILLED
    assert ended.out_of_memory


def test_an_allocation_beyond_the_limit_fails_readably(box):
    code = """
        try:
            bytearray(300 << 20)
        except MemoryError:
            print('"refused"')
    """
    assert box.python(code).answer == "refused"


@pytest.mark.claim("resources.limits-hard")
def test_processes_are_counted(box):
    code = """
        import errno, os, signal
        count = 0
        try:
            while count < 100:
                if os.fork() == 0:
                    signal.pause()
                count += 1
        except OSError as error:
            print(f"[{count}, {error.errno}]")
    """
    assert box.python(code).answer == [LIMITS.pids - 1, errno.EAGAIN]


@pytest.mark.claim("resources.limits-hard")
def test_a_file_grows_to_its_limit_and_no_further(box):
    code = """
        try:
            with open("/staging/big", "wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 20))
        except OSError as error:
            print(error.errno)
    """
    assert box.python(code).answer == errno.EFBIG
    assert (box.staging / "big").stat().st_size == LIMITS.file_bytes


@pytest.mark.claim("sandbox.scratch")
def test_scratch_fills_up_at_its_size(box):
    code = """
        import errno
        written = 0
        try:
            for number in range(100):
                with open(f"/tmp/{number}", "wb", buffering=0) as file:
                    written += file.write(bytes(1 << 20))
        except OSError as error:
            print(f"[{written}, {error.errno}]")
    """
    written, failure = box.python(code).answer
    assert failure == errno.ENOSPC
    assert written <= LIMITS.scratch_bytes


@pytest.mark.claim("resources.limits-hard")
def test_open_files_are_counted(box):
    code = """
        import os
        kept = []
        try:
            while len(kept) < 1000:
                kept.append(os.open("/dev/null", os.O_RDONLY))
        except OSError as error:
            print(f"[{kept[-1]}, {error.errno}]")
    """
    assert box.python(code).answer == [LIMITS.open_files - 1, errno.EMFILE]


def test_the_control_group_has_our_numbers_and_shows_them_to_the_attestation_only(box):
    files = {
        "2": ["memory.max", "memory.swap.max", "pids.max", "cpu.max"],
        "1": [
            *("memory/memory.limit_in_bytes", "memory/memory.memsw.limit_in_bytes", "pids/pids.max"),
            *("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"),
        ],
    }[box.facts.cgroup_version]
    code = """
        import json, sys
        print(json.dumps([open("/sys/fs/cgroup/" + name).read().split() for name in sys.argv[1:]]))
    """
    found = box.python(code, *files, cgroup_visible=True).answer
    memory = str(LIMITS.memory_bytes)
    asked = {
        "2": [[memory], ["0"], [str(LIMITS.pids)], ["50000", "100000"]],
        "1": [[memory], [memory], [str(LIMITS.pids)], ["50000"], ["100000"]],
    }
    assert found == asked[box.facts.cgroup_version]
