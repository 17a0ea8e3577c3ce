"""Every workflow example: equal to its single calls, mistakes found before running, killed and resumed, undone.

`pytest -s` prints the cost of single calls and of the workflow: questions to the person, bytes that a model reads,
seconds.
"""

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mcp_types import TextContent

from gdal_mcp.calls.workflows.document import bind, load
from gdal_mcp.testing.client import CallFailed, GdalMcpClient
from tests import serving as web
from tests.integration.workflow_kit import EXAMPLES, events, files, make_ground, mistaken, options, serving
from tests.waiting import until

pytestmark = pytest.mark.engine

NAMES = sorted(path.stem for path in EXAMPLES.glob("*.yaml"))
QUICK = {"flood_depth"}  # runs with every change; addresses_by_district is run by test_workflows.py
# three in each workflow, in different steps where possible: typical mistakes of people and models
MISTAKES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "addresses_by_district": [
        ("points", {"output": "points.xyzzy"}),
        ("points", {"sql": "DROP TABLE addresses"}),
        ("sums", {"inputs": ["${steps.points}", "no_districts.geojson"]}),
    ],
    "clean_cadastre": [
        ("valid", {"input": "no_cadastre.geojson"}),
        ("valid", {"methud": "structure"}),
        ("unique", {"output": "unique.xyzzy"}),
    ],
    "clinic_access": [
        ("sites", {"output_data_type": "Byt"}),
        ("distance", {"distance_units": "miles"}),
        ("access", {"stat": ["meen"]}),
    ],
    "flood_depth": [
        ("depth", {"output": "/elsewhere/depth.tif"}),
        ("by_parcel", {"zones": "no_parcels.geojson"}),
        ("by_parcel", {"stat": ["meen"]}),
    ],
    "land_cover_areas": [
        ("classes", {"attribute_nam": "class"}),
        ("classes", {"output": "classes.xyzzy"}),
        ("areas", {"inputs": ["${steps.classes}", "no_districts.geojson"]}),
    ],
    "mosaic_zones": [
        ("west", {"dst_crs": "EPSG:99999"}),
        ("east", {"resampling": "nearestt"}),
        ("mosaic", {"output_format": "COGG"}),
    ],
    "ndvi_change": [
        ("before", {"output_data_type": "Float31"}),
        ("after", {"input": ["R=no_red.asc", "N=nir_2024.asc", "C=cloud_2024.asc"]}),
        ("change", {"output": "change.xyzzy"}),
    ],
    "remote_study_area": [
        ("clip", {"like": "no_area.geojson"}),
        ("clip", {"output": "clip.xyzzy"}),
        ("cog", {"output_format": "COGG"}),
    ],
    "terrain_for_web": [
        ("degrees", {"dst_crs": "EPSG:99999"}),
        ("shade", {"output": "shade.xyzzy"}),
        ("tiles", {"min_zoom": "twelve"}),
    ],
    "training_chips": [
        ("image", {"output": "imagery.xyzzy"}),
        ("chips", {"labels": "no_labels.geojson"}),
        ("chips", {"size": -16}),
    ],
}


class Files(web.Handler):
    """A web server for a few files, with ranges."""

    files: Mapping[str, bytes] = {}

    def respond(self) -> None:
        data = self.files.get(self.path)
        if data is None:
            self.answer(404)
            return
        first, _, last = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
        if not first:
            self.answer(200, data, Accept_Ranges="bytes")
            return
        part = data[int(first) : int(last or len(data)) + 1]
        span = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
        self.answer(206, part, Content_Range=span, Accept_Ranges="bytes")


@dataclass(frozen=True)
class Example:
    """One workflow in its own workspace, and the additional settings of its server."""

    name: str
    ground: Path
    parameters: dict[str, Any]
    settings: tuple[str, ...] = ()

    def client(self) -> Any:
        toolsets = "core,raster,vector" + (",augment" if self.name == "training_chips" else "")
        return serving(self.ground, "--toolsets", toolsets, *self.settings)

    def run(self) -> list[str]:
        params = [word for key, value in self.parameters.items() for word in ("--param", f"{key}={value}")]
        file = str(self.ground / f"{self.name}.yaml")
        return [
            sys.executable,
            "-m",
            "gdal_mcp",
            "run",
            file,
            "--yes",
            *params,
            *options(self.ground),
            *self.settings,
        ]


def make_cogs(ground: Path) -> dict[str, bytes]:
    """COGs for a web server, made from data of the workspace, by their paths on the server."""
    files = {}
    with serving(ground) as client:
        for name, source in (("image.tif", "dem.asc"), ("scene.tif", "red_2024.asc")):
            client.call("convert", input=source, output=name, output_format="COG")
            files[f"/{name}"] = (ground / name).read_bytes()
            (ground / name).unlink()
    return files


def stac_item(href: str) -> bytes:
    """A STAC item with one asset."""
    asset = {"href": href, "type": "image/tiff; application=geotiff; profile=cloud-optimized"}
    item = {
        "type": "Feature",
        "stac_version": "1.0.0",
        "id": "scene",
        "geometry": None,
        "properties": {"datetime": "2024-07-01T10:00:00Z"},
        "links": [],
        "assets": {"visual": asset},
    }
    return json.dumps(item).encode()


