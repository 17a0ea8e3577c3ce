"""What a draft would cost is told from the headers of its inputs and its arguments, a pipeline's by its steps in turn."""

import struct
import zlib
from pathlib import Path

import pytest

from gdal_mcp.errors import Code, ToolError
from gdal_mcp.gdal.catalogue.load import packaged
from gdal_mcp.gdal.datasets.paths import Paths
from gdal_mcp.gdal.preflight.service import Foresight
from gdal_mcp.settings import load_settings
from gdal_mcp.surface import surface
from gdal_mcp.tools.algorithm import algorithm_named
from gdal_mcp.tools.dispatch import draft_call
from gdal_mcp.tools.model import DraftContext
from sandbox.workspace import Workspace, Workspaces


def png(width: int, height: int) -> bytes:
    """A grey picture of a size that its data does not hold; nobody reads them."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.fixture
def desk(tmp_path: Path) -> DraftContext:
    root = tmp_path / "ws"
    root.mkdir()
    (root / "small.png").write_bytes(png(20, 20))
    settings = load_settings(workspaces=(root,), state_dir=tmp_path / "state")
    paths = Paths(Workspaces((Workspace.at(root, writable=True),)), "outputs", "0123456789abcdef")
    return DraftContext(paths, settings, surface(settings), Foresight(settings.limits()), packaged())


def check(desk: DraftContext, algorithm: str, **arguments: object) -> None:
    draft = draft_call(algorithm_named(algorithm, desk), arguments, desk)
    desk.foresight.check(draft)


HUGE = "read small.png ! resize --size=400000,400000 ! write r.tif"


@pytest.mark.claim("resources.certain-excess-refused")
@pytest.mark.parametrize("algorithm", ["raster pipeline", "pipeline"])
def test_a_pipeline_that_cannot_stay_within_a_limit_is_refused(desk: DraftContext, algorithm: str) -> None:
    with pytest.raises(ToolError) as caught:
        check(desk, algorithm, pipeline=HUGE)
    assert caught.value.code is Code.DISK_LIMIT


@pytest.mark.parametrize(
    "pipeline",
    [
        "read small.png ! resize --size=400000,400000 ! resize --size=10,10 ! write r.tif",
        "read small.png ! resize --size=200,200 ! hillshade ! write r.tif",
        "read small.png ! polygonize ! write r.gpkg",
        "read small.png ! info",
    ],
)
def test_what_may_stay_within_the_limits_is_let_through(desk: DraftContext, pipeline: str) -> None:
    check(desk, "pipeline", pipeline=pipeline)


def test_a_single_algorithm_is_refused_alike(desk: DraftContext) -> None:
    with pytest.raises(ToolError) as caught:
        check(desk, "raster resize", input="small.png", output="r.tif", size=["400000", "400000"])
    assert caught.value.code is Code.DISK_LIMIT
    assert "--" in caught.value.suggestion


def test_what_a_container_said_of_a_file_is_remembered_until_it_changes(desk: DraftContext) -> None:
    located = desk.paths.source("small.png").located
    facts = {"driver": "GPKG", "layers": [{"geometry": "Point", "features": 7, "crs": None, "extent": None}]}
    desk.foresight.learn(located, facts)
    known = desk.foresight.headers.get(located)
    assert known is not None
    assert (known.kind, known.features) == ("vector", 7)
    located.path.write_bytes(png(30, 40))
    again = desk.foresight.headers.get(desk.paths.source("small.png").located)
    assert again is not None
    assert (again.width, again.height) == (30, 40)
