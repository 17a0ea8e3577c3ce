"""Facts measured inside a container, weakened one at a time: each weakness is found, whatever the other facts are."""

import copy
import json
from dataclasses import replace
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import worker
from sandbox.isolation.measured import CAPABILITIES, LIMITS_IN_FORCE, PROCESSES, violations
from sandbox.isolation.measured import FACTS as RULES
from sandbox.isolation.policy import rlimits
from sandbox.isolation.rows import Evidence, judged
from tests.fuzz.kit import anything
from tests.unit.sandbox import hardening_kit
from tests.unit.sandbox.hardening_kit import LIMITS

TEMPLATE = replace(hardening_kit.TEMPLATE, runtime="", environment={"PATH": "/usr/bin", "LC_ALL": "C.UTF-8"})
SHOWN = replace(TEMPLATE, cgroup_visible=True)


def mount(target, options="ro,relatime", kind="ext4", shared=()):
    return {"target": target, "options": options.split(","), "shared": list(shared), "type": kind}


def tree(rows):
    """The rows with the numbers that mounts get if they are made in this order, and the number of each parent mount."""
    numbered, reached = [], {"": "0"}  # number by target
    for number, row in enumerate(rows, 1):
        target = row["target"].rstrip("/")
        below = max((mounted for mounted in reached if f"{target}/".startswith(f"{mounted}/")), key=len)
        numbered.append({**row, "id": str(number), "parent": reached[below]})
        reached = {
            mounted: old for mounted, old in reached.items() if not f"{mounted}/".startswith(f"{target}/")
        }
        reached[target] = str(number)
    return numbered


FACTS = {
    "pid": 1,
    "status": {
        "Uid": ["1000"] * 4, "Gid": ["1001"] * 4, "Groups": ["1001"], "NoNewPrivs": ["1"], "Seccomp": ["2"],
        **{name: ["0000000000000000"] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")},
    },
    "ids": {"uid": [["0", "0", "4294967295"]], "gid": [["0", "0", "4294967295"]]},
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
            mount("/sys", "ro", "tmpfs"),  # covers the mounts below it
        ]
    ),
    "interfaces": ["lo"],
    "rlimits": {
        "NOFILE": [256, 256], "FSIZE": [1 << 20, 1 << 20], "CORE": [1, 1],
        "DATA": [rlimits(LIMITS)["data"]] * 2, "CPU": [rlimits(LIMITS)["cpu"]] * 2,
    },
    "environment": {"PATH": "/usr/bin", "LC_ALL": "C.UTF-8", "HOME": "/"},
    "hostname": "sandbox", "folder": "/tmp",
    "cgroup": dict.fromkeys(("memory", "swap", "pids", "cpu", "cpu_period")),
}  # fmt: skip
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
    return {row.name for row in violations(template, facts)}


def status(**changed):
    return {**FACTS, "status": {**FACTS["status"], **changed}}


def in_namespace(uid, gid):
    """Root of a user namespace that is this user on the host, as in a container of a rootless Docker."""
    further = ["1", "300000", "65536"]
    namespace = {"uid": [["0", uid, "1"], further], "gid": [["0", gid, "1"], further]}
    return {**status(Uid=["0"] * 4, Gid=["0"] * 4), "ids": namespace}


def ids(name, which):
    return status(
        **{name: ["0" if index == which else old for index, old in enumerate(FACTS["status"][name])]}
    )


def limits(name):
    soft, hard = FACTS["rlimits"][name]
    for pair in ([-1, -1], [soft, -1], [soft, hard + 1], [soft + 1, hard]):
        yield weakened(["rlimits", name], pair)


def shared(target):
    facts = copy.deepcopy(FACTS)
    next(row for row in facts["mounts"] if row["target"] == target)["shared"] = ["shared:7", "master:3"]
    return facts


def writable_workspace():
    mask = mount("/data/ws/.gdal-mcp", "ro", "tmpfs")
    return with_mounts(mount("/data/ws", "rw,relatime"), mask, without=("/data/ws", "/data/ws/.gdal-mcp"))


def with_mask(*mask):
    return with_mounts(*mask, without=("/data/ws/.gdal-mcp",))


