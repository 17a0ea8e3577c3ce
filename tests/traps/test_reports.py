"""Faults that people reported of other tools and that occurred here: the right values, by the same calls."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from gdal_mcp.calls.translation import GENERAL_ADVICE
from tests.e2e.mcp.talk import Place, Talk
from tests.oracle.container import Oracle
from tests.traps.kit import codes, rows_of

pytestmark = pytest.mark.engine


MOST_GENERAL = 4  # refusals whose only advice is to read GDAL's messages


@pytest.fixture(scope="module", autouse=True)
def advice(talk: Talk) -> Iterator[list[str]]:
    """The suggestions of all refusals in this module."""
    suggestions: list[str] = []
    failed = Talk.failed

    def listened(self: Talk, tool: str, /, **arguments: Any) -> dict[str, Any]:
        error = failed(self, tool, **arguments)
        suggestions.append(error["suggestion"])
        return error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Talk, "failed", listened)
        yield suggestions
    assert suggestions.count(GENERAL_ADVICE.format("GDAL")) <= MOST_GENERAL, suggestions


def features(told: dict[str, Any]) -> int:
    count: int = told["layers"][0]["featureCount"]
    return count


def test_rows_of_a_wal_file_are_read(talk: Talk) -> None:
    assert features(talk.done("vector_info", input="pending.gpkg")) == 15
    sql = "SELECT count(*) AS n, max(id) AS m FROM ten"
    done = talk.done("query", inputs=["pending.gpkg"], sql=sql)
    assert done["untrusted"]["report"]["rows"] == [{"n": 15, "m": 104}]
    converted = talk.done("vector_convert", input="pending.gpkg", output="of_pending.fgb")
    assert converted["outputs"][0]["description"]["layers"][0]["features"] == 15


def test_unchanged_wal_database_is_read(talk: Talk) -> None:
    sql = "SELECT count(*) AS n, max(id) AS m FROM ten"
    done = talk.done("query", inputs=["wal_mode.gpkg"], sql=sql)
    assert done["untrusted"]["report"]["rows"] == [{"n": 15, "m": 104}]
    answer = talk.done("vector_info", input="wal_mode.gpkg")
    assert (features(answer), codes(answer)) == (15, set())


def test_a_change_that_was_not_finished_is_refused(talk: Talk, place: Place) -> None:
    place.path("hot.gpkg").write_bytes(place.path("ten.gpkg").read_bytes())
    place.path("hot.gpkg-journal").write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(504))
    error = talk.failed("vector_info", input="hot.gpkg")
    assert "hot.gpkg-journal" in json.dumps(error["untrusted"])


def test_features_are_counted_despite_a_stale_count(talk: Talk) -> None:
    done = talk.done("query", inputs=["stale_count.gpkg"], sql="SELECT count(*) AS n FROM ten")
    assert done["untrusted"]["report"]["rows"] == [{"n": 10}]
    answer = talk.done("vector_info", input="stale_count.gpkg")
    [row] = [row for row in rows_of(answer) if row["code"] == "stored_count_stale"]
    assert (row["count"], row["of"]) == (10, 99)
    converted = talk.done("vector_convert", input="stale_count.gpkg", output="of_stale.fgb")
    assert "features_lost" not in codes(converted)


def test_box_west_of_zero_covers_a_360_raster(talk: Talk) -> None:
    arguments = {"input": ["globe_degrees_360.tif"], "output": "west.tif", "bbox": [-10, -10, 10, 10]}
    refused = talk.failed("gdal_write", algorithm="raster clip", arguments=arguments)
    suggested_call = refused["check"]["suggested_call"]
    done = talk.done(suggested_call["tool"], **suggested_call["arguments"])
    facts = done["outputs"][0]["description"]
    assert (facts["size"], facts["extent"]) == ([20, 20], [-10, -10, 10, 10])
    assert (facts["bands"][0]["min"], facts["bands"][0]["max"]) == (80 * 360, 99 * 360 + 359)


def test_an_outline_about_longitude_180_has_two_parts(talk: Talk, place: Place) -> None:
    steps = "read about_180.tif ! footprint ! reproject --output-crs=EPSG:4326 ! write outline.geojson"
    talk.done("pipeline", steps=steps)
    [feature] = json.loads(place.path("outline.geojson").read_text())["features"]
    parts = feature["geometry"]["coordinates"]
    wide = [max(x for x, _ in ring) - min(x for x, _ in ring) for [ring] in parts]
    assert len(parts) == 2
    assert sum(wide) == pytest.approx(1.795, abs=0.01)


def test_statistics_have_all_of_their_digits(talk: Talk) -> None:
    for option, least, most in (("stats", "minimum", "maximum"), ("min-max", "computedMin", "computedMax")):
        arguments = {"input": "tiny_values.tif", option: True}
        band = talk.done("gdal_read", algorithm="raster info", arguments=arguments)["bands"][0]
        assert math.isclose(band[least], 0.00001)
        assert math.isclose(band[most], 1199 * 0.000123 + 0.00001)


def test_unit_other_than_metre_or_degree_is_reported(talk: Talk) -> None:
    answer = talk.done("vector_info", input="feet_square.gpkg")
    system = answer["layers"][0]["geometryFields"][0]["coordinateSystem"]
    assert math.isclose(system["unit_metres"], 1200 / 3937)
    plain = talk.done("info", path="low.tif")["coordinateSystem"]
    assert plain.keys() == {"code", "kind"}


def test_position_from_the_raster_itself_can_be_chosen(talk: Talk) -> None:
    arguments = {"input": "positions_differ.tif", "open-option": ["GEOREF_SOURCES=INTERNAL"]}
    assert talk.done("info", path="positions_differ.tif")["extent"][0] == 700000
    assert talk.done("gdal_read", algorithm="raster info", arguments=arguments)["extent"][0] == 500000


def test_archive_files_have_usable_paths(talk: Talk, place: Place) -> None:
    error = talk.failed("info", path="deep.zip")
    path = f"/vsizip/{place.path('deep.zip')}/data/sub/roads.shp"
    # a long error is truncated, so that only the beginning of the path is certain to appear
    assert path[:60] in json.dumps(error)
    assert talk.done("info", path=path)["layers"][0]["featureCount"] == 1


@pytest.mark.parametrize("ending", ["geoparquet", "parquet", "pq"])
def test_usual_endings_choose_their_format(talk: Talk, ending: str) -> None:
    for tool, arguments in (
        ("vector_convert", {"input": "ten.gpkg"}),
        ("convert", {"input": "ten.gpkg"}),
        ("query_to_file", {"inputs": ["ten.gpkg"], "sql": "SELECT * FROM ten"}),
    ):
        done = talk.done(tool, **arguments, output=f"{tool}.{ending}", overwrite=True)
        assert done["outputs"][0]["description"]["driver"] == "Parquet"


def test_json_of_a_query_is_written_as_json(talk: Talk, place: Place) -> None:
    query = {"inputs": ["ten.gpkg"], "sql": "SELECT json_array(id, 1) AS a FROM ten LIMIT 1"}
    talk.done("query_to_file", **query, output="nested.json")
    assert json.loads(place.path("nested.json").read_text()) == [{"a": [0, 1]}]
    query["sql"] = "SELECT json_object('n', count(*), 'ids', json_group_array(id)) AS o FROM ten"
    talk.done("query_to_file", **query, output="object.json", output_format="object")
    assert json.loads(place.path("object.json").read_text()) == {"n": 10, "ids": list(range(10))}
    talk.done("query_to_file", **query, output="named.txt", output_format="jsonl")
    assert len(place.path("named.txt").read_text().splitlines()) == 1


def test_text_that_looks_like_json_stays_text(talk: Talk, place: Place) -> None:
    query = {"inputs": ["ten.gpkg"], "sql": "SELECT '[1, 2]' AS a FROM ten LIMIT 1"}
    talk.done("query_to_file", **query, output="plain.json")
    assert json.loads(place.path("plain.json").read_text()) == [{"a": "[1, 2]"}]


def test_hidden_values_stay_hidden_in_the_suggested_call(talk: Talk, place: Place, oracle: Oracle) -> None:
    arguments = {"input": "masked_photo.tif", "output": "still_masked.tif", "dst_crs": "EPSG:32632"}
    done = talk.done("reproject", **arguments)
    [row] = [row for row in rows_of(done) if row["code"] == "mask_lost"]
    talk.done(row["suggested_call"]["tool"], **row["suggested_call"]["arguments"])
    band = oracle.raster(place.path("still_masked.tif"))["bands"]
    assert band[-1]["colorInterpretation"] == "Alpha"


def test_nothing_is_said_of_a_change_of_extension(talk: Talk) -> None:
    assert codes(talk.done("convert", input="photo.tif", output="photo_too.tiff")) == set()
    assert codes(talk.done("convert", input="photo.tif", output="photo_too.tif")) == {"identical_to_input"}


def test_a_shapefile_without_its_index_is_read(talk: Talk, place: Place) -> None:
    talk.done("convert", input="ten.gpkg", output="indexed.shp")
    for ending in ("shp", "dbf", "prj"):
        place.path(f"bare.{ending}").write_bytes(place.path(f"indexed.{ending}").read_bytes())
    answer = talk.done("vector_info", input="bare.shp")
    assert (features(answer), codes(answer)) == (10, {"index_restored"})
    rows = talk.done("query", inputs=["bare.shp"], sql="SELECT max(id) AS m FROM bare")
    assert rows["untrusted"]["report"]["rows"] == [{"m": 9}]
    converted = talk.done("vector_convert", input="bare.shp", output="of_bare.gpkg")
    assert converted["outputs"][0]["description"]["layers"][0]["features"] == 10
    assert not place.path("bare.shx").exists()
    answer = talk.failed("vector_info", input="bare.shp", where="nothing = 1")
    assert "/tmp/" not in json.dumps(answer["untrusted"])


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("/vsizip/deep.zip", "data/sub/roads.shp"),
        ("deep.zip", "data/sub/roads.shp"),
        ("rasters.zip", "a/low.tif"),  # an archive with this single file
        ("/vsizip/rasters.zip", "a/low.tif"),
    ],
)
def test_an_archive_is_listed(talk: Talk, name: str, member: str) -> None:
    arguments = {"filename": name, "recursive": True}
    listing = talk.done("gdal_read", algorithm="vsi list", arguments=arguments)
    assert member in json.dumps(listing["untrusted"])


def test_compressed_file_is_readable_by_the_suggested_path(talk: Talk, place: Place) -> None:
    error = talk.failed("info", path="low.tif.gz")
    path = f"/vsigzip/{place.path('low.tif.gz')}"
    assert path in json.dumps(error["untrusted"])
    assert talk.done("info", path=path)["size"] == [40, 30]


def test_description_keeps_digits_of_64_bit_integers(talk: Talk) -> None:
    done = talk.done("convert", input="int64_ids.tif", output="of_ids.tif", creation_options=["COMPRESS=LZW"])
    [band] = done["outputs"][0]["description"]["bands"]
    assert (band["min"], band["max"]) == (1152921504606846993, 1152921504606846995)
    assert "constant" not in codes(done)


@pytest.mark.parametrize("compression", ["WEBP", "JPEG"])
def test_blocks_that_compression_cannot_write_are_a_failure(
    talk: Talk, place: Place, compression: str
) -> None:
    source = {"WEBP": "two_classes.tif", "JPEG": "deep_photo.tif"}[compression]
    options = [f"COMPRESS={compression}"]
    error = talk.failed("convert", input=source, output="zeros.tif", creation_options=options)
    assert not place.path("zeros.tif").exists()
    # with the messages of GDAL's threads, not only the count of blocks
    assert len(error["untrusted"]["gdal"]) > 1


def test_other_fractions_are_not_the_same_pixels(talk: Talk) -> None:
    arguments = {"input": "fractions.tif", "output": "sieved.tif", "size-threshold": 2}
    done = talk.done("gdal_write", algorithm="raster sieve", arguments=arguments)
    assert codes(done) == {"values_rounded"}


def test_parquet_types_are_those_of_arrow(talk: Talk) -> None:
    talk.done("vector_convert", input="times.geojson", output="times.parquet")
    [layer] = talk.done("info", path="times.parquet")["layers"]
    assert len(layer["arrowTypes"]) == len(layer["fields"])
    assert any(arrow_type.startswith("timestamp[ms") for arrow_type in layer["arrowTypes"])


def found(talk: Talk, **asked: Any) -> list[dict[str, Any]]:
    matches: list[dict[str, Any]] = talk.done("find_crs", **asked)["matches"]
    return matches


def codes_found(talk: Talk, **asked: Any) -> list[str]:
    return [match["code"] for match in found(talk, **asked)]


def test_crss_are_found_by_what_analysts_ask(talk: Talk) -> None:
    [projected] = found(talk, query="ESRI:54034")
    assert projected["unit"] == "metre"
    for box, grid in (
        ([14, 58, 16, 60], "EPSG:3006"),
        ([-3, 51, 0, 53], "EPSG:27700"),
        ([5, 51, 7, 53], "EPSG:28992"),
    ):
        codes = codes_found(talk, query="national grid", bbox=box)
        assert grid in codes[:2]
        assert not any(code.startswith(("EPSG:326", "EPSG:258")) for code in codes[:2])
    near = codes_found(talk, query="distances in metres", bbox=[36, -2, 38, 0])
    assert near[0] in ("EPSG:32737", "EPSG:21037")
    across = codes_found(talk, input="points_about_180.gpkg")
    assert {"EPSG:3832", "EPSG:8903"} & set(across[:2])


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("code = 'ab'", 1),
        ("code <> 'ab'", 3),
        ("code IN ('ab', 'cd')", 2),
        ("code LIKE '%b'", 3),
        ("id = 2 AND code = 'Ab'", 1),
    ],
)
def test_texts_are_compared_alike_in_every_format(talk: Talk, condition: str, count: int) -> None:
    talk.done("vector_convert", input="codes.geojson", output="codes.gpkg", overwrite=True)
    for name in ("codes.geojson", "codes.gpkg"):
        query = {"inputs": [name], "sql": f"SELECT count(*) AS n FROM codes WHERE {condition}"}
        done = talk.done("query", **query)
        assert done["untrusted"]["report"]["rows"] == [{"n": count}]


@pytest.mark.parametrize(
    ("tool", "arguments", "advised"),
    [
        (
            "vector_convert",
            {"input": "track.gpx", "output": "track.geojson"},
            {"input-layer": ["waypoints"]},
        ),
        (
            "vector_convert",
            {"input": "named_geom.geojson", "output": "named_geom.gpkg"},
            {"layer-creation-option": ["GEOMETRY_NAME=shape"]},
        ),
    ],
)
def test_refusal_by_gdal_names_a_helpful_argument(
    talk: Talk, tool: str, arguments: dict[str, Any], advised: dict[str, Any]
) -> None:
    error = talk.failed(tool, **arguments)
    [name] = advised
    assert name.replace("-", " ") in error["suggestion"].replace("-", " ")
    talk.done(tool, **arguments, **advised)


def test_formula_with_unrepresentable_nodata_is_refused_with_advice(talk: Talk) -> None:
    arguments = {"input": ["A=elevation_holes.tif"], "calc": ["A > 500 ? 1 : 0"], "output": "high.tif"}
    arguments |= {"output-data-type": "UInt8"}
    assert "nodata" in talk.failed("gdal_write", algorithm="raster calc", arguments=arguments)["suggestion"]
    arguments |= {"nodata": 255, "propagate-nodata": True}
    done = talk.done("gdal_write", algorithm="raster calc", arguments=arguments)
    assert done["outputs"][0]["description"]["bands"][0]["nodata"] == 255


def test_a_local_grid_is_not_reprojected(talk: Talk, place: Place) -> None:
    arguments = {"input": "local_grid.gpkg", "output": "located.gpkg", "output-crs": "EPSG:4326"}
    assert "input-crs" in talk.failed("vector_reproject", **arguments)["suggestion"]
    assert not place.path("located.gpkg").exists()
    talk.done("vector_reproject", **arguments, **{"input-crs": "EPSG:25832"})


def test_netcdf_time_series_is_described_and_converted(talk: Talk) -> None:
    answer = talk.done("info", path="series.nc")
    assert "heat" in json.dumps(answer["untrusted"])
    done = talk.done("convert", input="NETCDF:series.nc:heat", output="heat.tif")
    assert [band["max"] for band in done["outputs"][0]["description"]["bands"]] == [19, 39, 59]


def test_numbers_only_in_nodata_pixels_are_not_clamped(talk: Talk) -> None:
    arguments = {
        "input": ["A=counts_now.tif", "B=counts_before.tif"],
        "calc": ["A-B"],
        "output": "change.tif",
    }
    done = talk.done(
        "gdal_write", algorithm="raster calc", arguments={**arguments, "output-data-type": "Int32"}
    )
    assert "values_clamped" not in codes(done)
