"""Files that the host reads for this container, in blocks that all handles share. Independent of GDAL.

A cache with one budget of bytes stores the blocks, and drops the least recently used ones first. If reads are in
order, the following blocks are read ahead. Scattered reads get larger blocks as their number grows, and a file is
read completely when its questions have cost about as much as that. If the host cannot read something, it does not
answer, but ends the job. The first failure in the container is stored, and everything after it fails, because GDAL
ignores some failures.
"""

import struct
import threading
from collections import OrderedDict
from types import SimpleNamespace

LOOK, READ, LIST = 1, 2, 3
ENOENT = 1
NO_MEMORY = 255
LOOKED = struct.Struct(">BQQ")  # kind, size, modification time; the first bytes of the file follow
DIRECTORY = 2
BLOCK = 64 << 10
PART = 64  # blocks per question, 4 MiB, so that a long read becomes several parallel requests
MAX_RANGES = 64
AHEAD = 128  # blocks that are read ahead, at most: 8 MiB
EARLY = 16  # blocks; up to this number, as many are read ahead with the missing ones as were read in order
TOLERANCE = 64  # bytes by which tiles of a COG overlap, or are apart
DENSER = 16  # scattered reads after which the blocks are twice as large
QUESTION_COSTS = 1 << 20  # bytes that can be read in the time of one question


class Failed(Exception):
    """The host's answer cannot be used."""


