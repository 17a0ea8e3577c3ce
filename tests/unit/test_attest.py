"""Facts measured inside a container, weakened one at a time: each weakness is found, whatever the rest says."""

import copy
import json
from dataclasses import replace
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.isolation.attest import rows, shortfalls
from sandbox.template import Limits, Mount, SandboxTemplate, host_source

LIMITS = Limits(memory_bytes=1 << 30, cpus=1.5, pids=32, open_files=256, file_bytes=1 << 20)
TEMPLATE = SandboxTemplate(
    image="sha256:abc",
    command=("python3",),
    user=(1000, 1001),
    limits=LIMITS,
    mounts=(
        Mount(host_source("/data/ws"), PurePosixPath("/data/ws")),
        Mount(host_source("/state/out"), PurePosixPath("/staging"), read_only=False),
    ),
    masks=(PurePosixPath("/data/ws/.gdal-mcp"),),
    environment={"PATH": "/usr/bin", "LC_ALL": "C.UTF-8"},
)
SHOWN = replace(TEMPLATE, cgroup_visible=True)


def mount(target, options="ro,relatime", kind="ext4", shared=()):
    return {"target": target, "options": options.split(","), "shared": list(shared), "type": kind}


def tree(rows):
    """The rows with the numbers that mounts get when they are made in this order, and of what each one lies on."""
    made, reached = [], {"": "0"}  # number by target
    for number, row in enumerate(rows, 1):
        target = row["target"].rstrip("/")
        below = max((one for one in reached if f"{target}/".startswith(f"{one}/")), key=len)
        made.append({**row, "id": str(number), "parent": reached[below]})
        reached = {one: old for one, old in reached.items() if not f"{one}/".startswith(f"{target}/")}
        reached[target] = str(number)
    return made


