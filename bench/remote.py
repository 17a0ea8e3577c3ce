"""Remote data through the host, compared with GDAL's own /vsicurl in a container on the host's network.

Both run the same worker in a new container with the same image and limits, from the job to its answer, in turn, so
that neither has anything cached. The measurement through the host includes finding the address, as in a call. The
origin is a process of this machine that waits before each answer. It uses plain HTTP, because a private certificate
would be one more difference.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import docker

from bench.place import NotMeasurable, Place
from bench.report import Effort, Finding, Section, in_turn, milliseconds
from gdal_mcp.policy.rates import Rates
from gdal_mcp.remote.gateway import RemoteGateway
from gdal_mcp.settings.remote import RemoteSettings
from gdal_mcp.toolboxes.gdal.environment import environment
from gdal_mcp.toolboxes.gdal.worker_source import gdal_command
from sandbox.engines.wire import DockerStreams
from sandbox.outcome import Exited
from sandbox.program import delivered
from sandbox.protocol import Final as Answered
from sandbox.protocol import FrameReader, Ready, encode_job
from sandbox.runner import Job
from sandbox.template import Limits, SandboxTemplate
from sandbox.waiting import Cancellation, readable

LIMITS: Final = Limits(memory_bytes=2 << 30, wall_seconds=120.0)
PATIENCE: Final = 120.0  # seconds
PIXELS: Final = 6000  # of the COG, on each side: about 50 MB
# words of the `gdal` program; {} is the place of the data
CASES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "info": ("`info` of a COG", ("raster", "info", "--format=json", "{}/big.tif")),
    "clip": ("a window of 512 x 512", ("raster", "clip", "--window=3000,3000,512,512", "{}/big.tif", "/vsimem/o.tif")),
    "overview": ("the overview of 1000 x 1000", ("raster", "convert", "--open-option=OVERVIEW_LEVEL=2", "{}/big.tif", "/vsimem/o.tif")),
    "box": ("a box of a FlatGeobuf", ("vector", "filter", "--bbox=100,100,140,140", "{}/points.fgb", "/vsimem/o.geojson")),
    "zarr": ("a window of a Zarr", ("raster", "clip", "--window=600,600,900,900", "{}/small.zarr", "/vsimem/o.tif")),
    "whole": ("conversion of the whole COG", ("raster", "convert", "{}/big.tif", "/vsimem/o.tif")),
    "geopackage": ("a box of a GeoPackage", ("vector", "filter", "--bbox=100,100,140,140", "{}/points.gpkg", "/vsimem/o.geojson")),
}  # fmt: skip

DATA = r"""
import json, os, sys
import numpy as np
from osgeo import gdal, ogr, osr
gdal.UseExceptions()
out, size = sys.argv[1] + "/", int(sys.argv[2])
along = np.arange(size, dtype="uint16")
values = along[:, None] * 3 + along * 5 + np.random.default_rng(7).integers(0, 900, (size, size), dtype="uint16")
plain = gdal.GetDriverByName("MEM").Create("", size, size, 1, gdal.GDT_UInt16)
plain.SetGeoTransform((0, 1, 0, size, 0, -1))
plain.GetRasterBand(1).WriteArray(values)
gdal.Translate(out + "big.tif", plain, format="COG", creationOptions=["COMPRESS=DEFLATE", "NUM_THREADS=2"])
gdal.Translate(out + "small.zarr", plain, format="Zarr", srcWin=[0, 0, 2048, 2048], creationOptions=["BLOCKSIZE=512,512"])
points = gdal.GetDriverByName("MEM").Create("", 0, 0, 0, gdal.GDT_Unknown)
layer = points.CreateLayer("points", None, ogr.wkbPoint)
layer.CreateField(ogr.FieldDefn("name", ogr.OFTString))
for number in range(60000):
    feature = ogr.Feature(layer.GetLayerDefn())
    feature.SetField("name", f"point number {number} of the measurement")
    feature.SetGeometry(ogr.CreateGeometryFromWkt(f"POINT ({number * 7919 % 1000} {number * 104729 % 1000})"))
    layer.CreateFeature(feature)
gdal.VectorTranslate(out + "points.fgb", points, format="FlatGeobuf")
gdal.VectorTranslate(out + "points.gpkg", points, format="GPKG")
meta = {}
for folder, _, names in os.walk(out + "small.zarr"):
    for name in names:
        if name.startswith(".z") and name != ".zmetadata":
            path = os.path.join(folder, name)
            meta[os.path.relpath(path, out + "small.zarr")] = json.load(open(path))
if not os.path.exists(out + "small.zarr/.zmetadata"):
    json.dump({"metadata": meta, "zarr_consolidated_format": 1}, open(out + "small.zarr/.zmetadata", "w"))
