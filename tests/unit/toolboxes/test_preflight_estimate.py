"""A call that cannot fit is refused before it starts; a call that might fit is not."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdal_mcp.toolboxes.gdal.preflight.call import AlgorithmCall
from gdal_mcp.toolboxes.gdal.preflight.estimate import (
    Estimate,
    LimitViolation,
    estimate,
    table,
    uncertain_space,
    violation,
)
from gdal_mcp.toolboxes.gdal.preflight.facts import Box, CrsExtent, DatasetFacts
from gdal_mcp.toolboxes.gdal.preflight.service import findings
from sandbox.template import Limits

GIB = 1 << 30
DEM = DatasetFacts(
    "GTiff", "raster", 20_000, 100, 100, 1, "Int16", crs="EPSG:32611", has_crs=True, degrees=False,
    extent=(440000.0, 3745000.0, 446000.0, 3751000.0), compression="NONE", crs_extents={
        "EPSG:4326": CrsExtent(True, (-117.649, 33.844, -117.583, 33.899)), "EPSG:3857": CrsExtent(False, (-13096600.0, 4003200.0, -13089300.0, 4010600.0)),
    },
)  # fmt: skip
WORLD = DatasetFacts(
    "GTiff", "raster", 240_000, 400, 200, 3, "Byte", crs="EPSG:4326", has_crs=True, degrees=True,
    extent=(-180.0, -90.0, 180.0, 90.0),
    crs_extents={"EPSG:3857": CrsExtent(False, (-20037508.34, -20048966.1, 20037508.34, 20048966.1))},
)  # fmt: skip
ZONES = DatasetFacts(
    "ESRI Shapefile", "vector", 50_000, crs="EPSG:32611", has_crs=True, degrees=False,
    extent=(440000.0, 3745000.0, 446000.0, 3751000.0), features=500, geometry="Polygon",
)  # fmt: skip


def ask(
    algorithm: str, *inputs: DatasetFacts | None, driver: str = "GTiff", **arguments: object
) -> AlgorithmCall:
    """A request; names are written with _, lists of numbers as tuples."""
    texts = {
        name.replace("_", "-"): tuple(map(str, value)) if isinstance(value, tuple) else (str(value),)
        for name, value in arguments.items()
    }
    return AlgorithmCall(algorithm, texts, inputs, driver=driver, output="out.tif")


def refused(call: AlgorithmCall, **limits: object) -> LimitViolation | None:
    estimation = estimate(call)
    return violation(estimation, replace(Limits(), **limits)) if estimation else None


def estimated(call: AlgorithmCall) -> Estimate:
    estimation = estimate(call)
    assert estimation is not None
    return estimation


# calls that must never be allowed, because they would fill the disk, the memory or the machine
HOSTILE = {
    "bytes of one file": [
        ask("raster create", size=(200_000, 200_000)),
        ask("raster create", size=(200_000, 200_000), burn="1"),
        ask("raster resize", DEM, size=(100_000, 100_000)),
        ask("raster resize", DEM, size=("100000%", "100000%")),
        ask("raster resize", DEM, resolution=(0.01, 0.01)),
        ask("raster reproject", DEM, output_crs="EPSG:4326", resolution=(1e-7, 1e-7)),
        ask("raster reproject", DEM, output_crs="EPSG:3857", resolution=(0.001, 0.001)),
        ask("raster reproject", None, output_crs="EPSG:25832", bbox=(0, 0, 1e6, 1e6), resolution=(1, 1)),
        ask("vector rasterize", ZONES, size=(100_000, 100_000)),
        ask("vector rasterize", ZONES, extent=(0, 0, 1e6, 1e6), resolution=(10, 10)),
        ask("vector rasterize", ZONES, size=(100_000, 100_000), burn="1"),
        ask("vector grid invdist", ZONES, size=(100_000, 100_000)),
        ask("raster clip", DEM, bbox=(0, 0, 1e7, 1e7), allow_bbox_outside_source="true"),
        ask("raster mosaic", DEM, replace(DEM, extent=(0.0, 0.0, 6000.0, 6000.0)), resolution=(10, 10)),
    ],
    "files": [
        ask("raster tile", DEM, driver="PNG", min_zoom=0, max_zoom=24),
        ask("raster tile", WORLD, driver="PNG", max_zoom=20),
    ],
    "memory bytes": [ask("gdal_merge", replace(DEM, width=40_000, height=40_000, extent=(0, 0, 1, 1)))],
    "seconds": [ask("raster contour", replace(DEM, width=2**20, height=2**20))],
}


def test_what_cannot_fit_is_refused():
    for what, calls in HOSTILE.items():
        for call in calls:
            problem = refused(call)
            assert problem is not None, call
            assert problem.what == what, call
            assert problem.number > problem.limit
            assert problem.setting in problem.suggestion
            assert problem.message


# equally large, but not certain: sparse, compressed, virtual, or smaller than it appears
POSSIBLE = [
    ask("raster create", size=(60_000, 60_000)),  # 60000 x 60000 bytes are 3.6 GB
    ask("raster create", size=(200_000, 200_000), creation_option="SPARSE_OK=TRUE"),  # sparse
    ask("raster create", size=(200_000, 200_000), creation_option="COMPRESS=ZSTD"),  # compressed
    # the first option counts
    ask("raster create", size=(200_000, 200_000), creation_option=("compress=deflate", "COMPRESS=NONE")),
    ask("raster resize", DEM, size=(100_000, 100_000), driver="COG"),  # a COG is compressed
    ask("raster create", size=(200_000, 200_000), creation_option="NBITS=1"),  # one bit per pixel
    ask("raster resize", DEM, size=(10**6, 10**6), driver="VRT"),  # virtual
    ask("raster resize", DEM, size=(100_000, 100_000), driver="netCDF"),  # a format with its own rules
    # its position in that CRS is unknown
    ask("raster reproject", DEM, output_crs="EPSG:2154", resolution=(0.001, 0.001)),
    ask("raster resize", None, resolution=(0.001, 0.001)),  # the input is unknown
    ask("vector rasterize", ZONES, size=(100_000, 100_000), update="true"),  # into an existing raster
    ask("raster clip", replace(DEM, width=10**6, height=10**6), window=(0, 0, 10, 10)),  # a clip to a part
    ask("raster create", DEM, bbox=(0, 0, 10**9, 10**9)),  # the size of the template, with larger pixels
    ask("raster mosaic", DEM, None, bbox=(0, 0, 10**9, 10**9), resolution="lowest"),  # one input is unknown
    ask("raster clip", DEM, window=(0, 0, 10**6, 10**6)),  # a window that is larger than the raster
    ask("raster clip", replace(DEM, width=10**6, height=10**6), geometry="POLYGON((0 0))"),  # a clip by a shape
    ask("raster clip", replace(DEM, width=10**6, height=10**6), bbox=(0, 0, 1, 1), bbox_crs="EPSG:2154"),  # an unknown CRS
    ask("vector rasterize", ZONES, resolution=(0.01, 0.01), input_layer="small"),  # a layer of it
    ask("raster tile", WORLD, max_zoom=20, skip_blank="true"),  # blank tiles are left out
    ask("raster tile", WORLD, max_zoom=20, min_x=5, max_x=6),  # some tiles
    ask("raster tile", WORLD, max_zoom=20, tiling_scheme="NZTM2000"),  # another tiling scheme
    # tiles may exist already
    ask("raster info", replace(DEM, width=2**24, height=2**24), driver="", stats="true"),
    ask("raster zonal-stats", replace(DEM, width=2**20, height=2**20), driver="CSV"),  # zones of a large raster
    # the area visible from nearby
    ask("raster viewshed", replace(DEM, width=10**6, height=10**6), max_distance="100"),
]  # fmt: skip


def test_what_might_fit_is_not_refused():
    assert [problem for call in POSSIBLE if (problem := refused(call))] == []


def test_updated_output_has_no_size_estimate():
    call = ask("raster reproject", DEM, output_crs="EPSG:4326", resolution=(1e-7, 1e-7))
    assert refused(call) is not None
    assert refused(replace(call, updates=True)) is None


def test_uncertainty_of_one_step_reaches_the_next():
    huge = replace(DEM, width=10**6, height=10**6)
    clip = estimated(ask("raster clip", huge, geometry="POLYGON((0 0))"))
    assert clip.certain == 0
    for path in ("raster convert", "raster slope", "raster contour", "raster tile", "gdal_merge"):
        step = ask(path, clip.output, max_zoom=24)
        assert refused(step) is not None
        assert refused(replace(step, certain=clip.certain)) is None
    assert estimated(ask("raster convert", huge)).certain == 1


def test_space_is_sufficient_insufficient_or_unknown():
    """As measured: creating a COG of noise needs 3.3 times the size of its pixels, one with a single value almost
    nothing.
    """
    raw = 10_980 * 10_980 * 3
    scene = replace(DEM, width=10_980, height=10_980, bands=3, data_type="Byte")
    cog = ask("raster reproject", scene, driver="COG", output_crs="EPSG:32611")
    plain = ask("raster convert", scene, driver="COG", creation_option="COMPRESS=NONE")
    for call, staging, answer in (
        (cog, 4 * raw, "fits"),
        (cog, 3 * raw, "unknown"),
        (cog, raw // 100, "unknown"),
        (plain, 4 * raw, "fits"),
        (plain, raw - 1, "does not"),
        (ask("raster convert", scene), raw + 1, "fits"),
        (ask("raster convert", scene, creation_option="COMPRESS=DEFLATE"), raw + 1, "unknown"),
    ):
        limits = replace(Limits(), staging_bytes=staging)
        estimation = estimated(call)
        broken, unsure = violation(estimation, limits), uncertain_space(estimation, limits)
        assert ("does not" if broken else "unknown" if unsure else "fits") == answer, (call, staging)


def test_each_limit_is_broken_by_itself():
    call = ask("raster create", size=(1000, 1000))  # 1 MB
    for limit, setting in (("file_bytes", "--file-size"), ("staging_bytes", "--staging-size")):
        assert refused(call, **{limit: 1_000_000}) is None
        small = refused(call, **{limit: 999_999})
        assert small is not None
        assert small.setting == setting


def test_predicted_output_has_size_type_bands_and_place():
    output = estimated(ask("raster reproject", DEM, output_crs="EPSG:32611", resolution=(30, 60))).output
    assert (output.width, output.height, output.bands, output.data_type) == (200, 100, 1, "Int16")
    assert output.extent == DEM.extent
    aligned = ask(
        "raster reproject", DEM, output_crs="EPSG:32611", resolution=(700, 700), target_aligned_pixels="true"
    )
    assert estimated(aligned).output.extent == (439600.0, 3745000.0, 446600.0, 3751300.0)
    coarse = replace(DEM, width=50, height=50)
    for which, width in (("highest", 100), ("lowest", 50)):
        assert estimated(ask("raster mosaic", DEM, coarse, resolution=which)).output.width == width
    three = estimated(ask("vector rasterize", ZONES, size=(10, 10), burn=(1, 2, 3), output_data_type="Byte"))
    assert three.output_bytes == 300
    assert estimated(ask("raster stack", WORLD, WORLD)).output.bands == 6
    assert estimated(ask("raster select", WORLD, band=(2, 1))).output.bands == 2
    assert estimated(ask("raster calc", WORLD, calc=("A*2", "A+1"))).output.bands == 6
    assert estimated(ask("convert", DEM)).output is not None
    assert estimated(ask("convert", ZONES, driver="GPKG")).output is None


def test_band_count_is_certain_where_arguments_decide_it():
    for certain in (
        ask("raster slope", replace(WORLD, bands_estimated=True)),
        ask("raster select", WORLD, band=(2, 1)),
        ask("raster reproject", WORLD, output_crs="EPSG:3857"),
        ask("raster calc", DEM, calc=("A*2", "A+1")),
    ):
        assert not estimated(certain).output.bands_estimated
    for estimate_only in (
        ask("raster reproject", WORLD, output_crs="EPSG:3857", add_alpha="true"),
        ask("raster select", WORLD, band=3, exclude="true"),
        ask("raster calc", WORLD, calc="A[1]"),
        ask("raster convert", WORLD, driver="JPEG"),
        ask("raster convert", replace(WORLD, bands_estimated=True)),
    ):
        assert estimated(estimate_only).output.bands_estimated


def test_reading_writes_nothing_and_compression_shrinks_the_output():
    read = estimated(ask("raster info", DEM, driver="", checksum="true"))
    assert (read.output_bytes, read.output_files) == (0, 0)
    big = {"size": (5000, 5000)}
    plain = estimated(ask("raster resize", DEM, **big))
    packed = estimated(ask("raster resize", DEM, creation_option="COMPRESS=LZMA", **big))
    assert packed.output_bytes < plain.output_bytes


def test_estimate_table_is_complete_and_unknowns_have_none():
    known = table()
    assert all(0 < ratio <= 1 for ratio in known.compression.values())
    assert all(cost.pixel_ns <= 10 for cost in known.algorithm.values())
    packings = {row["compression"] for row in known.format.values() if "compression" in row}
    assert packings <= known.compression.keys()
    assert known.general["doubt"] >= 10
    for algorithm in ("raster edit", "dataset copy", "no such algorithm", ""):
        assert estimate(ask(algorithm, DEM)) is None


# headers and arguments of any size: a check or an estimate, never an error, and no refusal of a call that may fit
NUMBERS = st.sampled_from(
    [0.0, 1.0, -1.0, 5e-324, 1e-300, 0.5, 180.0, 2e7, 1e20, 1e150, 1e300, 1.7e308, -1.7e308]
)
CODES = st.sampled_from(["EPSG:4326", "EPSG:3857", "EPSG:32633", None])


def _box(numbers: tuple[float, float, float, float]) -> Box:
    a, b, c, d = numbers
    return min(a, b), min(c, d), max(a, b), max(c, d)


BOXES = st.none() | st.builds(_box, st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS))
SIDES = st.sampled_from([1, 512, 2**31 - 1])
RASTERS = st.builds(
    DatasetFacts,
    *map(st.just, ("GTiff", "raster", 1 << 62)),
    *(SIDES, SIDES, st.sampled_from([1, 65_535]), st.sampled_from(["Byte", "Float64", "CFloat64", ""])),
    nodata=st.sampled_from([None, float("nan"), float("inf"), 1e300]),
    crs=CODES,
    has_crs=st.booleans(),
    degrees=st.none() | st.booleans(),
    extent=BOXES,
)
VECTORS = st.builds(
    DatasetFacts,
    *map(st.just, ("GPKG", "vector")),
    crs=CODES,
    extent=BOXES,
    features=st.sampled_from([None, 0, 1 << 53]),
)
MANY = st.tuples(NUMBERS, NUMBERS).map(lambda pair: f"{pair[0]!r},{pair[1]!r}")
FOUR = st.tuples(MANY, MANY).map(",".join)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "resolution": MANY,
        **dict.fromkeys(("bbox", "window", "extent"), FOUR),
        "output-crs": st.sampled_from(["EPSG:4326", "EPSG:3857"]),
        "max-zoom": st.sampled_from(["0", "30", "999999999"]),
        "levels": st.sampled_from(["2,4", "1e300"]),
        "band-count": st.just("1e300"),
        "nodata": st.sampled_from(["1e999", "nan"]),
        "size": st.sampled_from(["x,%", "-1,inf", "1e300%,1e300%", "0,5", "99999999999,99999999999"]),
    },
)
# algorithms whose rules compute with all of these
PATHS = st.sampled_from(sorted(table().algorithm) + ["raster tile"])


@pytest.mark.claim("content.host-opens-no-dataset")
@settings(max_examples=250)
@given(PATHS, ARGUMENTS, st.lists(RASTERS | VECTORS | st.none(), min_size=1, max_size=2), st.none() | RASTERS)
def test_no_description_breaks_remarks_or_estimates(path, arguments, inputs, like):
    values = {name: (text,) for name, text in arguments.items()}
    call = AlgorithmCall(path, values, tuple(inputs), {"like": like} if like else {}, "GTiff", "o.tif")
    estimation = estimate(call)
    over = violation(estimation, Limits()) if estimation else None
    assert over is None or (over.message and over.suggestion)
    findings(call)


def test_false_description_or_absurd_level_is_still_estimated():
    for path, arguments, extent in (
        ("raster tile", {}, (0.0, 0.0, 1e-310, 1e-310)),
        ("raster tile", {"max-zoom": ("30",)}, (-1.7e308, -1.7e308, 1.7e308, 1.7e308)),
        ("raster overview add", {"levels": ("1e300",)}, None),
    ):
        description = DatasetFacts("GTiff", "raster", 1, 1, 1, 1, "Byte", crs="EPSG:3857", extent=extent)
        estimation = estimate(AlgorithmCall(path, arguments, (description,), driver="GTiff", output="o"))
        assert estimation is not None
        assert estimation.output_bytes is not None


def test_clip_size_is_known_only_from_whole_raster():
    box = (0.0, 0.0, 400_000.0, 400_000.0)
    source = replace(DEM, width=400_000, height=400_000, data_type="Byte", crs="EPSG:3857", extent=box)
    for kind, driver, chosen, known in (
        ("raster", "GTiff", {}, True),
        ("vector", "GPKG", {}, False),
        ("raster", "GTiff", {"like-where": ("a = 1",)}, False),
    ):
        like = DatasetFacts(driver, kind, crs="EPSG:3857", extent=box)
        estimation = estimated(
            AlgorithmCall("raster clip", chosen, (source,), {"like": like}, "GTiff", "o.tif")
        )
        assert (estimation.least.bytes > 0) is known
