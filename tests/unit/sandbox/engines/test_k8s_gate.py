"""The gate, run as a process of this machine: what it closes, for whom, and when the command begins."""

import ctypes
import json
import os
import subprocess
import sys

import pytest

from sandbox.engines.k8s import pod as pod_module
from sandbox.engines.k8s.pod import ARCHITECTURES, bpf, gated
from sandbox.template import Limits, SandboxTemplate
from scripts.seccomp_bpf import compiled

pytestmark = pytest.mark.claim("engine.kubernetes-gate-closes")
LIMITS = Limits(open_files=256)
PROBE = """
import errno, json, os, resource, socket, subprocess, sys
def tried(action):
    try: action()
    except OSError as error: return errno.errorcode[error.errno]
    return "did"
open("/tmp/gate-%d" % os.getpid(), "w").close()
own = "/tmp/gate-%d" % os.getpid()
os.chmod(own, 0o755)
found = {
    "files": {path: tried(lambda: open(path, "rb").read(1)) for path in sys.argv[1:]},
    "program": tried(lambda: os.execv(own, [own])),
    "sockets": [tried(lambda: socket.socket(one, 2).close()) for one in (2, 10, 16, 40)],
    "local": tried(lambda: socket.socketpair()),
    "namespace": tried(lambda: os.unshare(0x40000000)) if hasattr(os, "unshare") else "EPERM",
    "child": subprocess.run(["true"]).returncode,
    "environment": sorted(os.environ),
    "files_open": resource.getrlimit(resource.RLIMIT_NOFILE),
    "write": tried(lambda: open("/var/tmp/gate", "w")),
}
os.unlink(own)
print(json.dumps(found))
"""
CLOSED = ["/proc/cmdline", "/proc/diskstats", "/etc/passwd", "/etc/hosts"]
OPEN = ["/proc/self/status", "/proc/meminfo", "/etc/ld.so.cache"]


def has_landlock():
    create_ruleset = 444
    return ctypes.CDLL(None).syscall(create_ruleset, None, ctypes.c_size_t(0), 1) > 0  # its version


def gate(*command):
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    template = SandboxTemplate("sha256:0", command, (1, 1), LIMITS, environment=environment)
    return [sys.executable, *list(gated(template, os.uname().machine))[1:]]


def through_the_gate(*command, stdin=b"\n"):
    env = {**os.environ, "FOREIGN": "1"}
    return subprocess.run(gate(*command), check=False, input=stdin, capture_output=True, timeout=60, env=env)


def test_it_closes_the_process_and_becomes_the_command():
    ran = through_the_gate(sys.executable, "-I", "-c", PROBE, *CLOSED, *OPEN)
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert report["sockets"] == ["EPERM"] * 4
    assert (report["local"], report["namespace"], report["child"]) == ("did", "EPERM", 0)
    assert (report["environment"], report["files_open"]) == (["LC_ALL", "PATH"], [LIMITS.open_files] * 2)
    if not has_landlock():
        pytest.skip("the fence over files is NOT TRIED HERE: this kernel has no Landlock")
    assert report["files"] == {**dict.fromkeys(CLOSED, "EACCES"), **dict.fromkeys(OPEN, "did")}
    assert (report["program"], report["write"]) == ("EACCES", "EACCES")


def test_nothing_runs_without_start_and_rest_reaches_command():
    ran = through_the_gate("cat", stdin=b"")
    assert (ran.returncode, ran.stdout) == (0, b"")
    assert through_the_gate("cat", stdin=b"\nfor the command\n").stdout == b"for the command\n"


def test_missing_start_is_not_awaited(monkeypatch):
    monkeypatch.setattr(pod_module, "START_SECONDS", 0.1)
    with subprocess.Popen(gate("cat"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as left:
        assert left.wait(60) == 0


def test_absent_command_is_not_a_success():
    assert through_the_gate("/no/such/program").returncode == 127


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiled_filter_matches_seccomp_json(architecture):
    """Run `python -m scripts.seccomp_bpf` after a change of seccomp.json."""
    assert bpf(architecture) == compiled(architecture)
