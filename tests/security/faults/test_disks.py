"""Disks become full, read-only or unavailable during a call: no file is half-written, no old file is lost, and
service resumes.
"""

import contextlib
import shutil
from collections.abc import Iterator

import pytest

from gdal_mcp.runtime.cached import cached_attestation
from sandbox.isolation.rows import Row
from tests.e2e.mcp.talk import Place
from tests.security.faults.disks import MIB, full, read_only, small_disk
from tests.security.faults.kit import (
    FINISHED,
    LEASE,
    PUBLISH,
    STARTED,
    held_call,
    prepared_place,
    serves_again,
    tells,
    writes,
)
from tests.security.faults.nursery import Nursery
from tests.security.faults.scenes import OLD, outcome_of, user_files, write

pytestmark = [pytest.mark.engine, pytest.mark.claim("faults.disk-fails-typed")]

_DISK = 8 * MIB
LARGE = write("large", "raster resize", {}, input="in.tif", output="large.tif", size=["5000", "5000"])


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory, servers: Nursery) -> Iterator[Place]:
    """A workspace and a state folder on small disks."""
    folder = tmp_path_factory.mktemp("disks")
    with small_disk(folder / "state", _DISK), contextlib.ExitStack() as stack:
        place = prepared_place(folder, lambda workspace: stack.enter_context(small_disk(workspace, _DISK)))
        serves_again(servers, place, writes("first.tif"))
        yield place


@pytest.fixture
def again(disks: Place, servers: Nursery) -> Iterator[None]:
    """Checks that the next server works after the fault, and that nothing of the last one is left."""
    yield
    serves_again(servers, disks, writes("again.tif"))


@pytest.mark.nightly
@pytest.mark.usefixtures("again")
def test_disk_full_while_the_output_is_made(disks: Place, servers: Nursery):
    before = user_files(disks)
    with servers.serving(disks, "--approval", "never") as pipes:
        tells("staging-full", lambda: LARGE.call(pipes))
        assert user_files(disks) == before
        assert disks.staged == []
        assert outcome_of(writes("small.tif").call(pipes)) == "OK"


@pytest.mark.usefixtures("again")
def test_disk_full_when_the_output_is_published(disks: Place, servers: Nursery):
    scene = writes("full.tif", OLD)
    with held_call(servers, disks, scene, PUBLISH) as call:
        with full(disks.workspace):
            tells("workspace-full", call.go_on)
            assert disks.path("full.tif").read_bytes() == OLD
        assert disks.staged == []
        assert outcome_of(scene.call(call.pipes)) == "OK"


@pytest.mark.nightly
@pytest.mark.usefixtures("again")
@pytest.mark.parametrize(
    ("fault", "step"), [("workspace-read-only", LEASE), ("workspace-read-only-at-publication", PUBLISH)]
)
def test_workspace_becoming_read_only_during_a_call(disks, servers, fault, step):
    scene = writes("closed.tif", OLD)
    with held_call(servers, disks, scene, step) as call:
        with read_only(disks.workspace):
            tells(fault, call.go_on)
        assert disks.path("closed.tif").read_bytes() == OLD
        assert outcome_of(scene.call(call.pipes)) == "OK"


@pytest.mark.nightly
def test_workspace_deleted_before_the_output_is_published(tmp_path_factory, servers):
    place = prepared_place(tmp_path_factory.mktemp("deleted"))
    scene = writes("homeless.tif")
    serves_again(servers, place, writes("first.tif"))
    with held_call(servers, place, scene, PUBLISH) as call:
        shutil.rmtree(place.workspace)
        tells("workspace-deleted", call.go_on)
        assert not place.workspace.exists()


@pytest.mark.usefixtures("again")
def test_a_name_that_somebody_takes_during_the_call(disks: Place, servers: Nursery):
    scene = writes("taken.tif")
    with held_call(servers, disks, scene, PUBLISH) as call:
        disks.path("taken.tif").write_bytes(b"mine")
        tells("output-taken", call.go_on)
        assert disks.path("taken.tif").read_bytes() == b"mine"
        assert disks.staged == []


@pytest.mark.usefixtures("again")
def test_a_state_folder_without_space_lets_nothing_run(disks: Place, servers: Nursery):
    scene = writes("unrecorded.tif")
    with held_call(servers, disks, scene, STARTED) as call:
        with full(disks.state):
            error = tells("state-full-before", call.go_on)["error"]
            assert error["stage"] == "audit"
        assert "unrecorded.tif" not in user_files(disks)
        assert outcome_of(scene.call(call.pipes)) == "OK"


LONG = (Row("k" * 9000, "", "", "", "held"),)


def test_an_attestation_that_cannot_be_kept_fails_nobody(disks: Place):
    before = {path.name: path.stat().st_mtime_ns for path in disks.state.glob("attestation*")}
    with full(disks.state):
        cached_attestation(disks.state / "attestation-gdal.json", [], lambda: LONG, fresh=True)
    assert {path.name: path.stat().st_mtime_ns for path in disks.state.glob("attestation*")} == before


@pytest.mark.usefixtures("again")
def test_state_folder_filling_up_leaves_an_undoable_call(disks, servers):
    scene = writes("recorded-late.tif", OLD)
    with held_call(servers, disks, scene, FINISHED) as call, full(disks.state):
        error = tells("state-full-after", call.go_on)["error"]
    new = disks.path("recorded-late.tif").read_bytes()
    assert new != OLD
    code, output = servers.run("undo", error["call_id"], *disks.command()[4:])
    assert code == 0, output
    assert disks.path("recorded-late.tif").read_bytes() == OLD
