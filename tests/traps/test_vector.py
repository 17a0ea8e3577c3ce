"""Traps of features and tables: each gets its code, and its twins none at all."""

import itertools
from typing import Any

import pytest

from tests.mcp.talk import Talk
from tests.traps.kit import Trap, call, codes, first_of_each, read, spring, write

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
    Trap("characters_lost", convert("latin.csv", "gpkg"), (convert("utf8.csv", "gpkg"),)),
    Trap(
        "features_skipped",
        convert("mixed.geojson", "shp", skip_errors=True),
        (convert("towns.geojson", "shp", skip_errors=True),),
    ),
    Trap(
        "values_clamped",
        write(
            "vector rasterize",
            input="towns.geojson",
            output="OUT.tif",
            resolution=[0.01, 0.01],
            attribute_name="pop",
            output_data_type="UInt8",
        ),
        (
            write(
                "vector rasterize",
                input="towns.geojson",
                output="OUT.tif",
                resolution=[0.01, 0.01],
                attribute_name="pop",
                output_data_type="UInt16",
            ),
        ),
    ),
    Trap(
        "features_lost",
        convert("holes.geojson", "kml"),
        (convert("named.geojson", "kml"),),
        ignored=frozenset({"fields_lost"}),
    ),
    Trap("time_changed", convert("times.geojson", "mif"), (convert("times.geojson", "fgb"),)),
    Trap("fields_lost", convert("towns.geojson", "kml"), (convert("named.geojson", "kml"),)),
    Trap(  # of what a statement made
        "fields_lost",
        sql("towns.geojson", "SELECT upper(name) AS name, pop, geometry FROM towns", "kml"),
        (sql("towns.geojson", "SELECT upper(name) AS name, geometry FROM towns", "kml"),),
    ),
    Trap(
        "field_name_cut",
        sql("long.geojson", "SELECT a_very_long_field_name, geometry FROM long", "shp"),
        (sql("long.geojson", "SELECT a_very_long_field_name AS n, geometry FROM long", "shp"),),
    ),
    Trap(
        "z_lost",
        convert("heights.geojson", "mif"),
        (convert("heights.geojson", "fgb"), convert("named.geojson", "mif")),
    ),
    Trap(
        "coordinates_rounded",
        convert("towns.geojson", "pmtiles"),
        (
            convert("towns.geojson", "pmtiles", creation_option=["MAXZOOM=12"]),
            convert("world.geojson", "pmtiles"),
        ),
        before=True,
        mends=True,
    ),
    Trap("m_lost", convert("measured.gpkg", "geojson"), (convert("measured.gpkg", "fgb"),)),
    Trap("crs_changed", convert("rome_named.geojson", "gpx"), (convert("named.geojson", "gpx"),)),
    Trap(
        "header_as_row",
        convert("names.csv", "xlsx"),
        (convert("full.geojson", "xlsx"),),
        ignored=frozenset({"geometry_left_out"}),
    ),
)
CREATED = write(
    "vector create",
    output="OUT.gpkg",
    output_layer="new",
    geometry_type="POINT",
    crs="EPSG:4326",
    field=["n:Integer"],
)
SHAPES = (  # what was made is not sound
    Trap("invalid_geometries", convert("bows.geojson", "gpkg"), (convert("squares.geojson", "gpkg"),)),
    Trap(
        "empty_geometries",
        write("vector buffer", input="squares_m.geojson", output="OUT.gpkg", distance=-90),
        (write("vector buffer", input="squares_m.geojson", output="OUT.gpkg", distance=-9),),
    ),
    Trap(  # each format names its geometry column in its own way
        "empty_geometries",
        write(
            "vector concat", input=["squares.geojson", "squares_two.gpkg"], mode="single", output="OUT.gpkg"
        ),
        (
            write(
                "vector concat",
                input=["squares.geojson", "degrees.geojson"],
                mode="single",
                output="OUT.gpkg",
            ),
        ),
    ),
    Trap("zero_features", convert("empty.geojson", "gpkg"), (convert("towns.geojson", "gpkg"), CREATED)),
    Trap(
        "geometry_type_undeclared",
        sql("squares.geojson", "SELECT ST_Centroid(geometry) AS geometry FROM squares"),
        (write("vector sql", input="squares.geojson", output="OUT.gpkg", sql="SELECT * FROM squares"),),
        mends=True,
    ),
)


