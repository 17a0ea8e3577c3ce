"""GDAL itself as the client: a Cloud Optimized GeoTIFF is opened over HTTP, and little of it is read."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, IncompleteRead

import pytest
from testcontainers.core.container import DockerContainer

from gdal_mcp.runtime.image import Image
from sandbox.engines.discovery import discover
from tests.e2e.web.files_kit import Sender
from tests.oci_store import docker_address

pytestmark = pytest.mark.engine
SIDE = 3000  # pixels; 18 MB without compression, a hundred times the data that opening needs


@pytest.fixture(scope="module")
def gdal(image: Image) -> Iterator[DockerContainer]:
    """A GDAL with access to only the network of this host."""
    endpoint, client = discover(docker_address())
    client.close()
    where = {"environment": {**os.environ, "DOCKER_HOST": endpoint.address}}
    container = DockerContainer(image.id, docker_client_kw=where).with_command(["sleep", "infinity"])
    with container.with_kwargs(network_mode="host", entrypoint=[], user="65534:65534") as running:
        yield running


@pytest.fixture(scope="module")
def cog(sender: Sender) -> str:
    """The address of a large COG."""
    arguments = {"input": "dem.tif", "output": "remote.tif", "size": [SIDE, SIDE], "output-format": "COG"}
    options = {"resampling": "bilinear", "creation-option": ["COMPRESS=NONE"]}
    with sender.hosted.talking(sender.token or "") as talk:
        result = talk.done("gdal_write", algorithm="raster resize", arguments={**arguments, **options})
    return f"/files/{result['receipt']['call_id']}/remote.tif"


def run(gdal: DockerContainer, *argv: str) -> str:
    done = gdal.get_wrapped_container().exec_run(list(argv), demux=True, workdir="/tmp")
    assert done.exit_code == 0, done.output
    return (done.output[0] or b"").decode()


@dataclass(frozen=True)
class Seen:
    """The output of a program of GDAL, with its own count of requests and received bytes."""

    text: str
    requests: int
    size: int  # bytes


def counted_run(gdal: DockerContainer, *argv: str) -> Seen:
    printed = run(gdal, *argv, "--config", "CPL_VSIL_SHOW_NETWORK_STATS", "YES")
    text, _, statistics = printed.partition("Network statistics:")
    methods = json.loads(statistics)["methods"].values()
    size = sum(method.get("downloaded_bytes", 0) for method in methods)
    return Seen(text, sum(method["count"] for method in methods), size)


@pytest.mark.parametrize("by", ["token", "link"])
def test_remote_gdal_reads_a_pixel_with_few_bytes(sender, cog, gdal, oracle, by):
    path = sender.hosted.place.path("remote.tif")
    address, headers = cog, f"Authorization: Bearer {sender.token}"
    if by == "link":
        address, headers = sender.link(cog), "X-Nothing: here"
    name = f"/vsicurl/{sender.hosted.base}{address}"
    config = ("--config", "GDAL_HTTP_HEADERS", headers)
    opening = counted_run(gdal, "gdalinfo", *config, name)
    far = counted_run(gdal, "gdallocationinfo", "-valonly", *config, name, "2345", "1234")
    assert f"Size is {SIDE}, {SIDE}" in opening.text
    assert far.text.strip() == oracle.must("gdallocationinfo", "-valonly", str(path), "2345", "1234").strip()
    assert opening.requests < 8
    assert 0 < opening.size < path.stat().st_size / 20
    assert 0 < opening.size + far.size < path.stat().st_size / 10


def test_remote_gdal_finds_the_companions_of_a_dataset(sender: Sender, gdal: DockerContainer):
    with sender.hosted.talking(sender.token or "") as talk:
        result = talk.done("convert", input="zones.gpkg", output="remote.shp")
    name = f"/vsicurl/{sender.hosted.base}/files/{result['receipt']['call_id']}/remote.shp"
    config = ("--config", "GDAL_HTTP_HEADERS", f"Authorization: Bearer {sender.token}")
    output = run(gdal, "ogrinfo", "-al", *config, name)
    assert "south" in output  # from the .dbf
    assert "UTM zone 11N" in output  # from the .prj


def test_file_changing_during_download_is_not_completed(sender: Sender, cog: str):
    """The last test in this file, because it damages the file."""
    path = sender.hosted.place.path("remote.tif")
    connection = HTTPConnection(sender.hosted.host, timeout=60)
    connection.request("GET", cog, headers={"Authorization": f"Bearer {sender.token}"})
    answer = connection.getresponse()
    beginning = answer.read(1 << 20)
    with path.open("r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(b"tampered")
    with pytest.raises(IncompleteRead) as error:
        answer.read()
    connection.close()
    assert len(beginning) + len(error.value.partial) < path.stat().st_size
    assert sender.ask("GET", cog).status_code == 410
