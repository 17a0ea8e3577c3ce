import multiprocessing
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gdal_mcp.records.registry import Registry, RegistryUnavailable
from gdal_mcp.records.schema import FORMAT, connect
from tests.unit.records.registry_kit import begin, clock, path, registry

__all__ = ["clock", "path", "registry"]


@pytest.mark.claim("audit.private")
def test_the_files_are_private(registry: Registry, path: Path) -> None:
    begin(registry, "c1")
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert len(modes) == 3, "the database and its two companions"
    assert set(modes.values()) == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_many_processes_can_open_a_new_file(path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert pool.map(opened_version, [path] * 12) == [FORMAT] * 12


def opened_version(path: Path) -> int:
    registry = Registry(path)
    version: int = registry._rows._db.execute("PRAGMA user_version").fetchone()[0]
    registry.close()
    return version


def database_of_format(path: Path, number: int) -> bytes:
    Registry(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {number}")
    db.close()
    contents = path.read_bytes()
    path.unlink()
    return contents


def test_database_of_another_format_or_foreign_file_is_left_alone(path: Path) -> None:
    databases = [database_of_format(path, number) for number in (FORMAT - 1, FORMAT + 1)]
    for contents in (*databases, b"precious notes\n" * 1000):
        path.write_bytes(contents)
        with pytest.raises(RegistryUnavailable):
            Registry(path)
        assert path.read_bytes() == contents


def test_what_is_not_a_file_is_refused(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    target = tmp_path / "target"
    for number, make in enumerate((Path.mkdir, os.mkfifo, lambda place: place.symlink_to(target))):
        place = path.with_name(f"{number}.sqlite")
        make(place)
        with pytest.raises(RegistryUnavailable):
            Registry(place)
    assert not target.exists()


OPENER = """if True:
    import os, sys
    from pathlib import Path
    from gdal_mcp.records.registry import Registry, RegistryUnavailable
    if os.geteuid() == 0:  # root may write everywhere
        os.setgid(65534)
        os.setuid(65534)
    path = Path(sys.argv[1])
    assert path.read_bytes().startswith(b"SQLite")
    try:
        Registry(path)
    except RegistryUnavailable:
        sys.exit(7)
"""


def test_a_database_that_cannot_be_written_is_unavailable() -> None:
    with tempfile.TemporaryDirectory() as name:  # not tmp_path, which another user cannot enter
        folder = Path(name)
        path = folder / "registry.sqlite"
        Registry(path).close()
        if os.geteuid() == 0:
            os.chown(path, 65534, 65534)
        path.chmod(0o400)
        folder.chmod(0o555)
        run = subprocess.run([sys.executable, "-c", OPENER, str(path)], check=False)
        folder.chmod(0o700)
        assert run.returncode == 7


def test_several_open_a_new_database_at_once(tmp_path):
    """SQLite occasionally refuses all but one of them, so many attempts are made."""
    ready = threading.Barrier(4)

    def connected(path: Path) -> None:
        ready.wait()
        connect(path).close()

    with ThreadPoolExecutor(4) as threads:
        for number in range(100):
            list(threads.map(connected, [tmp_path / f"{number}.sqlite"] * 4))


def test_locked_database_is_unavailable(path, registry, monkeypatch):
    registry._rows._db.execute("PRAGMA busy_timeout = 1")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(RegistryUnavailable):
        begin(registry, "c1")
    other.execute("ROLLBACK")
    other.close()
    begin(registry, "c1")
