"""GDAL's file system /vsihost/, for files that the host reads for this container.

It uses GDAL's plugin interface for file systems. Facts about that interface, from GDAL's source:

* GDAL stores the prefix as a pointer, so its buffer must live as long as the process.
* The callback `unlink` is never called. GDAL calls that of the C library, with the name below the prefix, unless the
  callback is absent.
* An exception must not leave a callback, because the value that it then returns looks like an end of file.
* A failed read of several ranges is only a warning.
"""

import ctypes
import errno
import itertools
import platform
import resource
import stat

from gdal_mcp.toolboxes.gdal.inside.parts.remote import Failed, Handle, HostFiles
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import FAILURE, OUT_OF_MEMORY, library

PREFIX = ctypes.create_string_buffer(b"/vsihost/")
FILE_ERROR = 3  # CPLE_FileIO
MODE_AT = {"x86_64": 24, "aarch64": 16}[platform.machine()]  # offset of st_mode in struct stat
SIZE_AT, TIME_AT = 48, 88  # offsets of st_size and st_mtime on both
SHARE = 7  # RLIMIT_DATA is seven eighths of the memory; the cached blocks get another eighth
MAX_CACHE = 256 << 20  # bytes
UNLIMITED = 1 << 62
SEEK_CUR, SEEK_END = 1, 2
MODULO = 1 << 64  # GDAL seeks backwards with unsigned offsets that wrap around

_POINTER, _INT, _SIZE, _OFFSET = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint64
_NUMBERS = ("buffer", "cache")
_CALLS = (
    *("user", "stat", "unlink", "rename", "mkdir", "rmdir", "read_dir", "open", "tell", "seek", "read"),
    *("read_multi_range", "get_range_status", "eof", "write", "flush", "truncate", "close"),
    *(*_NUMBERS, "sibling_files", "advise_read", "error", "clear_err"),
)


class Callbacks(ctypes.Structure):
    """The struct `VSIFilesystemPluginCallbacksStruct`."""

    _fields_ = [(name, _SIZE if name in _NUMBERS else _POINTER) for name in _CALLS]


# types of the result and the arguments of each callback; the others are absent, so GDAL treats the file system as
# read-only
TYPES = {
    "stat": (_INT, _POINTER, ctypes.c_char_p, _POINTER, _INT),
    "open": (_POINTER, _POINTER, ctypes.c_char_p, ctypes.c_char_p),
    "tell": (_OFFSET, _POINTER),
    "seek": (_INT, _POINTER, _OFFSET, _INT),
    "read": (_SIZE, _POINTER, _POINTER, _SIZE, _SIZE),
    "read_multi_range": (
        *(_INT, _POINTER, _INT),
        *(ctypes.POINTER(_POINTER), ctypes.POINTER(_OFFSET), ctypes.POINTER(_SIZE)),
    ),
    "eof": (_INT, _POINTER),
    "error": (_INT, _POINTER),
    "clear_err": (None, _POINTER),
    "close": (_INT, _POINTER),
    "read_dir": (_POINTER, _POINTER, ctypes.c_char_p, _INT),
    "sibling_files": (_POINTER, _POINTER, ctypes.c_char_p),
}
# results of failed callbacks; 0 or null for all others
FALLBACKS = {"stat": -1, "seek": -1, "read_multi_range": -1, "close": -1, "error": 1}


