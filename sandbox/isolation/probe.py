"""The probe: finds what a container lets its process see and do. A handler for `sandbox/worker.py`.

A job names the sections to run, with their parameters. Each section reports its findings without judging them;
`sandbox.isolation.rows` judges them. An attempt that succeeds does no harm: no file of the host is changed unless the
job names it, and attempts that would change the process run in a child. An attempt is reported as SUCCEEDED, as the
name of its errno, or as the signal that ended the child.

These are the sections of an attestation. For the escape test, `sandbox/escape/probe.py` is appended to this text.
Uses only the standard library.
"""

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import signal
import socket

WORKED = "SUCCEEDED"
# seconds; a call that does not return is ended after this time; none of the calls waits for anything
SECONDS = 10
FAMILIES = range(46)  # numbers in linux/socket.h; families of newer kernels are refused by the same rule
KINDS = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET)
PLACES = "/ /etc /usr /var /var/tmp /home /root /run /opt /dev /dev/shm /proc /sys /proc/sys/kernel".split()

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def prepare():
    """Does nothing: no library has to be loaded."""


def run(job, _report):
    """Runs the requested sections in a fixed order.

    Observations come first, because a successful attempt could change them.
    """
    results = {name: section(**job[name]) for name, section in SECTIONS.items() if name in job}
    return {"code": 0, "look": results}


# --- how attempts are made ---


def name_of(number):
    return errno.errorcode.get(number, "EUNKNOWN")


def outcome(action):
    try:
        action()
    except OSError as error:
        return name_of(error.errno)
    return WORKED


def in_child(work):
    """Runs `work` in a child process. Returns the lines that it reports, and how the child ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(
            BaseException
        ):  # a child that reports nothing counts as a successful attempt
            signal.alarm(SECONDS)
            os.close(reading)
            work(lambda *words: os.write(writing, (json.dumps(words) + "\n").encode()))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as reports:
        lines = [json.loads(line) for line in reports]
    status = os.waitpid(child, 0)[1]
    return lines, signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "ENDED"


def attempt(action):
    """The outcome of an action in a child process, or how the child ended if it reported none."""
    lines, end = in_child(lambda report: report(outcome(action)))
    return lines[0][0] if lines else end


def try_each(actions):
    """The outcome of each action, by name.

    One child tries the actions up to the first that succeeds, which is quicker. The others each get their own child.
    """

    def refusals(report):
        for name, action in actions.items():
            if (result := outcome(action)) == WORKED:
                break
            report(name, result)

    outcomes = dict(in_child(refusals)[0])
    return outcomes | {name: attempt(action) for name, action in actions.items() if name not in outcomes}


def own_name(folder):
    return os.path.join(folder, f".look-{os.getpid()}")


# --- files: are the mounted folders those that the server sees? ---


def files(nonces, folders):
    return {
        "security label": security_label(),
        "kernel": os.uname().release,
        "boot": first_line("/proc/sys/kernel/random/boot_id"),
        "nonces": {path: first_line(path)[:64] for path in nonces},
        "folders": {path: folder(path) for path in folders},
    }


def folder(path):
    """A folder's device, inode and digest of its names: the fields of `ProbedFolder` in `sandbox/isolation/rows.py`."""
    try:
        status, names = os.stat(path), sorted(os.listdir(os.fsencode(path)))
        return [status.st_dev, status.st_ino, hashlib.sha256(b"/".join(names)).hexdigest()]
    except OSError as error:
        return [0, 0, name_of(error.errno)]


def lines(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n").split("\n")
    except OSError:
        return []


def first_line(path):
    return next(iter(lines(path)), "").rstrip("\0")


def security_label():
    return first_line("/proc/self/attr/current") or first_line("/proc/self/attr/apparmor/current")


def mount_rows():
    """The lines of /proc/self/mountinfo as lists of fields, proc(5)."""
    return [line.split(" ") for line in lines("/proc/self/mountinfo")]


# --- attempts: ways out of the container, in groups ---


def attempts(folders, groups=None):
    """Group -> name -> outcome, for `groups` or for all of them. `folders` are the folders that a job may write to."""
    known = {actions.__name__.replace("_", " "): actions for actions in GROUPS}
    return {name: try_each(known[name](folders)) for name in known if groups is None or name in groups}


def sockets(_folders):
    def any_of(family):
        refused = OSError(errno.EPERM, "refused")
        for make in (socket.socket, socket.socketpair):
            for kind in KINDS:
                try:
                    make(family, kind).close()
                except OSError as error:
                    refused = error
                except (AttributeError, ValueError):  # from socketpair; counts as created
                    return
                else:
                    return
        raise refused

    return {
        str(family): lambda family=family: any_of(family) for family in FAMILIES if family != socket.AF_UNIX
    }


def writing(folders):
    """Attempts to create a file in well-known folders and in every mount, except in writable folders."""

    def create(place):
        path = own_name(place)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        os.unlink(path)

    mounted = [row[4] for row in mount_rows() if os.path.isdir(row[4])]
    places = sorted({*PLACES, *mounted} - {*folders, "/dev/fd"})
    return {place: lambda place=place: create(place) for place in places}


def identities(_folders):
    other = 0 if os.getuid() else 1  # even root in a container needs a capability to become another user
    return {
        "become another user": lambda: os.setuid(other),
        "take another group": lambda: os.setgid(other),
        "join another group": lambda: os.setgroups([other]),
    }


GROUPS = (sockets, writing, identities)


# --- processes: the process limit, if no visible control group shows it ---


def processes(most):
    """The number of additional processes that could be started, up to `most`, and the errno that stopped it."""
    children, reason = [], ""
    try:
        for _ in range(most):
            child = os.fork()
            if child == 0:
                signal.pause()
                os._exit(0)
            children.append(child)
    except OSError as error:
        reason = name_of(error.errno)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return [len(children), reason]


SECTIONS = {section.__name__: section for section in (files, attempts, processes)}
