"""Headers and arguments of any size: a remark or an estimate, never a fault, and no refusal of what may fit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdal_mcp.gdal.catalogue.load import packaged
from gdal_mcp.gdal.preflight.call import Call
from gdal_mcp.gdal.preflight.estimate import estimate, violation
from gdal_mcp.gdal.preflight.facts import Box, DatasetFacts
from gdal_mcp.gdal.preflight.service import findings
from sandbox.template import Limits

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
    st.just("GTiff"),
    st.just("raster"),
    st.just(1 << 62),
    SIDES,
    SIDES,
    st.sampled_from([1, 65_535]),
    st.sampled_from(["Byte", "Float64", "CFloat64", ""]),
    nodata=st.sampled_from([None, float("nan"), float("inf"), 1e300]),
    crs=CODES,
    has_crs=st.booleans(),
    degrees=st.none() | st.booleans(),
    extent=BOXES,
)
VECTORS = st.builds(
    DatasetFacts,
    st.just("GPKG"),
    st.just("vector"),
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
        "size": st.sampled_from(["0,5", "1e300%,1e300%", "99999999999,99999999999"]),
        "bbox": FOUR,
        "window": FOUR,
        "extent": FOUR,
        "output-crs": st.sampled_from(["EPSG:4326", "EPSG:3857"]),
        "max-zoom": st.sampled_from(["0", "30", "999999999"]),
        "levels": st.sampled_from(["2,4", "1e300"]),
        "band-count": st.just("1e300"),
        "nodata": st.sampled_from(["1e999", "nan"]),
    },
)
# those whose rules compute with all of that
PATHS = st.sampled_from(
    [
        *(
            f"raster {one}"
            for one in ("tile", "resize", "reproject", "clip", "mosaic", "overview add", "create")
        )
    ]
    + ["vector rasterize", "vector grid", "raster hillshade", *sorted(packaged().algorithms)[:10]]
)


@pytest.mark.claim("content.host-opens-no-dataset")
@settings(max_examples=250)
@given(PATHS, ARGUMENTS, st.lists(RASTERS | VECTORS | st.none(), min_size=1, max_size=2), st.none() | RASTERS)
def test_no_description_makes_a_remark_or_an_estimate_fail(path, arguments, inputs, like):
    given = {name: (text,) for name, text in arguments.items()}
    call = Call(path, given, tuple(inputs), {"like": like} if like else {}, "GTiff", "o.tif")
    found = estimate(call)
    over = violation(found, Limits()) if found else None
    assert over is None or (over.message and over.suggestion)
    findings(call)


@pytest.mark.parametrize(
    ("path", "arguments", "extent"),
    [
        ("raster tile", {}, (0.0, 0.0, 1e-310, 1e-310)),
        ("raster tile", {"max-zoom": ("30",)}, (-1.7e308, -1.7e308, 1.7e308, 1.7e308)),
        ("raster overview add", {"levels": ("1e300",)}, None),
    ],
)
def test_a_lying_description_or_an_absurd_level_is_estimated_all_the_same(path, arguments, extent):
    description = DatasetFacts("GTiff", "raster", 1, 1, 1, 1, "Byte", crs="EPSG:3857", extent=extent)
    found = estimate(Call(path, arguments, (description,), driver="GTiff", output="o"))
    assert found is not None
    assert found.output_bytes is not None


@pytest.mark.parametrize(
    ("kind", "chosen"), [("raster", {}), ("vector", {}), ("raster", {"like-where": ("a = 1",)})]
)
def test_only_the_whole_of_a_raster_says_how_large_a_clip_is(kind, chosen):
    box = (0.0, 0.0, 400_000.0, 400_000.0)
    source = DatasetFacts(
        "GTiff",
        "raster",
        width=400_000,
        height=400_000,
        bands=1,
        data_type="Byte",
        crs="EPSG:3857",
        extent=box,
    )
    like = DatasetFacts("GTiff" if kind == "raster" else "GPKG", kind, crs="EPSG:3857", extent=box)
    found = estimate(Call("raster clip", chosen, (source,), {"like": like}, "GTiff", "o.tif"))
    assert found is not None
    assert (found.least.bytes > 0) == (kind == "raster" and not chosen)
