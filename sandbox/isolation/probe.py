"""A handler for `sandbox/worker.py` that tries what must fail and reads what must be there. Standard library only."""

import errno
import hashlib
import os
import socket


def prepare():
    pass


def run(job, _report):
    return {
        "code": 0,
        "read": {path: read(path) for path in job["files"]},
        "boot": read("/proc/sys/kernel/random/boot_id"),
        "listed": {path: listing(path) for path in job["folders"]},
        "attempts": {name: attempt(action) for name, action in attempts(job).items()},
    }


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(256)
    except OSError as error:
        return errno.errorcode.get(error.errno, "EUNKNOWN")


def listing(path):
    """Device and inode of a folder and the digest of its names, as `Folder` in `sandbox/isolation/attestation.py`."""
    try:
        status, names = os.stat(path), sorted(os.listdir(os.fsencode(path)))
        return [status.st_dev, status.st_ino, hashlib.sha256(b"/".join(names)).hexdigest()]
    except OSError as error:
        return [0, 0, errno.errorcode.get(error.errno, "EUNKNOWN")]


def attempts(job):
    targets = {
        f"write to {path}": lambda path=path: create(path + "/.gdal-mcp-probe") for path in job["folders"]
    }
    return {
        **targets,
        "write to /": lambda: create("/.gdal-mcp-probe"),
        "open an internet socket": lambda: socket.socket(socket.AF_INET).close(),
        "open a netlink socket": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close(),
        "become root": lambda: os.setuid(0),
    }


def create(path):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.unlink(path)


def attempt(action):
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno, "EUNKNOWN")
    return "SUCCEEDED"