KINDS = ("ext4", "xfs", "btrfs", "overlay", "9p", "fuse-overlayfs", "nfs", "virtiofs")
FOREIGN = ("/host", "/data/ws/sub", "/staging/x", "/run/docker.sock", "/tmp/x", "/proc/x")
NAMES = ("AWS_SECRET_ACCESS_KEY", "GDAL_DATA", "LD_PRELOAD", "http_proxy")
BITS = ("0000000000000001", "0000008000000000", "00000000a80425fb")
# row -> facts that this row, and no other, must notice
WEAK = {
    "user": [
        *(ids(name, which) for name in ("Uid", "Gid") for which in range(4)),
        status(Uid=["1002"] * 4),
        status(Uid=["0"] * 4, Gid=["0"] * 4),
        *(in_namespace(uid, gid) for uid, gid in (("1002", "1001"), ("1000", "1002"), ("0", "0"))),
    ],
    "supplementary groups": [status(Groups=["1001", "998"])],
    **{name: [status(**{name: [bits]}) for bits in BITS] for name in CAPABILITIES},
    "NoNewPrivs": [status(NoNewPrivs=["0"])],
    "Seccomp": [status(Seccomp=["0"]), status(Seccomp=["1"]), status(Seccomp=[])],
    "network interfaces": [weakened(["interfaces"], ["lo", "eth0"])],
    "process": [weakened(["pid"], 7)],
    "host name": [weakened(["hostname"], "build-server")],
    "working folder": [weakened(["folder"], "/")],
    "foreign environment": [
        *(weakened(["environment", name], "x") for name in NAMES),
        weakened(["environment", "PATH"], "/evil"),
    ],
    "missing environment": [weakened(["environment"], {"PATH": "/usr/bin"})],
    **{f"rlimit {name}": [*limits(name)] for name in FACTS["rlimits"]},
    "mount /data/ws": [writable_workspace(), with_mounts(without=("/data/ws",))],
    "mount /staging": [
        with_mounts(without=("/staging",)),
        with_mounts(mount("/staging", "ro"), without=("/staging",)),
    ],
    # absent, of another kind, or below the workspace instead of above it
    "mask /data/ws/.gdal-mcp": [
        with_mask(),
        with_mask(mount("/data/ws/.gdal-mcp", "rw", "tmpfs")),
        with_mounts(mount("/data/ws")),
    ],
    "scratch /tmp": [
        with_mounts(mount("/tmp", options, "tmpfs"), without=("/tmp",))
        for options in ("rw,nosuid,nodev", "rw,noexec,nodev", "rw,nosuid,noexec")
    ],
    "shared memory": [with_mounts(mount("/dev/shm", "rw,nosuid,nodev,noexec", "tmpfs"))],
    "shared propagation": [shared(target) for target in ("/", "/data/ws", "/etc/hostname")],
    "foreign mounts": [with_mounts(mount(target, "ro", kind)) for target in FOREIGN for kind in KINDS],
    "writable mounts": [
        {**FACTS, "mounts": FACTS["mounts"][:-1]},  # control groups, which nothing covers
        with_mounts(mount("/etc/crontab", "rw,nosuid", "tmpfs")),
        *(with_mounts(mount(target, "rw", "tmpfs")) for target in ("/etc", "/opt/x", "/tmpx", "/stagingx", "/devx")),
    ],
}  # fmt: skip
# rows that fail because of the same weakness
TOO = {"mask /data/ws/.gdal-mcp": {"writable mounts"}, "mount /staging": set(), "writable mounts": set()}


@pytest.mark.claim(
    "files.mounts-only",
    "files.reserved-covered",
    "network.no-interface",
    "sandbox.environment",
    "sandbox.not-root",
    "sandbox.self-measured",
)
def test_each_weakness_fails_its_row_and_no_other(subtests):
    # a kernel without Landlock is a warning, not a weakness that refuses a host
    never_fails = {"mount /", "writing to named pipes"}
    assert {row.name for row in judged(RULES, Evidence(TEMPLATE, FACTS))} == {*WEAK, *never_fails}
    assert names(TEMPLATE, FACTS) == set()
    for name, cases in WEAK.items():
        for number, facts in enumerate(cases):
            with subtests.test(name, number=number):
                assert {name} <= names(TEMPLATE, facts) <= {name, *TOO.get(name, ())}


