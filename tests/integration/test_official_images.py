"""Images with the layout of the official ones: PROJ in /usr/local, a preloaded allocator, root, a shell as command,
other drivers.
"""

import contextlib
import io
import json
from collections.abc import Iterator

import docker
import pytest

from gdal_mcp.runtime.image import Image
from tests.e2e.cli.conftest import Desk

pytestmark = [pytest.mark.nightly, pytest.mark.engine]
# as the Dockerfiles of ubuntu-small and ubuntu-full install it: libraries that only ldconfig's cache finds, their data
# next to them, and a variable that must not reach our containers, because the file that it names does not exist there
LAYOUT = """\
FROM {base}
RUN mv /usr/lib/$(uname -m)-linux-gnu/libproj.so* /usr/local/lib/ && mv /usr/share/proj /usr/local/share/proj && ldconfig \\
    && ln -sf python3 /usr/bin/python
LABEL io.gdal-mcp.standin="" io.gdal-mcp.gdal-version="" org.opencontainers.image.version="{version}"
ENV LD_PRELOAD=/nonexistent/libtcmalloc_minimal.so.4 GDAL_SKIP=GTiff PROJ_DATA=/nonexistent
USER root
CMD ["/bin/bash", "-l"]
"""
FEWER = LAYOUT + "RUN rm -r /usr/lib/$(uname -m)-linux-gnu/gdalplugins\n"
NO_PYTHON = LAYOUT + "RUN rm -f /usr/bin/python3*\n"


@pytest.fixture(scope="module")
def built(client: docker.DockerClient, image: Image) -> Iterator[dict[str, str]]:
    names = {}
    with contextlib.ExitStack() as stack:
        for kind, text in {"small": LAYOUT, "fewer": FEWER, "no-python": NO_PYTHON}.items():
            name = f"gdal-mcp-laid-out:{kind}"
            file = io.BytesIO(text.format(base=image.reference, version=image.version).encode())
            client.images.build(fileobj=file, tag=name, rm=True, network_mode="none")
            stack.callback(client.images.remove, name, force=True)
            names[kind] = name
        yield names


@pytest.fixture
def desk(tmp_path) -> Desk:
    new_desk = Desk.made(tmp_path)
    (new_desk.workspace / "points.csv").write_text("x,y,name\n11,48,a\n")
    (new_desk.workspace / "hill.asc").write_text(
        "ncols 2\nnrows 2\nxllcorner 11\nyllcorner 48\ncellsize 1\n1 2\n3 4\n"
    )
    return new_desk


def chosen(built: dict[str, str], kind: str) -> tuple[str, ...]:
    return ("--engine", "docker:", "--image", built[kind])


def test_image_with_official_layout_serves_every_call_kind(built, desk):
    options = chosen(built, "small")
    report = json.loads(desk.run("doctor", "--json", *options).stdout)
    assert report["ok"], report["verdict"]
    assert not report["image"]["stand_in"]
    assert desk.call("info", {"path": "hill.asc"}, *options).json["size"] == [2, 2]
    # with the grids and definitions of PROJ, which are next to its library
    moved = {"input": "hill.asc", "output": "moved.tif", "input_crs": "EPSG:4326", "output_crs": "EPSG:25832"}
    assert desk.call("raster_reproject", moved, "--yes", *options).code == 0
    # with GDAL's bindings for Python
    merged = {"src_datasets": ["hill.asc"], "dst_dataset": "merged.tif"}
    done = desk.call("gdal_merge", merged, "--yes", *options)
    assert done.code == 0, done.stdout
    assert {"moved.tif", "merged.tif"} <= desk.files().keys()


def test_missing_drivers_are_refused_before_asking_anybody(built, desk):
    options = chosen(built, "fewer")
    assert desk.run("setup", *options).code == 0
    assert json.loads(desk.run("doctor", "--json", *options).stdout)["ok"]
    assert desk.call("convert", {"input": "points.csv", "output": "out.gpkg"}, "--yes", *options).code == 0
    lacking = desk.call("convert", {"input": "points.csv", "output": "out.parquet"}, *options)
    assert lacking.error == "FORMAT_UNAVAILABLE"
    assert desk.files().keys() == {"points.csv", "hill.asc", "out.gpkg"}


def test_image_without_python_is_refused_with_the_reason(built, desk):
    refused = desk.call("info", {"path": "hill.asc"}, *chosen(built, "no-python"))
    assert refused.code != 0
    assert "python3" in refused.stdout
