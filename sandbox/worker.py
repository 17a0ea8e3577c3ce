"""The program inside the container: reads one job, runs it, exits. Uses the standard library only.

The host runs it as `python3 -I -c <this file> <idle seconds> <handler>`, so no file of the host is mounted for it.
The handler is a module, as source or compiled, with `prepare()`, called before the worker is ready, and `run(job,
report) -> dict`. It may have `warm()`, a generator whose steps run until a job comes; a step may yield the seconds
until the next one. All of them run in the main thread.

The real stdout carries frames only: one kind byte, four bytes of length, the payload. They contain no newlines,
because a node of a cluster stores stdout in a log that adds forty bytes to each line. What the job prints on stdout
is captured and framed; stderr is not touched, so its contents survive even a kill.

After a success, if the host needs only the answer, the worker waits for a moment: the processors that the kernel and
the engine would use to remove the container are then free for the host to send the answer.

The worker ends by itself when stdin closes (its host is gone), when no job has come within its idle seconds, and at
the job's deadline. If the host allows it, a job may ask its host to read for it with `report.ask`. The answers come
on stdin.
"""

import contextlib
import ctypes
import errno
import gc
import io
import json
import os
import resource
import select
import signal
import stat
import struct
import sys
import threading
import time
import types

HEADER = struct.Struct(">cI")
LENGTH = struct.Struct(">I")
QUESTION = struct.Struct(">IBHH")  # id, op, bytes of the name, ranges
RANGE = struct.Struct(">QI")
ANSWER = struct.Struct(">IBQ")  # id, status, length
NO_MEMORY = 255  # a status that only this program uses
MAX_IN_FLIGHT = 64  # unanswered questions; the host accepts no more
STDIN = io.FileIO(0, closefd=False)
CHUNK = 65536
EXIT_CRASHED, EXIT_ORPHANED, EXIT_DEADLINE = 70, 71, 72
EXIT_FILE_LIMIT = 153  # 128 + SIGXFSZ, as for a program that the signal ended
# contains SIGXFSZ once it was received, because the failed write itself only reports EFBIG, which GDAL reports in many
# different ways
RECEIVED_SIGNALS = set()
PROGRESS_GAP = 0.1  # seconds; ten reports a second are enough for a person
# seconds without a job after which none is expected soon, so that there is time to warm up
WARMUP_DELAY = 0.05
LINE_BUFFERED = 1  # _IOLBF of stdio.h


