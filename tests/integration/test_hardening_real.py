"""What a job in a container of ours needs works, and what it does not need is refused by the profile, on the real engine.

What every engine must give besides, limits and sight of the host, is in the conformance suite (tests/engines).
"""

import errno
import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from hardening_box import LIMITS, USER, open_box

from sandbox.isolation.seccomp import rules
from sandbox.isolation.syscalls import NUMBERS

pytestmark = pytest.mark.engine

BAD_SYSTEM_CALL = 159  # 128 + SIGSYS


@pytest.fixture(scope="module")
def box(image_id, tmp_path_factory):
    with open_box(image_id, tmp_path_factory.mktemp("box")) as opened:
        yield opened


def test_gdal_and_python_do_all_their_work(box):
    roomy = replace(LIMITS, memory_bytes=1 << 30, pids=64, file_bytes=64 << 20, open_files=256, cpus=1.0)
    formats = {
        "netCDF": "o.nc", "BAG": "o.bag", "GPKG": "o.gpkg", "COG": "o.tif", "Zarr": "o.zarr",
        "PNG": "o.png",
    }  # fmt: skip
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


@pytest.fixture(scope="module")
def agent(box, tmp_path_factory):
    """A program of the host's that listens on a socket file in the workspace, for everybody."""
    place = Path(box.template.mounts[0].host_path) / "agent"
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
        "connect to a socket in the workspace", "pipe in staging", "symlink in staging",
        "program in memory", "lease on a file", "splice", "AF_INET", "AF_NETLINK",
    } <= worked  # fmt: skip


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
