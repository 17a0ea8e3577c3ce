"""Warm slots are for speed alone: the same calls give the same results and files as with containers made for each."""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client

from gdal_mcp.app import App, running
from gdal_mcp.mcp.server import build
from gdal_mcp.settings import load_settings
from tests.mcp.talk import Person, Place, Talk
from tests.waiting import until

pytestmark = [pytest.mark.nightly, pytest.mark.engine]

# one after the other, as later ones work on what earlier ones made
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("info", {"path": "dem.tif"}),
    ("info", {"path": "zones.gpkg", "format": "text"}),
    ("gdalinfo", {"dataset": "dem.tif", "json": True, "stats": True}),
    ("preview", {"path": "rgb.tif", "max_size": 64}),
    ("preview", {"path": "zones.gpkg", "max_size": 64}),
    ("gdal_read", {"algorithm": "raster info", "arguments": {"input": "float.tif", "stats": True, "hist": True}}),
    ("gdal_read", {"algorithm": "vector info", "arguments": {"input": "places.geojson", "features": True}}),
    ("gdal_read", {"algorithm": "driver cog validate", "arguments": {"dataset": "dem.tif"}}),
    ("gdal_read", {"algorithm": "raster compare", "arguments": {"input": "dem.tif", "reference": "rgb.tif"}}),
    ("info", {"path": "damaged.tif"}),
    ("info", {"path": "not-a-dataset.tif"}),
    ("convert", {"input": "dem.tif", "output": "a.tif", "output_format": "COG"}),
    ("convert", {"input": "rgb.tif", "output": "a.png"}),
    ("convert", {"input": "damaged.tif", "output": "never.tif"}),
    ("convert", {"input": "zones.gpkg", "output": "a.gpkg"}),
    ("convert", {"input": "zones.gpkg", "output": "a.shp"}),
    ("convert", {"input": "places.geojson", "output": "a.fgb"}),
    ("reproject", {"input": "dem.tif", "output": "b.tif", "dst_crs": "EPSG:4326", "resampling": "cubic"}),
    ("gdal_translate", {"src_dataset": "dem.tif", "dst_dataset": "c.vrt", "output_format": "VRT"}),
    ("gdalwarp", {"src_datasets": ["west.tif", "east.tif"], "dst_dataset": "w.tif", "t_srs": "EPSG:3035"}),
    ("gdal2xyz", {"dataset": "classes.tif", "dst_csv": "xyz.csv"}),
    ("gdal_write", {"algorithm": "vector buffer",
                    "arguments": {"input": "zones.gpkg", "output": "e.geojson", "distance": 100}}),
    ("gdal_write", {"algorithm": "raster edit", "arguments": {"dataset": "a2.tif", "nodata": "7"}}),
    ("pipeline", {"steps": "read dem.tif ! tee [ slope ! write h.tif ] ! hillshade ! write i.tif"}),
    ("pipeline", {"steps": "read rgb.tif ! clip --bbox=90,90,91,91 ! write never.tif"}),
    ("pipeline", {"steps": "read dem.tif ! info"}),
    ("gdal_write", {"algorithm": "dataset delete", "arguments": {"filename": "b.tif"}}),
    ("gdal_write", {"algorithm": "dataset rename", "arguments": {"source": "a.png", "destination": "z.png"}}),
]  # fmt: skip
DATED = {"a.gpkg"}  # holds the time of its last change


@dataclass
class Side:
    """One server in this process, and its client."""

    app: App
    talk: Talk
    place: Place

    def ready(self) -> None:
        """A container of each standing kind waits, and none is on its way, so that the next call finds one."""
        pool = self.app.hosting.ready().pool
        kinds = pool._stands()
        until(lambda: all(any(one.kind == kind for one in list(pool._waiting)) for kind in kinds))

    def files(self) -> dict[str, str]:
        rows = (
            path
            for path in self.place.workspace.rglob("*")
            if path.is_file() and ".gdal-mcp" not in path.parts
        )
        return {str(one.relative_to(self.place.workspace)): _digest(one, self.place) for one in rows}


def _digest(path: Path, place: Place) -> str:
    data = path.read_bytes().replace(str(place.workspace).encode(), b"WORKSPACE")
    return hashlib.sha256(b"" if path.name in DATED else data).hexdigest()


@contextmanager
def serving(place: Place, pool_max: int) -> Iterator[Side]:
    settings = load_settings(
        workspaces=(place.workspace,), state_dir=place.state, approval="never", pool_max=pool_max
    )
    with running(settings) as app, start_blocking_portal() as portal:
        app.hosting.keep_warm()
        client = Client(build(app), elicitation_callback=Person())  # to delete is asked about in any case
        with portal.wrap_async_context_manager(client):
            yield Side(app, Talk(portal, client, Person(), place.state), place)


@pytest.fixture
def sides(make_place: Callable[..., Place], place: Place) -> Iterator[tuple[Side, Side]]:
    names = [path.name for path in place.workspace.iterdir() if path.is_file()]
    inputs = ("dem", "float", "rgb", "west", "east", "classes", "zones", "places")
    places = [make_place(*(name for name in names if name.split(".")[0] in inputs)) for _ in range(2)]
    for one in places:
        data = one.path("dem.tif").read_bytes()
        one.path("a2.tif").write_bytes(data)
        one.path("damaged.tif").write_bytes(data[: len(data) // 2])
        one.path("not-a-dataset.tif").write_bytes(b"hello")
    with serving(places[0], 0) as cold, serving(places[1], 4) as warm:
        yield cold, warm


def comparable(side: Side, result: Any) -> Any:
    """A client's whole result, without what differs from call to call: ids, times, and how the container was found."""
    if isinstance(result, dict):
        return {
            key: comparable(side, value)
            for key, value in result.items()
            if key not in {"call_id", "pool", "seconds", "plan_digest", "cpu_seconds", "peak_memory_bytes"}
        }
    if isinstance(result, list):
        return [comparable(side, value) for value in result]
    if isinstance(result, str):
        text = result.replace(str(side.place.workspace), "WORKSPACE")
        return re.sub(r"[0-9a-f]{16}", "ID", text)
    return result


def test_cold_and_warm_give_identical_results_and_files(sides: tuple[Side, Side]):
    cold, warm = sides
    found: dict[str, list[Any]] = {"cold": [], "warm": []}
    for tool, arguments in CALLS:
        asked = cold.talk.start(tool, **arguments)
        warm.ready()
        answers = {"warm": warm.talk.call(tool, **arguments), "cold": asked.result(timeout=120)}
        for how, result in answers.items():
            found[how].append((tool, arguments, result))
            receipt = (result.structured_content or {}).get("receipt")
            assert receipt is None or receipt["pool"] == how
    for (tool, arguments, one), (_, _, other) in zip(found["cold"], found["warm"], strict=True):
        said = [comparable(side, {"error": made.is_error, "said": made.structured_content,
                                  "pictures": [part.data for part in made.content if part.type == "image"]})
                for side, made in ((cold, one), (warm, other))]  # fmt: skip
        assert said[0] == said[1], (tool, arguments)
    assert cold.files() == warm.files()
    failed = [made.is_error for _, _, made in found["cold"]]
    assert sum(failed) == 4  # the damaged, the one that is none, and the box that is elsewhere
    pool = warm.app.hosting.ready().pool.figures()
    assert pool.misses == 0
    assert pool.hits >= len(CALLS) - sum(failed)
