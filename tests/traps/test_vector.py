"""Traps of features and tables: each gets its code, and its twin does not."""

import itertools

import pytest

from tests.mcp.talk import Talk
from tests.traps.kit import Trap, check_of, codes_of, told

pytestmark = pytest.mark.engine

_NUMBERS = itertools.count()


def convert(source: str, ending: str, **more: object) -> tuple[str, dict[str, object]]:
    return "vector convert", {"input": source, "output": f"made{next(_NUMBERS)}.{ending}", **more}


TRAPS = (
    # formats that cut names, texts, times or nulls
    Trap("field_name_cut", convert("long.geojson", "shp"), convert("short.geojson", "shp")),
    Trap("text_cut", convert("long.geojson", "shp"), convert("long.geojson", "gpkg")),
    Trap("field_type_changed", convert("times.geojson", "shp"), convert("times.geojson", "fgb")),
    Trap("nulls_replaced", convert("nulls.geojson", "mif"), convert("full.geojson", "mif")),
    Trap("value_lost", convert("huge.geojson", "shp"), convert("huge.geojson", "gpkg")),
    # what was made is not sound
    Trap("invalid_geometries", convert("bows.geojson", "gpkg"), convert("squares.geojson", "gpkg")),
    Trap("features_lost", convert("holes.geojson", "kml"), convert("towns.geojson", "kml")),
    Trap(
        "empty_geometries",
        ("vector buffer", {"input": "squares_m.geojson", "output": "thin.gpkg", "distance": -90}),
        ("vector buffer", {"input": "squares_m.geojson", "output": "less.gpkg", "distance": -9}),
    ),
    Trap("zero_features", convert("empty.geojson", "gpkg"), convert("towns.geojson", "gpkg")),
    Trap(
        "geometry_type_undeclared",
        ("vector sql", {"input": "squares.geojson", "output": "any.gpkg", "dialect": "SQLITE",
                        "sql": "SELECT ST_Centroid(geometry) AS geometry FROM squares"}),
        ("vector sql", {"input": "squares.geojson", "output": "kept.gpkg", "sql": "SELECT * FROM squares"}),
    ),
)  # fmt: skip


def test_each_trap_is_told_and_its_twin_is_not(talk: Talk, subtests: pytest.Subtests) -> None:
    for trap in TRAPS:
        with subtests.test(code=trap.code, call=trap.call):
            result = told(talk, trap.call)
            if trap.refused:
                assert result["error"]["check"]["code"] == trap.code
            else:
                assert trap.code in codes_of(result), result.get("error")
            if trap.mended:
                mend = check_of(result, trap.code)["mend"]
                mended = talk.done(mend["tool"], **mend["arguments"])
                assert trap.code not in codes_of(mended)
        with subtests.test(code=trap.code, twin=trap.twin):
            result = told(talk, trap.twin)
            assert "error" not in result, result["error"]
            assert trap.code not in codes_of(result)


def test_nothing_is_said_of_plain_copies(talk: Talk) -> None:
    for source, ending in itertools.product(("towns", "squares", "full", "short"), ("gpkg", "fgb", "shp")):
        assert codes_of(told(talk, convert(f"{source}.geojson", ending))) == set(), (source, ending)


def test_a_layer_about_the_antimeridian_lies_where_it_is(talk: Talk) -> None:
    for source, expected in (("dateline", [179.5, -179.5]), ("world", [-170, 170])):
        made = told(talk, convert(f"{source}.geojson", "gpkg"))["outputs"][0]["description"]
        box = made["layers"][0]["wgs84"]
        assert [box[0], box[2]] == expected