"""

ORIGIN = r"""
import http.server, os, re, sys, time
root, latency = sys.argv[1], float(sys.argv[2])
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm, wbufsize = "HTTP/1.1", True, 1 << 16
    requests = sent = 0
    def log_message(self, *_): pass
    def do_HEAD(self): self.answer(head=True)
    def do_GET(self): self.answer(head=False)
    def answer(self, head):
        if self.path == "/counted":
            body = b"%d %d" % (Handler.requests, Handler.sent)
            Handler.requests = Handler.sent = 0
            return self.say(200, body)
        Handler.requests += 1
        time.sleep(latency)
        path = root + self.path.partition("?")[0]
        if os.path.isdir(path):
            titles = "".join(f"<title>Index of {one}</title>\\n" for one in (self.path, self.path.rstrip("/"), self.path.rstrip("/") + "/"))
            return self.say(200, (titles + "".join(f'<a href="{name}">{name}</a>\\n' for name in sorted(os.listdir(path)))).encode())
        if ".." in path or not os.path.isfile(path): return self.say(404, b"")
        size, asked = os.path.getsize(path), re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        first, last = (int(asked[1]), min(int(asked[2]), size - 1)) if asked else (0, size - 1)
        if first > last: return self.say(416, b"")
        ranged = {"Content-Range": f"bytes {first}-{last}/{size}"} if asked else {}
        with open(path, "rb") as file:
            file.seek(first)
            body = b"" if head else file.read(last - first + 1)
        self.say(206 if asked else 200, body, last - first + 1, ETag='"1"', **{"Accept-Ranges": "bytes"}, **ranged)
    def say(self, status, body, length=None, **headers):
        self.send_response_only(status)
        for name, value in {**headers, "Content-Length": len(body) if length is None else length}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        Handler.sent += len(body)
class Server(http.server.ThreadingHTTPServer): daemon_threads, request_queue_size = True, 128
server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@dataclass
class Origin:
    """The address of the data, for both."""

    address: str

    def counted(self) -> tuple[int, int]:
        """Requests and bytes since the last call of this method."""
        import urllib.request  # noqa: PLC0415 - of this one question

        with urllib.request.urlopen(f"{self.address}/counted") as answer:
            requests, sent = answer.read().split()
        return int(requests), int(sent)