class FrameWriter:
    """Writes frames; safe to use from several threads."""

    def __init__(self, descriptor):
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, kind, payload):
        with self._lock:  # over kind, length and payload, because no other frame may come in between
            self._write(HEADER.pack(kind, len(payload)) + payload[:CHUNK])
            # written in small pieces, because a job may have used all the memory
            for start in range(CHUNK, len(payload), CHUNK):
                self._write(payload[start : start + CHUNK])

    def _write(self, data):
        left = memoryview(data.replace(b"\x10", b"\x10p").replace(b"\n", b"\x10n"))
        while left:
            left = left[os.write(self._descriptor, left) :]

    def send_json(self, kind, value):
        self.send(kind, json.dumps(value, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace"))


class OpenQuestion:
    """A question without an answer yet. GDAL's threads wait for answers independently of each other."""

    def __init__(self):
        self._answered = threading.Event()
        self.status, self.body = None, None

    def answer(self, status, body):
        self.status, self.body = status, body
        self._answered.set()

    def wait(self):
        """The status and the bytes. Waits without its own time limit: the host and the deadline limit the wait."""
        self._answered.wait()
        return self.status, self.body


class Questions:
    """The questions that the host has not answered yet."""

    def __init__(self, wire):
        self._wire = wire
        self._lock = threading.Lock()
        self._room = threading.Semaphore(MAX_IN_FLIGHT)
        self._waiting = {}
        self._last = 0

    def ask(self, op, name, ranges=()):
        """Sends a question about a name in bytes; `ranges` are (offset, length). Waits while too many are unanswered."""
        self._room.acquire()
        question = OpenQuestion()
        with self._lock:
            self._last = number = (self._last + 1) & 0xFFFFFFFF
            self._waiting[number] = question
        parts = (RANGE.pack(*pair) for pair in ranges)
        self._wire.send(b"Q", QUESTION.pack(number, op, len(name), len(ranges)) + name + b"".join(parts))
        return question

    def listen(self, deadline):
        """Reads the answers. Ends the process when its host is gone or the deadline has passed, whatever the main
        thread does.
        """
        while True:
            number, status, length = ANSWER.unpack(read_exactly(ANSWER.size, deadline))
            try:
                body = read_exactly(length, deadline)
            except MemoryError:  # the job has used all the memory; frames must not be cut
                status, body = NO_MEMORY, b""
                while length:
                    length -= len(read_exactly(min(length, CHUNK), deadline))
            question = self._waiting.pop(number, None)
            if question is not None:
                self._room.release()
                question.answer(status, body)


class Reporter:
    """The messages that a running job may send to its host."""

    def __init__(self, wire, questions):
        self._wire = wire
        self.ask = questions.ask
        self._next = 0.0
        self._last = -1.0

    def progress(self, fraction, message="", *, at_once=False):
        """Reports progress from 0 to 1.

        Values that do not rise or come too soon are left out, except for the end and those `at_once`.
        """
        now, fraction = time.monotonic(), min(max(float(fraction), 0.0), 1.0)
        if fraction > self._last and (now >= self._next or at_once or fraction == 1.0):
            self._last, self._next = fraction, now + PROGRESS_GAP
            self._wire.send_json(b"P", {"fraction": fraction, "message": message[:200]})

    def interim(self, value):
        """Sends an object once, before the work: the host may end the job because of it. Does not wait for the host."""
        self._wire.send_json(b"I", value)

    def attach(self, name, data):
        self._wire.send(b"B", name.encode() + b"\0" + data)


class Capture:
    """Turns output on descriptor 1, from Python, a library or a child process, into frames, in order."""

    def __init__(self, wire, flush_library):
        self._wire, self._flush_library, self._stdout = wire, flush_library, sys.stdout
        self._flush()
        self._reading, writing = os.pipe()
        self._stop_reader, self._stop_writer = os.pipe()
        os.dup2(writing, 1)
        os.close(writing)
        self._thread = threading.Thread(target=self._pump, daemon=True)
        self._thread.start()

    def _pump(self):
        while self._reading in select.select([self._reading, self._stop_reader], [], [])[0]:
            # if the job has used all the memory, it must not also block on a full pipe
            with contextlib.suppress(MemoryError):
                data = os.read(self._reading, CHUNK)
                if not data:
                    return
                self._wire.send(b"O", data)

    def finish(self):
        """Frames everything printed so far. Does not wait for a child process that still holds the pipe."""
        self._flush()
        os.write(self._stop_writer, b"!")
        self._thread.join()

    def _flush(self):
        with contextlib.suppress(OSError, ValueError):  # a job may have closed its stdout
            self._stdout.flush()
        self._flush_library(None)


def line_buffer_stdout():
    """Makes Python and the C library print line by line, so that their lines stay in order. Returns C's fflush."""
    sys.stdout.reconfigure(line_buffering=True)
    library = ctypes.CDLL(None)
    with contextlib.suppress(ValueError):  # a C library with another name for its stdout
        library.setvbuf(ctypes.c_void_p.in_dll(library, "stdout"), None, LINE_BUFFERED, 0)
    return library.fflush


# from linux/landlock.h; the numbers of the calls are the same on every architecture
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
WRITE_FILE, REFER = 1 << 1, 1 << 13
FENCE_VERSION = 2  # version 1 forbids renaming between folders


def fence():
    """Allows opening files for writing only below writable mounts from now on. Returns Landlock's version, 0 without
    it.

    A read-only mount alone does not stop a write into a named pipe in it, which a program of the host may read.
    """
    library = ctypes.CDLL(None)
    version = library.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < FENCE_VERSION:
        return 0
    rules = library.syscall(CREATE_RULESET, struct.pack("Q", WRITE_FILE | REFER), ctypes.c_size_t(8), 0)
    if rules < 0:
        return 0
    for row in _mounts():
        if "rw" not in row["options"]:
            continue
        with contextlib.suppress(OSError):
            place = os.open(row["target"], os.O_PATH | os.O_CLOEXEC)
            rights = WRITE_FILE | REFER if stat.S_ISDIR(os.fstat(place).st_mode) else WRITE_FILE
            library.syscall(ADD_RULE, rules, 1, struct.pack("=Qi", rights, place), 0)
            os.close(place)
    closed = library.syscall(RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return version if closed else 0


def measure(fenced):
    """Measures this container from inside: the facts that the host compares with its request."""
    status = (line.split(":", 1) for line in _lines("/proc/self/status") if ":" in line)
    return {
        "pid": os.getpid(),
        "status": {name: value.split() for name, value in status if name in STATUS_FIELDS},
        "ids": {kind: [line.split() for line in _lines(f"/proc/self/{kind}_map")] for kind in ("uid", "gid")},
        "mounts": _mounts(),
        "interfaces": _interfaces(),
        "sockets": [family for family in SOCKET_FAMILIES if _opens_socket(family)],
        "programs": _runs_programs(),
        "rlimits": {
            name: resource.getrlimit(getattr(resource, "RLIMIT_" + name))
            for name in ("NOFILE", "FSIZE", "CORE", "DATA", "CPU")
        },
        "environment": dict(os.environ),
        "hostname": os.uname().nodename,
        "fence": fenced,
        "folder": os.getcwd(),
        "cgroup": {
            name: next((lines[0] for lines in map(_lines, paths) if lines), None)
            for name, paths in CGROUP_FILES.items()
        },
    }


STATUS_FIELDS = (
    *("Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp"),
    *("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"),
)
CGROUP_FILES = {
    "memory": ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    "swap": ("/sys/fs/cgroup/memory.swap.max", "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes"),
    "pids": ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"),
    "cpu": ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
    "cpu_period": ("/sys/fs/cgroup/cpu/cpu.cfs_period_us",),
}


def _interfaces():
    """The names of the network interfaces, "unknown" among them if they cannot be listed."""
    listed = _lines("/proc/net/dev")
    return [line.split(":")[0].strip() for line in listed[2:]] if listed else ["unknown"]


SOCKET_FAMILIES = (2, 10, 16, 17, 40)  # INET, INET6, NETLINK, PACKET, VSOCK of linux/socket.h


def _opens_socket(family):
    descriptor = ctypes.CDLL(None).socket(family, 2 if family != 17 else 3, 0)
    if descriptor >= 0:
        os.close(descriptor)
    return descriptor >= 0


def _runs_programs():
    """True if the kernel would run a program from a scratch folder. An empty program is checked but never starts."""
    path = f"/tmp/.program-{os.getpid()}"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o700))
    try:
        os.execv(path, [path])
    except OSError as error:
        return error.errno != errno.EACCES
    finally:
        os.unlink(path)


def _lines(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n").split("\n")  # names may contain other line separators
    except OSError:
        return []


POD_FILES = ("/dev/termination-log", "/etc/hosts")  # files that a node mounts for writing without a request


def _is_closed(path):
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError:
        return True
    return False


def _mounts():
    """The rows of /proc/self/mountinfo with ids, place, options, propagation and type, and the files mounted there.

    `closed` is a file that cannot be opened for writing, whatever its mount says; `bytes` is the size of the whole
    file system.
    """
    rows = []
    for line in _lines("/proc/self/mountinfo"):
        left, _, right = line.partition(" - ")
        number, parent, _, _, target, options, *shared = left.split(" ")
        for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
            target = target.replace(code, letter)
        identity = size = None  # the place cannot be examined
        with contextlib.suppress(OSError, ValueError):
            status, system = os.stat(target), os.statvfs(target)
            identity, size = [status.st_dev, status.st_ino], system.f_blocks * system.f_frsize
        rows.append(
            {
                "id": number,
                "parent": parent,
                "target": target,
                "options": options.split(","),
                "shared": shared,
                "type": right.split(" ")[0],
                "identity": identity,
                "bytes": size,
                "closed": target in POD_FILES and _is_closed(target),
            }
        )
    return rows


def read_exactly(count, deadline=None):
    """Reads that many bytes of stdin. Ends the process when stdin closes, without an error if no job has come, or at
    the deadline.
    """
    data = bytearray(count)
    rest = memoryview(data)
    while rest:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                os._exit(EXIT_DEADLINE)
            if not select.select([0], [], [], left)[0]:
                continue
        got = STDIN.readinto(rest)
        if not got:
            os._exit(0 if deadline is None and len(rest) == count else EXIT_ORPHANED)
        rest = rest[got:]
    return data


def await_job(steps, idle_seconds):
    """Returns when there is something to read, and warms up until then. Ends the process if no job comes in time."""
    end, pause = time.monotonic() + idle_seconds, WARMUP_DELAY
    while not select.select([0], [], [], max(0.0, min(pause, end - time.monotonic())))[0]:
        if time.monotonic() >= end:
            os._exit(0)
        # most steps yield None; when they are done, the loop only waits
        pause = next(steps, idle_seconds) or 0.0


def seconds_used():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def usage(before):
    """The processor time since `before`, which excludes loading, and the memory of the process since its start."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "cpu_seconds": round(seconds_used() - before, 4),
        "peak_memory_bytes": max(own.ru_maxrss, children.ru_maxrss) * 1024,
    }


def main():
    gc.disable()  # objects loaded so far are kept
    fenced = fence()  # called before there is another thread, to which it would not apply
    wire = FrameWriter(os.dup(1))
    os.dup2(2, 1)  # output while the handler loads is not a job's output
    flush_library = line_buffer_stdout()
    signal.signal(signal.SIGXFSZ, lambda number, _frame: RECEIVED_SIGNALS.add(number))
    idle_seconds, handler = float(sys.argv[1]), types.ModuleType("handler")
    exec(sys.argv[2], handler.__dict__)
    handler.prepare()
    wire.send_json(b"R", measure(fenced))
    steps = handler.warm() if hasattr(handler, "warm") else (None for _ in ())
    with contextlib.closing(steps):
        await_job(steps, idle_seconds)
    gc.freeze()
    gc.enable()
    (length,) = LENGTH.unpack(read_exactly(LENGTH.size))
    job, before = json.loads(read_exactly(length)), seconds_used()
    capture, questions = Capture(wire, flush_library), Questions(wire)
    deadline = time.monotonic() + job["deadline_seconds"]
    threading.Thread(target=questions.listen, args=(deadline,), daemon=True).start()
    os.chdir("/tmp")
    try:
        answer = handler.run(job["request"], Reporter(wire, questions))
    except MemoryError:
        answer = {"code": 1, "memory_exhausted": True}
    finally:
        capture.finish()
    with contextlib.suppress(OSError, ValueError):  # a job may have closed its stderr
        sys.stderr.flush()
        flush_library(None)
        os.write(2, job["end_mark"].encode())  # marks the end for the host
    wire.send_json(b"F", {**answer, "file_limit_reached": bool(RECEIVED_SIGNALS), "usage": usage(before)})
    # after a failure, the host waits for the exit code, so the worker exits at once
    if answer.get("code") == 0:
        time.sleep(job["stay_seconds"])
    os._exit(0)


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # the outermost handler: the traceback goes to stderr, the exit code names the kind
        try:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
        finally:
            os._exit(EXIT_FILE_LIMIT if RECEIVED_SIGNALS else EXIT_CRASHED)
