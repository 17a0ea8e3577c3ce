"""Calls that GDAL runs and whose result is wrong, each beside a clean twin about which nothing may be said."""

import pytest

from tests.mcp.talk import Talk
from tests.traps.kit import Trap, call, codes, first_of_each, spring, write

pytestmark = pytest.mark.engine


CRS = (
    Trap(
        "ballpark_transformation",
        call("reproject", input="rome.tif", output="OUT.tif", dst_crs="EPSG:4326", resampling="bilinear"),
        (
            call("reproject", input="monte_mario.tif", output="OUT.tif", dst_crs="EPSG:4326", resampling="bilinear"),
            call("reproject", input="bng.tif", output="OUT.tif", dst_crs="EPSG:4326", resampling="bilinear", extra_args=["--dst-nodata=-1"]),
            call("reproject", input="sinusoidal.tif", output="OUT.tif", dst_crs="EPSG:4326", resampling="bilinear", extra_args=["--dst-nodata=-1"]),
            call("vector_reproject", input="points.gpkg", output="OUT.gpkg", **{"output-crs": "EPSG:25832"}),
        ),
        refused=True,
        mends=True,
    ),
    Trap(
        "ballpark_transformation",
        call("vector_reproject", input="rome_points.gpkg", output="OUT.gpkg", **{"output-crs": "EPSG:4326"}),
        (
            call("vector_reproject", input="mm_points.gpkg", output="OUT.gpkg", **{"output-crs": "EPSG:4326"}),
            call("vector_reproject", input="one_nad27.gpkg", output="OUT.gpkg", **{"output-crs": "EPSG:4326"}),
        ),
        refused=True,
        mends=True,
    ),
    Trap("ballpark_transformation", call("pipeline", steps="read rome_points.gpkg ! reproject --output-crs=EPSG:32633 ! write OUT.gpkg"), refused=True),
    Trap("ballpark_transformation", call("gdalwarp", src_datasets=["rome.tif"], dst_dataset="OUT.tif", t_srs="EPSG:4326"), refused=True),
    Trap("ballpark_transformation", write("vector convert", input="rome_points.gpkg", output="OUT.kml"), refused=True),
    Trap("ballpark_transformation", call("reproject", input="egm2008.tif", output="OUT.tif", dst_crs="EPSG:4979", resampling="bilinear"), refused=True),
    Trap("no_input_crs", call("reproject", input="no_crs.tif", output="OUT.tif", dst_crs="EPSG:32633", resampling="bilinear"), refused=True),
)  # fmt: skip
VALUES = (
    Trap(
        "values_clamped",
        call("convert", input="elevation.tif", output="OUT.png"),
        (call("convert", input="whole_floats.tif", output="OUT.png"), call("convert", input="photo.tif", output="OUT.png"), call("convert", input="elevation.tif", output="OUT.tif", creation_options=["COMPRESS=LZW"])),
        before=True,
        mends=True,
        ignored=frozenset({"data_type_changed"}),
    ),
    Trap("values_clamped", call("convert", input="elevation_holes.tif", output="OUT.jpg"), before=True, mends=True, ignored=frozenset({"lossy_compression"})),
    Trap(
        "values_clamped",
        write("raster set-type", input="elevation.tif", output="OUT.tif", output_data_type="UInt8"),
        (write("raster set-type", input="whole_floats.tif", output="OUT.tif", output_data_type="UInt8"), write("raster set-type", input="ids.tif", output="OUT.tif", output_data_type="Float64")),
        before=True,
    ),
    Trap(
        "values_clamped",
        call("pipeline", steps="read ids.tif ! set-type --output-data-type=Int16 ! write OUT.tif"),
        (call("pipeline", steps="read small_ids.tif ! set-type --output-data-type=Int16 ! write OUT.tif"), call("pipeline", steps="read elevation.tif ! scale --output-min=0 --output-max=255 ! set-type --output-data-type=UInt8 ! write OUT.tif")),
        before=True,
    ),
    Trap(
        "values_rounded",
        write("raster set-type", input="low.tif", output="OUT.tif", output_data_type="Int16"),
        (write("raster set-type", input="whole_floats.tif", output="OUT.tif", output_data_type="Int16"),),
        before=True,
    ),
    Trap(
        "nan_lost",
        write("raster set-type", input="nan_holes.tif", output="OUT.tif", output_data_type="Int16"),
        (write("raster set-type", input="nan_holes.tif", output="OUT.tif", output_data_type="Float64"),),
        before=True,
    ),
    Trap(
        "digits_lost",
        write("raster set-type", input="large_ids.tif", output="OUT.tif", output_data_type="Float32"),
        (write("raster set-type", input="ids.tif", output="OUT.tif", output_data_type="Float32"),),
        before=True,
    ),
    Trap(
        "values_clamped",
        write("raster calc", input=["A=classes.tif"], calc=["A*100"], output="OUT.tif", output_data_type="UInt8", propagate_nodata=True),
        (
            write("raster calc", input=["A=classes.tif"], calc=["A*10"], output="OUT.tif", output_data_type="UInt8", propagate_nodata=True),
            write("raster calc", input=["A=classes.tif"], calc=["A*100"], output="OUT.tif", output_data_type="Int16", propagate_nodata=True),
        ),
        ignored=frozenset({"nodata_not_propagated"}),
    ),
    Trap(
        "values_rounded",
        write("raster resize", input="mask.tif", output="OUT.tif", size=["20", "15"], resampling="average"),
        (
            write("raster resize", input="mask.tif", output="OUT.tif", size=["20", "15"], resampling="mode"),
            call("pipeline", steps="read mask.tif ! set-type --output-data-type=Float32 ! resize --size=20,15 --resampling=average ! write OUT.tif"),
        ),
        before=True,
    ),
    Trap("classes_mixed", write("raster overview add", dataset="classes_in_place.tif", levels=[2], resampling="average")),
    Trap("nodata_out_of_range", write("raster set-type", input="elevation_holes.tif", output="OUT.tif", output_data_type="UInt16"), before=True),
    Trap("nodata_out_of_range", call("convert", input="elevation_holes.tif", output="OUT.png"), before=True),
    Trap(
        "nodata_not_propagated",
        write("raster calc", input=["A=elevation_holes.tif"], output="OUT.tif", calc=["A*2"]),
        (
            write("raster calc", input=["A=elevation_holes.tif"], output="OUT.tif", calc=["A*2"], propagate_nodata=True),
            write("raster calc", input=["A=elevation.tif"], output="OUT.tif", calc=["A*2"]),
            write("raster calc", input=["A=classes.tif"], output="OUT.tif", calc=["A*2"]),
        ),
        before=True,
        mends=True,
    ),
    Trap(
        "classes_mixed",
        write("raster resize", input="landcover.tif", output="OUT.tif", size=["20", "15"], resampling="average"),
        (
            write("raster resize", input="landcover.tif", output="OUT.tif", size=["20", "15"], resampling="mode"),
            write("raster resize", input="elevation.tif", output="OUT.tif", size=["20", "15"], resampling="average"),
            write("raster resize", input="small_ids.tif", output="OUT.tif", size=["20", "15"], resampling="average"),
        ),
        before=True,
    ),
    Trap("classes_mixed", write("raster resize", input="classes.tif", output="OUT.tif", size=["20", "15"], resampling="bilinear"), before=True),
    Trap(
        "classes_mixed",
        write("raster convert", input="many_classes.tif", output="OUT.jpg"),
        (write("raster convert", input="many_classes.tif", output="OUT.png"), write("raster convert", input="shaded.tif", output="OUT.jpg")),
        before=True,
    ),
)  # fmt: skip
WRITTEN = (
    Trap(
        "collar_without_nodata",
        call("reproject", input="photo.tif", output="OUT.tif", dst_crs="EPSG:32633"),
        (
            call("reproject", input="photo.tif", output="OUT.tif", dst_crs="EPSG:25832"),
            call("reproject", input="photo.tif", output="OUT.tif", dst_crs="EPSG:32633", extra_args=["--add-alpha"]),
            call("reproject", input="classes.tif", output="OUT.tif", dst_crs="EPSG:32633"),
            call("reproject", input="photo.tif", output="OUT.tif", dst_crs="EPSG:32633", bbox=[29765, 5015391, 30765, 5016391]),
        ),
        mends=True,
    ),
    Trap("collar_without_nodata", write("raster mosaic", input=["photo.tif", "photo_far.tif"], output="OUT.tif"), (write("raster mosaic", input=["photo.tif", "photo_next.tif"], output="OUT.tif"),)),
    Trap(
        "outside_area_of_use",
        write("raster resize", input="utm_far.tif", output="OUT.tif", size=["20", "15"], resampling="average"),
        (write("raster resize", input="low.tif", output="OUT.tif", size=["20", "15"], resampling="average"), write("raster resize", input="utm_next.tif", output="OUT.tif", size=["20", "15"], resampling="average")),
    ),
    Trap(
        "all_nan",
        write("raster zonal-stats", input="low.tif", zones="zones_beside.gpkg", output="OUT.gpkg", stat=["mean"], include_field=["id"]),
        (write("raster zonal-stats", input="low.tif", zones="zones_utm.gpkg", output="OUT.gpkg", stat=["mean"], include_field=["id"]),),
        ignored=frozenset({"crs_missing"}),
    ),
    Trap(
        "all_nan",
        write("raster zonal-stats", input="low.tif", zones="tiny_zones.gpkg", output="OUT.csv", stat=["mean"], include_field=["id"]),
        (write("raster zonal-stats", input="low.tif", zones="zones_utm.gpkg", output="OUT.csv", stat=["mean"], include_field=["id"]),),
    ),
)  # fmt: skip
JOINED = (
    Trap(
        "other_grid",
        write("raster mosaic", input=["elevation.tif", "other_grid.tif"], output="OUT.tif"),
        (write("raster mosaic", input=["elevation.tif", "next.tif"], output="OUT.tif"),),
        before=True,
    ),
    Trap("other_grid", write("raster stack", input=["elevation.tif", "other_grid.tif"], output="OUT.tif"), before=True),
    Trap(
        "other_grid",
        write("raster calc", input=["A=elevation.tif", "B=other_size.tif"], output="OUT.tif", calc=["A+B"]),
        (write("raster calc", input=["A=elevation.tif", "B=low.tif"], output="OUT.tif", calc=["A+B"]),),
        before=True,
    ),
    Trap("other_crs", write("raster zonal-stats", input="low.tif", zones="zones.gpkg", output="OUT.gpkg", stat=["mean"], include_field=["id"]), refused=True),
    Trap(
        "scale_ignored",
        write("raster calc", input=["A=scaled.tif"], output="OUT.tif", calc=["A*2"]),
        (call("pipeline", steps="read scaled.tif ! unscale ! slope ! write OUT.tif"), call("convert", input="scaled.tif", output="OUT.tif", creation_options=["COMPRESS=LZW"])),
        before=True,
    ),
    Trap("scale_ignored", write("raster slope", input="scaled.tif", output="OUT.tif"), before=True),
    Trap(
        "classes_mixed",
        call("convert", input="many_classes.tif", output="OUT.tif", output_format="COG"),
        (
            call("convert", input="shaded.tif", output="OUT.tif", output_format="COG"),
            call("convert", input="classes.tif", output="OUT.tif", output_format="COG"),
        ),
        before=True,
        mends=True,
        ignored=frozenset({"identical_to_input"}),
    ),
    Trap(
        "overviews_stale",
        write("raster update", input="quarter_high.tif", output="with_overviews.tif", no_update_overviews=True),
        (write("raster update", input="quarter_high.tif", output="with_overviews_too.tif"),),
        mends=True,
        ignored=frozenset({"identical_to_input"}),
    ),
    Trap(
        "identical_to_input",
        write("raster clip", input="quarter.tif", like="quarter.tif", output="OUT.tif"),
        (write("raster clip", input="elevation.tif", like="quarter.tif", output="OUT.tif"),),
    ),
    Trap(
        "statistics_stale",
        write("raster update", input="patch.tif", output="with_statistics.tif"),
        (write("raster update", input="quarter.tif", output="with_statistics_too.tif"),),
        mends=True,
        ignored=frozenset({"constant"}),
    ),
)  # fmt: skip
NEIGHBOURS = {"input": "bytes_in_place.tif", "output": "OUT.tif", "method": ["sum"], "kernel": ["equal"]}
KEPT = (  # pixels that are copied next to others, or computed
    Trap(
        "values_clamped",
        write("raster stack", input=["bytes_in_place_too.tif", "elevation.tif"], output="OUT.tif"),
        (
            write("raster stack", input=["bytes_in_place_too.tif", "classes.tif"], output="OUT.tif"),
            write("raster stack", input=["elevation.tif", "low.tif"], output="OUT.tif"),
        ),
    ),
    Trap(
        "values_clamped",
        write("raster update", input="elevation.tif", output="bytes_in_place.tif"),
        (write("raster update", input="whole_floats.tif", output="bytes_in_place_too.tif"),),
    ),
    Trap(
        "values_clamped",
        write("raster neighbors", **NEIGHBOURS, output_data_type="UInt8"),
        (write("raster neighbors", **NEIGHBOURS, output_data_type="UInt16"),),
    ),
    Trap(
        "values_clamped",
        write("vector rasterize", input="whole.gpkg", output="OUT.tif", burn=[300], resolution=[100, 100], output_data_type="UInt8"),
        (write("vector rasterize", input="whole.gpkg", output="OUT.tif", burn=[200], resolution=[100, 100], output_data_type="UInt8"),),
        ignored=frozenset({"constant"}),
    ),
    Trap(
        "scale_ignored",
        write("raster update", input="scaled.tif", output="int16.tif"),
        (write("raster mosaic", input=["scaled.tif", "scaled_next.tif"], output="OUT.tif"),),
    ),
    Trap(
        "collar_without_nodata",
        write("raster clip", input="elevation.tif", output="OUT.tif", like="tilted.gpkg"),
        (
            write("raster clip", input="elevation_holes.tif", output="OUT.tif", like="tilted.gpkg"),
            write("raster clip", input="elevation.tif", output="OUT.tif", like="tilted.gpkg", only_bbox=True),
            write("raster clip", input="elevation.tif", output="OUT.tif", like="zones_utm.gpkg"),
        ),
        mends=True,
        ignored=frozenset({"identical_to_input"}),
    ),
    Trap(
        "other_grid",
        write("raster blend", input="photo.tif", overlay="photo_next.tif", output="OUT.tif"),
        (write("raster blend", input="photo.tif", overlay="classes.tif", output="OUT.tif"),),
        before=True,
    ),
    Trap(
        "observer_outside",
        write("raster viewshed", input="elevation.tif", output="OUT.tif", position=[9.0, 45.1, 10]),
        (write("raster viewshed", input="elevation.tif", output="OUT.tif", position=[502000, 4998500, 10]),),
        ignored=frozenset({"constant"}),
    ),
    Trap("classes_mixed", call("convert", input="many_classes.tif", output="OUT.jp2"), (call("convert", input="many_classes.tif", output="OUT.jp2", creation_options=["REVERSIBLE=YES", "QUALITY=100"]),)),
)  # fmt: skip
FIRST, OTHERS = first_of_each(CRS + VALUES + WRITTEN + JOINED + KEPT)


