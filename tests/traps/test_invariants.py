"""Properties that a call must preserve: the data through a format and back, counts, areas and sums."""

import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.mcp.talk import Place, Talk
from tests.traps.kit import codes
from tests.traps.texts import features, point, square

pytestmark = [pytest.mark.engine, pytest.mark.nightly]


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# within the limits of all four formats: names of ten letters, texts of 80, integers of 32 bits, numbers of 15 digits
# without texts that look like UTF-8 read as latin-1, which have a check of their own
TEXTS = st.text(
    st.characters(codec="latin-1", exclude_categories=["C", "Z"]), min_size=1, max_size=80
).filter(lambda text: text.isascii() or not is_utf8(text.encode("latin-1")))
WHOLE = st.integers(-(2**31), 2**31 - 1)
REAL = st.integers(-(10**9), 10**9).map(lambda number: number / 1024)
ROWS = st.lists(st.fixed_dictionaries({"whole": WHOLE, "real": REAL, "text": TEXTS}), min_size=1, max_size=6)
SLOW = settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
COPIES = iter(range(1_000_000))


def rows_of(path: Path) -> list[Any]:
    """Properties and coordinates, in an order that does not depend on the file."""
    feature_list = json.loads(path.read_text())["features"]
    rows = (
        [sorted(feature["properties"].items()), feature["geometry"]["coordinates"]]
        for feature in feature_list
    )
    return sorted(rows, key=json.dumps)


def rings(path: Path) -> Iterator[tuple[bool, list[list[float]]]]:
    """Each ring of a file's polygons, with True for a hole."""
    for feature in json.loads(path.read_text())["features"]:
        shape = feature["geometry"]
        polygons = shape["coordinates"] if shape["type"] == "MultiPolygon" else [shape["coordinates"]]
        for polygon in polygons:
            yield from ((number > 0, ring) for number, ring in enumerate(polygon))


def area(path: Path) -> float:
    total = 0.0
    for hole, ring in rings(path):
        cross = sum(a[0] * b[1] - b[0] * a[1] for a, b in itertools.pairwise(ring))
        total += -abs(cross) / 2 if hole else abs(cross) / 2
    return total


@pytest.mark.parametrize("ending", ["gpkg", "fgb", "geojson", "shp"])
@SLOW
@given(rows=ROWS)
def test_format_round_trip_changes_nothing_it_can_hold(ending, rows, talk, place):
    name = f"back{next(COPIES)}"
    placed = [(point(number / 8, -number / 16), row) for number, row in enumerate(rows)]
    place.path(f"{name}.geojson").write_text(features(placed))
    read_back, before = [], f"{name}.geojson"
    for turn in (1, 2):
        there, back = f"{name}_{turn}.{ending}", f"{name}_{turn}_back.geojson"
        done = talk.done("convert", input=before, output=there, **options(ending))
        assert codes(done) <= {"identical_to_input"}
        talk.done("convert", input=there, output=back)
        read_back.append(rows_of(place.path(back)))
        before = back
    assert read_back[0] == rows_of(place.path(f"{name}.geojson"))
    assert read_back[1] == read_back[0]


def options(ending: str) -> dict[str, Any]:
    return {"extra_args": ["--layer-creation-option=ENCODING=UTF-8"]} if ending == "shp" else {}


def run(talk: Talk, place: Place, algorithm: str, output: str, /, **arguments: Any) -> Path:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    talk.done("gdal_write", algorithm=algorithm, arguments={**named, "output": output, "overwrite": True})
    return place.path(output)


@pytest.fixture
def fields(place: Place) -> Path:
    """Nine squares of 100 metres side by side, and one over their middle."""
    corners = [(4_000_000 + x * 100, 3_000_000 + y * 100) for x in range(3) for y in range(3)]
    grid = [(square(*corner, 100), {"id": number // 3}) for number, corner in enumerate(corners)]
    over = [(square(4_000_050, 3_000_050, 130), {"b": 1})]
    place.path("fields.geojson").write_text(features(grid, "EPSG:3035"))
    place.path("over.geojson").write_text(features(over, "EPSG:3035"))
    return place.path("fields.geojson")


def test_areas_are_kept(talk: Talk, place: Place, fields: Path) -> None:
    total = area(fields)
    assert total == 90_000
    merged = run(talk, place, "vector dissolve", "merged.geojson", input="fields.geojson")
    valid = run(talk, place, "vector make-valid", "valid.geojson", input="fields.geojson")
    grouped = run(talk, place, "vector combine", "grouped.geojson", input="fields.geojson", group_by=["id"])
    for path in (merged, valid, grouped):
        assert math.isclose(area(path), total, rel_tol=1e-12), path
    parts = {"input": "fields.geojson", "method": "over.geojson"}
    areas = [
        area(run(talk, place, "vector layer-algebra", f"{name}.geojson", operation=name, **parts))
        for name in ("clip", "erase")
    ]
    assert math.isclose(sum(areas), total, rel_tol=1e-12)
    assert math.isclose(areas[0], 130 * 130, rel_tol=1e-12)


def test_features_are_kept(talk: Talk, place: Place, fields: Path) -> None:
    count = len(json.loads(fields.read_text())["features"])
    there, again = {"input": "fields.geojson", "output_crs": "EPSG:4326"}, {"input": "moved.geojson"}
    moved = run(talk, place, "vector reproject", "moved.geojson", **there)
    back = run(talk, place, "vector reproject", "back.geojson", **again, output_crs="EPSG:3035")
    for path in (moved, back):
        assert len(json.loads(path.read_text())["features"]) == count
    assert math.isclose(area(back), area(fields), rel_tol=1e-6)


def test_burned_pixels_are_the_area(talk: Talk, place: Place, fields: Path) -> None:
    extent = [4_000_000, 3_000_000, 4_000_300, 3_000_300]
    grid = {"input": "fields.geojson", "extent": extent, "size": [30, 30], "init": [0], "burn": [1]}
    run(talk, place, "vector rasterize", "burned.tif", **grid)
    run(talk, place, "raster polygonize", "burned.geojson", input="burned.tif")
    assert area(place.path("burned.geojson")) == area(fields)