@pytest.fixture
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Example]:
    name, ground = request.param, make_ground(tmp_path)
    with ExitStack() as stack:
        if name == "remote_study_area":
            handler = type("Handler", (Files,), {"files": make_cogs(ground)})
            server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
            stack.enter_context(web.serving(server))
            host = f"http://127.0.0.1:{server.server_port}"
            handler.files["/item.json"] = stac_item(f"{host}/scene.tif")
            config = tmp_path / "settings.toml"
            config.write_text(f'[[remote.source]]\nat = "{host}"\nnetworks = ["127.0.0.0/8"]\n')
            addresses = {"image": f"{host}/image.tif", "asset": f"stac+{host}/item.json#visual"}
            yield Example(name, ground, addresses, ("--config", str(config)))
        else:
            switches = ("--toolboxes", "gdal,augment") if name == "training_chips" else ()
            yield Example(name, ground, {}, switches)


each = pytest.mark.parametrize("example", NAMES, indirect=True)
each_or_quick = pytest.mark.parametrize(
    "example",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.nightly) for name in NAMES],
    indirect=True,
)


@dataclass
class Cost:
    """The cost of work through one client."""

    client: GdalMcpClient
    questions: int = 0
    bytes_read: int = 0
    seconds: float = 0.0

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        asked_before, started = len(self.client.person.asked), time.monotonic()
        result = self.client.raw(tool, **arguments)
        self.seconds += time.monotonic() - started
        self.questions += len(self.client.person.asked) - asked_before
        self.bytes_read += sum(
            len(block.text.encode()) for block in result.content if isinstance(block, TextContent)
        )
        assert not result.is_error, result.content
        return dict(result.structured_content or {})


def by_single_calls(cost: Cost, example: Example) -> dict[str, str]:
    """The path of each output of the workflow if its steps are made one by one."""
    document = load((EXAMPLES / f"{example.name}.yaml").read_text())
    workflow, outputs = bind(document, example.parameters), {}
    for step, declared in workflow.steps.items():
        arguments = workflow.arguments(step, outputs)
        arguments["output"] = f"single/{arguments['output']}"
        result = cost.call(declared.tool, **arguments)
        outputs[step] = (result.get("output") or result["outputs"][0]["path"],)
    return {target: outputs[source.step][0] for source, target, _ in workflow.published}


def content(path: Path) -> Any:
    """The content of a file or folder; for a GeoPackage all rows of its tables, because the file also stores the time
    of writing.
    """
    if path.is_dir():
        return {
            str(child.relative_to(path)): content(child)
            for child in sorted(path.rglob("*"))
            if child.is_file()
        }
    if path.suffix != ".gpkg":
        return path.read_bytes()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        tables = [row[0] for row in db.execute("SELECT table_name FROM gpkg_contents")]
        return [sorted(map(repr, db.execute(f'SELECT * FROM "{table}"'))) for table in sorted(tables)]


@each_or_quick
def test_example_equals_single_calls_and_is_undone_once(example: Example):
    with example.client() as client:
        client.call("info", path="dem.asc")  # the first call of a server attests the host's isolation
        single, workflow_cost = Cost(client), Cost(client)
        alone = by_single_calls(single, example)
        before = files(example.ground)
        arguments = {"workflow": f"{example.name}.yaml", "parameters": example.parameters}
        result = workflow_cost.call("workflow_run", **arguments, fresh=True)
        for published, path in alone.items():
            assert repr(content(example.ground / published)) == repr(content(Path(path))), published
    assert workflow_cost.questions == 1
    print(
        f"\n| {example.name} |",
        *(
            f"{cost.questions} | {cost.bytes_read:,} | {cost.seconds:.1f} |"
            for cost in (single, workflow_cost)
        ),
    )
    words = [sys.executable, "-m", "gdal_mcp", "undo", result["receipt"]["call_id"], *options(example.ground)]
    subprocess.run([*words, *example.settings], check=True, capture_output=True)
    assert files(example.ground) == before


@pytest.mark.nightly
@each
def test_planted_mistakes_are_found_before_running_or_asking(example: Example):
    before, state = files(example.ground), example.ground.parent / "state"
    with example.client() as client:
        for step, wrong in MISTAKES[example.name]:
            document = mistaken(example.name, step, **wrong)
            checked = client.call("workflow_check", workflow=document, parameters=example.parameters)
            assert [row["id"] for row in checked["steps"] if row["state"] == "wrong"] == [step], wrong
            with pytest.raises(CallFailed) as caught:
                client.call("workflow_run", workflow=document, parameters=example.parameters)
            assert caught.value.error["check"]["step"] == step
        assert client.person.asked == []
    assert not events(state, "call.started", "workflow_run")
    assert files(example.ground) == before


@pytest.mark.nightly
@each
def test_killed_run_leaves_nothing_and_the_next_continues(example: Example):
    steps, state = example.ground.parent / "state" / "workflows", example.ground.parent / "state"
    before = files(example.ground)
    is_kept = example.name != "remote_study_area"  # data at an address may change
    document = load((EXAMPLES / f"{example.name}.yaml").read_text())
    second = list(bind(document, example.parameters).steps.values())[-1].tool
    killed = subprocess.Popen(example.run(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(
        lambda: (
            (any(steps.glob("*.json")) if is_kept else events(state, "call.started", second))
            or killed.poll() is not None
        )
    )
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert files(example.ground) == before
    ran = subprocess.run(example.run(), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert any(row.get("used_again") for row in json.loads(ran.stdout)["steps"]) == is_kept
    assert all(
        (example.ground / target).exists() for _, target, _ in bind(document, example.parameters).published
    )
