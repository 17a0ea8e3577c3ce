"""Files of the state folder: private, complete, and never half-written over another."""

import os
import resource
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gdal_mcp.settings.state import put_private


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Simulates a full disk for this process: a write beyond `size` bytes of a file fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_private_file_and_folder_belong_to_user_only(tmp_path: Path):
    mask = os.umask(0)
    try:
        put_private(tmp_path / "folder" / "file", b"secret")
    finally:
        os.umask(mask)
    file = tmp_path / "folder" / "file"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file.parent, file)] == [0o700, 0o600]
    assert file.read_bytes() == b"secret"


def test_failed_write_leaves_only_the_old_file(tmp_path: Path):
    place = tmp_path / "file"
    put_private(place, b"old")
    with files_of_at_most(1 << 20), pytest.raises(OSError, match=r"large"):
        put_private(place, bytes(2 << 20))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert place.read_bytes() == b"old"


def test_existing_entry_is_replaced_and_never_written_through(tmp_path: Path):
    place, other = tmp_path / "file", tmp_path / "other"
    put_private(place, b"old")
    with place.open("rb") as reading:
        put_private(place, b"new")
        assert (reading.read(), place.read_bytes()) == (b"old", b"new")
    place.rename(other)
    place.symlink_to(other)
    put_private(place, b"newest")
    assert (other.read_bytes(), place.is_symlink()) == (b"new", False)