class FileSystem:
    """The callbacks of the file system."""

    def __init__(self, host):
        self.host = host
        self._handles, self._numbers = {}, itertools.count(1)
        # GDAL has no reference to the functions
        self.functions = {name: self._callback(name) for name in TYPES}

    def _callback(self, name):
        work = getattr(self, name)
        result = FALLBACKS.get(name, 0 if TYPES[name][0] not in (None, _POINTER) else None)

        def call(*arguments):
            try:
                return work(*arguments)
            except Failed as error:
                self._tell(b"", str(error))
            except (
                BaseException
            ) as error:  # C called this function, so no exception can leave it; GDAL gets an error
                self._tell(b"", f"a fault in the reader: {type(error).__name__}")
            return result

        return ctypes.CFUNCTYPE(*TYPES[name], use_errno=True)(call)

    def _tell(self, name, why):
        """Stores a failure, and emits it as a GDAL error in the calling thread."""
        text = self.host.fail(name, why) if not why.startswith("/vsihost/") else why
        number = OUT_OF_MEMORY if "out of memory" in why else FILE_ERROR
        library.CPLError(FAILURE, number, b"%s", text.encode())

    def _look(self, name):
        name = name.rstrip(b"/")
        try:
            return self.host.look(name)
        except Failed as error:
            raise Failed(self.host.fail(name, error)) from None

    def stat(self, _user, name, status, _flags):
        file = self._look(name)
        if file is None:
            ctypes.set_errno(errno.ENOENT)
            return -1
        mode = stat.S_IFDIR | 0o555 if file.is_folder else stat.S_IFREG | 0o444
        ctypes.c_uint32.from_address(status + MODE_AT).value = mode
        ctypes.c_int64.from_address(status + SIZE_AT).value = file.size
        ctypes.c_int64.from_address(status + TIME_AT).value = file.mtime
        return 0

    def open(self, _user, name, access):
        if access.strip(b"rbt"):
            ctypes.set_errno(errno.EROFS)
            return None
        file = self._look(name)
        if file is None or file.is_folder:
            ctypes.set_errno(errno.ENOENT)
            return None
        number = next(self._numbers)
        self._handles[number] = Handle(file)
        return number

    def tell(self, number):
        return self._handles[number].at

    def seek(self, number, offset, whence):
        handle = self._handles[number]
        start = {SEEK_CUR: handle.at, SEEK_END: handle.file.size}.get(whence, 0)
        handle.at, handle.eof = (start + offset) % MODULO, 0
        return 0

    def read(self, number, buffer, size, count):
        handle = self._handles[number]
        wanted = size * count
        got = min(wanted, max(0, handle.file.size - handle.at))
        if got and not self._filled(handle, [(handle.at, buffer, got)]):
            return 0
        handle.eof |= got < wanted
        handle.at += got
        return got // size if size else 0

    def read_multi_range(self, number, count, buffers, offsets, sizes):
        handle = self._handles[number]
        parts = [(offsets[i], buffers[i], sizes[i]) for i in range(count) if sizes[i]]
        if any(offset + size > handle.file.size for offset, _, size in parts):
            return -1
        return 0 if not parts or self._filled(handle, parts) else -1

    def _filled(self, handle, parts):
        """Fills memory with parts of a file, each an offset, an address and a size. False on failure."""
        targets = [
            (offset, memoryview((ctypes.c_char * size).from_address(address)).cast("B"))
            for offset, address, size in parts
        ]
        try:
            self.host.read(handle, targets)
        except Failed as error:
            handle.failed = 1
            self._tell(handle.file.name, str(error))
            return False
        return True

    def eof(self, number):
        return self._handles[number].eof

    def error(self, number):
        return self._handles[number].failed

    def clear_err(self, number):
        handle = self._handles[number]
        handle.eof = handle.failed = 0

    def close(self, number):
        self._handles.pop(number, None)  # GDAL closes a closed handle again, as null
        return 0

    def read_dir(self, _user, name, most):
        names = self.host.list(name.rstrip(b"/"))
        return None if names is None else listed(names[: most or None])

    def sibling_files(self, _user, name):
        """All siblings of a file, so that GDAL does not look for others."""
        return listed(self.host.list(name.rstrip(b"/").rpartition(b"/")[0]) or [])


def listed(names):
    """A list of strings in GDAL's memory, which GDAL frees."""
    place = library.VSICalloc(len(names) + 1, ctypes.sizeof(_POINTER))
    for number, name in enumerate(names):
        _POINTER.from_address(place + number * ctypes.sizeof(_POINTER)).value = library.VSIStrdup(name)
    return place


INSTALLED = []  # the file system of this process


def install(ask):
    """Registers the file system with GDAL, once per process; `ask` sends questions to the host. Returns the `HostFiles`."""
    limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
    budget = min(limit // SHARE, MAX_CACHE) if 0 < limit < UNLIMITED else MAX_CACHE
    file_system = FileSystem(HostFiles(ask, budget))
    for name in ("VSIAllocFilesystemPluginCallbacksStruct", "VSICalloc", "VSIStrdup"):
        getattr(library, name).restype = _POINTER
    library.VSICalloc.argtypes = [_SIZE, _SIZE]
    library.VSIStrdup.argtypes = [ctypes.c_char_p]
    library.VSIInstallPluginHandler.argtypes = [_POINTER, _POINTER]
    library.VSIFreeFilesystemPluginCallbacksStruct.argtypes = [_POINTER]
    where = library.VSIAllocFilesystemPluginCallbacksStruct()
    callbacks = Callbacks.from_address(where)
    for name, function in file_system.functions.items():
        setattr(callbacks, name, ctypes.cast(function, _POINTER).value)
    if library.VSIInstallPluginHandler(ctypes.addressof(PREFIX), where) != 0:
        raise RuntimeError("GDAL did not take the file system /vsihost/")
    library.VSIFreeFilesystemPluginCallbacksStruct(where)  # GDAL has copied it
    INSTALLED.append(file_system)
    return file_system.host
