"""A read-only file system in user space on which the reads of some processes hang, as on a dead network mount.

It implements the kernel's FUSE protocol (include/uapi/linux/fuse.h, 7.31) as far as reading needs it, because no
small package does.
"""

import contextlib
import ctypes
import errno
import os
import stat
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 14, 15, 17, 18
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 25, 26, 27, 28, 29, 36, 42
_SILENT = {FORGET, INTERRUPT, BATCH_FORGET}  # messages for which the kernel expects no answer
_ROOT, _FIRST = 1, 2  # node ids
_DIRECT_IO = 1  # no page cache: each read comes here, with its reader
_READ_ONLY = 1 | 2 | 4  # MS_RDONLY, MS_NOSUID, MS_NODEV
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass
class HungDisk:
    """`hangs` selects the processes whose reads of files hang; `waiting` counts these reads."""

    files: Mapping[str, bytes]
    hangs: Callable[[int], bool]
    waiting: int = 0
    _device: int = -1
    _names: list[str] = field(default_factory=list)

    def serve(self, device: int) -> None:
        self._device, self._names = device, sorted(self.files)
        with contextlib.suppress(OSError):  # unmounted
            while request := os.read(device, 1 << 20):
                self._answer(request)

    def _answer(self, request: bytes) -> None:
        _, operation, unique, node, _, _, pid, _ = struct.unpack_from("<IIQQIIII", request)
        if operation in _SILENT:
            return
        if operation == READ and self.hangs(pid):
            self.waiting += 1
            return
        try:
            body, error = self._reply(operation, node, request[40:]), 0
        except OSError as failure:
            body, error = b"", -(failure.errno or errno.EIO)
        os.write(self._device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)

    def _reply(self, operation: int, node: int, body: bytes) -> bytes:
        if operation == INIT:
            return struct.pack("<IIIIHHIIHH8I", 7, 31, 0, 0, 16, 16, 4096, 1, 0, 0, *[0] * 8)
        if operation == LOOKUP:
            return self._lookup(body.rstrip(b"\0").decode())
        if operation == GETATTR:
            return struct.pack("<QII", 3600, 0, 0) + self._attributes(node)
        if operation in {OPEN, OPENDIR}:
            return struct.pack("<QII", 0, _DIRECT_IO if operation == OPEN else 0, 0)
        if operation == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return self.files[self._names[node - _FIRST]][offset : offset + size]
        if operation == READDIR:
            return self._listing(struct.unpack_from("<QQI", body)[1])
        if operation == STATFS:
            return struct.pack("<QQQQQIIII6I", 1, 0, 0, 1, 0, 4096, 255, 4096, 0, *[0] * 6)
        if operation in {FLUSH, RELEASE, RELEASEDIR}:
            return b""
        raise OSError(errno.ENOSYS, "not needed")

    def _lookup(self, name: str) -> bytes:
        if name not in self.files:
            raise OSError(errno.ENOENT, name)
        node = _FIRST + self._names.index(name)
        return struct.pack("<QQQQII", node, 0, 3600, 3600, 0, 0) + self._attributes(node)

    def _attributes(self, node: int) -> bytes:
        folder = node == _ROOT
        size = 0 if folder else len(self.files[self._names[node - _FIRST]])
        mode = stat.S_IFDIR | 0o755 if folder else stat.S_IFREG | 0o644
        times = (1_700_000_000,) * 3
        return struct.pack(
            "<6Q10I", node, size, 1, *times, 0, 0, 0, mode, 1, os.geteuid(), os.getegid(), 0, 4096, 0
        )

    def _listing(self, offset: int) -> bytes:
        if offset:
            return b""
        entries = b""
        for number, name in enumerate(self._names):
            text = name.encode()
            entry = struct.pack("<QQII", _FIRST + number, number + 1, len(text), stat.S_IFREG >> 12) + text
            entries += entry + bytes(-len(entry) % 8)
        return entries


@contextlib.contextmanager
def hung_disk(folder: Path, files: Mapping[str, bytes], hangs: Callable[[int], bool]) -> Iterator[HungDisk]:
    """The file system at a folder, for every user. Needs root. When the block ends, hanging reads end too."""
    folder.mkdir(parents=True, exist_ok=True)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id={os.geteuid()},group_id={os.getegid()},allow_other,default_permissions"
    if _LIBC.mount(b"hung", os.fsencode(folder), b"fuse", _READ_ONLY, options.encode()):
        code = ctypes.get_errno()
        os.close(device)
        raise OSError(code, os.strerror(code), str(folder))
    disk = HungDisk(files, hangs)
    serving = threading.Thread(target=disk.serve, args=(device,), daemon=True)
    serving.start()
    try:
        yield disk
    finally:
        _LIBC.umount2(os.fsencode(folder), 1 | 2)  # MNT_FORCE ends hanging reads, MNT_DETACH unmounts it
        serving.join(10)
        os.close(device)
