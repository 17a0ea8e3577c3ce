"""Traps: calls that GDAL answers with OK although the answer is wrong, each with a twin on which nothing may be said."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mcp.talk import Talk

Call = tuple[str, Mapping[str, Any]]  # algorithm and its arguments; files by name


@dataclass(frozen=True)
class Trap:
    """A call that gets `code`, as a check or as the reason of a refusal, and a twin of it that gets no such code."""

    code: str
    call: Call
    twin: Call
    refused: bool = False
    mended: bool = False  # the check has a call that corrects it, which then gets no such code


def codes_of(result: Mapping[str, Any]) -> set[str]:
    """The codes of all checks of a result, of the call and of its outputs."""
    rows = [*result.get("checks", ()), *(row for out in result.get("outputs", ()) for row in out["checks"])]
    return {row["code"] for row in rows}


def told(talk: Talk, call: Call) -> Mapping[str, Any]:
    algorithm, arguments = call
    if algorithm == "pipeline":
        return talk.call("pipeline", **arguments).structured_content
    return talk.call("gdal_write", algorithm=algorithm, arguments=dict(arguments)).structured_content


def check_of(result: Mapping[str, Any], code: str) -> Mapping[str, Any]:
    rows = [*result.get("checks", ()), *(row for out in result.get("outputs", ()) for row in out["checks"])]
    return next(row for row in rows if row["code"] == code)


def features(rows: Iterable[tuple[Any, Mapping[str, Any]]], crs: str | None = None) -> str:
    """GeoJSON of geometries (type and coordinates, or None) with their properties."""
    made: dict[str, Any] = {"type": "FeatureCollection"}
    if crs:
        made["crs"] = {"type": "name", "properties": {"name": f"urn:ogc:def:crs:{crs.replace(':', '::')}"}}
    made["features"] = [
        {
            "type": "Feature",
            "properties": properties,
            "geometry": geometry and {"type": geometry[0], "coordinates": geometry[1]},
        }
        for geometry, properties in rows
    ]
    return json.dumps(made)


def square(west: float, south: float, side: float) -> tuple[str, Any]:
    east, north = west + side, south + side
    return "Polygon", [[[west, south], [east, south], [east, north], [west, north], [west, south]]]


def point(x: float, y: float) -> tuple[str, Any]:
    return "Point", [x, y]


BOW = ("Polygon", [[[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]])


def make_data(folder: Path) -> None:
    """Small inputs, each for one kind of mistake; written as text, since the host has no GDAL."""
    towns = [(point(13.4, 52.5), {"name": "a", "pop": 9}), (point(13.5, 52.6), {"name": "b", "pop": 1000})]
    metres = [(point(530000.123456789, 180000.25), {"id": 1}), (point(530100, 180100), {"id": 2})]
    texts = {
        "towns.geojson": features(towns),
        "metres.geojson": features(metres, "EPSG:27700"),
        "squares.geojson": features([(square(13, 52, 0.1), {"id": 1}), (square(13.2, 52, 0.1), {"id": 2})]),
        "squares_m.geojson": features([(square(530000, 180000, 100), {"id": 1})], "EPSG:27700"),
        "bows.geojson": features([(BOW, {"id": 1}), (square(5, 5, 1), {"id": 2})]),
        "long.geojson": features([(point(1, 2), {"a_very_long_field_name": 1, "note": "x" * 300})]),
        "short.geojson": features([(point(1, 2), {"name": "x", "note": "y"})]),
        "times.geojson": features([(point(1, 2), {"at": "2024-01-02T03:04:05.678Z", "n": 1})]),
        "nulls.geojson": features([(point(1, 2), {"n": None, "v": 1.5}), (point(2, 2), {"n": 3, "v": 2.5})]),
        "full.geojson": features([(point(1, 2), {"n": 2, "v": 1.5}), (point(2, 2), {"n": 3, "v": 2.5})]),
        "huge.geojson": features([(point(1, 2), {"v": 1e300}), (point(2, 2), {"v": 0.5})]),
        "holes.geojson": features([(point(1, 2), {"id": 1}), (None, {"id": 2})]),
        "dateline.geojson": features([(point(179.5, -17), {"id": 1}), (point(-179.5, -16), {"id": 2})]),
        "world.geojson": features([(point(x, 0), {"id": x}) for x in range(-170, 180, 20)]),
        "empty.geojson": features([]),
        "latlon.csv": "id,lat,lon,name\n1,52.5,13.4,a\n2,52.6,13.5,b\n",
        "plain.csv": "id,name\n1,a\n2,b\n",
        "counts.csv": "name,pop\na,9\nb,1000\nc,200\n",
        "names.csv": "name,kind\na,x\nb,y\nc,z\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
