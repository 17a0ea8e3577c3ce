"""Headers and arguments of any size: a remark or an estimate, never a fault, and no refusal of what may fit."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_foreseeing import png

from gdal_mcp.errors import ToolError
from gdal_mcp.gdal.catalogue.load import catalogue, packaged
from gdal_mcp.gdal.datasets.paths import Paths
from gdal_mcp.gdal.preflight.advice import advise
from gdal_mcp.gdal.preflight.cache import HeaderCache
from gdal_mcp.gdal.preflight.estimate import estimate
from gdal_mcp.gdal.preflight.excess import excess
from gdal_mcp.gdal.preflight.header import Box, Header
from gdal_mcp.gdal.preflight.request import Request
from gdal_mcp.gdal.preflight.service import Foresight
from gdal_mcp.settings import load_settings
from gdal_mcp.surface import surface
from gdal_mcp.tools.algorithm import algorithm_named
from gdal_mcp.tools.dispatch import draft_call
from gdal_mcp.tools.model import DraftContext
from sandbox.template import Limits
from sandbox.workspace import Located, Workspace, Workspaces

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
    Header,
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
    Header,
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
    + ["vector rasterize", "vector grid", "raster hillshade", *sorted(catalogue().algorithms)[:10]]
)


@pytest.mark.claim("content.host-reads-headers")
@settings(max_examples=250)
@given(PATHS, ARGUMENTS, st.lists(RASTERS | VECTORS | st.none(), min_size=1, max_size=2), st.none() | RASTERS)
def test_no_header_makes_a_remark_or_an_estimate_fail(path, arguments, inputs, like):
    given = {name: (text,) for name, text in arguments.items()}
    request = Request(path, given, tuple(inputs), {"like": like} if like else {}, "GTiff", "o.tif")
    found = estimate(request)
    over = excess(found, Limits()) if found else None
    assert over is None or (over.message and over.suggestion)
    advise(request)


@pytest.mark.parametrize(
    ("path", "arguments", "extent"),
    [
        ("raster tile", {}, (0.0, 0.0, 1e-310, 1e-310)),
        ("raster tile", {"max-zoom": ("30",)}, (-1.7e308, -1.7e308, 1.7e308, 1.7e308)),
        ("raster overview add", {"levels": ("1e300",)}, None),
    ],
)
def test_a_lying_header_or_an_absurd_level_is_estimated_all_the_same(path, arguments, extent):
    header = Header("GTiff", "raster", 1, 1, 1, 1, "Byte", crs="EPSG:3857", extent=extent)
    found = estimate(Request(path, arguments, (header,), driver="GTiff", output="o"))
    assert found is not None
    assert found.output_bytes is not None


@pytest.fixture
def desk(tmp_path: Path) -> DraftContext:
    root = tmp_path / "ws"
    root.mkdir()
    (root / "huge.png").write_bytes(png(400_000, 400_000))
    (root / "small.png").write_bytes(png(20, 20))
    made = load_settings(workspaces=(root,), state_dir=tmp_path / "state")
    paths = Paths(Workspaces((Workspace.at(root, writable=True),)), "outputs", "0123456789abcdef")
    return DraftContext(paths, made, surface(made), Foresight(made.limits()), packaged())


def check(desk: DraftContext, algorithm: str, **arguments: object) -> None:
    desk.foresight.check(draft_call(algorithm_named(algorithm, desk), arguments, desk))


def test_what_reads_the_whole_of_a_huge_raster_is_refused(desk):
    with pytest.raises(ToolError):
        check(desk, "raster convert", input="huge.png", output="o.tif")
    with pytest.raises(ToolError):
        check(desk, "raster pipeline", pipeline="read huge.png ! hillshade ! write o.tif")


@pytest.mark.parametrize(
    "pipeline",
    [
        "read huge.png --oo=DPI=10 ! hillshade ! write o.tif",  # some options of opening choose the size
        "mosaic huge.png small.png --resolution=1e5,1e5 ! hillshade ! write o.tif",  # as its inputs are not
        # a step without `like` has nothing of what another is like
        "read small.png ! reproject --like=huge.png ! resize --size=9,9 ! reproject --output-crs=EPSG:3857 ! write o.tif",
    ],
)
def test_what_may_be_small_is_let_through(desk, pipeline):
    check(desk, "raster pipeline", pipeline=pipeline)


def test_a_single_call_with_an_option_of_opening_is_let_through(desk):
    check(desk, "raster convert", input="huge.png", output="o.tif", open_option=["DPI=10"])


@pytest.mark.parametrize(
    ("kind", "chosen"), [("raster", {}), ("vector", {}), ("raster", {"like-where": ("a = 1",)})]
)
def test_only_the_whole_of_a_raster_says_how_large_a_clip_is(kind, chosen):
    box = (0.0, 0.0, 400_000.0, 400_000.0)
    source = Header(
        "GTiff",
        "raster",
        width=400_000,
        height=400_000,
        bands=1,
        data_type="Byte",
        crs="EPSG:3857",
        extent=box,
    )
    like = Header("GTiff" if kind == "raster" else "GPKG", kind, crs="EPSG:3857", extent=box)
    found = estimate(Request("raster clip", chosen, (source,), {"like": like}, "GTiff", "o.tif"))
    assert found is not None
    assert (found.sure.bytes > 0) == (kind == "raster" and not chosen)


@pytest.mark.claim("resources.drafting-bounded")
def test_a_file_that_is_not_understood_is_read_once(desk):
    (desk.paths.workspaces.items[0].root / "x.bin").write_bytes(b"nothing")
    asked: list[Located] = []
    cache = HeaderCache(read=asked.append)
    located = desk.paths.source("x.bin").located
    for _ in range(3):
        assert cache.get(located) is None
    assert len(asked) == 1
    cache.put(located, Header("GPKG", "vector"))
    assert cache.get(located) == Header("GPKG", "vector")
