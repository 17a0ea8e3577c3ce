"""What is kept on disk of what was read: blocks of versions of files, each for one principal alone.

Invariants:
* a principal is given nothing that another's calls read: its name is part of the key;
* a block is given out only for the version of the file that it was read of;
* all copies together stay within the bound; where none can go, a block is not kept;
* the files have no names, so that none outlives its server.
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
from gdal_mcp.remote.limits import ReadFailed
from gdal_mcp.remote.record import Version

BLOCK: Final = 64 << 10  # bytes: reads are rounded out to it, so that a range tells its server little
# the principal, and the address with what is secret in it: that may choose what is read
Key = tuple[str, Address]


@dataclass(slots=True, eq=False)
class Copy:
    """The blocks that are held of one version of a file."""

    key: Key
    version: Version
    file: BinaryIO
    users: int = 0
    digests: dict[int, bytes] = field(default_factory=dict)  # SHA-256 of each block that was read
    held: set[int] = field(default_factory=set)  # of those, what is on disk
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, block: int) -> bytes:
        """One that is held."""
        return os.pread(self.file.fileno(), self.size_of(block), block * BLOCK)

    def size_of(self, block: int) -> int:
        """Bytes: the last block is shorter."""
        return min(BLOCK, self.version.length - block * BLOCK)


@dataclass(slots=True, eq=False)
class Copies:
    """The copies of one server. For several threads."""

    folder: Path
    bound: int  # bytes, of all copies
    _stored: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _copies: OrderedDict[Key, Copy] = field(default_factory=OrderedDict)  # the least recently used first

    def known(self, key: Key) -> Copy | None:
        """What is held of a file, to be asked whether it is still the same; give it back with `release`."""
        with self._lock:
            copy = self._copies.get(key)
            if copy is not None:
                self._copies.move_to_end(key)
                copy.users += 1
            return copy

    def begin(self, key: Key, version: Version) -> Copy:
        """An empty copy of a version. It is found again only if its ETag is a strong one; give it back with `release`."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy = Copy(key, version, cast("BinaryIO", tempfile.TemporaryFile(dir=self.folder)), users=1)  # noqa: SIM115
        with self._lock:
            old = self._copies.pop(key, None)
            if old is not None and not old.users:
                self._drop(old)
            if version.validator == "etag":
                self._copies[key] = copy
        return copy

    def release(self, copy: Copy) -> None:
        with self._lock:
            copy.users -= 1
            if not copy.users and self._copies.get(copy.key) is not copy:
                self._drop(copy)

    def put(self, copy: Copy, block: int, data: memoryview) -> None:
        """Keeps a block, if there is room for it. Raises ReadFailed if it was read before and was another."""
        digest = sha256(data).digest()
        room = self._room(len(data))
        with copy.lock:
            known = copy.digests.setdefault(block, digest)
            if room and block not in copy.held and known == digest:
                # a full disk keeps nothing, or a part that is not read, and that is all
                with suppress(OSError):
                    if os.pwrite(copy.file.fileno(), data, block * BLOCK) == len(data):
                        copy.held.add(block)
                        room = False
        if room:
            with self._lock:
                self._stored -= len(data)
        if known != digest:
            raise ReadFailed("the file changed while it was read, and its server did not say so")

    def close(self) -> None:
        with self._lock:
            for copy in self._copies.values():
                copy.file.close()
            self._copies.clear()

    def _room(self, size: int) -> bool:
        """Makes room by dropping the copies that were not used for longest."""
        with self._lock:
            for key in [key for key, copy in self._copies.items() if not copy.users]:
                if self._stored + size <= self.bound:
                    break
                self._drop(self._copies.pop(key))
            if self._stored + size > self.bound:
                return False
            self._stored += size
            return True

    def _drop(self, copy: Copy) -> None:
        copy.file.close()
        self._stored -= sum(map(copy.size_of, copy.held))
