"""A handler for `sandbox/worker.py` that tries to get out of its container. Standard library only.

Whatever it tries harms nobody should it work: nothing of the host is written, and what changes a process is done by a
child. A finding is SUCCEEDED, the name of the errno, or the signal that ended the child; `rows.py` judges them. The
source of `looks.py` is the first further word of the command.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import signal
import socket
import stat
import sys
import types

WORKED = "SUCCEEDED"
SECONDS = 10  # after which a call that does not return is ended; none of them waits for anything
FAMILIES = range(46)  # of linux/socket.h; the next ones of new kernels are refused by the same rule
KINDS = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET)
NAMESPACES = {  # linux/sched.h
    "NEWTIME": 0x80,
    "NEWNS": 0x20000,
    "NEWCGROUP": 0x2000000,
    "NEWUTS": 0x4000000,
    "NEWIPC": 0x8000000,
    "NEWUSER": 0x10000000,
    "NEWPID": 0x20000000,
    "NEWNET": 0x40000000,
}
CLONE = {"x86_64": 56, "aarch64": 220}
X32_GETPID = 0x40000000 | 39
GETPID_BY_INTERRUPT = bytes.fromhex("b814000000cd80c3")  # mov eax, 20; int 0x80; ret: the 32-bit way
PRCTL = {  # linux/prctl.h: what no job asks for
    "PR_SET_TSC": 26,
    "PR_SET_SECUREBITS": 28,
    "PR_SET_MM": 35,
    "PR_SET_CHILD_SUBREAPER": 36,
    "PR_CAP_AMBIENT": 47,
    "PR_SET_SYSCALL_USER_DISPATCH": 59,
    "PR_SCHED_CORE": 62,
}
IOCTL = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C, "TIOCSETD": 0x5423, "FS_IOC_GETFLAGS": 0x80086601}
FCNTL = {"F_SETOWN": 8, "F_SETSIG": 10, "F_SETLEASE": 1024, "F_NOTIFY": 1026, "F_ADD_SEALS": 1033}
PLACES = ("/", "/etc", "/usr", "/var", "/home", "/root", "/run", "/dev", "/proc", "/sys", "/proc/sys/kernel")
SETTINGS = (  # files of which each is, or was, a way to have the host run something
    *("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname"),
    *("/proc/sys/vm/drop_caches", "/proc/sys/fs/binfmt_misc/register", "/proc/sysrq-trigger"),
    *("/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/acpi/wakeup"),
    *("/sys/kernel/uevent_helper", "/sys/power/state", "/sys/fs/cgroup/release_agent"),
    *("/sys/fs/cgroup/notify_on_release", "/sys/fs/cgroup/cgroup.procs"),
    *("/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/memory/notify_on_release"),
)

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
looking = types.ModuleType("looking")


def prepare():
    exec(compile(sys.argv[3], "looks.py", "exec"), looking.__dict__)


def run(job, _report):
    seen = looking.looks()  # first: an attempt that works may leave something behind
    return {
        "code": 0,
        "families": apart(families),
        "calls": calls(job["numbers"]),
        "attempts": {group: try_each(actions) for group, actions in attempts(job["folders"]).items()},
        "looks": seen | {"staging program": attempt(lambda: execute("/staging"))},
    }


def apart(work):
    """What `work` returns, from a child process; or how the child ended, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            signal.alarm(SECONDS)
            os.close(reading)
            os.write(writing, json.dumps(work()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        data = told.read()
    status = os.waitpid(child, 0)[1]
    if data:
        return json.loads(data)
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "ENDED"


def try_each(actions):
    """All in one child, which is quicker, up to the first that is not refused; from there on each in a child of its own."""
    found = apart(lambda: refusals(actions))
    found = found if isinstance(found, dict) else {}
    return found | {name: attempt(action) for name, action in actions.items() if name not in found}


def refusals(actions):
    found = {}
    for name, action in actions.items():
        said = outcome(action)
        if said == WORKED:
            break
        found[name] = said
    return found


def attempt(action):
    return apart(lambda: outcome(action))


def outcome(action):
    try:
        action()
    except OSError as error:
        return name_of(error.errno)
    return WORKED


def name_of(number):
    return errno.errorcode.get(number, "EUNKNOWN")


def checked(result):
    """A result of the C library as Python has it. Raises OSError."""
    if result == -1:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def calls(numbers):
    """What each system call says to arguments of zero. One that ends the process is told as that, and the rest go on."""
    found, left = {}, list(numbers.items())
    while left:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            call_each(left, writing)
        os.close(writing)
        with os.fdopen(reading, encoding="ascii") as told:
            said = dict(line.split() for line in told)
        status = os.waitpid(child, 0)[1]
        found |= said
        left = [(name, number) for name, number in left if name not in said]
        if left:
            name, _ = left.pop(0)
            found[name] = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "ENDED"
    return found


def call_each(numbers, writing):
    signal.alarm(SECONDS)
    for name, number in numbers:
        first = 1 if name == "acct" else 0  # zero would switch accounting off, where it may
        ctypes.set_errno(0)
        result = libc.syscall(*map(ctypes.c_long, (number, first, 0, 0, 0, 0, 0)))
        said = name_of(ctypes.get_errno()) if result == -1 else WORKED
        os.write(writing, f"{name} {said}\n".encode())
    os._exit(0)


def families():
    """Of each socket family but the local one: SUCCEEDED when any kind of socket or pair of it can be had."""
    found = {}
    for family in FAMILIES:
        if family != socket.AF_UNIX:
            said = {
                outcome(lambda make=make, family=family, kind=kind: make(family, kind))
                for make in (socket.socket, socket.socketpair)
                for kind in KINDS
            }
            found[str(family)] = WORKED if WORKED in said else min(said)
    return found


def attempts(folders):
    """Group -> name -> action; `folders` are those that may be written."""
    return {
        "local sockets": local_sockets(),
        "namespaces": namespaces(),
        "mounts": remounts(),
        "writing": {place: lambda place=place: create(place) for place in places(folders)},
        "kernel settings": {path: lambda path=path: reopen(path) for path in SETTINGS},
        "nodes": {f"{name} in {top}": action for top in folders for name, action in nodes(top).items()},
        "programs": programs(),
        "requests": requests(),
        "identities": identities(),
        "limits": {name: lambda name=name: raise_limit(name) for name in finite_limits()},
        "crashes": {"have one dumped": dump, "allow dumps": lambda: set_limit("RLIMIT_CORE", 0)},
        "other architectures": foreign_calls(),
    }


def local_sockets():
    return {
        "connect to a file": lambda: filtered(lambda: local().connect("/nonexistent/socket")),
        "connect to an abstract name": lambda: filtered(lambda: local().connect("\0gdal-mcp-probe")),
        "send to an abstract name": lambda: filtered(lambda: local().sendto(b"x", "\0gdal-mcp-probe")),
        "take an abstract name": lambda: local().bind("\0gdal-mcp-probe"),
    }


def local():
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


def filtered(action):
    """What the filter lets pass has worked, whatever the kernel says to it then."""
    try:
        action()
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOSYS):
            raise


def namespaces():
    found = {}
    for name, flag in NAMESPACES.items():
        found[f"unshare {name}"] = lambda flag=flag: checked(libc.unshare(flag))
        if name != "NEWTIME":  # for clone that bit is part of the signal
            found[f"clone {name}"] = lambda flag=flag: clone(flag)
    for name in sorted(os.listdir("/proc/self/ns")):
        found[f"setns {name}"] = lambda name=name: checked(
            libc.setns(os.open(f"/proc/self/ns/{name}", os.O_RDONLY), 0)
        )
    return found


def remounts():
    return {
        "mount a tmpfs": lambda: checked(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
        "remount / for writing": lambda: checked(libc.mount(None, b"/", None, 0x20, None)),  # MS_REMOUNT
        "unmount /proc": lambda: checked(libc.umount2(b"/proc", 2)),  # MNT_DETACH
        "chroot": lambda: os.chroot("/tmp"),
    }


def clone(flag):
    number = CLONE[os.uname().machine]
    child = checked(libc.syscall(*map(ctypes.c_long, (number, flag | signal.SIGCHLD, 0, 0, 0, 0))))
    if child == 0:
        os._exit(0)


def places(folders):
    """Where nothing may be written: well-known places, and whatever is mounted."""
    mounted = [row["target"] for row in looking.mounts() if os.path.isdir(row["target"])]
    return sorted({*PLACES, *mounted} - {*folders, "/dev/fd"})


def create(place):
    path = os.path.join(place, f".gdal-mcp-escape-{os.getpid()}")
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    os.unlink(path)


def reopen(path):
    os.close(os.open(path, os.O_WRONLY))


def nodes(top):
    """What is neither a file nor a folder, and a way to a file that is elsewhere."""
    name = os.path.join(top, f".gdal-mcp-escape-{os.getpid()}")
    kinds = {"a character device": stat.S_IFCHR, "a block device": stat.S_IFBLK, "a socket": stat.S_IFSOCK}
    made = {
        word: lambda kind=kind: removed(lambda: os.mknod(name, kind | 0o600, os.makedev(1, 3)), name)
        for word, kind in kinds.items()
    }
    return made | {
        "a pipe": lambda: removed(lambda: os.mkfifo(name), name),
        "a symbolic link": lambda: removed(lambda: os.symlink("/etc/passwd", name), name),
        "a second name of an image's file": lambda: removed(lambda: os.link("/etc/passwd", name), name),
    }


def removed(make, name):
    make()
    os.unlink(name)


def programs():
    return {
        "run one from /tmp": lambda: execute("/tmp"),
        "load code from /tmp": load_code,
        "run one from memory": lambda: os.close(os.memfd_create("x")),
    }


def execute(folder):
    """Never returns when it works: the child is then the program, which says so."""
    path = os.path.join(folder, f".gdal-mcp-escape-{os.getpid()}")
    with open(path, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\nexit 0\n")
    os.chmod(path, 0o700)
    try:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(OSError):
                os.execv(path, [path])  # noqa: S606 - whether it runs is the question
            os._exit(errno.EACCES)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.unlink(path)
    if code:
        raise OSError(errno.EACCES, "not run")


def load_code():
    path = f"/tmp/.gdal-mcp-escape-{os.getpid()}"
    with open(path, "w+b") as file:
        os.unlink(path)
        file.write(bytes(mmap.PAGESIZE))
        file.flush()
        mmap.mmap(file.fileno(), mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()


def requests():
    """Calls of which the filter lets some arguments pass, with others."""
    found = {
        name: lambda number=number: filtered(lambda: checked(libc.prctl(number, 0, 0, 0, 0)))
        for name, number in PRCTL.items()
    }
    found |= {
        name: lambda number=number: filtered(lambda: fcntl.ioctl(reading(), number, bytes(8)))
        for name, number in IOCTL.items()
    }
    return found | {
        name: lambda number=number: filtered(lambda: fcntl.fcntl(reading(), number, 0))
        for name, number in FCNTL.items()
    }


def reading():
    """A descriptor that is nobody else's."""
    return os.open("/proc/self/stat", os.O_RDONLY)


def identities():
    return {
        "become root": lambda: os.setuid(0),
        "become root's group": lambda: os.setgid(0),
        "join root's group": lambda: os.setgroups([0]),
    }


def finite_limits():
    names = (name for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE")
    return [
        name for name in names if resource.getrlimit(getattr(resource, name))[1] != resource.RLIM_INFINITY
    ]


def raise_limit(name):
    soft, hard = resource.getrlimit(getattr(resource, name))
    set_limit(name, soft, hard + 1)


def set_limit(name, soft, hard=None):
    which = getattr(resource, name)
    try:
        resource.setrlimit(which, (soft, resource.getrlimit(which)[1] if hard is None else hard))
    except ValueError as error:  # Python's own word for it
        raise OSError(errno.EPERM, "refused") from error


def dump():
    """Works when the kernel writes a core or hands it to a program of the host's, as its core_pattern says."""
    os.chdir("/tmp")
    child = os.fork()
    if child == 0:
        os.abort()
    if not os.WCOREDUMP(os.waitpid(child, 0)[1]):
        raise OSError(errno.EPERM, "not dumped")


def foreign_calls():
    if os.uname().machine != "x86_64":
        return {}
    return {
        "x32": lambda: checked(libc.syscall(ctypes.c_long(X32_GETPID))),
        "32-bit": call_by_interrupt,
    }


def call_by_interrupt():
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(GETPID_BY_INTERRUPT)
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    said = ctypes.CFUNCTYPE(ctypes.c_int)(at)()
    if said < 0:
        raise OSError(-said, "refused")
