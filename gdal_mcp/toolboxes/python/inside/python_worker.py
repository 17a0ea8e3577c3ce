"""The handler of a container of the toolbox `python`: a child runs the caller's code, this process describes its
outputs.

The child is forked before the job arrives and before GDAL is loaded. It has none of the worker's descriptors: its
report comes through two pipes that carry nothing else. This process is not dumpable, so that the kernel shows its
descriptors and memory to no other process of its user. It is the first process of the container, which no signal from
inside ends. Before an output is opened every other process is killed.
"""

import contextlib
import ctypes
import json
import math
import os
import platform
import select
import signal
import struct
import sys
import time
import types

HEADER = struct.Struct(">cI")
CHUNK = 65536
PR_SET_DUMPABLE = 4
LOOK_SECONDS = 0.1  # seconds between two checks if a child without a report has ended
PROGRAM = "python"
MAX_REPORT = 16 << 20  # bytes that are read from a child's report
MAX_FIGURES, MAX_FIGURE = 4, 1 << 20
MAX_MESSAGE = 200
MAX_TEXT = 20_000  # characters of a traceback or a value; the host's limit for one text
WARM = b"W"  # command to import; anything else is the first byte of a job's length
LAST_PRINTED = 4000  # characters that are printed with a traceback


class Child:
    """The process that will run the code, its ends of the pipes, and its output."""

    pid = order = printed = report = None


def module_of(words, name):
    """A module of the program's words, each of which is a pair of a name and code, or a name, a newline and source."""
    parts = dict(word.split("\n", 1) if isinstance(word, str) else word for word in words)
    module = types.ModuleType(name)
    exec(parts[name], module.__dict__)
    return module


def prepare():
    global gdal
    words = sys.argv[3:]
    # the code's process can send these signals; after SIGXFSZ the worker would report that a file grew too large
    for number in (signal.SIGINT, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    fork(words)
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "the worker could not be closed to the code's process")
    gdal = module_of(words, "gdal_worker")
    gdal.prepare()
    gdal.part("programs").RUNNERS[PROGRAM] = run_code


def warm():
    os.write(Child.order, WARM)
    yield from gdal.warm()


def fork(words):
    child = module_of(words, "child")
    order_in, Child.order = os.pipe()
    Child.printed, printed_out = os.pipe()
    Child.report, report_out = os.pipe()
    Child.pid = os.fork()
    if Child.pid:
        for end in (order_in, printed_out, report_out):
            os.close(end)
        return
    try:
        child.keep_only(order_in, printed_out, report_out)
        child.main(module_of(words, "gdal_mcp_job"))
    finally:
        os._exit(1)


def run(job, report):
    try:
        answer = gdal.run({**job, "program": PROGRAM}, report)
    finally:
        end_all()
    child = ChildOutput.last
    return answer | {
        "tool_version": platform.python_version(),
        "timed_out": child.timed_out,
        "memory_exhausted": child.memory or answer.get("memory_exhausted", False),
    }


class ChildOutput:
    """The child's report, which is untrusted: the code itself can write it."""

    last = None

    def __init__(self, job, report):
        self._job, self._report = job, report
        self._buffer, self._received = bytearray(), 0
        self.printed, self.dropped = bytearray(), 0
        self.values, self.figures = {}, []
        self.error = None
        self.over = self.timed_out = self.memory = False
        ChildOutput.last = self

    def print(self, data):
        room = max(0, self._job["printed_bytes"] - len(self.printed))
        self.printed += data[:room]
        self.dropped += max(0, len(data) - room)

    def take_report(self, data):
        self._received += len(data)
        if (
            self._received > MAX_REPORT
        ):  # the remaining output is read and discarded, so that the code does not block
            self._buffer.clear()
            return
        self._buffer += data
        while len(self._buffer) >= HEADER.size:
            kind, length = HEADER.unpack_from(self._buffer)
            end = HEADER.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[HEADER.size : end])
            del self._buffer[:end]
            # a report that cannot be parsed contains nothing
            with contextlib.suppress(ValueError, RecursionError):
                self.take(kind, payload)

    def take(self, kind, payload):
        if kind == b"D":
            self.over = True
        elif kind == b"E":
            row = json.loads(payload)
            self.error = (str(row["message"])[:500], str(row["trace"])[:MAX_TEXT])
            self.memory = row.get("memory") is True
        elif kind == b"P":
            row = json.loads(payload)
            if isinstance(row["fraction"], int | float) and isinstance(row["message"], str):
                self._report.progress(row["fraction"], row["message"][:MAX_MESSAGE])
        elif kind == b"F":
            room = self._job["preview_pixels"] and len(self.figures) < MAX_FIGURES
            self.figures += [payload] if room and len(payload) <= MAX_FIGURE else []
        elif kind in (b"V", b"R") and len(payload) <= self._job["result_bytes"]:
            self.values["value" if kind == b"V" else "result"] = json.loads(
                payload,
                parse_constant=refused,
                # JSON permits 1e999, which Python reads as infinity
                parse_float=lambda word: number if math.isfinite(number := float(word)) else refused(word),
            )


