"""The compiled profile, evaluated call by call as the kernel would."""

import errno
import json
from collections import Counter

import pytest

from sandbox.errors import IsolationRefused
from sandbox.escape.syscalls import NUMBERS
from sandbox.isolation.seccomp import profile, rules

ARCHITECTURES = ("x86_64", "aarch64")
ALLOWED = 0
NEW_NAMESPACES = {
    "CLONE_NEWNS": 0x00020000, "CLONE_NEWCGROUP": 0x02000000, "CLONE_NEWUTS": 0x04000000,
    "CLONE_NEWIPC": 0x08000000, "CLONE_NEWUSER": 0x10000000, "CLONE_NEWPID": 0x20000000,
    "CLONE_NEWNET": 0x40000000,
}  # fmt: skip
THREAD = 0x003D0F00  # the flags with which both C libraries start a thread


def decide(architecture, name, *arguments):
    """0 if the call is allowed, otherwise its errno. Several allowing entries are alternatives."""
    compiled = json.loads(profile(architecture))
    entries = [entry for entry in compiled["syscalls"] if name in entry["names"]]
    if any(entry["action"] == "SCMP_ACT_ALLOW" and _holds(entry["args"], arguments) for entry in entries):
        return ALLOWED
    answers = [entry["errnoRet"] for entry in entries if entry["action"] == "SCMP_ACT_ERRNO"]
    return answers[0] if answers else compiled["defaultErrnoRet"]


def _holds(conditions, arguments):
    tests = {
        "SCMP_CMP_EQ": lambda rule, value: value == rule["value"],
        "SCMP_CMP_MASKED_EQ": lambda rule, value: value & rule["value"] == rule["valueTwo"],
    }
    return all(tests[rule["op"]](rule, arguments[rule["index"]]) for rule in conditions)


@pytest.mark.claim("sandbox.own-seccomp")
def test_a_dangerous_call_is_refused_whatever_its_arguments():
    for architecture in ARCHITECTURES:
        for name in NUMBERS[architecture]:
            for value in (0, 1, 0xFFFFFFFF, 1 << 63):
                decision = decide(architecture, name, *[value] * 6)
                assert decision in (errno.EPERM, errno.ENOSYS, errno.ENOTSUP), (architecture, name)


@pytest.mark.claim("sandbox.own-seccomp")
def test_unknown_call_is_refused_and_necessary_ones_allowed():
    for architecture in ARCHITECTURES:
        assert decide(architecture, "invented_next_year", 0, 0, 0, 0, 0, 0) == errno.EPERM
        assert json.loads(profile(architecture))["defaultAction"] == "SCMP_ACT_ERRNO"
        for name in ("openat", "read", "mmap", "futex", "execve", "pread64", "wait4", "getrandom", "linkat"):
            assert decide(architecture, name, 0, 0, 0, 0, 0x400, 0) == ALLOWED, name


@pytest.mark.claim("network.local-sockets-only")
def test_only_local_sockets_are_made():
    for call in ("socket", "socketpair"):
        allowed = [family for family in range(64) if decide("x86_64", call, family, 1, 0, 0, 0, 0) == ALLOWED]
        assert allowed == [1]  # AF_UNIX
        assert decide("x86_64", call, (1 << 32) + 1, 1, 0, 0, 0, 0) != ALLOWED


@pytest.mark.claim("network.local-sockets-only")
def test_socket_pair_sends_to_peer_but_never_addresses():
    assert decide("x86_64", "sendto", 3, 0x1000, 1, 0, 0, 0) == ALLOWED
    assert decide("x86_64", "sendto", 3, 0x1000, 1, 0, 0x2000, 110) == errno.EPERM


def test_threads_and_children_start_without_new_namespaces():
    for architecture in ARCHITECTURES:
        assert decide(architecture, "clone", THREAD, 0, 0, 0, 0, 0) == ALLOWED
        assert decide(architecture, "clone", 17, 0, 0, 0, 0, 0) == ALLOWED  # SIGCHLD: a plain fork
        for flag in NEW_NAMESPACES.values():
            assert decide(architecture, "clone", flag | 17, 0, 0, 0, 0, 0) == errno.EPERM
            assert decide(architecture, "clone", flag | THREAD, 0, 0, 0, 0, 0) == errno.EPERM


def test_calls_with_fallbacks_report_missing_call_or_feature():
    for name in ("clone3", "io_uring_setup", "pidfd_open", "sendfile"):
        assert decide("x86_64", name, 0, 0, 0, 0, 0, 0) == errno.ENOSYS
    for name in ("listxattr", "setxattr", "getxattr", "fallocate"):
        assert decide("x86_64", name, 0, 0, 0, 0, 0, 0) == errno.ENOTSUP


