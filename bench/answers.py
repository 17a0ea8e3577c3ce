"""The answers that a model reads: the bytes of structured results, and the calls, of twelve tasks on small data."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bench.calls import SMALL
from bench.clients import Call, sdk_client
from bench.place import Place
from bench.report import Section

Step = tuple[str, Mapping[str, Any]]

# calls and bytes of the same tasks before answers were shortened (commit 896d9c6), with the shortest calls of that time
BEFORE: Final[Mapping[str, tuple[int, int]]] = {
    "describe a DEM": (1, 8385),
    "hillshade, found by search": (3, 5915),
    "reproject to web mercator": (1, 2182),
    "clip by a box": (1, 2116),
    "join places to districts": (3, 6301),
    "area of each district": (1, 2090),
    "contours": (2, 5278),
    "mosaic of two rasters": (3, 6361),
    "polygons of a raster, looked at": (2, 8769),
    "another format": (2, 4725),
    "are the geometries valid?": (2, 5114),
    "statistics of a raster": (1, 8113),
    "all": (22, 65_349),
}
_RULES: Final = "SELECT d.name, count(*) AS places FROM districts d JOIN places p ON ST_Contains(d.geom, p.geom) GROUP BY d.name"
_AREAS: Final = "SELECT name, ST_Area(ST_Transform(geom, 3035)) AS square_metres FROM districts"


def _run(algorithm: str, *, reads: bool = False, **arguments: Any) -> Step:
    return ("gdal_read" if reads else "gdal_write"), {"algorithm": algorithm, "arguments": arguments}


def _described(algorithm: str) -> Step:
    return "gdal_describe", {"algorithm": algorithm}


TASKS: Final[Mapping[str, tuple[Step, ...]]] = {
    "describe a DEM": (("info", {"path": SMALL}),),
    "hillshade, found by search": (
        ("gdal_search", {"query": "shade the mountains"}),
        _described("raster hillshade"),
        _run("raster hillshade", input=SMALL, output="shade.tif"),
    ),
    "reproject to web mercator": (
        ("reproject", {"input": SMALL, "output": "web.tif", "dst_crs": "EPSG:3857", "resampling": "cubic"}),
    ),
    "clip by a box": (
        ("raster_clip", {"input": SMALL, "output": "cut.tif", "bbox": [501000, 5190000, 506000, 5195000]}),
    ),
    "join places to districts": (
        ("query", {"inputs": ["districts.geojson", "places.geojson"], "sql": _RULES}),
    ),
    "area of each district": (("query", {"inputs": ["districts.geojson"], "sql": _AREAS}),),
    "contours": (
        _described("raster contour"),
        _run("raster contour", input=SMALL, output="contours.gpkg", interval=50),
    ),
    "mosaic of two rasters": (
        ("raster_clip", {"input": SMALL, "output": "west.tif", "window": [0, 0, 256, 512]}),
        ("raster_clip", {"input": SMALL, "output": "east.tif", "window": [256, 0, 256, 512]}),
        _run("raster mosaic", input=["west.tif", "east.tif"], output="both.tif"),
    ),
    "polygons of a raster, looked at": (
        _run("raster polygonize", input="cut.tif", output="classes.gpkg"),
        ("vector_info", {"input": "classes.gpkg"}),
    ),
    "another format": (
        ("vector_info", {"input": "districts.geojson"}),
        ("vector_convert", {"input": "districts.geojson", "output": "districts.fgb"}),
    ),
    "are the geometries valid?": (
        _described("vector check-geometry"),
        _run("vector check-geometry", input="districts.geojson", output="invalid.gpkg"),
    ),
    "statistics of a raster": (_run("raster info", reads=True, input=SMALL, stats=True),),
}


@dataclass(frozen=True, slots=True)
class Read:
    """The cost of one task."""

    calls: int
    size: int  # bytes


def answers(place: Place) -> Section:
    """Every task once, on a server with its default settings."""
    write_features(place)
    with sdk_client(place.program("serve"), place.python_environment()) as ask:
        readings = {name: read(ask, steps) for name, steps in TASKS.items()}
    rows = [_row(name, reading.calls, reading.size) for name, reading in readings.items()]
    total = _row(
        "all",
        sum(reading.calls for reading in readings.values()),
        sum(reading.size for reading in readings.values()),
    )
    note = (
        "Bytes of structured results as compact JSON, of all calls of a task, descriptions of algorithms among them. Before: the "
        "same tasks at commit 896d9c6, by the shortest way there was, with SQL turned on."
    )
    header = ("task", "calls before", "bytes before", "calls", "bytes")
    return Section("What a model reads", note, header, [*rows, total])


def _row(name: str, calls: int, size: int) -> tuple[str, ...]:
    before = BEFORE.get(name)
    old = ("", "") if before is None else (str(before[0]), f"{before[1]:,}")
    return (name, *old, str(calls), f"{size:,}")


def read(ask: Call, steps: tuple[Step, ...]) -> Read:
    sizes = [
        len(json.dumps(ask(*step), ensure_ascii=False, separators=(",", ":")).encode()) for step in steps
    ]
    return Read(len(sizes), sum(sizes))


def write_features(place: Place) -> None:
    """Four districts and two hundred places in degrees."""

    def collection(features: list[tuple[str, Mapping[str, Any]]]) -> str:
        rows = [{"type": "Feature", "properties": {"name": name, "code": number}, "geometry": geometry}
                for number, (name, geometry) in enumerate(features)]  # fmt: skip
        return json.dumps({"type": "FeatureCollection", "features": rows})

    def square(west: float, south: float) -> Mapping[str, Any]:
        east, north = west + 0.1, south + 0.1
        ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
        return {"type": "Polygon", "coordinates": [ring]}

    def point(number: int) -> Mapping[str, Any]:
        return {"type": "Point", "coordinates": [15 + number % 20 / 100, 46 + number // 20 / 50]}

    districts = [
        (f"district {number}", square(15 + number % 2 / 10, 46 + number // 2 / 10)) for number in range(4)
    ]
    places = [(f"place {number}", point(number)) for number in range(200)]
    (place.workspace / "districts.geojson").write_text(collection(districts), encoding="utf-8")
    (place.workspace / "places.geojson").write_text(collection(places), encoding="utf-8")