def test_user_namespace_root_is_its_host_user():
    assert names(TEMPLATE, in_namespace("1000", "1001")) == set()
    again = in_namespace("1000", "1001")
    again["status"]["Groups"] = ["0"]  # its own group
    assert names(TEMPLATE, again) == set()


@pytest.mark.claim("engine.gvisor-is-judged-by-effect")
def test_facts_hidden_by_gvisor_are_named():
    """As gVisor's release 20221219 reports: none of these, and no control groups."""
    hidden = {"CapAmb", "NoNewPrivs", "Seccomp"}
    status = {name: value for name, value in FACTS["status"].items() if name not in hidden}
    assert names(TEMPLATE, {**FACTS, "status": status}) == hidden
    limits = {"cgroup memory", "cgroup pids", "cgroup cpus"}
    unseen = {**FACTS, "status": status, "mounts": FACTS["mounts"][:-1]}
    assert names(SHOWN, unseen) == hidden | limits


def test_a_root_that_can_be_written_is_found():
    assert names(TEMPLATE, weakened(["mounts", 0, "options"], ["rw"])) == {"mount /", "writable mounts"}


def test_what_engines_add_and_mask_is_no_weakness():
    assert names(TEMPLATE, weakened(["interfaces"], [])) == set()
    assert names(TEMPLATE, with_mounts(mount("/etc/passwd", "rw,nosuid", "tmpfs"))) == set()
    assert names(TEMPLATE, with_mounts(mount("/etc/passwd", "rw,nosuid", "ext4"))) >= {"writable mounts"}


def test_interfaces_that_cannot_be_listed_are_unknown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker, "_lines", lambda _path: [])
    assert names(TEMPLATE, weakened(["interfaces"], worker._interfaces())) == {"network interfaces"}


COVERED = [
    with_mounts(),
    with_mounts(mount("/data/ws")),  # over the mask
    with_mounts(mount("/host"), mount("/host", "ro", "tmpfs")),
    with_mounts(mount("/etc", "rw"), mount("/etc/x", "rw"), mount("/etc", "ro", "tmpfs")),
]


@pytest.mark.claim("sandbox.self-measured")
@given(facts=st.sampled_from(COVERED), order=st.randoms(use_true_random=False))
def test_mount_order_does_not_matter(facts, order):
    """As after a copy of all mounts into another namespace, which a rootless engine makes."""
    shuffled = copy.deepcopy(facts)
    order.shuffle(shuffled["mounts"])
    assert names(TEMPLATE, shuffled) == names(TEMPLATE, facts)


def test_limits_as_asked_have_no_shortfall():
    for cgroup in (V1, V2, {**V2, "cpu": "75000 50000"}, {**V1, "swap": None}, {**V2, "swap": None}):
        assert names(SHOWN, with_cgroup(**cgroup)) == set(), cgroup
    shown = with_cgroup()
    shown["mounts"] = tree([*shown["mounts"], mount("/sys/fs/cgroup/memory", "rw", "cgroup")])
    assert names(SHOWN, shown) == {"writable mounts"}


IGNORED = {
    "memory": ("max", None, "9223372036854771712", str(2 << 30), str(1 << 29), "", "\u00b2"),
    "swap": ("max", "1", str(1 << 30), "9223372036854771712"),
    "pids": ("max", None, "33", "31"),
    "cpu": ("max 100000", "max", None, "200000 100000", "150000 10000", "-1", "150000 0"),
}
IGNORED_1 = {"swap": ("9223372036854771712", str((1 << 30) + 4096)), "cpu": ("-1",), "cpu_period": ("0",)}


@pytest.mark.claim("sandbox.host-attested")
def test_limit_that_engine_did_not_set_is_found():
    for version, cases in ((V2, IGNORED), (V1, IGNORED_1)):
        for name, values in cases.items():
            for value in values:
                row = "cgroup cpus" if name.startswith("cpu") else f"cgroup {name}"
                shortfalls = names(SHOWN, with_cgroup(**{**version, name: value}))
                # one row for all limits if a value is not a number
                assert shortfalls in ({row}, {"cgroup"}), (name, value)


def _paths(value, way=()):
    if way:
        yield way
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from _paths(inner, (*way, key))