@contextlib.contextmanager
def origin(folder: Path, latency: float) -> Iterator[Origin]:
    command = [sys.executable, "-c", ORIGIN, str(folder), str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Origin(f"http://127.0.0.1:{process.stdout.readline().strip()}")
        finally:
            process.kill()


def job(words: tuple[str, ...], root: str, *, remote: bool) -> dict[str, Any]:
    # without a list of its folder /vsicurl/ does not tell a Zarr by its name
    form = {True: "{}", False: 'ZARR:"{}"'}
    named = [form[remote or not word.endswith(".zarr")].format(word.format(root)) for word in words]
    # as a call names them; without, /vsicurl/ reads with all its threads
    sources = [name for name, word in zip(named, words, strict=True) if remote and "{}" in word]
    return {
        "program": "gdal", "argv": ["gdal", *named], "options": named, "inputs": [], "output": None, "as_array": None,
        "outputs": [], "preview_pixels": 0, "remote": remote, "sources": sources,
    }  # fmt: skip


def ours(place: Place, where: Origin, words: tuple[str, ...], name: str, folder: Path) -> float:
    """The seconds from the address to the answer, in a container without a network."""
    host = place.app.hosting.ready()
    sent = delivered(gdal_command())
    template = SandboxTemplate(
        image=host.image.id,
        command=sent.command,
        program=sent.program,
        user=(65534, 65534),
        limits=LIMITS,
        environment=environment(LIMITS),
    )
    with contextlib.ExitStack() as stack:
        rates = stack.enter_context(contextlib.closing(Rates(folder / "usage.sqlite")))
        source = {"at": where.address, "networks": ["127.0.0.0/8"]}
        settings = RemoteSettings.model_validate({"source": [source]})
        # without data of an earlier round
        store = stack.enter_context(tempfile.TemporaryDirectory(dir=folder))
        door = stack.enter_context(contextlib.closing(RemoteGateway(settings, Path(store), rates)))
        cancel = stack.enter_context(contextlib.closing(Cancellation()))
        slot = host.runner.launch(template, "bench-0001", idle_seconds=60.0)
        started = time.perf_counter()
        address = door.address(f"{where.address}/{name}", "local:bench")
        deadline = time.monotonic() + PATIENCE
        reading = door.open([address], principal="local:bench", call_id="bench", deadline=deadline)
        stack.callback(reading.close)
        result = host.runner.serve(
            slot,
            Job(
                "bench-0001",
                template,
                job(words, "/vsihost/1", remote=True),
                answerer=reading,
                result_only=True,
            ),
            cancel,
        )
        taken = time.perf_counter() - started - result.usage.remove_seconds
    if result.outcome != Exited(0):
        raise NotMeasurable(f"our call ended as {result.outcome}: {result.stderr.decode()[-300:]}")
    return taken


def curl(place: Place, where: Origin, words: tuple[str, ...]) -> float:
    """The same worker with the host's network, and the usual settings of /vsicurl for single files."""
    host = place.app.hosting.ready()
    sent = delivered(gdal_command())
    variables = {
        name: value
        for name, value in environment(LIMITS).items()
        if "HTTP" not in name and "CURL" not in name
    }
    # otherwise it requests some forty files beside each file
    variables["GDAL_DISABLE_READDIR_ON_OPEN"] = "EMPTY_DIR"
    client = docker.from_env()
    container = client.containers.create(
        host.image.id,
        list(sent.command[1:]),
        entrypoint=sent.command[0],
        environment=variables,
        network_mode="host",
        stdin_open=True,
        user="65534:65534",
        mem_limit=LIMITS.memory_bytes,
        nano_cpus=int(LIMITS.cpus * 1e9),
    )
    try:
        wire = DockerStreams(
            container.attach_socket(params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        )
        container.start()
        wire.send(sent.program, PATIENCE)
        frames = FrameReader()
        receive(wire, frames, Ready)
        started = time.perf_counter()
        wire.send(encode_job(job(words, f"/vsicurl/{where.address}", remote=False), PATIENCE), PATIENCE)
        final = receive(wire, frames, Answered)
        taken = time.perf_counter() - started
        wire.close()
    finally:
        container.remove(force=True)
        client.close()
    if (
        final.value.get("done") is not True
    ):  # GDAL reports an error for a missing file beside it, but the call does not fail
        raise NotMeasurable(f"/vsicurl ended with {json.dumps(final.value.get('errors'))[:300]}")
    return taken


def receive(wire: DockerStreams, frames: FrameReader, kind: type[Any]) -> Any:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        readable([wire], 1.0)
        for stream, data in wire.receive() or ():
            for frame in frames.feed(data) if stream == 1 else ():
                if isinstance(frame, kind):
                    return frame
    raise NotMeasurable("the container did not answer")


def remote(place: Place, effort: Effort, latencies: tuple[float, ...] = (0.03, 0.0)) -> list[Section]:
    folder = place.scratch / "remote"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    image = place.app.hosting.ready().image.id
    command = [
        "docker",
        "run",
        "--rm",
        "--network=none",
        "-v",
        f"{folder}:/data",
        "--entrypoint",
        "python3",
        image,
        "-c",
        DATA,
        "/data",
        str(PIXELS),
    ]
    if not (folder / "points.gpkg").exists():
        subprocess.run(command, check=True, capture_output=True)
    return [_table(place, folder, latency, effort) for latency in latencies]


def _table(place: Place, folder: Path, latency: float, effort: Effort) -> Section:
    rows: list[tuple[str, ...]] = []
    findings: list[Finding] = []
    with origin(folder, latency) as where:
        for key, (title, words) in CASES.items():
            name = next(word for word in words if "{}" in word).rpartition("{}/")[2]
            contenders: dict[str, Callable[[], float]] = {
                "ours": lambda words=words, name=name: ours(place, where, words, name, place.scratch),  # type: ignore[misc]
                "curl": lambda words=words: curl(place, where, words),  # type: ignore[misc]
            }
            counts = {}
            try:
                for who, work in contenders.items():
                    where.counted()
                    work()
                    counts[who] = where.counted()
                series = in_turn(contenders, effort)
            except NotMeasurable as error:
                rows.append((title, str(error), "", "", "", ""))
                continue
            ratio = series["ours"].over(series["curl"])
            moved = (f"{requests} / {sent / 1e6:.2f}" for requests, sent in (counts["ours"], counts["curl"]))
            rows.append(
                (
                    title,
                    milliseconds(series["ours"].p50),
                    milliseconds(series["curl"].p50),
                    f"{ratio:.2f}",
                    *moved,
                )
            )
            if latency and key in ("info", "clip", "overview", "box", "zarr", "whole"):
                findings.append(Finding(f"remote-{key}", ratio, "see docs/remote.md"))
    return Section(
        f"Remote data, {latency * 1000:.0f} ms for each request",
        "Milliseconds (p50); requests to the origin and MB that it sent, of one round.",
        ("what", "through the host", "/vsicurl", "ratio", "requests / MB", "/vsicurl's"),
        rows,
        findings,
    )