def refused(word):
    raise ValueError(word)


def run_code(job, report):
    """Prints an object with the output of the code, its last value and its result. False if the code failed."""
    child = ChildOutput(job, report)
    sent = {key: job[key] for key in ("code", "arguments", "named", "written", "result_bytes")}
    data = json.dumps(sent).encode()
    with contextlib.suppress(BrokenPipeError):  # the child has ended, which is noticed below
        os.write(Child.order, struct.pack(">I", len(data)))
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(Child.order, rest) :]
        os.close(Child.order)
    status = listen(child, time.monotonic() + job["seconds"])
    end_all()
    drain(child)
    lines = child.printed.decode("utf-8", "replace").splitlines()
    problem = problem_of(child, status, job)
    if problem:
        tail = "\n".join(lines)[-LAST_PRINTED:]
        trace = child.error[1] if child.error else ""
        sys.stderr.write("\n".join(filter(None, (tail and f"Printed:\n{tail}", trace))) + "\n")
        raise RuntimeError(problem)
    for output in job["outputs"]:
        if output["kind"] == "dataset" and not gdal_knows(output["path"]):
            output["kind"] = "file"
    for number, data in enumerate(child.figures):
        report.attach(f"figure-{number}.png", data)
    printed = {"printed": lines} if child.printed else {}
    if child.dropped:
        printed["printed_bytes_dropped"] = child.dropped
    sys.stdout.write(json.dumps({**child.values, **printed}, ensure_ascii=False))
    sys.stdout.flush()
    return True


def listen(child, deadline):
    """Reads the pipes until the code has ended, its time is up, or its process has ended. Returns the exit status if
    known.
    """
    open_pipes = [Child.printed, Child.report]
    while not child.over:
        left = deadline - time.monotonic()
        if left <= 0:
            child.timed_out = True
            return None
        for end in select.select(open_pipes, [], [], min(left, LOOK_SECONDS))[0]:
            data = os.read(end, CHUNK)
            if not data:
                open_pipes.remove(end)
            elif end == Child.printed:
                child.print(data)
            else:
                child.take_report(data)
        with contextlib.suppress(ChildProcessError):
            gone, status = os.waitpid(Child.pid, os.WNOHANG)
            if gone:
                return status
    return None


def drain(child):
    """Reads what is left in the pipes, whose writers have all ended."""
    for end, take in ((Child.printed, child.print), (Child.report, child.take_report)):
        while data := os.read(end, CHUNK):
            take(data)


def end_all():
    """Ends every other process of this container, and returns when none is left."""
    with contextlib.suppress(ChildProcessError):
        while True:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            os.waitpid(-1, 0)


def problem_of(child, status, job):
    """The reason why the code failed, in one line; None if it did not fail."""
    if child.timed_out:
        return f"the code ran longer than {job['seconds']:g} s"
    if child.error:
        return child.error[0]
    if child.over:
        return None
    if status is not None and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        child.memory = number == signal.SIGKILL  # only the kernel sends it, when memory is used up
        return f"the code's process was ended by {signal.Signals(number).name}"
    return "the code ended its own process before it was through"


def gdal_knows(path):
    from osgeo import gdal as library

    kinds = library.OF_RASTER | library.OF_VECTOR | library.OF_MULTIDIM_RASTER
    with gdal.part("reporting").quiet():
        return not os.path.lexists(path) or library.IdentifyDriverEx(path, kinds) is not None
