"""A named pipe in a workspace leads to a program of the host, whatever the mount options: a job can neither read nor
write it.
"""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from sandbox.outcome import Exited
from sandbox.outputs.staging import StagingArea
from sandbox.runner import Job, Runner
from sandbox.workspace import Workspace
from tests.conftest import USER, handler
from tests.oci_store import oci_engine

pytestmark = pytest.mark.engine

WRITES = handler("""
found = {}
for name in ("pipe", "folder/pipe"):
    for how in (os.O_WRONLY | os.O_NONBLOCK, os.O_RDWR | os.O_NONBLOCK):
        try:
            os.write(os.open(f"{job['workspace']}/{name}", how), b"from the job")
            found[name] = "written"
        except OSError as error:
            found.setdefault(name, error.strerror)
os.mkdir("/staging/one")
os.mkdir("/staging/two")
open("/staging/one/file", "w").write("made")
os.rename("/staging/one/file", "/staging/two/file")
open("/tmp/scratch", "w").write("made")
open("/dev/null", "w").write("gone")
return {"code": 0, "found": found}
""")


READS = handler("""
found = {}
for name in ("pipe", "folder/pipe", "file"):
    opened = os.open(f"{job['workspace']}/{name}", os.O_RDONLY | os.O_NONBLOCK)
    try:
        found[name] = os.read(opened, 100).decode()
    except OSError as error:
        found[name] = error.strerror
return {"code": 0, "found": found}
""")
MESSAGE = b"for another reader"


@pytest.fixture
def place() -> Iterator[Path]:
    """A workspace that is outside the scratch space of a container."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="gdal-mcp-test-") as name:
        folder = Path(name) / "workspace"
        folder.mkdir()
        for path in (Path(name), folder):
            path.chmod(0o755)
        os.chown(folder, *USER)
        yield folder


@pytest.mark.claim("escape.no-host-writes", "escape.no-pipes")
def test_job_writing_into_workspace_pipe_reaches_nobody(runner, make_template, place, cancel):
    (place / "folder").mkdir()
    pipes = [place / "pipe", place / "folder/pipe"]
    for pipe in pipes:
        os.mkfifo(pipe)
        pipe.chmod(0o666)
    readers = [os.open(pipe, os.O_RDONLY | os.O_NONBLOCK) for pipe in pipes]
    try:
        with StagingArea(Workspace.at(place, writable=True)).open("pipes-0001", USER) as staging:
            template = make_template(WRITES, workspace=place, staging=staging.path)
            result = runner.run(Job("pipes-0001", template, {"workspace": str(place)}), cancel)
            assert (staging.path / "two/file").read_text() == "made"
        assert [os.read(reader, 100) for reader in readers] == [b"", b""]
        assert result.outcome == Exited(0)
        assert "written" not in result.final["found"].values()
    finally:
        for reader in readers:
            os.close(reader)


@pytest.mark.claim("escape.no-host-writes", "escape.no-pipes")
@pytest.mark.parametrize("kind", ["docker", "oci"])
def test_job_cannot_take_messages_from_workspace_pipe(
    runner, client, image, owner, make_template, place, cancel, kind
):
    (place / "folder").mkdir()
    (place / "file").write_text("read")
    pipes = [place / "pipe", place / "folder/pipe"]
    for pipe in pipes:
        os.mkfifo(pipe)
        pipe.chmod(0o666)
    descriptors = [os.open(pipe, os.O_RDWR | os.O_NONBLOCK) for pipe in pipes]  # a writer and its reader
    try:
        for descriptor in descriptors:
            os.write(descriptor, MESSAGE)
        on = runner if kind == "docker" else Runner(oci_engine(client, image), owner.id)
        template = make_template(READS, workspace=place)
        covered = replace(template, pipes=tuple(map(PurePosixPath, pipes)))
        result = on.run(Job("pipes-0002", covered, {"workspace": str(place)}), cancel)
        assert result.final["found"] == {"pipe": "", "folder/pipe": "", "file": "read"}
        assert [os.read(descriptor, 100) for descriptor in descriptors] == [MESSAGE, MESSAGE]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