FACTS = {
    "pid": 1,
    "status": {
        "Uid": ["1000"] * 4,
        "Gid": ["1001"] * 4,
        "Groups": ["1001"],
        **{name: ["0000000000000000"] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")},
        "NoNewPrivs": ["1"],
        "Seccomp": ["2"],
    },
    "mounts": tree(
        [
            mount("/", kind="overlay", shared=["master:3"]),
            mount("/proc", "rw,nosuid", "proc"),
            mount("/dev", "rw,nosuid", "tmpfs"),
            mount("/dev/pts", "rw", "devpts"),
            mount("/sys", "ro", "sysfs"),
            mount("/sys/fs/cgroup", "rw", "tmpfs"),
            mount("/sys/fs/cgroup/memory", "ro", "cgroup"),
            mount("/etc/hostname"),
            mount("/data/ws"),
            mount("/data/ws/.gdal-mcp", "ro,nosuid", "tmpfs"),
            mount("/staging", "rw,relatime"),
            mount("/tmp", "rw,nosuid,nodev,noexec,relatime", "tmpfs"),
            mount("/proc/keys", "rw", "tmpfs"),
            mount("/sys", "ro", "tmpfs"),  # covers what is below
        ]
    ),
    "interfaces": ["lo"],
    "rlimits": {
        "NOFILE": [256, 256],
        "FSIZE": [1 << 20, 1 << 20],
        "CORE": [1, 1],
        "DATA": [LIMITS.data_bytes] * 2,
        "CPU": [LIMITS.cpu_seconds] * 2,
    },
    "environment": {"PATH": "/usr/bin", "LC_ALL": "C.UTF-8", "HOME": "/"},
    "hostname": "sandbox",
    "cgroup": dict.fromkeys(("memory", "swap", "pids", "cpu", "cpu_period")),
}
V1 = {"memory": str(1 << 30), "swap": str(1 << 30), "pids": "32", "cpu": "150000", "cpu_period": "100000"}
V2 = {"memory": str(1 << 30), "swap": "0", "pids": "32", "cpu": "150000 100000", "cpu_period": None}


def with_cgroup(**changes):
    return {**FACTS, "mounts": FACTS["mounts"][:-1], "cgroup": {**V2, **changes}}


def weakened(path, value):
    facts = copy.deepcopy(FACTS)
    *way, last = path
    place = facts
    for key in way:
        place = place[key]
    place[last] = value
    return facts


def with_mounts(*added, without=()):
    facts = copy.deepcopy(FACTS)
    facts["mounts"] = tree([row for row in facts["mounts"] if row["target"] not in without] + list(added))
    return facts


def names(template, facts):
    return {row.name for row in shortfalls(template, facts)}


def test_a_container_as_asked_has_no_shortfall():
    assert names(TEMPLATE, FACTS) == set()
    assert len(rows(TEMPLATE, FACTS)) > 20


@pytest.mark.parametrize(
    "cgroup", [V1, V2, {**V2, "cpu": "75000 50000"}, {**V1, "swap": None}, {**V2, "swap": None}]
)
def test_limits_as_asked_have_no_shortfall(cgroup):
    assert names(SHOWN, with_cgroup(**cgroup)) == set()


@pytest.mark.claim("sandbox.not-root")
@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("name", ["Uid", "Gid"])
def test_root_in_any_of_the_four_ids_is_found(name, which):
    ids = list(FACTS["status"][name])
    ids[which] = "0"
    assert names(TEMPLATE, weakened(["status", name], ids)) == {"user"}


def test_another_user_is_found():
    assert names(TEMPLATE, weakened(["status", "Uid"], ["1002"] * 4)) == {"user"}


def test_a_supplementary_group_is_found():
    assert names(TEMPLATE, weakened(["status", "Groups"], ["1001", "998"])) == {"supplementary groups"}


@pytest.mark.claim("sandbox.not-root")
@pytest.mark.parametrize("name", ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"])
@pytest.mark.parametrize("bits", ["0000000000000001", "0000008000000000", "00000000a80425fb"])
def test_any_capability_in_any_set_is_found(name, bits):
    assert names(TEMPLATE, weakened(["status", name], [bits])) == {name}


@pytest.mark.claim("sandbox.self-measured")
@pytest.mark.parametrize(("name", "value"), [("NoNewPrivs", "0"), ("Seccomp", "0"), ("Seccomp", "1")])
def test_a_missing_barrier_is_found(name, value):
    assert names(TEMPLATE, weakened(["status", name], [value])) == {name}


@pytest.mark.claim("network.no-interface")
def test_a_network_interface_is_found():
    assert names(TEMPLATE, weakened(["interfaces"], ["lo", "eth0"])) == {"network interfaces"}
    assert names(TEMPLATE, weakened(["interfaces"], [])) == set()


@pytest.mark.claim("sandbox.environment")
@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "GDAL_DATA", "LD_PRELOAD", "http_proxy"])
def test_a_foreign_variable_is_found(name):
    assert names(TEMPLATE, weakened(["environment", name], "x")) == {"foreign environment"}


def test_a_changed_or_missing_variable_is_found():
    assert names(TEMPLATE, weakened(["environment", "PATH"], "/evil")) == {"foreign environment"}
    assert names(TEMPLATE, weakened(["environment"], {"PATH": "/usr/bin"})) == {"missing environment"}


@pytest.mark.claim("sandbox.self-measured")
@pytest.mark.parametrize("name", ["NOFILE", "FSIZE", "CORE", "DATA", "CPU"])
def test_a_softer_limit_is_found_even_where_only_the_hard_one_is(name):
    soft, hard = FACTS["rlimits"][name]
    for value in ([-1, -1], [soft, -1], [soft, hard + 1], [soft + 1, hard]):
        assert names(TEMPLATE, weakened(["rlimits", name], value)) == {f"rlimit {name}"}


@pytest.mark.claim("files.mounts-only")
def test_a_workspace_that_can_be_written_is_found():
    facts = with_mounts(mount("/data/ws", "rw,relatime"), without=("/data/ws", "/data/ws/.gdal-mcp"))
    facts["mounts"] = tree([*facts["mounts"], mount("/data/ws/.gdal-mcp", "ro", "tmpfs")])
    assert names(TEMPLATE, facts) == {"mount /data/ws"}


