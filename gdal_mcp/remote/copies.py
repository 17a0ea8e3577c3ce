"""A disk cache of remote files: blocks of file versions, each for one principal.

Invariants:
* A principal never gets data that another principal's calls read: the principal is part of the key.
* A block is returned only for the file version that it was read from.
* The whole cache stays within its size limit and uses one descriptor. A block that does not fit is not cached.
* A block that differs from what was written to disk is never returned.
* The cache file has no name, so it does not outlive its server.
"""

import os
import tempfile
import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final, cast

from gdal_mcp.remote.address import Address
from gdal_mcp.remote.budgets import ReadFailed
from gdal_mcp.remote.record import Version

MAX_COPIES: Final = 20_000  # entries; each takes more than a kilobyte of memory, even for an empty file
# characters; limit on ETag and Last-Modified of a cached file, which its server chooses
_MAX_VALIDATORS: Final = 300
# bytes; reads are rounded up to whole blocks, so that a range reveals little to its server
BLOCK: Final = 64 << 10
# the principal, and the address including its secrets, which may decide what is read
Key = tuple[str, Address]


@dataclass(slots=True, eq=False)
class Copy:
    """The cached blocks of one version of a file."""

    key: Key
    version: Version
    users: int = 0
    digests: dict[int, bytes] = field(default_factory=dict)  # SHA-256 of each block that was read
    slots: dict[int, int] = field(default_factory=dict)  # slot of each block that is on disk
    lock: threading.Lock = field(default_factory=threading.Lock)

    def size_of(self, block: int) -> int:
        """The size of a block in bytes; the last one is shorter."""
        return min(BLOCK, self.version.length - block * BLOCK)


@dataclass(slots=True, eq=False)
class BlockCache:
    """The cached copies of one server, in one file of slots of BLOCK bytes. Thread-safe.

    A tree has thousands of files. With one file on disk for each, the server would have no descriptors left for its
    calls.
    """

    folder: Path
    # bytes on disk of all copies; a block occupies a whole slot, because the previous block in it may have been longer
    bound: int
    _file: BinaryIO | None = None  # created on first use
    _places: int = 0  # number of slots that were ever used
    _free: list[int] = field(default_factory=list)
    _closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _copies: OrderedDict[Key, Copy] = field(default_factory=OrderedDict)  # least recently used first

    @property
    def stored(self) -> int:
        """An upper bound of the bytes on disk in use."""
        with self._lock:
            return (self._places - len(self._free)) * BLOCK

    def known(self, key: Key) -> Copy | None:
        """The cached copy of a file, which must still be revalidated. Call `release` when done."""
        with self._lock:
            copy = self._copies.get(key)
            if copy is not None:
                self._copies.move_to_end(key)
                copy.users += 1
            return copy

    def begin(self, key: Key, version: Version) -> Copy:
        """Creates an empty copy of a version. `known` finds it only if its ETag is strong. Call `release` when done."""
        copy = Copy(key, version, users=1)
        with self._lock:
            old = self._copies.pop(key, None)
            if old is not None and not old.users:
                self._drop(old)
            if version.validator == "etag" and len(version.etag) + len(version.modified) <= _MAX_VALIDATORS:
                self._copies[key] = copy
            for unused in [key for key, cached in self._copies.items() if not cached.users]:
                if len(self._copies) <= MAX_COPIES:
                    break
                self._drop(self._copies.pop(unused))
        return copy

    def release(self, copy: Copy) -> None:
        with self._lock:
            copy.users -= 1
            if not copy.users and self._copies.get(copy.key) is not copy:
                self._drop(copy)

    def get(self, copy: Copy, block: int) -> bytes:
        """A cached block. Raises ReadFailed if it cannot be read from disk, or the server has ended."""
        place, size = copy.slots[block], copy.size_of(block)
        try:
            with self._lock:
                file = self._opened()
            data = os.pread(file.fileno(), size, place * BLOCK)
        except (OSError, ValueError) as error:  # ValueError: the file was closed meanwhile
            raise ReadFailed("the cache cannot be read from the server's disk") from error
        if sha256(data).digest() != copy.digests[block]:
            raise ReadFailed("the cache has changed on the server's disk")
        return data

    def put(self, copy: Copy, block: int, data: memoryview) -> None:
        """Caches a block if there is room. Raises ReadFailed if it differs from an earlier read."""
        digest = sha256(data).digest()
        with copy.lock:
            known = copy.digests.setdefault(block, digest)
            if known != digest:
                raise ReadFailed("the file changed while it was read, without a new version")
            if block in copy.slots:
                return
            place = self._place()
            if place is not None and self._written(place, data):
                copy.slots[block] = place

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._copies.clear()
            if self._file is not None:
                self._file.close()

    def _written(self, place: int, data: memoryview) -> bool:
        """False if the disk is full or failed; the block is then not cached."""
        with suppress(OSError, ValueError):  # ValueError: the file was closed meanwhile
            with self._lock:
                file = self._opened()
            if os.pwrite(file.fileno(), data, place * BLOCK) == len(data):
                return True
        with self._lock:
            self._free.append(place)
        return False

    def _opened(self) -> BinaryIO:
        """The open cache file. Raises OSError, ValueError."""
        if self._closed:
            raise ValueError("closed")
        if self._file is None:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = cast("BinaryIO", tempfile.TemporaryFile(dir=self.folder))  # noqa: SIM115 - `close` closes it
        return self._file

    def _place(self) -> int | None:
        """A free slot, if necessary from the least recently used copy; None if there is none."""
        with self._lock:
            if not self._free and (self._places + 1) * BLOCK <= self.bound:
                self._places += 1
                return self._places - 1
            while not self._free:
                unused = next((key for key, copy in self._copies.items() if not copy.users), None)
                if unused is None:
                    return None
                self._drop(self._copies.pop(unused))
            return self._free.pop()

    def _drop(self, copy: Copy) -> None:
        self._free.extend(copy.slots.values())
        copy.slots.clear()
