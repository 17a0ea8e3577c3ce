"""Traps of features and tables: each gets its code, and its twins none at all."""

import itertools
from typing import Any

import pytest

from tests.mcp.talk import Talk
from tests.traps.kit import Trap, codes, spring, write

pytestmark = pytest.mark.engine


def convert(source: str, ending: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return write("vector convert", input=source, output=f"OUT.{ending}", **more)


def sql(source: str, statement: str, ending: str = "gpkg") -> tuple[str, dict[str, Any]]:
    return write("vector sql", input=source, output=f"OUT.{ending}", dialect="SQLITE", sql=statement)


FORMATS = (  # that cut names, texts, times, numbers or nulls
    Trap("field_name_cut", convert("long.geojson", "shp"), (convert("short.geojson", "shp"),)),
    Trap("text_cut", convert("long.geojson", "shp"), (convert("long.geojson", "gpkg"),)),
    Trap("field_type_changed", convert("times.geojson", "shp"), (convert("times.geojson", "fgb"),)),
    Trap("nulls_replaced", convert("nulls.geojson", "mif"), (convert("full.geojson", "mif"),)),
    Trap("value_lost", convert("huge.geojson", "shp"), (convert("huge.geojson", "gpkg"),)),
    Trap("features_lost", convert("holes.geojson", "kml"), (convert("towns.geojson", "kml"),)),
)
SHAPES = (  # what was made is not sound
    Trap("invalid_geometries", convert("bows.geojson", "gpkg"), (convert("squares.geojson", "gpkg"),)),
    Trap(
        "empty_geometries",
        write("vector buffer", input="squares_m.geojson", output="OUT.gpkg", distance=-90),
        (write("vector buffer", input="squares_m.geojson", output="OUT.gpkg", distance=-9),),
    ),
    Trap("zero_features", convert("empty.geojson", "gpkg"), (convert("towns.geojson", "gpkg"),)),
    Trap(
        "geometry_type_undeclared",
        sql("squares.geojson", "SELECT ST_Centroid(geometry) AS geometry FROM squares"),
        (write("vector sql", input="squares.geojson", output="OUT.gpkg", sql="SELECT * FROM squares"),),
    ),
)


def test_each_trap_is_told_and_its_twins_are_not(talk: Talk, subtests: pytest.Subtests) -> None:
    spring(talk, FORMATS + SHAPES, "vector", subtests)


def test_nothing_is_said_of_plain_copies(talk: Talk) -> None:
    for source, ending in itertools.product(("towns", "squares", "full", "short"), ("gpkg", "fgb", "shp")):
        done = talk.done("convert", input=f"{source}.geojson", output=f"copy_{source}.{ending}")
        assert codes(done) == set(), (source, ending)


def test_a_layer_about_the_antimeridian_lies_where_it_is(talk: Talk) -> None:
    for source, expected in (("dateline", [179.5, -179.5]), ("world", [-170, 170])):
        done = talk.done("convert", input=f"{source}.geojson", output=f"box_{source}.gpkg")
        box = done["outputs"][0]["description"]["layers"][0]["wgs84"]
        assert [box[0], box[2]] == expected
