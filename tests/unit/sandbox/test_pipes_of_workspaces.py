"""Which named pipes a workspace holds, and whether that is all of them."""

import os
from pathlib import Path

import pytest

from gdal_mcp.server.operations.examine import _pipes
from sandbox.pipes import named_pipes
from sandbox.workspace import RESERVED


def test_pipes_are_found_wherever_a_job_could_open_them(workspace: Path):
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / RESERVED).mkdir()
    (workspace / "file").touch()
    for name in ("one", "a/b/two", f"{RESERVED}/hidden"):
        os.mkfifo(workspace / name)
    (workspace / "link").symlink_to(workspace / "one")
    (workspace / "a" / "up").symlink_to(workspace)
    found = named_pipes(workspace)
    assert found == ((str(workspace / "a/b/two"), str(workspace / "one")), True)


def test_what_was_not_looked_at_is_not_taken_for_free_of_pipes(workspace: Path):
    assert _pipes(workspace, covered=True).state == "ok"
    (workspace / "a").mkdir()
    for number in range(5):
        (workspace / "a" / str(number)).touch()
    assert named_pipes(workspace, most=1).complete is False
    assert _pipes(workspace, covered=True, most=1).state == "warning"


@pytest.mark.parametrize(("covered", "state"), [(True, "ok"), (False, "warning"), (None, "warning")])
def test_a_pipe_is_fine_only_where_the_engine_is_known_to_cover_it(workspace: Path, covered, state):
    os.mkfifo(workspace / "pipe")
    assert _pipes(workspace, covered).state == state
