"""What cannot fit is known before it starts, and nothing that might fit is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.gdal.preflight.call import Call
from gdal_mcp.gdal.preflight.estimate import Estimate, LimitViolation, estimate, table, violation
from gdal_mcp.gdal.preflight.facts import DatasetFacts, Place
from gdal_mcp.gdal.preflight.sizes import RULES
from sandbox.template import Limits

GIB = 1 << 30
DEM = DatasetFacts(
    "GTiff", "raster", 20_000, 100, 100, 1, "Int16", crs="EPSG:32611", has_crs=True, degrees=False,
    extent=(440000.0, 3745000.0, 446000.0, 3751000.0), compression="NONE", places={
        "EPSG:4326": Place(True, (-117.649, 33.844, -117.583, 33.899)), "EPSG:3857": Place(False, (-13096600.0, 4003200.0, -13089300.0, 4010600.0)),
    },
)  # fmt: skip
WORLD = DatasetFacts(
    "GTiff", "raster", 240_000, 400, 200, 3, "Byte", crs="EPSG:4326", has_crs=True, degrees=True,
    extent=(-180.0, -90.0, 180.0, 90.0),
    places={"EPSG:3857": Place(False, (-20037508.34, -20048966.1, 20037508.34, 20048966.1))},
)  # fmt: skip
ZONES = DatasetFacts(
    "ESRI Shapefile", "vector", 50_000, crs="EPSG:32611", has_crs=True, degrees=False,
    extent=(440000.0, 3745000.0, 446000.0, 3751000.0), features=500, geometry="Polygon",
)  # fmt: skip


def ask(algorithm: str, *inputs: DatasetFacts | None, driver: str = "GTiff", **arguments: object) -> Call:
    """A request; names are written with _, lists of numbers as tuples."""
    texts = {
        name.replace("_", "-"): tuple(map(str, value)) if isinstance(value, tuple) else (str(value),)
        for name, value in arguments.items()
    }
    return Call(algorithm, texts, inputs, driver=driver, output="out.tif")


def refused(call: Call, **limits: object) -> LimitViolation | None:
    made = estimate(call)
    return violation(made, replace(Limits(), **limits)) if made else None


def estimated(call: Call) -> Estimate:
    made = estimate(call)
    assert made is not None
    return made


# what a call asked of GDAL must never be allowed to do: fill the disk, the memory or the machine
HOSTILE = {
    "R01 create 200000 x 200000": (ask("raster create", size=(200_000, 200_000)), "bytes of one file"),
    "R01 with burn": (ask("raster create", size=(200_000, 200_000), burn="1"), "bytes of one file"),
    "R04 resize to 60000 x 60000": (ask("raster resize", DEM, size=(100_000, 100_000)), "bytes of one file"),
    "R04 in percent": (ask("raster resize", DEM, size=("100000%", "100000%")), "bytes of one file"),
    "R04 by resolution": (ask("raster resize", DEM, resolution=(0.01, 0.01)), "bytes of one file"),
    "R06 a millionth of a degree": (
        ask("raster reproject", DEM, output_crs="EPSG:4326", resolution=(1e-7, 1e-7)),
        "bytes of one file",
    ),
    "R06 to web Mercator": (
        ask("raster reproject", DEM, output_crs="EPSG:3857", resolution=(0.001, 0.001)),
        "bytes of one file",
    ),
    "R06 in a box": (
        ask("raster reproject", None, output_crs="EPSG:25832", bbox=(0, 0, 1e6, 1e6), resolution=(1, 1)),
        "bytes of one file",
    ),
    "R10 zoom 0 to 24": (ask("raster tile", DEM, driver="PNG", min_zoom=0, max_zoom=24), "files"),
    "R10 of the world": (ask("raster tile", WORLD, driver="PNG", max_zoom=20), "files"),
    "R11 rasterize 100000 x 100000": (ask("vector rasterize", ZONES, size=(100_000, 100_000)), "bytes of one file"),
    "R11 by resolution": (
        ask("vector rasterize", ZONES, extent=(0, 0, 1e6, 1e6), resolution=(10, 10)),
        "bytes of one file",
    ),
    "R11 by the old name": (ask("vector rasterize", ZONES, size=(100_000, 100_000), burn="1"), "bytes of one file"),
    "R13 grid 100000 x 100000": (ask("vector grid invdist", ZONES, size=(100_000, 100_000)), "bytes of one file"),
    "R25 merge in memory": (
        ask("gdal_merge", replace(DEM, width=40_000, height=40_000, extent=(0, 0, 1, 1))),
        "memory bytes",
    ),
    "clip far beyond": (
        ask("raster clip", DEM, bbox=(0, 0, 1e7, 1e7), allow_bbox_outside_source="true"),
        "bytes of one file",
    ),
    "mosaic of far apart": (
        ask("raster mosaic", DEM, replace(DEM, extent=(0.0, 0.0, 6000.0, 6000.0)), resolution=(10, 10)),
        "bytes of one file",
    ),
    "contours of a continent": (ask("raster contour", replace(DEM, width=2**20, height=2**20)), "seconds"),
}  # fmt: skip


def test_what_cannot_fit_is_refused():
    for name, (call, what) in HOSTILE.items():
        found = refused(call)
        assert found is not None, name
        assert found.what == what, name
        assert found.number > found.limit
        assert found.setting in found.suggestion
        assert found.message


# as large, and not certain: sparse, compressed, virtual, or smaller than it looks
POSSIBLE = {
    "60000 x 60000 bytes are 3.6 GB": ask("raster create", size=(60_000, 60_000)),
    "sparse": ask("raster create", size=(200_000, 200_000), creation_option="SPARSE_OK=TRUE"),
    "compressed": ask("raster create", size=(200_000, 200_000), creation_option="COMPRESS=ZSTD"),
    "compressed, last one counts": ask(
        "raster create", size=(200_000, 200_000), creation_option=("COMPRESS=NONE", "compress=deflate")
    ),
    "a COG is compressed": ask("raster resize", DEM, size=(100_000, 100_000), driver="COG"),
    "one bit a pixel": ask("raster create", size=(200_000, 200_000), creation_option="NBITS=1"),
    "virtual": ask("raster resize", DEM, size=(10**6, 10**6), driver="VRT"),
    "a format of its own ways": ask("raster resize", DEM, size=(100_000, 100_000), driver="netCDF"),
    "where it lies in that CRS is not known": ask(
        "raster reproject", DEM, output_crs="EPSG:2154", resolution=(0.001, 0.001)
    ),
    "the input is not known": ask("raster resize", None, resolution=(0.001, 0.001)),
    "into an existing raster": ask("vector rasterize", ZONES, size=(100_000, 100_000), update="true"),
    "a clip to a part": ask("raster clip", replace(DEM, width=10**6, height=10**6), window=(0, 0, 10, 10)),
    "a window that is larger than the raster": ask("raster clip", DEM, window=(0, 0, 10**6, 10**6)),
    "a clip by a shape": ask(
        "raster clip", replace(DEM, width=10**6, height=10**6), geometry="POLYGON((0 0))"
    ),
    "a box in a CRS that is not known": ask(
        "raster clip", replace(DEM, width=10**6, height=10**6), bbox=(0, 0, 1, 1), bbox_crs="EPSG:2154"
    ),
    "a layer of it": ask("vector rasterize", ZONES, resolution=(0.01, 0.01), input_layer="small"),
    "blank tiles are left out": ask("raster tile", WORLD, max_zoom=20, skip_blank="true"),
    "some tiles": ask("raster tile", WORLD, max_zoom=20, min_x=5, max_x=6),
    "another scheme": ask("raster tile", WORLD, max_zoom=20, tiling_scheme="NZTM2000"),
    "statistics may be there already": ask(
        "raster info", replace(DEM, width=2**24, height=2**24), driver="", stats="true"
    ),
    "zones of a large raster": ask(
        "raster zonal-stats", replace(DEM, width=2**20, height=2**20), driver="CSV"
    ),
    "what is seen from near": ask(
        "raster viewshed", replace(DEM, width=10**6, height=10**6), max_distance="100"
    ),
}


def test_what_might_fit_is_not_refused():
    assert {name: found for name, call in POSSIBLE.items() if (found := refused(call))} == {}


def test_an_output_that_is_changed_in_place_has_no_size_of_its_own():
    call = ask("raster reproject", DEM, output_crs="EPSG:4326", resolution=(1e-7, 1e-7))
    assert refused(call) is not None
    assert refused(replace(call, updates=True)) is None


def test_what_one_step_is_not_sure_of_the_next_is_not_either():
    huge = replace(DEM, width=10**6, height=10**6)
    clip = estimated(ask("raster clip", huge, geometry="POLYGON((0 0))"))
    assert clip.certain == 0
    for path in ("raster convert", "raster slope", "raster contour", "raster tile", "gdal_merge"):
        step = ask(path, clip.output, max_zoom=24)
        assert refused(step) is not None
        assert refused(replace(step, certain=clip.certain)) is None
    assert estimated(ask("raster convert", huge)).certain == 1


def test_each_limit_is_broken_by_itself():
    call = ask("raster create", size=(1000, 1000))  # 1 MB
    assert refused(call) is None
    small = refused(call, file_bytes=900_000)
    assert small is not None
    assert (small.what, small.setting) == ("bytes of one file", "--file-size")
    staging = refused(call, staging_bytes=900_000)
    assert staging is not None
    assert (staging.what, staging.setting) == ("output bytes", "--staging-size")


def test_the_limit_itself_is_allowed():
    assert refused(ask("raster create", size=(1000, 1000)), file_bytes=1_000_000) is None
    assert refused(ask("raster create", size=(1000, 1001)), file_bytes=1_000_000) is not None


def test_an_output_is_predicted_with_size_type_and_place():
    made = estimated(ask("raster reproject", DEM, output_crs="EPSG:32611", resolution=(30, 60))).output
    assert made is not None
    assert (made.width, made.height, made.bands, made.data_type) == (200, 100, 1, "Int16")
    assert made.extent == DEM.extent


def test_bands_and_types_follow_the_arguments():
    three = estimated(ask("vector rasterize", ZONES, size=(10, 10), burn=(1, 2, 3), output_data_type="Byte"))
    assert three.output_bytes == 300
    assert estimated(ask("raster stack", WORLD, WORLD)).output.bands == 6
    assert estimated(ask("raster select", WORLD, band=(2, 1))).output.bands == 2
    assert estimated(ask("raster calc", WORLD, calc=("A*2", "A+1"))).output.bands == 6


def test_a_mosaic_has_the_resolution_that_is_asked_for():
    coarse = replace(DEM, width=50, height=50)
    finest, coarsest = (
        estimated(ask("raster mosaic", DEM, coarse, resolution=which)).output
        for which in ("highest", "lowest")
    )
    assert finest is not None
    assert coarsest is not None
    assert (finest.width, coarsest.width) == (100, 50)


def test_the_shortcuts_are_of_the_inputs_kind():
    assert estimated(ask("convert", DEM)).output is not None
    assert estimated(ask("convert", ZONES, driver="GPKG")).output is None


def test_reading_takes_longer_the_more_there_is():
    small = estimated(ask("raster info", DEM, driver="", checksum="true"))
    large = estimated(
        ask("raster info", replace(DEM, width=10_000, height=10_000), driver="", checksum="true")
    )
    assert large.seconds > small.seconds
    assert (large.output_bytes, large.output_files) == (0, 0)
    assert estimated(
        ask("raster info", replace(DEM, width=10_000, height=10_000), driver="")
    ).seconds == pytest.approx(small.seconds, abs=0.1)


def test_better_resampling_and_packing_cost_time():
    big = {"size": (5000, 5000)}
    plain = estimated(ask("raster resize", DEM, **big))
    better = estimated(ask("raster resize", DEM, resampling="lanczos", **big))
    packed = estimated(ask("raster resize", DEM, creation_option="COMPRESS=LZMA", **big))
    assert better.seconds > plain.seconds
    assert packed.seconds > plain.seconds
    assert packed.output_bytes < plain.output_bytes


def test_memory_never_counts_more_cache_than_there_is_data_or_limit():
    base = table().general["base_bytes"]
    small = estimated(ask("raster convert", DEM)).memory_bytes
    large = estimated(ask("raster convert", replace(DEM, width=10**5, height=10**5))).memory_bytes
    assert base <= small <= base + 2 * DEM.raw_bytes
    assert large <= base + Limits().memory_bytes // 8


def test_what_the_table_does_not_know_is_not_estimated():
    for algorithm in ("raster edit", "dataset copy", "no such algorithm", ""):
        assert estimate(ask(algorithm, DEM)) is None


NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.integers(-(2**70), 2**70), st.sampled_from(["", "x", "0", "-1", "%"])
)  # fmt: skip


@given(
    st.sampled_from(sorted(table().algorithm)),
    st.dictionaries(
        st.sampled_from(
            "size resolution bbox window extent band levels band-count max-zoom min-zoom tile-size".split()
        ),
        st.lists(NUMBERS, max_size=5),
    ),
    st.sampled_from([None, DEM, WORLD, ZONES, replace(DEM, extent=(-1e300, -1e300, 1e300, 1e300))]),
    st.sampled_from(["EPSG:3857", "EPSG:4326", "EPSG:32733", "EPSG:2154", "+proj=merc", ""]),
)
def test_no_numbers_make_it_raise(algorithm: str, numbers: dict, facts: DatasetFacts | None, crs: str):
    arguments = {name: tuple(map(str, values)) for name, values in numbers.items()}
    call = Call(algorithm, {**arguments, "output-crs": (crs,)}, (facts,), driver="GTiff")
    made = estimate(call)
    if made is not None:
        assert made.seconds >= 0
        assert made.memory_bytes > 0
        assert (
            violation(made, Limits()) is None
            or made.least.bytes
            or made.least.files
            or made.least.memory_bytes
            or made.least.seconds
        )


def test_the_table_is_whole():
    known = table()
    assert {cost.size for cost in known.algorithm.values() if cost.size} <= RULES.keys()
    assert all(one["byte_ns"] >= 0 and 0 < one["ratio"] <= 1 for one in known.compression.values())
    packings = {one["compression"] for one in known.format.values() if "compression" in one}
    assert packings <= known.compression.keys()
    assert known.general["doubt"] >= 10
