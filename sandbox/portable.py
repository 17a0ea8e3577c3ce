"""Functions that differ by operating system, for the machine on which the server runs. Containers always run Linux.

Invariants:
* a replacement gives the same guarantee, or what depends on it is not done: nothing becomes weaker without a message;
* everything that differs by system is in this module, or asks it; `docs/platforms.md` has the list.
"""

import ctypes
import fcntl
import os
import time
from pathlib import Path
from typing import Any, Final

# opens a name without opening its content: a pipe does not block, a device does nothing
O_PATH_FLAG: Final = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
_MOUNTS: Final = Path("/proc/self/mountinfo")
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
# RENAME_NOREPLACE and RENAME_EXCHANGE of renameat2(2), and what macOS calls them in renameatx_np(2)
NOREPLACE, EXCHANGE = 1, 2
_DARWIN: Final = {NOREPLACE: 0x4, EXCHANGE: 0x2}


def missing_features() -> list[str]:
    """Features of Linux that this system lacks; docs/platforms.md lists the replacements."""
    libc: Any = ctypes.CDLL(None)
    here = {
        "renameat2": hasattr(libc, "renameat2") or hasattr(libc, "renameatx_np"),
        "O_PATH": hasattr(os, "O_PATH"),
        str(_MOUNTS): mount_table() is not None,
        "boot_id, CLOCK_BOOTTIME": boot()[0] != "",
    }
    return [name for name, there in here.items() if not there]


def mount_table() -> str | None:
    """The mounts of this process in the format of proc(5); None if the system has no such table."""
    try:
        return _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None


def file_system(device: int) -> str:
    """The type of the mounted file system with this device number, such as `ext4`. "" if the mount table does not have it."""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in (mount_table() or "").splitlines():
        mount, _, about = line.partition(" - ")
        if mount.split()[2] == number:
            return about.split()[0]
    return ""


def boot() -> tuple[str, float]:
    """The id of this boot, and the seconds since then, including sleep.

    If the kernel does not provide them, "" and the time of another clock.
    """
    try:
        return _BOOT.read_text(encoding="ascii").strip(), time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, AttributeError):
        return "", time.monotonic()


def sync_contents(file: int) -> None:
    """Makes the contents of an open file survive a power cut. Raises OSError."""
    if hasattr(fcntl, "F_FULLFSYNC"):  # on macOS, fsync leaves the contents in the disk's memory
        fcntl.fcntl(file, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(file)
    else:
        os.fsync(file)


def try_lock(file: int, kind: int) -> bool:
    """Takes a lock of flock(2), of kind LOCK_EX or LOCK_SH, at once. False if another process holds it, which SMB reports as EACCES."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def rename(source: tuple[int, str], target: tuple[int, str], flag: int) -> bool:
    """Renames with renameat2(2), or its counterpart on macOS. False if this system has neither. Raises OSError."""
    libc: Any = ctypes.CDLL(None, use_errno=True)
    name, number = ("renameat2", flag) if hasattr(libc, "renameat2") else ("renameatx_np", _DARWIN[flag])
    if not hasattr(libc, name):
        return False
    call(name, source[0], os.fsencode(source[1]), target[0], os.fsencode(target[1]), number)
    return True


def call(name: str, *arguments: object) -> int:
    """Calls a function of the C library and returns its result. Raises OSError if it fails."""
    result: int = getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result