def test_a_missing_workspace_or_staging_is_found():
    assert names(TEMPLATE, with_mounts(without=("/data/ws",))) == {"mount /data/ws"}
    assert names(TEMPLATE, with_mounts(without=("/staging",))) == {"mount /staging"}
    assert names(TEMPLATE, with_mounts(mount("/staging", "ro"), without=("/staging",))) == {"mount /staging"}


def test_a_root_that_can_be_written_is_found():
    facts = weakened(["mounts", 0, "options"], ["rw"])
    assert "mount /" in names(TEMPLATE, facts)


@pytest.mark.claim("files.reserved-covered")
@pytest.mark.parametrize(
    "mask", [None, mount("/data/ws/.gdal-mcp", "rw", "tmpfs"), mount("/data/ws/.gdal-mcp", "ro", "ext4")]
)
def test_a_mask_that_hides_nothing_is_found(mask):
    facts = with_mounts(*([mask] if mask else []), without=("/data/ws/.gdal-mcp",))
    assert "mask /data/ws/.gdal-mcp" in names(TEMPLATE, facts)


def test_a_file_that_stands_where_the_image_is_masked_is_found():
    assert names(TEMPLATE, with_mounts(mount("/etc/passwd", "rw,nosuid", "tmpfs"))) == set()
    assert names(TEMPLATE, with_mounts(mount("/etc/passwd", "rw,nosuid", "ext4"))) >= {"writable mounts"}
    assert names(TEMPLATE, with_mounts(mount("/etc/shadow", "rw,nosuid", "tmpfs"))) >= {"writable mounts"}


def test_a_mask_under_the_workspace_rather_than_over_it_is_found():
    """Mounted first, it is covered by the workspace's own mount."""
    facts = with_mounts(mount("/data/ws"))
    assert names(TEMPLATE, facts) == {"mask /data/ws/.gdal-mcp"}


COVERED = [
    with_mounts(),
    with_mounts(mount("/data/ws")),  # over the mask
    with_mounts(mount("/host"), mount("/host", "ro", "tmpfs")),
    with_mounts(mount("/etc", "rw"), mount("/etc/x", "rw"), mount("/etc", "ro", "tmpfs")),
]


@pytest.mark.claim("sandbox.self-measured")
@pytest.mark.parametrize("facts", COVERED)
@given(order=st.randoms(use_true_random=False))
def test_the_order_in_which_a_kernel_lists_mounts_does_not_matter(facts, order):
    """As after a copy of all mounts into another namespace, which a rootless engine makes."""
    other = copy.deepcopy(facts)
    order.shuffle(other["mounts"])
    assert names(TEMPLATE, other) == names(TEMPLATE, facts)


def test_memory_that_containers_may_share_is_found():
    assert names(TEMPLATE, with_mounts(mount("/dev/shm", "rw,nosuid,nodev,noexec", "tmpfs"))) == {
        "shared memory"
    }


@pytest.mark.parametrize("options", ["rw,nosuid,nodev", "rw,noexec,nodev", "rw,nosuid,noexec"])
def test_a_scratch_that_runs_programs_is_found(options):
    assert names(TEMPLATE, with_mounts(mount("/tmp", options, "tmpfs"), without=("/tmp",))) == {
        "scratch /tmp"
    }


@pytest.mark.parametrize("target", ["/", "/data/ws", "/etc/hostname"])
def test_a_mount_that_propagates_to_the_host_is_found(target):
    facts = copy.deepcopy(FACTS)
    next(row for row in facts["mounts"] if row["target"] == target)["shared"] = ["shared:7", "master:3"]
    assert names(TEMPLATE, facts) == {"shared propagation"}