def test_a_trap_of_each_code_is_told_and_its_twins_are_not(talk: Talk, subtests: pytest.Subtests):
    spring(talk, FIRST, "raster", subtests)


@pytest.mark.nightly
def test_every_other_trap_is_told_and_its_twins_are_not(talk: Talk, subtests: pytest.Subtests):
    spring(talk, OTHERS, "other_raster", subtests)


def test_a_ballpark_transformation_runs_when_it_is_allowed_by_name(talk: Talk):
    arguments = {
        "input": "rome.tif",
        "output": "allowed.tif",
        "dst_crs": "EPSG:4326",
        "resampling": "bilinear",
    }
    done = talk.done("reproject", **arguments, allow=["ballpark_transformation"])
    assert codes(done) == {"ballpark_transformation"}
    assert done["transformation"]["ballpark"] is True
    assert done["transformation"]["accuracy"] is None
    assert done["transformation"]["better"]["accuracy"] == 4
    assert talk.failed("reproject", **arguments, allow=["everything"])["code"] == "INVALID_ARGUMENT"


# which operation PROJ uses, by the numbers that its own database has for it: metres, codes
USED = (
    ("monte_mario.tif", "EPSG:4326", 4.0, "EPSG:1660"),
    ("bng.tif", "EPSG:4326", 2.0, "EPSG:1314"),
    ("low.tif", "EPSG:4326", 0.0, "EPSG:16032"),
    ("low.tif", "EPSG:25832", None, "EPSG:1149"),
    ("one_nad27.gpkg", "EPSG:4326", 7.0, "EPSG:1175"),
)


def test_a_change_of_crs_says_the_operation_and_its_accuracy(talk: Talk):
    for number, (source, target, accuracy, code) in enumerate(USED):
        if source.endswith(".tif"):
            tool, given = "reproject", {"dst_crs": target, "output": f"used{number}.tif"}
        else:
            tool, given = "vector_reproject", {"output-crs": target, "output": f"used{number}.gpkg"}
        planned = talk.done("validate_call", tool=tool, arguments={"input": source, **given})
        done = talk.done(tool, input=source, **given)
        assert done["transformation"] == planned["transformation"]
        told = done["transformation"]
        assert (told["to"], told["ballpark"]) == (target, False)
        assert code in told["operation"]
        assert accuracy is None or told["accuracy"] == accuracy
        assert len(done["untrusted"]["transformation"]) == 1
    plain = talk.done("convert", input="low.tif", output="plain.tif")
    assert "transformation" not in plain
