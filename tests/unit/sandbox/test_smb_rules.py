"""Differences of SMB from other file systems, on a folder that simulates them; `tests/e2e/shares` has a real mount."""

import errno
import fcntl
import os

import pytest

from sandbox.outputs import filetree
from sandbox.outputs.filetree import remove
from tests.unit.sandbox.staging_kit import USER, area_at, leftovers

pytestmark = pytest.mark.claim("outputs.shares")


def test_still_listed_open_file_ends_the_removal(tmp_path, monkeypatch):
    folder = tmp_path / "staging"
    folder.mkdir()
    for name in ("lock", "out.tif"):
        (folder / name).touch()
    real = os.unlink

    def unlink(name, **options):
        if name != "lock":
            real(name, **options)

    monkeypatch.setattr(os, "unlink", unlink)
    monkeypatch.setattr(filetree, "_REMOVAL_SECONDS", 5.0)
    parent = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError, match=os.strerror(errno.ENOTEMPTY)):
        remove(parent, "staging")
    os.close(parent)
    assert [file.name for file in folder.iterdir()] == ["lock"]


def test_lock_refused_by_permission_is_held_by_another(tmp_path, monkeypatch):
    area, real = area_at(tmp_path), fcntl.flock

    def flock(file, kind):
        if kind & fcntl.LOCK_NB:
            try:
                real(file, kind)
            except BlockingIOError as error:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from error
        else:
            real(file, kind)

    with area.open("staging-1", USER):
        monkeypatch.setattr(fcntl, "flock", flock)
        assert area_at(tmp_path).recover() == ()
        assert leftovers(tmp_path) == ["staging-1"]
