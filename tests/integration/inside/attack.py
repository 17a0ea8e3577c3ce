"""Runs inside a container: tries system calls that should be refused, prints the errno of each (0: it worked)."""

import ctypes
import errno
import fcntl
import json
import os
import socket
import sys
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
FAMILIES = {"AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16, "AF_PACKET": 17, "AF_ALG": 38, "AF_VSOCK": 40}


def by_number(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(*map(ctypes.c_long, (number, *arguments)))
    return ctypes.get_errno() if result == -1 else 0


def attempt(action, *arguments):
    try:
        action(*arguments)
    except OSError as error:
        return error.errno
    return 0


def local_socket():
    socket.socket(socket.AF_UNIX).close()


def talk_to_the_workspace():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("/workspace/agent")


def pair():
    left, right = socket.socketpair()
    with left, right:
        left.send(b"x")
        if right.recv(1) != b"x":
            raise OSError(errno.EIO, "the pair does not work")


def lease():
    with Path("/staging/leased").open("w+") as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)


def attributes():
    with Path("/staging/marked").open("w") as file:
        fcntl.ioctl(file, 0x80086601, bytes(8))  # FS_IOC_GETFLAGS


def move_pages():
    reading, writing = os.pipe()
    with Path("/workspace/input.txt").open("rb") as file:
        os.splice(file.fileno(), writing, 1)
    os.close(reading)
    os.close(writing)


def link_followed():
    folder = os.open("/workspace", os.O_RDONLY)
    try:
        os.link("input.txt", "/staging/followed", src_dir_fd=folder)  # linkat with AT_SYMLINK_FOLLOW
    finally:
        os.close(folder)


attacks = {
    "local socket": attempt(local_socket),
    "socket pair": attempt(pair),
    "connect to a socket in the workspace": attempt(talk_to_the_workspace),
    "pipe in staging": attempt(os.mkfifo, "/staging/pipe"),
    "symlink in staging": attempt(os.symlink, "/etc/passwd", "/staging/link"),
    "hard link of a workspace file": attempt(os.link, "/workspace/input.txt", "/staging/hard"),
    "hard link as GDAL makes them": attempt(link_followed),
    "program in memory": attempt(os.memfd_create, "x"),
    "lease on a file": attempt(lease),
    "file attributes": attempt(attributes),
    "splice": attempt(move_pages),
    "own the file again": attempt(os.chown, "/tmp", os.getuid(), os.getgid()),
    **{name: attempt(socket.socket, family, socket.SOCK_DGRAM) for name, family in FAMILIES.items()},
}
calls = {name: by_number(number, 0, 0, 0, 0, 0, 0) for name, number in json.loads(sys.argv[1]).items()}
sys.stdout.write(json.dumps({"attacks": attacks, "calls": calls}))