class File:
    """A file or folder, as reported by the host. `misses` counts scattered reads."""

    def __init__(self, name, kind, size, mtime):
        self.name, self.is_folder, self.size, self.mtime = name, kind == DIRECTORY, size, mtime
        self.blocks, self.misses = -(-size // BLOCK), 0


class Span:
    """Blocks of a file, from `first` up to but not including `stop`, at offset `at` of an answer that may be pending."""

    def __init__(self, file, question, first, stop, at):
        self.file, self.question, self.first, self.stop, self.at = file, question, first, stop, at
        self.size = min(stop * BLOCK, file.size) - first * BLOCK

    def copy(self, offset, target):
        """Fills `target` with the bytes of the file from `offset` on. Raises FileNotFoundError, Failed."""
        body = answered(self.question)
        at = self.at + offset - self.first * BLOCK
        if len(body) < self.at + self.size:
            raise Failed("the answer is shorter than what was asked for")
        target[:] = memoryview(body)[at : at + len(target)]


class Handle:
    """An open file and the state of its reads."""

    def __init__(self, file):
        self.file, self.at, self.eof, self.failed = file, 0, 0, 0
        # offset of the next read in order; bytes read in order; block up to which was read ahead
        self.next, self.run, self.frontier = -BLOCK, 0, 0


def answered(question):
    """The bytes of an answer. Raises FileNotFoundError, Failed."""
    status, body = question.wait()
    if status == ENOENT:
        raise FileNotFoundError
    if status == NO_MEMORY:
        raise Failed("out of memory")
    return body


class HostFiles:
    """The files that this job reads through its host. Thread-safe. `budget` is the size of the cache in bytes."""

    def __init__(self, ask, budget):
        self._ask, self._budget = ask, budget
        self._lock = threading.Lock()
        # by (question, name): its lock; its answer, None if there is none
        self._looking, self._known = {}, {}
        self._spans = OrderedDict()  # least recently used first
        self._blocks = {}  # (file, number) -> Span
        self._cached_bytes = 0  # bytes
        self.failure = None

    def fail(self, name, why):
        """Stores the first failure. Returns its text."""
        text = f"/vsihost/{name.decode('utf-8', 'replace')}: {why}"
        with self._lock:
            self.failure = self.failure or text
        return text

    def look(self, name):
        """The file or folder of that name, None if there is none. Raises Failed."""

        def find():
            body = answered(self._ask(LOOK, name))
            file = File(name, *LOOKED.unpack_from(body))
            sent = min(len(body) - LOOKED.size, file.size)
            stop = file.blocks if sent == file.size else sent // BLOCK
            if stop:
                # the first bytes of the file came with this answer; they are stored like the answer to a read
                here = SimpleNamespace(wait=lambda: (0, body))
                with self._lock:
                    self._keep(Span(file, here, 0, stop, LOOKED.size))
            return file

        return self._once(LOOK, name, find)

    def list(self, name):
        """The names in a folder, None if there is none. Raises Failed."""
        return self._once(LIST, name, lambda: bytes(answered(self._ask(LIST, name))).splitlines())

    def _once(self, what, name, work):
        with self._looking.setdefault(
            (what, name), threading.Lock()
        ):  # threads wait for each other only if they ask for the same name
            if (what, name) not in self._known:
                try:
                    self._known[what, name] = work()
                except FileNotFoundError:
                    self._known[what, name] = None
            return self._known[what, name]

    def read(self, handle, parts):
        """Fills each target of `parts`, (offset, target) within the file. Raises Failed."""
        if self.failure is not None:
            raise Failed(self.failure)
        with self._lock:
            self._get(handle, [(offset, offset + len(target)) for offset, target in parts])
            pieces = [piece for start, target in parts for piece in self._pieces(handle.file, start, target)]
        for span, offset, target in pieces:
            try:
                span.copy(offset, target)
            except FileNotFoundError:
                raise Failed("the file is gone") from None

    def _pieces(self, file, offset, target):
        """Yields the spans of a part, each with an offset and the target that it fills."""
        filled = 0
        while filled < len(target):
            at = offset + filled
            span = self._blocks[file, at // BLOCK]
            self._spans.move_to_end(span)
            count = min(span.stop * BLOCK - at, len(target) - filled)
            yield span, at, target[filled : filled + count]
            filled += count

    def _get(self, handle, parts):
        """Requests all missing blocks and the blocks to read ahead, without waiting."""
        file, start, end = handle.file, min(a for a, _ in parts), max(b for _, b in parts)
        in_order = abs(start - handle.next) <= TOLERANCE and end - start <= 2 * sum(b - a for a, b in parts)
        handle.run = handle.run + end - start if in_order else end - start
        handle.next = end
        wanted = sorted({number for a, b in parts for number in range(a // BLOCK, -(-b // BLOCK))})
        missing = [number for number in wanted if (file, number) not in self._blocks]
        stop = wanted[-1] + 1
        if in_order:
            run = handle.run // BLOCK
            ahead = min(max(min(run, EARLY), run // 2), AHEAD)
            begin = max(stop, handle.frontier if handle.frontier <= stop + AHEAD else stop)
            if missing or (run >= EARLY and begin - stop < ahead / 2):
                handle.frontier = min(stop + ahead, file.blocks)
                missing += (i for i in range(begin, handle.frontier) if (file, i) not in self._blocks)
        elif missing and len(parts) == 1:
            missing = self._denser(file, missing[0], missing[-1] + 1)
        self._fetch(file, runs(missing), keep=set(wanted))

    def _denser(self, file, first, stop):
        """The missing blocks around a scattered read; the more scattered reads, the more blocks."""
        file.misses += 1
        if file.size <= min(file.misses * QUESTION_COSTS, self._budget // 2):
            first, stop = 0, file.blocks
        unit = min(1 << (file.misses // DENSER), PART)
        first, stop = first - first % unit, min(-(-stop // unit) * unit, file.blocks)
        return [number for number in range(first, stop) if (file, number) not in self._blocks]

    def _fetch(self, file, block_runs, keep):
        """Requests runs of blocks, and combines short runs in one question."""
        batch, count = [], 0
        parts = ((at, min(at + PART, end)) for begin, end in block_runs for at in range(begin, end, PART))
        for first, stop in parts:
            if batch and (count + stop - first > PART or len(batch) == MAX_RANGES):
                self._send(file, batch, keep)
                batch, count = [], 0
            batch.append((first, stop))
            count += stop - first
        if batch:
            self._send(file, batch, keep)

    def _send(self, file, batch, keep):
        ranges = [(a * BLOCK, min(b * BLOCK, file.size) - a * BLOCK) for a, b in batch]
        question, at = self._ask(READ, file.name, ranges), 0
        for (first, stop), (_, size) in zip(batch, ranges, strict=True):
            self._keep(Span(file, question, first, stop, at), keep)
            at += size

    def _keep(self, span, keep=frozenset()):
        """Adds a span to the cache, and removes the least recently used spans, except those with blocks of `keep`."""
        self._spans[span] = None
        self._blocks.update(((span.file, number), span) for number in range(span.first, span.stop))
        self._cached_bytes += span.size
        for old in list(self._spans) if self._cached_bytes > self._budget else ():
            if self._cached_bytes <= self._budget:
                break
            if old.file is span.file and not keep.isdisjoint(range(old.first, old.stop)):
                continue
            del self._spans[old]
            self._cached_bytes -= old.size
            for number in range(old.first, old.stop):
                del self._blocks[old.file, number]


def runs(numbers):
    """Ascending numbers as runs (first, stop)."""
    result = []
    for number in numbers:
        if result and result[-1][1] == number:
            result[-1][1] = number + 1
        else:
            result.append([number, number + 1])
    return result
