"""A workspace that only root may enter is readable in a container and stays unchanged."""

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from sandbox.idmap import Views, sweep
from sandbox.outcome import Exited
from sandbox.owner import Owner
from sandbox.runner import Job
from sandbox.template import Mount, host_source
from tests.conftest import USER

pytestmark = pytest.mark.engine

READER = """
def prepare():
    pass

def run(job, report):
    import os
    answer = {"code": 0, "read": open(job["path"]).read(), "owner": os.stat(job["path"]).st_uid}
    try:
        os.chmod(job["path"], 0o777)
        answer["changed"] = True
    except OSError:
        answer["changed"] = False
    return answer
"""


@pytest.fixture
def closed_workspace(tmp_path: Path) -> Path:
    """A folder as created by `mkdir -m 700` and `umask 077`."""
    root = tmp_path / "closed"
    root.mkdir(mode=0o700)
    secret = root / "private.txt"
    secret.write_text("only for its owner")
    secret.chmod(0o600)
    return root


@pytest.mark.claim("files.owners-kept")
def test_closed_workspace_is_readable_by_container_and_unchanged(
    runner, owner, make_template, closed_workspace, tmp_path, cancel
):
    before = [(path, path.stat().st_mode, path.stat().st_uid) for path in closed_workspace.rglob("*")]
    with closing(Views(tmp_path / "views", owner)) as views:
        mount = Mount(host_source(views.source(closed_workspace, USER)), PurePosixPath(closed_workspace))
        template = replace(make_template(READER), mounts=(mount,))
        path = str(closed_workspace / "private.txt")
        result = runner.run(Job("idmap-test", template, {"path": path}), cancel)
    assert result.outcome == Exited(0)
    assert result.final is not None
    assert result.final["read"] == "only for its owner"
    assert result.final["owner"] == USER[0]
    assert result.final["changed"] is False
    assert [(path, path.stat().st_mode, path.stat().st_uid) for path in closed_workspace.rglob("*")] == before


@pytest.mark.claim("files.owners-kept")
def test_readable_workspace_gets_no_view(workspace, owner, tmp_path):
    views = Views(tmp_path / "views", owner)
    assert views.source(workspace, USER) == workspace
    assert not (tmp_path / "views").exists()


@pytest.mark.claim("files.owners-kept")
def test_views_are_unmounted_by_server_or_its_successor(closed_workspace, tmp_path):
    here, dead = Owner(tmp_path / "servers"), Owner(tmp_path / "servers")
    own, left = Views(tmp_path / "views", here), Views(tmp_path / "views", dead)
    own.source(closed_workspace, USER)
    left.source(closed_workspace, USER)
    expected = 2 if os.geteuid() == 0 else 0
    assert mounted_below(tmp_path) == expected
    os.close(dead._file)  # as the kernel does when a process dies
    sweep(tmp_path / "views", here)
    assert mounted_below(tmp_path) == expected // 2
    own.close()
    assert mounted_below(tmp_path) == 0
    assert (closed_workspace / "private.txt").read_text() == "only for its owner"
    here.close()


def mounted_below(folder: Path) -> int:
    return sum(f" {folder}/views/" in line for line in Path("/proc/self/mountinfo").read_text().splitlines())
