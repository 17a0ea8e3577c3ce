"""Common formats are written and read; a format that the image lacks is named."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gdal_mcp.errors import Code
from gdal_mcp.server.app import App, running
from gdal_mcp.settings import load_settings
from tests.calling import called
from tests.data.make import make_data
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine
RASTER = {
    "netCDF": "a.nc", "Zarr": "a.zarr", "COG": "a.tif", "GTiff": "b.tif", "JP2OpenJPEG": "a.jp2",
    "MBTiles": "a.mbtiles",
}  # fmt: skip
VECTOR = {"Parquet": "a.parquet", "FlatGeobuf": "a.fgb", "PMTiles": "a.pmtiles", "GeoJSONSeq": "a.geojsonl"}


@pytest.fixture(scope="module")
def app(grounds: Path, oracle: Oracle) -> Iterator[App]:
    workspace = grounds / "formats"
    workspace.mkdir()
    workspace.chmod(0o777)
    make_data(oracle, workspace)
    (workspace / "lacking.dat").write_bytes(b"ARROW1\0\0" + bytes(64))
    settings = load_settings(workspaces=[str(workspace)], state_dir=str(grounds / "state"), approval="never")
    with running(settings) as new_app:
        yield new_app


def test_common_formats_are_written_and_read(app: App, subtests: pytest.Subtests):
    for kind, source, outputs in (("raster", "rgb.tif", RASTER), ("vector", "zones.gpkg", VECTOR)):
        for driver, output in outputs.items():
            with subtests.test(driver=driver):
                arguments = {"input": source, "output": output, "output-format": driver}
                written = called(app, "gdal_write", {"algorithm": f"{kind} convert", "arguments": arguments})
                assert written.error is None, written.error
                read = called(app, "gdal_read", {"algorithm": f"{kind} info", "arguments": {"input": output}})
                assert read.error is None, read.error


def test_absent_format_is_refused_by_first_bytes(app: App):
    for tool, arguments in (
        ("info", {"path": "lacking.dat"}),
        ("convert", {"input": "lacking.dat", "output": "x.gpkg"}),
        ("validate_call", {"tool": "convert", "arguments": {"input": "lacking.dat", "output": "x.gpkg"}}),
    ):
        reply = called(app, tool, arguments)
        assert reply.error is not None
        assert reply.error.code is Code.FORMAT_UNAVAILABLE, tool
    assert not (app.workspaces.items[0].root / "x.gpkg").exists()
