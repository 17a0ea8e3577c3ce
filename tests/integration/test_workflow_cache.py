"""Results of steps are reused only for the same inputs and arguments, whatever a caller writes into them."""

import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from tests.integration.memory_server import Server
from tests.integration.memory_workflows import Steps, joined, run, workflows


@pytest.fixture
def world() -> Steps:
    return Steps()


@pytest.fixture
def made(tmp_path: Path, world: Steps) -> Iterator[Server]:
    with workflows(tmp_path, world) as made:
        for name in ("one", "two"):
            (made.root / f"{name}.bin").write_bytes(name.encode())
        assert anyio.run(lambda: run(made)).error is None
        assert sorted(world.ran) == ["a", "b", "c"]
        world.ran.clear()
        yield made


def test_file_with_reset_time_is_another_input(made: Server, world: Steps):
    path = made.root / "one.bin"
    before = path.stat()
    path.write_bytes(b"ONE")  # in place, with the same size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert anyio.run(lambda: run(made)).error is None
    assert sorted(world.ran) == ["a", "b"]
    assert (made.root / "b.bin").read_bytes() == joined("", joined("", b"ONE"))


def test_text_resembling_a_result_name_is_not_it(made: Server, world: Steps):
    for word, again in (("<a.0>", ["b"]), ("${steps.a}", ["b"]), ("<here>/b.bin", ["b"]), ("<a.0>", [])):
        assert anyio.run(lambda word=word: run(made, word=word)).error is None
        assert (word, world.ran) == (word, again)
        world.ran.clear()