@pytest.mark.claim("sandbox.own-seccomp")
def test_a_call_with_many_purposes_serves_only_ours():
    assert decide("x86_64", "ioctl", 0, 0x5401, 0, 0, 0, 0) == ALLOWED
    for name, index, value in (
        ("ioctl", 1, (1 << 32) | 0x5401),  # an allowed low half
        ("ioctl", 1, 0x5412),  # TIOCSTI: typing into a terminal
        ("ioctl", 1, 0x5423),  # TIOCSETD: loading a line discipline
        ("ioctl", 1, 0x40086602),  # FS_IOC_SETFLAGS: file attributes of the host's file system
        ("ioctl", 1, 0x50009401),  # BTRFS_IOC_SNAP_CREATE
        ("fcntl", 1, 1024),  # F_SETLEASE: makes the host's programs wait for a workspace file
        ("fcntl", 1, 1026),  # F_NOTIFY
        ("prctl", 0, 35),  # PR_SET_MM
        ("prctl", 0, 22),  # PR_SET_SECCOMP
        ("prctl", 0, 0x59616D61),  # PR_SET_PTRACER
        ("linkat", 4, 0),
        ("linkat", 4, 0x1000),  # AT_EMPTY_PATH: naming any open file
    ):
        arguments = [0] * 6
        arguments[index] = value
        assert decide("x86_64", name, *arguments) == errno.EPERM, (name, value)


def test_profile_is_specific_to_architecture_under_each_name():
    assert decide("x86_64", "open", 0, 0, 0, 0, 0, 0) == ALLOWED
    assert decide("aarch64", "open", 0, 0, 0, 0, 0, 0) == errno.EPERM
    for name, alias, expected in (
        ("x86_64", "amd64", "SCMP_ARCH_X86_64"),
        ("aarch64", "arm64", "SCMP_ARCH_AARCH64"),
    ):
        assert json.loads(profile(name))["architectures"] == [expected]
        assert profile(alias) == profile(name)
    for unknown in ("", "i386", "riscv64", "X86_64"):
        with pytest.raises(IsolationRefused):
            profile(unknown)


LIMITS = {"RLIMIT_CPU": 0, "RLIMIT_CORE": 4, "RLIMIT_NOFILE": 7}
A_VALUE = 0x7FFF0000


@pytest.mark.claim("escape.no-core-dump")
def test_all_limits_but_core_dumps_can_be_lowered():
    for architecture in ARCHITECTURES:
        for name, number in LIMITS.items():
            expected = errno.EPERM if name == "RLIMIT_CORE" else ALLOWED
            assert decide(architecture, "prlimit64", 0, number, 0, A_VALUE) == ALLOWED
            assert decide(architecture, "prlimit64", 0, number, A_VALUE, 0) == expected
            assert decide(architecture, "setrlimit", number, A_VALUE) == expected
        # the kernel reads only half of the value that a filter compares
        assert decide(architecture, "prlimit64", 0, 1 << 32 | 4, A_VALUE, 0) == errno.EPERM
        assert decide(architecture, "setrlimit", 1 << 32 | 4, A_VALUE) == errno.EPERM


def test_no_name_is_in_two_groups():
    groups = [group for kind in ("allowed", "answered", "refused") for group in rules()[kind]]
    names = Counter(name for group in groups for name in group["names"])
    # socket and socketpair share one group; as intended, a name in two allowing groups is allowed by the wider one
    # for prlimit64: any limit may be read, and all but one lowered
    assert [name for name, count in names.items() if count > 1] == ["prlimit64"]


def test_conditions_in_file_appear_in_the_profile():
    conditional = {name for group in rules()["allowed"] if "argument" in group for name in group["names"]}
    ours = "clone fcntl ioctl linkat prctl prlimit64 sendto setrlimit socket socketpair"
    assert conditional == set(ours.split())
    for architecture in ARCHITECTURES:
        for entry in json.loads(profile(architecture))["syscalls"]:
            if entry["action"] == "SCMP_ACT_ALLOW":
                assert bool(entry["args"]) == (entry["names"][0] in conditional)


def test_nothing_in_the_file_is_ignored():
    keys = {"comment", "names", "architecture", "argument", "is", "without_bits", "errno"}
    for kind in ("allowed", "answered", "refused"):
        for group in rules()[kind]:
            assert set(group) <= keys
            assert ("argument" in group) == (("is" in group) != ("without_bits" in group))
            assert group.get("architecture", "x86_64") in ARCHITECTURES
