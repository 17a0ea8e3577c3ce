"""Reads one remote file for one call: in blocks, each once, with adjacent blocks in one request.

The container is responsible for read-ahead.
"""

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from gdal_mcp.remote.address import Address
from gdal_mcp.remote.budgets import Meter, Missing, ReadFailed
from gdal_mcp.remote.checks import Checks
from gdal_mcp.remote.copies import BLOCK, BlockCache, Copy
from gdal_mcp.remote.record import SourceRead, Version

# blocks in one request; with 30 ms latency and 1 Gbit/s, more would not be faster
_PART: Final = (4 << 20) // BLOCK
_GAP: Final = 1  # a gap of up to this many blocks is read, too, instead of starting another request


@dataclass(frozen=True, slots=True)
class FetchDeps:
    """The services that the files of one call use."""

    checks: Checks
    cache: BlockCache
    work: Executor


class RemoteFile:
    """One remote file. Every method first requests the file's version if it is not known. Thread-safe."""

    def __init__(self, address: Address, meter: Meter, deps: FetchDeps, first: int) -> None:
        """`first` is the size of the first read in bytes, a multiple of the block size."""
        self.address = address
        self._first = first
        self._meter = meter
        self._deps = deps
        self._opening = threading.Lock()
        self._lock = threading.Lock()
        self._copy: Copy | None = None
        self._missing = ""
        self._final = address
        self._pending: dict[int, Future[tuple[int, bytes]]] = {}
        self._touched: set[int] = set()
        self._before: frozenset[int] = frozenset()

    def look(self) -> Version:
        """The current version of the file, requested once. Raises Missing, ReadFailed."""
        return self._opened().version

    def read(self, ranges: Sequence[tuple[int, int]]) -> bytes:
        """The bytes of the ranges (offset, length), in their order.

        Raises ReadFailed, and CancelledError if the call ended.
        """
        copy = self._opened()
        if any(offset + length > copy.version.length for offset, length in ranges):
            raise ReadFailed(f"{self.address.host}: a read beyond the end of the file")
        wanted = sorted({block for offset, length in ranges for block in _blocks(offset, length)})
        blocks: dict[int, memoryview] = {}
        waiting = self._start_fetching(copy, wanted, blocks)
        for block, future in waiting.items():
            first, data = future.result()
            blocks[block] = memoryview(data)[(block - first) * BLOCK :][:BLOCK]
        with self._lock:
            self._touched.update(wanted)
        pieces = []
        for offset, length in ranges:
            data, skip = b"".join(blocks[block] for block in _blocks(offset, length)), offset % BLOCK
            pieces.append(data[skip : skip + length])
        return b"".join(pieces)

    def record(self) -> SourceRead | None:
        """The record of what was read; None if the file was not found."""
        copy = self._copy
        if copy is None:
            return None
        with self._lock:
            touched = sorted(self._touched)
        total, ranges = sha256(), _ranges(touched, copy)
        for offset, length in ranges:
            total.update(f"{offset} {length}\n".encode())
            for block in _blocks(offset, length):
                total.update(copy.digests[block])
        version = copy.version
        return SourceRead(
            address=str(self.address),
            final=str(self._final),
            length=version.length,
            etag=version.etag[:200],
            last_modified=version.modified[:80],
            validator=version.validator,
            ranges=ranges,
            sha256=total.hexdigest() if ranges else "",
            requests=self._meter.requests,
            bytes=self._meter.read,
            cached_bytes=sum(copy.size_of(block) for block in touched if block in self._before),
        )

    def close(self) -> None:
        with self._opening:
            if self._copy is not None:
                self._deps.cache.release(self._copy)

    def _opened(self) -> Copy:
        with self._opening:
            if self._missing:
                raise Missing(self._missing)
            if self._copy is None:
                self._copy = self._open()
            return self._copy

    def _open(self) -> Copy:
        cache = self._deps.cache
        key = self._meter.call.principal, replace(self.address, sidecars=())
        cached = cache.known(key)
        known = cached.version if cached else None
        try:
            got = self._deps.checks.look(self.address, self._meter, self._first, known)
        except ReadFailed as error:
            if cached is not None:
                cache.release(cached)
            if isinstance(error, Missing):  # remembered for this call; other failures may be temporary
                self._missing = str(error)
            raise
        self._final = got.final
        if cached is not None and (got.unchanged or got.version.same(cached.version)):
            self._before = frozenset(cached.slots)
            return cached
        if cached is not None:
            cache.release(cached)
        copy = cache.begin(key, got.version)
        for block in _blocks(0, len(got.data)):
            cache.put(copy, block, memoryview(got.data)[block * BLOCK :][:BLOCK])
        return copy

    def _start_fetching(
        self, copy: Copy, wanted: Iterable[int], blocks: dict[int, memoryview]
    ) -> dict[int, "Future[tuple[int, bytes]]"]:
        """The blocks that are being fetched, including new ones. Cached blocks are put into `blocks`."""
        missing = []
        waiting: dict[int, Future[tuple[int, bytes]]] = {}
        with self._lock:
            for block in wanted:
                if block in copy.slots:
                    blocks[block] = memoryview(self._deps.cache.get(copy, block))
                elif block in self._pending:
                    waiting[block] = self._pending[block]
                else:
                    missing.append(block)
            for first, last in _spans(missing):
                future = self._deps.work.submit(self._fetch, copy, first, last)
                for block in missing:
                    if first <= block <= last:
                        self._pending[block] = waiting[block] = future
        return waiting

    def _fetch(self, copy: Copy, first: int, last: int) -> tuple[int, bytes]:
        """Fetches and caches consecutive blocks."""
        try:
            start = first * BLOCK
            size = min((last + 1) * BLOCK, copy.version.length) - start
            got = self._deps.checks.range(self.address, self._meter, start, size, copy.version)
            view = memoryview(got.data)
            for block in range(first, last + 1):
                self._deps.cache.put(copy, block, view[(block - first) * BLOCK :][:BLOCK])
            return first, got.data
        finally:
            with self._lock:
                for block in range(first, last + 1):
                    self._pending.pop(block, None)


def _blocks(offset: int, length: int) -> range:
    return range(offset // BLOCK, -(-(offset + length) // BLOCK)) if length else range(0)


def _spans(blocks: Sequence[int]) -> list[tuple[int, int]]:
    """Spans of blocks (first, last), one for each request."""
    spans: list[tuple[int, int]] = []
    for block in blocks:
        if spans and block - spans[-1][1] <= 1 + _GAP and block - spans[-1][0] < _PART:
            spans[-1] = (spans[-1][0], block)
        else:
            spans.append((block, block))
    return spans


def _ranges(blocks: Sequence[int], copy: Copy) -> tuple[tuple[int, int], ...]:
    """The blocks as merged byte ranges."""
    merged: list[tuple[int, int]] = []
    for block in blocks:
        start, size = block * BLOCK, copy.size_of(block)
        if merged and sum(merged[-1]) == start:
            merged[-1] = (merged[-1][0], merged[-1][1] + size)
        else:
            merged.append((start, size))
    return tuple(merged)
