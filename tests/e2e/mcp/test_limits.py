"""Each limit ends a call with its own error, and nothing is left behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.mcp.talk import Person, Place, Talk, inside

pytestmark = pytest.mark.engine

TIGHT = ["--approval", "never", "--no-preview", "--memory", "192MiB", "--file-size", "4MiB",
         "--staging-size", "6MiB", "--stdout-size", "64KiB", "--cpus", "1"]  # fmt: skip


@pytest.fixture(scope="module")
def own(grounds: Path, place: Place) -> Place:
    limits_place = place.copy(grounds / "limits", "rgb.tif", "dem.tif")
    limits_place.path("huge.vrt").write_text(_upscaled(150_000))
    limits_place.path("large.geojson").write_text(_long_line(3_000_000))
    limits_place.path("upscaled.vrt").write_text(_upscaled(3000))
    limits_place.path("wide.vrt").write_text(_many_bands(2000))
    return limits_place


def _upscaled(side: int) -> str:
    """A small picture that is read as a large one: nothing on disk, but all pixels must be computed."""
    return f"""<VRTDataset rasterXSize="{side}" rasterYSize="{side}"><VRTRasterBand dataType="Byte" band="1"><SimpleSource>
<SourceFilename relativeToVRT="1">rgb.tif</SourceFilename><SourceBand>1</SourceBand>
<SrcRect xOff="0" yOff="0" xSize="40" ySize="30"/><DstRect xOff="0" yOff="0" xSize="{side}" ySize="{side}"/>
</SimpleSource></VRTRasterBand></VRTDataset>"""


def _many_bands(count: int) -> str:
    bands = "".join(
        f'<VRTRasterBand dataType="Byte" band="{band}"><Description>{"x" * 40}</Description></VRTRasterBand>'
        for band in range(1, count + 1)
    )
    return f'<VRTDataset rasterXSize="10" rasterYSize="10">{bands}</VRTDataset>'


def _long_line(points: int) -> str:
    """18 MB of text that need many times as much memory as objects."""
    coordinates = ",".join(["[0,0]"] * points)
    return f'{{"type":"Feature","properties":{{}},"geometry":{{"type":"LineString","coordinates":[{coordinates}]}}}}'


# only the call that has to time out has a short limit, so that a busy machine ends no other call
SECONDS = {"TIMEOUT": "5"}


@pytest.fixture
def tight(own: Place, code: str) -> Iterator[Talk]:
    with inside(own.command(*TIGHT, "--timeout-seconds", SECONDS.get(code, "60")), person=Person()) as talk:
        yield talk


CASES = [
    ("TIMEOUT", "gdalinfo", {"dataset": "huge.vrt", "stats": True}),
    ("MEMORY_LIMIT", "info", {"path": "large.geojson"}),
    ("DISK_LIMIT", "gdal_translate", {"src_dataset": "upscaled.vrt"}),
    ("OUTPUT_LIMIT", "gdalinfo", {"dataset": "wide.vrt"}),
]


@pytest.mark.claim("resources.own-error")
@pytest.mark.parametrize(("code", "tool", "arguments"), CASES, ids=[case[0] for case in CASES])
def test_each_limit_ends_a_call_with_its_error(tight, own, containers, code, tool, arguments):
    error = tight.failed(tool, **arguments)
    assert (error["code"], error["stage"]) == (code, "run")
    assert error["suggestion"]
    assert containers.none_of(own.owners)
    assert own.staged == []
    assert [path.name for path in own.workspace.glob("outputs/*")] == []
    assert tight.done("info", path="rgb.tif")["size"] == [40, 30]