@pytest.mark.claim("files.mounts-only")
@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "overlay", "9p", "fuse-overlayfs", "nfs", "virtiofs"]
)
@pytest.mark.parametrize(
    "target", ["/host", "/data/ws/sub", "/staging/x", "/run/docker.sock", "/tmp/x", "/proc/x"]
)
def test_a_mount_that_nobody_asked_for_is_found(target, kind):
    assert names(TEMPLATE, with_mounts(mount(target, "ro", kind))) == {"foreign mounts"}


@pytest.mark.claim("files.mounts-only")
@pytest.mark.parametrize("target", ["/etc", "/data", "/opt/x", "/sys/kernel", "/stagingx", "/tmpx", "/devx"])
def test_a_writable_place_that_nobody_asked_for_is_found(target):
    found = names(TEMPLATE, with_mounts(mount(target, "rw", "tmpfs")))
    assert "writable mounts" in found


def test_control_groups_that_can_be_written_are_found_unless_they_are_to_be_shown():
    facts = {**FACTS, "mounts": FACTS["mounts"][:-1]}  # nothing covers /sys
    assert names(TEMPLATE, facts) == {"writable mounts"}
    shown = with_cgroup()
    shown["mounts"] = tree([*shown["mounts"], mount("/sys/fs/cgroup/memory", "rw", "cgroup")])
    assert names(SHOWN, shown) == {"writable mounts"}


@pytest.mark.claim("sandbox.host-attested")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            ("memory", value)
            for value in ("max", None, "9223372036854771712", str(2 << 30), str(1 << 29), "", "²")
        ),
        *(("swap", value) for value in ("max", "1", str(1 << 30), "9223372036854771712")),
        *(("pids", value) for value in ("max", None, "33", "31")),
        *(
            ("cpu", value)
            for value in ("max 100000", "max", None, "200000 100000", "150000 10000", "-1", "150000 0")
        ),
    ],
)
def test_a_limit_that_the_engine_did_not_set_is_found(name, value):
    found = names(SHOWN, with_cgroup(**{name: value}))
    assert found in ({f"cgroup {name}"}, {"cgroup cpus"}, {"facts"})


@pytest.mark.parametrize(
    ("name", "value"),
    [("swap", "9223372036854771712"), ("swap", str((1 << 30) + 4096)), ("cpu", "-1"), ("cpu_period", "0")],
)
def test_a_limit_that_the_engine_did_not_set_is_found_on_version_1_too(name, value):
    assert names(SHOWN, with_cgroup(**{**V1, name: value}))


def test_limits_that_cannot_be_seen_are_no_shortfall_of_a_job_but_of_an_attestation():
    assert names(TEMPLATE, FACTS) == set()
    assert names(SHOWN, {**FACTS, "mounts": FACTS["mounts"][:-1]}) >= {
        "cgroup memory",
        "cgroup pids",
        "cgroup cpus",
    }


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def _paths(value, way=()):
    if way:
        yield way
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from _paths(inner, (*way, key))


_PLACES = [way for way in _paths(FACTS) if way[0] not in ("pid", "hostname")]


@given(st.sampled_from(_PLACES), _ANY)
def test_malformed_facts_make_failing_rows_and_never_an_exception(way, value):
    facts = {**weakened(way, value), "cgroup": V2} if way[0] != "cgroup" else weakened(way, value)
    for template in (TEMPLATE, SHOWN):
        for row in rows(template, facts):
            assert isinstance(row.ok, bool)


@pytest.mark.claim("sandbox.self-measured")
@given(_ANY)
def test_facts_of_any_shape_are_not_taken_for_a_container_as_asked(value):
    assert shortfalls(TEMPLATE, value)


@pytest.mark.claim("sandbox.self-measured", "engine.gvisor-is-judged-by-effect")
@pytest.mark.parametrize("name", [name for name in FACTS if name not in ("pid", "hostname", "cgroup")])
def test_a_missing_fact_is_a_shortfall(name):
    facts = {key: value for key, value in FACTS.items() if key != name}
    assert names(TEMPLATE, facts) == {"facts"}
    json.dumps([row.found for row in shortfalls(TEMPLATE, facts)])
