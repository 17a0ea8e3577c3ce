"""Runs inside a container: looks around, tries what should fail, prints what it found as one line of JSON."""

import json
import os
import resource
import socket
import sys
from pathlib import Path

PLACES = (
    "/",
    "/etc",
    "/usr/bin",
    "/dev",
    "/dev/mqueue",
    "/sys",
    "/proc/sys/kernel",
    "/workspace",
    "/workspace/.gdal-mcp",
)
LIMITS = ("CORE", "CPU", "DATA", "FSIZE", "NOFILE")


def attempt(action, *arguments):
    """0, or the errno with which the action failed."""
    try:
        action(*arguments)
    except OSError as error:
        return error.errno
    return 0


def run_from(folder):
    program = Path(folder, "program")
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    return attempt(os.execv, program, [str(program)])


def mounts():
    rows = [line.partition(" - ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [(left.split()[4], left.split()[5].split(","), right.split()[0]) for left, _, right in rows]


def lines(path):
    return Path(path).read_text().splitlines()


found = {
    "status": {
        name: value.split() for name, _, value in (row.partition(":") for row in lines("/proc/self/status"))
    },
    "environment": dict(os.environ),
    "groups": os.getgroups(),
    "pid": os.getpid(),
    "hostname": socket.gethostname(),
    "folder": str(Path.cwd()),
    "mounts": mounts(),
    "listed": {
        path: [inner.name for inner in Path(path).iterdir()]
        for path in ("/sys", "/dev/pts", "/workspace", "/workspace/.gdal-mcp")
    },
    "shared_memory": Path("/dev/shm").exists(),
    "interfaces": [row.split(":")[0].strip() for row in lines("/proc/net/dev")[2:]],
    "addresses": lines("/proc/net/if_inet6"),
    "routes": lines("/proc/net/route")[1:],
    "limits": {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in LIMITS},
    "written": {place: attempt(Path(place, "x").write_text, "x") for place in ("/tmp", "/staging", *PLACES)},
    "masked": {
        path: Path(path).read_bytes() == b""
        for path in ("/proc/kallsyms", "/proc/cmdline", "/proc/interrupts")
    },
    "program": run_from("/tmp"),
}
sys.stdout.write(json.dumps(found))