PIPE = "read degrees.geojson ! reproject --output-crs={} ! buffer --distance=10 ! write OUT.gpkg"
UNITS = (  # lengths and areas of data in degrees
    Trap(
        "units_in_degrees",
        write("vector buffer", input="degrees.geojson", output="OUT.gpkg", distance=10),
        (
            write("vector buffer", input="squares_m.geojson", output="OUT.gpkg", distance=10),
            call("pipeline", steps=PIPE.format("EPSG:3035")),
        ),
    ),
    Trap("units_in_degrees", call("pipeline", steps=PIPE.format("EPSG:4258"))),
    Trap(
        "units_in_degrees",
        write("vector simplify", input="degrees.geojson", output="OUT.gpkg", tolerance=1),
        (write("vector simplify", input="degrees.geojson", output="OUT.gpkg", tolerance=0.0001),),
    ),
    Trap(
        "units_in_degrees",
        sql("degrees.geojson", "SELECT ST_Area(geometry) AS area FROM degrees", "csv"),
        (
            sql("degrees.geojson", "SELECT ST_Area(ST_Transform(geometry, 3035)) AS area FROM degrees", "csv"),
            sql("degrees.geojson", "SELECT ST_Area(geometry, 1) AS area FROM degrees", "csv"),
            sql("squares_m.geojson", "SELECT ST_Area(geometry) AS area FROM squares_m", "csv"),
            sql("degrees.geojson", "SELECT 'ST_Area(x)' AS note, length('a') AS n FROM degrees", "csv"),
        ),
    ),
    Trap(
        "units_in_degrees",
        read("vector info", input=["degrees.geojson"], dialect="SQLITE", features=True,
             sql="SELECT ST_Distance(geometry, ST_Centroid(geometry)) AS d FROM degrees"),
        (read("vector info", input=["degrees.geojson"], sql="SELECT id FROM degrees"),),
    ),
)  # fmt: skip
PLACES = (
    Trap(
        "geojson_not_wgs84",
        convert("squares_m.geojson", "geojson"),
        (
            convert("squares.geojson", "geojson"),
            write("vector reproject", input="squares_m.geojson", output="OUT.geojson", output_crs="EPSG:4326"),
            convert("squares_m.geojson", "gpkg"),
        ),
        before=True,
        mends=True,
        ignored=frozenset({"identical_to_input", "coordinates_rounded"}),
    ),
    Trap(
        "geojson_not_wgs84",
        call("convert", input="squares_m.geojson", output="OUT.geojson"),
        before=True,
        mends=True,
        ignored=frozenset({"coordinates_rounded"}),
    ),
    Trap(
        "coordinates_rounded",
        convert("squares.geojson", "geojson", layer_creation_option=["RFC7946=YES"]),
        (convert("squares.geojson", "geojson", layer_creation_option=["RFC7946=NO"]),),
        ignored=frozenset({"identical_to_input"}),
    ),
    Trap(
        "position_in_columns",
        convert("latlon.csv", "gpkg"),
        (
            convert("plain.csv", "gpkg"),
            convert("latlon.csv", "ods"),
            write("vector make-point", input="latlon.csv", output="OUT.gpkg", x="lon", y="lat", output_crs="EPSG:4326"),
        ),
        before=True,
        mends=True,
    ),
    Trap(
        "geometry_left_out",
        convert("towns.geojson", "csv"),
        (
            convert("towns.geojson", "csv", layer_creation_option=["GEOMETRY=AS_XY"]),
            convert("plain.csv", "csv"),
            sql("towns.geojson", "SELECT name FROM towns", "csv"),
        ),
        before=True,
        mends=True,
        ignored=frozenset({"identical_to_input"}),
    ),
    Trap(
        "geometry_left_out",
        write("vector select", input="towns.geojson", output="OUT.gpkg", fields=["name"]),
        (
            write("vector select", input="towns.geojson", output="OUT.gpkg", fields=["pop"], exclude=True),
            write("vector select", input="towns.geojson", output="OUT.csv", fields=["name"]),
        ),
        before=True,
        mends=True,
    ),
    Trap(
        "crs_mismatch",
        write("vector convert", input="degrees.geojson", output="squares_utm.gpkg", output_layer="squares_utm", append=True),
        (write("vector convert", input="squares.geojson", output="squares_two.gpkg", output_layer="squares_two", append=True),),
    ),
    Trap(
        "crs_mismatch",
        write("vector update", input="degrees.geojson", output="squares_utm_too.gpkg", key=["id"], input_layer="degrees", output_layer="squares_utm_too"),
        refused=True,
    ),
    Trap(
        "crs_mismatch",
        write("vector layer-algebra", operation="intersection", input="degrees.geojson", method="squares_m.geojson", output="OUT.gpkg"),
        (write("vector layer-algebra", operation="intersection", input="squares.geojson", method="degrees.geojson", output="OUT.gpkg"),),
        refused=True,
    ),
)  # fmt: skip
COLUMNS = (
    Trap(
        "number_as_text",
        sql("counts.csv", "SELECT name, pop FROM counts ORDER BY pop DESC", "csv"),
        (
            sql("counts.csv", "SELECT name, pop FROM counts ORDER BY name", "csv"),
            sql("counts.csv", "SELECT name FROM counts ORDER BY CAST(pop AS INTEGER)", "csv"),
            write("vector sql", input="counts.csv", output="OUT.csv", open_option=["AUTODETECT_TYPE=YES"],
                  sql="SELECT name, pop FROM counts ORDER BY pop"),
        ),
        mends=True,
    ),
    Trap(
        "number_as_text",
        read("vector info", input=["counts.csv"], sql="SELECT MAX(pop) AS most FROM counts", features=True),
        (read("vector info", input=["codes.csv"], sql="SELECT MAX(code) AS last FROM codes", features=True),),
    ),
    Trap(
        "decimal_comma",
        convert("commas.csv", "gpkg"),
        (
            convert("semicolons.csv", "gpkg"),
            call("query", inputs=["semicolons.csv"], sql="SELECT sum(v) AS v FROM semicolons"),
            call("query", inputs=["commas.csv"], sql="SELECT name FROM commas"),
            call("query", inputs=["commas.csv"], sql="SELECT sum(CAST(replace(v, ',', '.') AS REAL)) AS v FROM commas"),
        ),
        before=True,
    ),
    Trap(
        "number_as_text",
        write("vector filter", input="counts.csv", output="OUT.csv", where="pop > '50'"),
        (write("vector filter", input="counts.csv", output="OUT.csv", where="name > 'a'"),),
        before=True,
        mends=True,
    ),
    Trap("decimal_comma", call("query", inputs=["commas.csv"], sql="SELECT sum(v) AS v FROM commas")),
    Trap("local_dates", convert("local_dates.csv", "gpkg"), (convert("iso_dates.csv", "gpkg"),), before=True),
    Trap(
        "digits_lost",
        call("query", inputs=["large.csv"], sql="SELECT id FROM large"),
        (
            call("query", inputs=["large.csv"], sql="SELECT v FROM large"),
            call("query", inputs=["counts.csv"], sql="SELECT * FROM counts ORDER BY pop"),
            convert("large.csv", "gpkg"),
        ),
    ),
    Trap(
        "fields_lost",
        write("vector convert", input="towns.geojson", output="bare.geojson", output_layer="bare", append=True),
        (write("vector convert", input="towns.geojson", output="more.geojson", output_layer="more", append=True),),
    ),
)  # fmt: skip
FIRST, OTHERS = first_of_each(FORMATS + SHAPES + UNITS + PLACES + COLUMNS)


