"""A planned file operation in the container has the same effect on files as GDAL's own command."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import docker
import pytest

from gdal_mcp.errors import ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.runtime.image import Image
from gdal_mcp.toolboxes.gdal.datasets.operations import plan_operation
from gdal_mcp.toolboxes.gdal.datasets.paths import Paths
from sandbox.outputs.staging import StagingArea
from sandbox.outputs.store import Publication
from sandbox.workspace import Workspace, Workspaces
from tests.conftest import USER

pytestmark = pytest.mark.engine

FILES = {
    "src/a.txt": b"new a", "src/sub/b.txt": b"b", "dst/a.txt": b"old", "dst/c.txt": b"c",
    "pts.csv": b"x,y\n1,2\n", "noise.bin": b"\x00\x01\x02",
}  # fmt: skip
Gdal = Callable[..., str]


@pytest.fixture
def gdal(client: docker.DockerClient, image: Image) -> Gdal:
    """`gdal(words, user, {folder: (target, mode)})` is the output of the command."""

    def run(words: tuple[str, ...], user: tuple[int, int], mounts: dict[Path, tuple[str, str]]) -> str:
        volumes = {str(folder): {"bind": at, "mode": mode} for folder, (at, mode) in mounts.items()}
        printed = client.containers.run(
            image.id,
            entrypoint="sh",  # the engine's log sometimes loses a last line without a line end
            command=["-c", 'gdal "$@"; code=$?; echo; exit $code', "gdal", *words],
            volumes=volumes,
            user="%d:%d" % user,
            network_mode="none",
            remove=True,
        )
        return bytes(printed).decode()

    return run


@pytest.fixture
def desk(workspace: Path) -> SimpleNamespace:
    for name, contents in FILES.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_bytes(contents)
    home = Workspace.at(workspace, writable=True)
    return SimpleNamespace(
        root=workspace, area=StagingArea(home), paths=Paths(Workspaces((home,)), "outputs", "call-0001")
    )


def tree(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".gdal-mcp" not in path.parts
    }


def carry_out(desk: SimpleNamespace, work: Draft, gdal: Gdal) -> str:
    with desk.area.open("call-0001", USER) as staging:
        for output in work.outputs:
            if output.update:
                staging.copy_in(output.target, output.target.name)
        mounts = {desk.root: (str(desk.root), "ro"), staging.path: ("/staging", "rw")}
        printed = gdal(work.command.options, USER, mounts)
        targets = {output.target.name: output.target for output in work.outputs}
        publications = [
            Publication(collected.name, targets[collected.name]) for collected in staging.collect()
        ]
        gone = [*(old for output in work.outputs for old in output.replaces), *work.files.removes]
        staging.publish("call-0001", publications, gone, work.files.transfers, work.files.listings)
    return printed


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("operation", "source", "destination"),
    [
        ("vsi copy", "src", "new"), ("vsi copy", "src", "dst"), ("vsi copy", "src/a.txt", "new.txt"),
        ("vsi copy", "src/a.txt", "src/sub"), ("vsi sync", "src", "new"), ("vsi sync", "src/", "new"),
        ("vsi sync", "src", "dst"), ("vsi sync", "src/", "dst"), ("vsi sync", "src/a.txt", "new.txt"),
        ("vsi sync", "src/a.txt", "dst"), ("vsi sync", "src", "dst/src"),
    ],
)  # fmt: skip
def test_files_match_the_result_of_gdal_alone(desk, gdal, tmp_path, operation, source, destination):
    alone = tmp_path / "alone"
    shutil.copytree(desk.root, alone)
    for path in (alone, *alone.rglob("*")):
        path.chmod(0o777)
    before = tree(desk.root)
    arguments = {"source": (source,), "destination": (destination,), "recursive": ("true",)}
    carry_out(desk, plan_operation(operation, arguments, desk.paths), gdal)
    recursive = ("--recursive",) if (alone / source).is_dir() else ()
    words = (*operation.split(), *recursive, f"--source=/d/{source}", f"--destination=/d/{destination}")
    gdal(words, USER, {alone: ("/d", "rw")})
    assert tree(desk.root) == tree(alone)
    assert tree(desk.root) != before
    desk.area.undo("call-0001")
    assert tree(desk.root) == before


def test_second_sync_does_nothing_and_third_copies_changes(desk, gdal):
    arguments = {"source": ("src/",), "destination": ("dst",), "recursive": ("true",)}
    (desk.root / "dst/a.txt").write_bytes(b"NEW A")  # of the same size and newer: GDAL does not copy it
    carry_out(desk, plan_operation("vsi sync", arguments, desk.paths), gdal)
    assert (desk.root / "dst/a.txt").read_bytes() == b"NEW A"


def test_gdal_s_report_tells_datasets_from_other_files(desk, gdal):
    for names, fits in ((("pts.csv",), True), (("pts.csv", "noise.bin"), False)):
        work = plan_operation("dataset delete", {"filename": names}, desk.paths)
        report = json.loads(gdal(work.command.options, USER, {desk.root: (str(desk.root), "ro")}))
        if fits:
            work.printed.verify(report)
        else:
            with pytest.raises(ToolError):
                work.printed.verify(report)
    assert tree(desk.root) == FILES
