"""A picture shows exactly the file that was published."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from gdal_mcp.errors import Code
from gdal_mcp.policy.identity import READ, Principal
from gdal_mcp.records.artifacts import ArtifactStore
from gdal_mcp.records.registry import Artifact, Call, Registry
from gdal_mcp.server.app import local_user
from gdal_mcp.server.console.auth import Refused
from gdal_mcp.server.console.pictures import FOLDER, Pictures
from gdal_mcp.server.console.sessions import Viewer
from sandbox.workspace import Workspace, Workspaces
from tests.e2e.console.kit import Person, Stage, published

pytestmark = pytest.mark.claim("console.pictures-of-what-was-published")

ANN = Viewer(Principal("token:ann", frozenset({READ})), "x")
PNG = b"\x89PNG\r\n\x1a\n"


class Gallery:
    """Pictures of a workspace; each call of `preview` does `meanwhile`, and draws the file that is then there."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "workspace"
        self.root.mkdir()
        self.state = folder / "state"
        self.registry = Registry(folder / "registry.sqlite")
        self.workspaces = Workspaces((Workspace.at(self.root, writable=True),))
        self.meanwhile: Callable[[], object] = lambda: None
        app: Any = SimpleNamespace(
            settings=SimpleNamespace(state_dir=self.state), pipeline=SimpleNamespace(call=self._call)
        )
        self._pictures = Pictures(app, ArtifactStore(self.registry))
        self.drawn = 0

    async def _call(self, request: Any) -> Any:
        self.drawn += 1
        self.meanwhile()
        if request.arguments["path"].endswith(".csv"):
            return SimpleNamespace(done=None, error=SimpleNamespace(code=Code.GDAL_ERROR))
        data = await anyio.Path(request.arguments["path"]).read_bytes()
        shown = {"color": "gray", "bands": [1], "stretch": [[0.0, 9.0]]}
        return SimpleNamespace(done=SimpleNamespace(preview=PNG + data), error=None, result={"shown": shown})

    def publish(self, name: str, data: bytes) -> Artifact:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        call = hashlib.sha256(name.encode()).hexdigest()[:16]
        self.registry.begin_call(Call(call, ANN.name, "convert", {}))
        digest = hashlib.sha256(data).hexdigest()
        artifact = Artifact(path.as_uri(), str(path), path.name, len(data), "image/tiff", digest)
        return self.registry.add_artifacts(call, [artifact])[0]

    def picture(self, artifact: Artifact, workspaces: Workspaces | None = None) -> bytes | None:
        image: bytes | None = anyio.run(self._pictures.of, artifact, ANN, workspaces or self.workspaces)
        return image

    @property
    def cached(self) -> list[Path]:
        return list((self.state / FOLDER).glob("*.png")) if self.state.exists() else []


@pytest.fixture
def gallery(tmp_path: Path) -> Iterator[Gallery]:
    new_gallery = Gallery(tmp_path)
    with closing(new_gallery.registry):
        yield new_gallery


def test_a_picture_is_drawn_once_and_kept(gallery: Gallery):
    artifact = gallery.publish("a.tif", b"old")
    assert [gallery.picture(artifact), gallery.picture(artifact), gallery.drawn] == [
        PNG + b"old",
        PNG + b"old",
        1,
    ]


def test_what_gdal_cannot_draw_is_not_tried_again(gallery: Gallery):
    artifact = gallery.publish("a.csv", b"a,b")
    assert [gallery.picture(artifact), gallery.picture(artifact), gallery.drawn] == [None, None, 1]


@pytest.mark.parametrize("how", ["in place", "another", "gone", "link"])
def test_file_exchanged_during_drawing_gives_no_picture(gallery: Gallery, how: str):
    artifact = gallery.publish("a.tif", b"old")
    path, other = Path(artifact.path), gallery.root / "other.tif"
    other.write_bytes(b"new")
    gallery.meanwhile = lambda: (exchange(how, path, other), path.exists() or path.write_bytes(b"new"))
    assert (gallery.picture(artifact), gallery.drawn, gallery.cached) == (None, 1, [])


def test_file_restored_before_checking_gives_no_picture(gallery: Gallery):
    artifact = gallery.publish("a.tif", b"old")
    path, aside = Path(artifact.path), gallery.root / "aside.tif"

    def swap() -> None:
        path.rename(aside)
        path.write_bytes(b"new")
        shutil.copyfile(path, gallery.root / "seen.tif")
        aside.replace(path)

    gallery.meanwhile = swap
    assert gallery.picture(artifact) is None
    assert gallery.cached == []


def exchange(how: str, path: Path, other: Path) -> None:
    match how:
        case "in place":
            path.write_bytes(other.read_bytes())
        case "another":
            other.replace(path)
        case "gone":
            path.unlink()
        case "link":
            path.unlink()
            path.symlink_to(other)


def test_similar_looking_files_have_separate_pictures(gallery: Gallery):
    first, second = (gallery.publish(f"{name}/same.vrt", b"<VRTDataset/>") for name in ("one", "two"))
    assert first.sha256 == second.sha256
    gallery.picture(first)
    gallery.picture(second)
    assert gallery.drawn == len(gallery.cached) == 2


def test_lost_workspace_access_hides_stored_pictures(gallery: Gallery, tmp_path: Path):
    artifact = gallery.publish("a.tif", b"old")
    assert gallery.picture(artifact)
    other = tmp_path / "elsewhere"
    other.mkdir()
    assert gallery.picture(artifact, Workspaces((Workspace.at(other, writable=True),))) is None


@pytest.mark.engine
def test_server_draws_exactly_what_was_published(stage: Stage):
    person, place = stage.enter(), stage.place
    path = place.path("pictured.tif")
    shutil.copyfile(place.path("dem.tif"), path)
    data = path.read_bytes()
    artifact = recorded(stage, path, data)
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))  # as long, and a raster too
    assert shown(person, artifact) == 404
    path.write_bytes(data)
    assert shown(person, artifact) == 200


def recorded(stage: Stage, path: Path, data: bytes) -> Artifact:
    """A row of a call that published just that."""
    call, _ = published(stage.place, local_user().id, path)
    digest = hashlib.sha256(data).hexdigest()
    artifact = Artifact(path.as_uri(), str(path), path.name, len(data), "image/tiff", digest)
    with closing(Registry(stage.place.state / "registry.sqlite")) as registry:
        return registry.add_artifacts(call.id, [artifact])[0]


def shown(person: Person, artifact: Artifact) -> int:
    return person.get(f"api/pictures/{artifact.id}").status_code


def test_legend_belongs_to_picture_and_needs_its_workspace(gallery: Gallery, tmp_path: Path):
    artifact = gallery.publish("a.tif", b"one")
    with pytest.raises(Refused):
        gallery._pictures.legend(artifact, gallery.workspaces)
    gallery.picture(artifact)
    assert gallery._pictures.legend(artifact, gallery.workspaces)["stretch"] == [[0.0, 9.0]]
    (tmp_path / "another").mkdir()
    with pytest.raises(Refused):
        gallery._pictures.legend(artifact, Workspaces((Workspace.at(tmp_path / "another", writable=True),)))
