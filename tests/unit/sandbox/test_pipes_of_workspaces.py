"""Named pipes in a workspace, and whether all of them were found."""

import os
from pathlib import Path

import pytest

from gdal_mcp.server.operations.examine import _pipes
from sandbox.pipes import named_pipes
from sandbox.workspace import RESERVED


def test_pipes_are_found_wherever_jobs_could_open_them(workspace: Path):
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / RESERVED).mkdir()
    (workspace / "file").touch()
    for name in ("one", "a/b/two", f"{RESERVED}/hidden"):
        os.mkfifo(workspace / name)
    (workspace / "link").symlink_to(workspace / "one")
    (workspace / "a" / "up").symlink_to(workspace)
    pipes = named_pipes(workspace)
    assert pipes == ((str(workspace / "a/b/two"), str(workspace / "one")), True)


def test_unexamined_folder_does_not_count_as_pipe_free(workspace: Path):
    assert _pipes(workspace, covered=True).state == "ok"
    (workspace / "a").mkdir()
    for number in range(5):
        (workspace / "a" / str(number)).touch()
    assert named_pipes(workspace, most=1).complete is False
    assert _pipes(workspace, covered=True, most=1).state == "warning"


@pytest.mark.parametrize(("covered", "state"), [(True, "ok"), (False, "warning"), (None, "warning")])
def test_pipe_is_accepted_only_where_engine_covers_it(workspace: Path, covered, state):
    os.mkfifo(workspace / "pipe")
    assert _pipes(workspace, covered).state == state
