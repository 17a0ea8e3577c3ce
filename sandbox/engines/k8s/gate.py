"""Runs first in a Pod: does what the Pod's specification cannot, waits for the start, then becomes the command.

It sets the resource limits, restricts file access with Landlock if the kernel has it, and loads the complete seccomp
filter. Then it reads one byte, which is the start, and executes the command with the command's own environment. It
exits if stdin ends first or the byte does not come in time, because then its server is gone. A kernel without
Landlock is not refused here: the measurements inside the container find what is accessible. Uses only the standard
library.
"""

import base64
import ctypes
import json
import os
import resource
import select
import stat
import struct
import sys

NOT_FILTERED, NOT_FENCED, NO_PROGRAM = 75, 76, 127
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, FILTER = 22, 38, 2
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # system call numbers, the same on every architecture
# access rights of linux/landlock.h
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG = 16, 32, 128, 256
# the last three exist since ABI 2, 3 and 5
FIRST, REFER, TRUNCATE, IOCTL_DEV = (1 << 13) - 1, 1 << 13, 1 << 14, 1 << 15
LOOK = READ_FILE | READ_DIR
WRITE = LOOK | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
HARMLESS = "null zero full random urandom".split()

libc = ctypes.CDLL(None, use_errno=True)


def fail(code, what):
    os.write(2, f"gate: {what}: {os.strerror(ctypes.get_errno())}\n".encode())
    os._exit(code)


class Fence:
    """A Landlock ruleset: denies access to files, TCP, and abstract sockets and signals outside, unless allowed."""

    def __init__(self, abi):
        # the file access rights that this kernel can restrict
        self._files = FIRST | REFER * (abi > 1) | TRUNCATE * (abi > 2) | IOCTL_DEV * (abi > 4)
        tcp, scope = (3 if abi > 3 else 0), (3 if abi > 5 else 0)
        size = 8 if abi < 4 else 16 if abi < 6 else 24
        config = struct.pack("QQQ", self._files, tcp, scope)[:size]
        self._rules = libc.syscall(CREATE_RULESET, config, ctypes.c_size_t(size), 0)
        if self._rules < 0:
            fail(NOT_FENCED, "Landlock rules cannot be created")

    def allow(self, path, rights):
        """Allows access to a path. A folder includes everything below it."""
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return  # the path does not exist
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= OF_FILES
        rule = struct.pack("=Qi", rights & self._files, place)
        if rights & self._files and libc.syscall(ADD_RULE, self._rules, 1, rule, 0):
            fail(NOT_FENCED, f"no Landlock rule can be added for {path}")
        os.close(place)

    def close(self):
        if libc.syscall(RESTRICT_SELF, self._rules, 0):
            fail(NOT_FENCED, "the Landlock rules cannot be applied")
        os.close(self._rules)


def allow_image(fence, path, excluded):
    """Allows reading and executing the image's files below a folder, except the paths in `excluded`.

    A folder that contains such a path cannot be listed.
    """
    if path in excluded:
        return
    if not any(place.startswith(path.rstrip("/") + "/") for place in excluded):
        fence.allow(path, LOOK | EXECUTE)
        return
    try:
        names = os.listdir(path)
    except OSError:
        return
    for name in names:
        allow_image(fence, os.path.join(path, name), excluded)


def fence_in(config):
    abi = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if abi < 1:
        return
    fence, closed = Fence(abi), set(config["closed"])
    allow_image(fence, "/", {"/proc", "/sys", "/dev", *closed, *config["writable"], *config["readable"]})
    for path in config["readable"]:
        fence.allow(path, LOOK)
    for path in config["writable"]:
        fence.allow(path, WRITE)
    for name in HARMLESS:
        fence.allow(f"/dev/{name}", READ_FILE | WRITE_FILE)
    for path in ("/dev", "/proc"):
        fence.allow(path, READ_DIR)
    fence.allow("/sys", LOOK)  # covered by an empty folder, except in the container that measures its limits
    for path in ("/proc/" + name for name in os.listdir("/proc") if not name.isdigit()):
        if path not in closed:
            # includes `self`, which resolves to this process, and its pid stays the same
            fence.allow(path, LOOK)
    fence.close()


def filter_calls(program):
    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))

    buffer = ctypes.create_string_buffer(program, len(program))
    if libc.prctl(PR_SET_SECCOMP, FILTER, ctypes.byref(Program(len(program) // 8, ctypes.addressof(buffer)))):
        fail(NOT_FILTERED, "the filter of system calls cannot be loaded")


def main():
    config, command = json.loads(sys.argv[1]), sys.argv[2:]
    for name, value in config["rlimits"].items():
        resource.setrlimit(getattr(resource, "RLIMIT_" + name.upper()), (value, value))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        fail(NOT_FILTERED, "no_new_privs cannot be set")
    fence_in(config)
    filter_calls(base64.b64decode(config["filter"]))
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    if not waiting.poll(config["start_seconds"] * 1000) or not os.read(0, 1):
        os._exit(0)
    try:
        os.execvpe(command[0], command, config["environment"])
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(NO_PROGRAM)


if __name__ == "__main__":
    main()
