"""Runs first in a Pod: does what no Pod can be asked for, waits for the start, and becomes the command. Standard library only.

In this order: the resource limits; a fence over the files (Landlock), where the kernel has it; the whole filter of system calls.
Then it reads one byte, which is the start, and executes the command with its environment alone. Its end of stdin before that is
the end of who made it, and so is a start that does not come in time, as nobody may ever have attached. A kernel without Landlock is
not refused here: what stays open is found by the measurements from inside.
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
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture
# linux/landlock.h
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG = 16, 32, 128, 256
# the last three since ABI 2, 3, 5
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
    """What is not allowed here is refused: for files, for TCP, and for abstract sockets and signals to others outside."""

    def __init__(self, abi):
        # the rights over files that this kernel can take away
        self._files = FIRST | REFER * (abi > 1) | TRUNCATE * (abi > 2) | IOCTL_DEV * (abi > 4)
        tcp, scope = (3 if abi > 3 else 0), (3 if abi > 5 else 0)
        size = 8 if abi < 4 else 16 if abi < 6 else 24
        told = struct.pack("QQQ", self._files, tcp, scope)[:size]
        self._rules = libc.syscall(CREATE_RULESET, told, ctypes.c_size_t(size), 0)
        if self._rules < 0:
            fail(NOT_FENCED, "no rules over files can be made")

    def allow(self, path, rights):
        """Also for whatever is below a folder."""
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return  # what cannot be found can be given to nobody
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= OF_FILES
        rule = struct.pack("=Qi", rights & self._files, place)
        if rights & self._files and libc.syscall(ADD_RULE, self._rules, 1, rule, 0):
            fail(NOT_FENCED, f"no rule for {path}")
        os.close(place)

    def close(self):
        if libc.syscall(RESTRICT_SELF, self._rules, 0):
            fail(NOT_FENCED, "the rules over files are not taken")
        os.close(self._rules)


def allow_image(fence, path, apart):
    """The image below a folder for reading and executing, apart from some places; a folder that holds one is not listed."""
    if path in apart:
        return
    if not any(one.startswith(path.rstrip("/") + "/") for one in apart):
        fence.allow(path, LOOK | EXECUTE)
        return
    try:
        names = os.listdir(path)
    except OSError:
        return
    for name in names:
        allow_image(fence, os.path.join(path, name), apart)


def fence_in(told):
    abi = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if abi < 1:
        return
    fence, closed = Fence(abi), set(told["closed"])
    allow_image(fence, "/", {"/proc", "/sys", "/dev", *closed, *told["writable"], *told["readable"]})
    for path in told["readable"]:
        fence.allow(path, LOOK)
    for path in told["writable"]:
        fence.allow(path, WRITE)
    for name in HARMLESS:
        fence.allow(f"/dev/{name}", READ_FILE | WRITE_FILE)
    for path in ("/dev", "/proc"):
        fence.allow(path, READ_DIR)
    fence.allow("/sys", LOOK)  # covered, but for the container that measures its limits
    for path in ("/proc/" + name for name in os.listdir("/proc") if not name.isdigit()):
        if path not in closed:
            fence.allow(path, LOOK)  # among them `self`, which is this process and stays it
    fence.close()


def filter_calls(program):
    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))

    held = ctypes.create_string_buffer(program, len(program))
    if libc.prctl(PR_SET_SECCOMP, FILTER, ctypes.byref(Program(len(program) // 8, ctypes.addressof(held)))):
        fail(NOT_FILTERED, "the filter of system calls is not taken")


def main():
    told, command = json.loads(sys.argv[1]), sys.argv[2:]
    for name, value in told["rlimits"].items():
        resource.setrlimit(getattr(resource, "RLIMIT_" + name.upper()), (value, value))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        fail(NOT_FILTERED, "privileges cannot be given up")
    fence_in(told)
    filter_calls(base64.b64decode(told["filter"]))
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    if not waiting.poll(told["start_seconds"] * 1000) or not os.read(0, 1):
        os._exit(0)
    try:
        os.execvpe(command[0], command, told["environment"])
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(NO_PROGRAM)


if __name__ == "__main__":
    main()
