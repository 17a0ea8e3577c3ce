"""Results of steps are reused only for the same inputs and arguments, whatever a caller writes into them; and what a
check reports before a run.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from gdal_mcp.calls.pipeline import Reply
from tests.integration.memory_server import Server
from tests.integration.memory_workflows import Steps, document, joined, run, workflows


@pytest.fixture
def world() -> Steps:
    return Steps()


@pytest.fixture
def memory_server(tmp_path: Path, world: Steps) -> Iterator[Server]:
    with workflows(tmp_path, world) as memory_server:
        for name in ("one", "two"):
            (memory_server.root / f"{name}.bin").write_bytes(name.encode())
        assert anyio.run(lambda: run(memory_server)).error is None
        assert sorted(world.ran) == ["a", "b", "c"]
        world.ran.clear()
        yield memory_server


def test_file_with_reset_time_is_another_input(memory_server: Server, world: Steps):
    path = memory_server.root / "one.bin"
    before = path.stat()
    path.write_bytes(b"ONE")  # in place, with the same size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert anyio.run(lambda: run(memory_server)).error is None
    assert sorted(world.ran) == ["a", "b"]
    assert (memory_server.root / "b.bin").read_bytes() == joined("", joined("", b"ONE"))


def test_text_resembling_a_result_name_is_not_it(memory_server: Server, world: Steps):
    for word, again in (("<a.0>", ["b"]), ("${steps.a}", ["b"]), ("<here>/b.bin", ["b"]), ("<a.0>", [])):
        assert anyio.run(lambda word=word: run(memory_server, word=word)).error is None
        assert (word, world.ran) == (word, again)
        world.ran.clear()


def check(memory_server: Server, checked: dict[str, Any]) -> Reply:
    return anyio.run(lambda: memory_server.call("workflow_check", workflow=checked))


def test_check_names_the_unaccepted_argument(memory_server: Server):
    wrong = document()
    wrong["steps"][0]["arguments"]["colour"] = "red"
    steps = {step["id"]: step for step in check(memory_server, wrong).result["steps"]}
    assert steps["a"]["state"] == "wrong"
    assert "colour" in str(steps["a"]["error"])


def test_check_refuses_workflow_without_outputs_like_a_run(memory_server: Server):
    without = {name: value for name, value in document().items() if name != "outputs"}
    run_reply = anyio.run(lambda: memory_server.call("workflow_run", workflow=without))
    errors = [reply.error and reply.error.message for reply in (check(memory_server, without), run_reply)]
    assert errors[0]
    assert errors[0] == errors[1]
