"""GDAL itself as the client: a Cloud Optimized GeoTIFF is opened over HTTP, and little of it is read."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, IncompleteRead
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest
from testcontainers.core.container import DockerContainer

from gdal_mcp.host.image import Image
from sandbox.engines.discovery import discover
from tests.oci_store import docker_address
from tests.web.files_kit import Sender
from tests.web.hosted import SECONDS, Hosted

pytestmark = pytest.mark.engine
SIDE = 3000  # pixels; 18 MB without compression, a hundred times what opening needs
PASSED_BACK = ("content-length", "content-range", "accept-ranges", "etag", "last-modified", "content-type")


@dataclass
class Seen:
    """What passed between a client and the server. `base` is where the client finds it."""

    base: str
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # method and range
    status: list[int] = field(default_factory=list)
    body: int = 0  # bytes of all answers


@contextmanager
def counting(hosted: Hosted) -> Iterator[Seen]:
    """A proxy that passes everything on, and counts it."""

    class Counting(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            named = {"host", "connection"}
            passed = {name: value for name, value in self.headers.items() if name.lower() not in named}
            reply = upstream.request(self.command, hosted.base + self.path, headers=passed)
            seen.asked.append((self.command, self.headers.get("Range")))
            seen.status.append(reply.status_code)
            seen.body += len(reply.content)
            self.send_response(reply.status_code)
            for name in PASSED_BACK:
                if name in reply.headers:
                    self.send_header(name, reply.headers[name])
            self.end_headers()
            self.wfile.write(reply.content)

        do_HEAD = do_GET  # noqa: N815 - the base class looks for that name

        def log_message(self, *_: object) -> None:
            pass

    with (
        httpx2.Client(timeout=SECONDS, trust_env=False) as upstream,
        ThreadingHTTPServer(("127.0.0.1", 0), Counting) as server,
    ):
        seen = Seen(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield seen
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def gdal(image: Image) -> Iterator[DockerContainer]:
    """A GDAL that sees nothing but the network of this host."""
    endpoint, client = discover(docker_address())
    client.close()
    where = {"environment": {**os.environ, "DOCKER_HOST": endpoint.address}}
    container = DockerContainer(image.id, docker_client_kw=where)
    made = container.with_command(["sleep", "infinity"])
    with made.with_kwargs(network_mode="host", entrypoint=[], user="65534:65534") as running:
        yield running


@pytest.fixture(scope="module")
def cog(sender: Sender) -> str:
    """Where a large COG is served."""
    arguments = {"input": "dem.tif", "output": "remote.tif", "size": [SIDE, SIDE], "output-format": "COG"}
    options = {"resampling": "bilinear", "creation-option": ["COMPRESS=NONE"]}
    with sender.hosted.talking(sender.token or "") as talk:
        result = talk.done("gdal_write", algorithm="raster resize", arguments={**arguments, **options})
    return f"/files/{result['receipt']['call_id']}/remote.tif"


def run(gdal: DockerContainer, *argv: str) -> str:
    done = gdal.get_wrapped_container().exec_run(list(argv), demux=True, workdir="/tmp")
    assert done.exit_code == 0, done.output
    return (done.output[0] or b"").decode()


def pixel(text: str) -> str:
    return text.rsplit(maxsplit=1)[-1]


@pytest.mark.parametrize("by", ["token", "link"])
def test_a_remote_gdal_opens_a_large_file_and_reads_a_pixel_with_little_of_it(sender, cog, gdal, oracle, by):
    path = sender.hosted.place.path("remote.tif")
    address, headers = cog, f"Authorization: Bearer {sender.token}"
    if by == "link":
        address, headers = sender.link(cog), "X-Nothing: here"
    with counting(sender.hosted) as seen:
        name = f"/vsicurl/{seen.base}{address}"
        config = ("--config", "GDAL_HTTP_HEADERS", headers)
        assert f"Size is {SIDE}, {SIDE}" in run(gdal, "gdalinfo", *config, name)
        opening = len(seen.asked), seen.body
        far = run(gdal, "gdallocationinfo", "-valonly", *config, name, "2345", "1234")
    assert pixel(far) == pixel(oracle.must("gdallocationinfo", "-valonly", str(path), "2345", "1234"))
    assert opening[0] < 8
    assert opening[1] < path.stat().st_size / 20
    assert seen.body < path.stat().st_size / 10
    assert 206 in seen.status


def test_a_remote_gdal_finds_the_files_that_belong_to_a_dataset(sender: Sender, gdal: DockerContainer):
    with sender.hosted.talking(sender.token or "") as talk:
        result = talk.done("convert", input="zones.gpkg", output="remote.shp")
    name = f"/vsicurl/{sender.hosted.base}/files/{result['receipt']['call_id']}/remote.shp"
    config = ("--config", "GDAL_HTTP_HEADERS", f"Authorization: Bearer {sender.token}")
    told = run(gdal, "ogrinfo", "-al", *config, name)
    assert "south" in told  # from the .dbf
    assert "UTM zone 11N" in told  # from the .prj


def test_a_file_that_changes_while_it_is_sent_is_not_sent_to_its_end(sender: Sender, cog: str):
    """Last in this file, as it spoils the file."""
    path = sender.hosted.place.path("remote.tif")
    connection = HTTPConnection(sender.hosted.host, timeout=60)
    connection.request("GET", cog, headers={"Authorization": f"Bearer {sender.token}"})
    answer = connection.getresponse()
    begun = answer.read(1 << 20)
    with path.open("r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(b"tampered")
    with pytest.raises(IncompleteRead) as cut:
        answer.read()
    connection.close()
    assert len(begun) + len(cut.value.partial) < path.stat().st_size
    assert sender.ask("GET", cog).status_code == 410