@given(st.sampled_from([*_paths(FACTS)]), anything)
def test_malformed_facts_fail_rows_without_exceptions(way, value):
    facts = {**weakened(way, value), "cgroup": V2} if way[0] != "cgroup" else weakened(way, value)
    for row in judged((*RULES, *LIMITS_IN_FORCE), Evidence(SHOWN, facts)):
        assert isinstance(row.ok, bool)


@pytest.mark.claim("sandbox.self-measured")
@given(anything)
def test_malformed_facts_never_pass_as_expected_container(value):
    assert violations(TEMPLATE, value)


@pytest.mark.claim("sandbox.self-measured")
def test_a_missing_fact_is_a_shortfall():
    for name in FACTS:
        others = {fact: value for fact, value in FACTS.items() if fact != name}
        shortfalls = violations(TEMPLATE if name != "cgroup" else SHOWN, others)
        assert shortfalls, name
        json.dumps([row.found for row in shortfalls])


POD = {**FACTS, "sockets": [], "programs": False, "interfaces": ["lo", "eth0"]}
POD["mounts"] = [{"bytes": 0, "closed": False, **row} for row in POD["mounts"]]


@pytest.mark.claim("engine.kubernetes-nodes-without")
def test_effects_are_judged_only_for_pods():
    """Mounts that a node adds are not writable, its interfaces lead nowhere, scratch runs no program, shared memory
    is one page.
    """
    scratch = mount("/tmp", "rw,relatime", "tmpfs")
    shared = mount("/dev/shm", "ro,relatime", "tmpfs")
    log = mount("/dev/termination-log", "rw,relatime")

    def facts(shared_bytes=4096, closed=True, **changes):
        rows = [row for row in FACTS["mounts"] if row["target"] != "/tmp"]
        mounts = [*rows, scratch, {**shared, "bytes": shared_bytes}, {**log, "closed": closed}]
        return {**POD, "mounts": tree([{"bytes": 0, "closed": False, **row} for row in mounts]), **changes}

    def violated_facts(value, *, limits_by_node=True):
        return {row.name for row in violations(TEMPLATE, value, limits_by_node=limits_by_node)}

    assert violated_facts(facts()) == set()
    assert violated_facts(facts(sockets=[2])) == {"network interfaces"}
    assert violated_facts(facts(programs=True)) == {"scratch /tmp"}
    assert violated_facts(facts(shared_bytes=1 << 20)) == {"shared memory"}
    assert violated_facts(facts(closed=False)) == {"open files of the Pod"}
    accepting = replace(TEMPLATE, nodes_without=("landlock",))
    assert violations(accepting, facts(closed=False, programs=True), limits_by_node=True) == ()
    (row,) = violations(accepting, facts(sockets=[2]), limits_by_node=True)
    assert row.name == "network interfaces"
    others = {"network interfaces", "scratch /tmp", "shared memory", "foreign mounts"}
    assert violated_facts(facts(), limits_by_node=False) == others


def test_process_limit_of_a_pod_is_tested():
    def failed_limits(*processes):
        evidence = Evidence(
            SHOWN, with_cgroup(pids="max"), {"processes": list(processes)}, limits_by_node=True
        )
        return {row.name for row in judged((*LIMITS_IN_FORCE, PROCESSES), evidence) if not row.ok}

    assert failed_limits(31, "EAGAIN") == set()
    for weak in ((32, ""), (32, "EAGAIN"), (3, "ENOMEM")):
        assert failed_limits(*weak) == {"processes"}
    assert failed_limits() != set()


def test_named_pipes_open_for_writing_are_a_warning():
    """A kernel without Landlock, one that does not report it, and a workspace where the job may write."""

    def verdict_of(template, fence):
        rows = judged(RULES, Evidence(template, {**FACTS, "fence": fence}))
        return next(row.verdict for row in rows if row.name == "writing to named pipes")

    (first, *others) = TEMPLATE.mounts
    below = replace(TEMPLATE, mounts=(replace(first, target=PurePosixPath("/tmp/workspace")), *others))
    assert [verdict_of(TEMPLATE, 7), verdict_of(TEMPLATE, 0), verdict_of(TEMPLATE, None), verdict_of(below, 7)] == [
        "held", "warning", "warning", "warning",
    ]  # fmt: skip