def test_a_trap_of_each_code_is_told_and_its_twins_are_not(talk: Talk, subtests: pytest.Subtests) -> None:
    spring(talk, FIRST, "vector", subtests)


@pytest.mark.nightly
def test_every_other_trap_is_told_and_its_twins_are_not(talk: Talk, subtests: pytest.Subtests) -> None:
    spring(talk, OTHERS, "other_vector", subtests)


def test_what_is_replaced_is_told_in_numbers(talk: Talk) -> None:
    talk.done("convert", input="world.geojson", output="replaced.gpkg")
    again = write(
        "vector filter", input="world.geojson", output="replaced.gpkg", where="id > 0", overwrite=True
    )
    [row] = talk.done(again[0], **again[1])["replaced"]
    assert row["path"].endswith("replaced.gpkg")
    assert [row[key]["features"] for key in ("before", "after")] == [18, 9]
    assert all(row[key]["bytes"] > 0 for key in ("before", "after"))


def test_nothing_is_said_of_plain_copies(talk: Talk) -> None:
    for source, ending in itertools.product(("towns", "squares", "full", "short"), ("gpkg", "fgb", "shp")):
        done = talk.done("convert", input=f"{source}.geojson", output=f"copy_{source}.{ending}")
        assert codes(done) == set(), (source, ending)


def test_a_layer_about_the_antimeridian_lies_where_it_is(talk: Talk) -> None:
    for source, expected in (("dateline", [179.5, -179.5]), ("world", [-170, 170])):
        done = talk.done("convert", input=f"{source}.geojson", output=f"box_{source}.gpkg")
        layer = done["outputs"][0]["description"]["layers"][0]
        box = layer.get("wgs84", layer["extent"])
        assert [box[0], box[2]] == expected
