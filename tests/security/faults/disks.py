"""Small file systems that a test can fill, make read-only and unmount. Mounting needs root, or `sudo` without a
password.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

MIB = 1 << 20
_ROOT = [] if os.geteuid() == 0 else ["sudo", "-n"]


def _run(*command: str) -> None:
    subprocess.run([*_ROOT, *command], check=True)


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A file system with this number of bytes at the folder; unmounted at the end with everything mounted over it."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={size},mode=0755,uid={os.geteuid()},gid={os.getegid()}"
    _run("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder))
    try:
        yield folder
    finally:
        while os.path.ismount(folder):
            _run("umount", "--lazy", str(folder))


@contextlib.contextmanager
def full(folder: Path) -> Iterator[None]:
    """Fills the disk of a folder completely until the block ends."""
    filler = folder / ".filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    try:
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Makes the folder read-only for everybody who opens it by its path, until the block ends."""
    _run("mount", "--bind", str(folder), str(folder))
    _run("mount", "-o", "remount,bind,ro", str(folder))
    try:
        yield
    finally:
        _run("umount", str(folder))
