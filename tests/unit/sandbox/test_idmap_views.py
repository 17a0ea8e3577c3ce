"""Views of workspaces that only root may enter, if the first one cannot be made and if the kernel refuses.

Without root there are no views.
"""

import ctypes
import os
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

from sandbox import idmap
from sandbox.idmap import Views
from sandbox.owner import Owner
from tests.conftest import USER

ROOT = os.geteuid() == 0


def test_workspace_gets_view_after_another_failed(tmp_path: Path, owner: Owner):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "file").touch()
    with closing(Views(tmp_path / "views", owner)) as views:
        without = Path("/proc/self/fd")  # of a file system that does not support such views
        assert views.source(without, USER) == without
        assert not [*tmp_path.glob("views/*/*")]  # the failed attempt leaves nothing
        view = views.source(closed, USER)
        assert (view != closed) is ROOT
        assert (view / "file").stat().st_uid == (USER[0] if ROOT else os.geteuid())
    assert not (tmp_path / "views" / owner.id).exists()


def test_child_ending_before_its_namespace_delays_nobody(tmp_path: Path, owner: Owner, monkeypatch):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(
        idmap, "ctypes", SimpleNamespace(CDLL=lambda *_, **__: SimpleNamespace(unshare=lambda _: os._exit(1)))
    )
    views, sources = Views(tmp_path / "views", owner), []
    looking = threading.Thread(target=lambda: sources.append(views.source(closed, USER)), daemon=True)
    looking.start()
    looking.join(30)
    monkeypatch.setattr(idmap, "ctypes", ctypes)
    assert sources == [closed]
    assert len(os.listdir("/proc/self/fd")) == before
