"""Extra arguments: what is bound, what is refused, and that nothing rendered can be misread."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.errors import Code
from gdal_mcp.gdal.catalogue.binding import (
    Bound,
    Context,
    bind_named,
    bind_switches,
    bind_switches_of,
    render,
)
from gdal_mcp.gdal.catalogue.errors import ArgumentRefused, CrsRefused, UnknownArgument
from gdal_mcp.gdal.catalogue.load import packaged
from gdal_mcp.gdal.catalogue.model import Algorithm, Role

RASTER, VECTOR, REPROJECT = (
    packaged().algorithms[path] for path in ("raster convert", "vector convert", "raster reproject")
)
CONTEXT = Context(packaged(), output_name="out.tif", threads=4)
GPKG = Context(packaged(), output_name="out.gpkg")

RESERVED = [
    *(
        "--config", "--optfile", "--debug", "--mempreload", "--pause", "--formats", "--format", "--version",
        "--build",
    ),
    *("--license", "--help", "--help-general", "--help-doc", "--json-usage", "--locale"),
]  # fmt: skip


def placed(bound: Bound) -> tuple[str, ...]:
    """The rendered words, with every path put into one folder."""
    return render(bound.resolve(lambda _argument, text: f"/ws/{text}"))


def words(algorithm: Algorithm, *switches: str, context: Context = CONTEXT) -> tuple[str, ...]:
    return placed(bind_switches(algorithm, switches, context))


def test_switches_become_single_words_with_canonical_names() -> None:
    for switches, rendered in [
        (["--resampling=bilinear"], ["--resampling=bilinear"]),
        (["--resampling", "Bilinear"], ["--resampling=bilinear"]),
        (["-r", "near"], ["--resampling=near"]),
        (["--add-alpha"], ["--add-alpha"]),
        (["--tap=true"], ["--target-aligned-pixels"]),
        (["--add-alpha=false"], ["--add-alpha=false"]),
        (["--t_srs", "epsg:4326"], ["--output-crs=EPSG:4326"]),
        (["--dst-crs=EPSG:4326", "-s", "EPSG:32611"], ["--output-crs=EPSG:4326", "--input-crs=EPSG:32611"]),
        (["--bbox=1,2,3.5,4e2"], ["--bbox=1,2,3.5,4e2"]),
        (["--bbox", "-1,-2,3,4"], ["--bbox=-1,-2,3,4"]),
        (["--size=100,0"], ["--size=100,0"]),
        (["--input-nodata", "-9999"], ["--input-nodata=-9999"]),
        (["--src-nodata=0,None"], ["--input-nodata=0,None"]),
        (
            ["--co", "COMPRESS=lzw", "--co=TILED=YES"],
            ["--creation-option=COMPRESS=LZW", "--creation-option=TILED=YES"],
        ),
        (["--of=PNG", "--co", "ZLEVEL=9"], ["--output-format=PNG", "--creation-option=ZLEVEL=9"]),
        (["--if", "gtiff,VRT"], ["--input-format=GTiff", "--input-format=VRT"]),
        (["--oo=NUM_THREADS=2"], ["--open-option=NUM_THREADS=2"]),
        (
            ["--wo", "INIT_DEST=NO_DATA", "--to=METHOD=RPC"],
            ["--warp-option=INIT_DEST=NO_DATA", "--transform-option=METHOD=RPC"],
        ),
        (["--et", "0.25"], ["--error-threshold=0.25"]),
        (["-j", "ALL_CPUS"], ["--num-threads=4"]),
        (["-j", "2"], ["--num-threads=2"]),
        (["-j", "64"], ["--num-threads=4"]),
        (["--like=a.tif"], ["--like=/ws/a.tif"]),
        (["--like", "a,b.tif"], ["--like=/ws/a,b.tif"]),
    ]:
        assert list(words(REPROJECT, *switches)) == rendered


def test_layers_are_given_one_by_one_or_packed() -> None:
    expected = ("--input-layer=a", "--input-layer=b", "--skip-errors")
    assert words(VECTOR, "-l", "a", "--layer=b", "--skip-errors", context=GPKG) == expected
    assert words(VECTOR, "--input-layer=a,b", "--skip-errors", context=GPKG) == expected


def test_a_value_that_gdal_would_split_or_drop_is_refused() -> None:
    for name in ["a,b", 'a"b', ""]:
        with pytest.raises(ArgumentRefused):
            bind_named(
                VECTOR,
                {"input": ["i"], "output": ["o.gpkg"], "input-layer": ["x", name]},
                Context(packaged()),
            )


def test_anything_unknown_malformed_or_dangerous_is_refused() -> None:
    for switches in [
        *([token] for token in RESERVED),
        *([token.upper()] for token in RESERVED),
        *([f"{token}=x"] for token in RESERVED),
        ["--config", "GDAL_SKIP="],
        ["--creation-option", "--config"],
        ["--creation-option=--config"],
        ["--resampling", "--config", "CPL_LOG=/x"],
        ["/etc/passwd"],
        ["out.tif"],
        [""],
        ["-"],
        ["--"],
        ["--="],
        ["---like=x"],
        ["-rnear"],
        ["-rr"],
        ["--Resampling=near"],
        ["--resamp=near"],
        ["--no-such"],
        ["--add-alpha true"],
        ["--add-alpha=maybe"],
        ["--resampling"],
        ["--resampling="],
        ["--input-format", "--add-alpha"],
        ["--input-format", "-r"],
        ["--resampling=?"],
        ["--resampling=fastest"],
        ["--resampling=near", "-r", "near"],
        ["--size=1"],
        ["--size=1,2,3"],
        ["--size=1,2", "--size=3,4"],
        ["--size=a,b"],
        ["--size=1.5,2"],
        ["--size=99999999999,1"],
        ["--size=-1,1"],
        ["--bbox=1,2,3,nan"],
        ["--bbox=1,2,3,inf"],
        ["--et=-1"],
        ["--et=0x10"],
        ["--resolution=1,1", "--size=2,2"],
        ["--input-nodata=abc"],
        ["--input-nodata=/etc/passwd"],
        ["-j", "0"],
        ["-j", "many"],
        ["--num-threads-int-hidden=1"],
        ["--co", "COMPRESS"],
        ["--co", "JAVASCRIPT_FILE=/etc/passwd"],
        ["--of=PDF", "--co=JAVASCRIPT_FILE=/etc/passwd"],
        ["--of=MEM"],
        ["--of=PostgreSQL"],
        ["--of=GeoJSON"],
        ["--of=PNG", "--of=JPEG"],
        ["--oo=ROOT_PATH=/etc"],
        ["--to=RPC_DEM=/etc/passwd"],
        ["--to=COORDINATE_OPERATION=+proj=hgridshift +grids=/etc/passwd"],
        ["--wo=CUTLINE=POINT(0 0)"],
        ["--like=a.tif", "--like=b.tif"],
        ["--resampling=near\0"],
        ["--t_srs=" + "x" * 100_000],
        ["--input-nodata=1", "--input-nodata=2"],
        ["--co=TILED=YES"] * 300,
    ]:
        with pytest.raises(ArgumentRefused) as caught:
            bind_switches(REPROJECT, switches, CONTEXT)
        assert caught.value.message
        assert caught.value.suggestion


def test_changing_an_existing_output_is_not_the_callers() -> None:
    for switch in ["--update", "--upsert", "--overwrite-layer", "--output-oo=X=Y"]:
        with pytest.raises(ArgumentRefused):
            bind_switches(VECTOR, [switch], GPKG)


def test_what_the_tool_passes_itself_cannot_be_given_again() -> None:
    context = Context(packaged(), output_name="o.tif", taken=frozenset(("output-crs", "size")))
    for switch in ("--output-crs=EPSG:4326", "--t_srs=EPSG:4326", "--resolution=1,1"):
        with pytest.raises(ArgumentRefused):
            bind_switches(REPROJECT, [switch], context)


def test_a_crs_is_checked_and_a_url_named_as_such() -> None:
    with pytest.raises(CrsRefused):
        bind_switches(REPROJECT, ["--output-crs=/etc/passwd"], CONTEXT)
    with pytest.raises(CrsRefused) as caught:
        bind_switches(REPROJECT, ["--bbox-crs=http://169.254.169.254/x"], CONTEXT)
    assert caught.value.code == Code.NETWORK_BLOCKED


def test_a_layer_name_that_could_leave_the_output_folder_is_refused() -> None:
    for name in ("../x", "a/b", "a\\b", "@x", ""):
        with pytest.raises(ArgumentRefused):
            bind_switches(VECTOR, [f"--output-layer={name}"], GPKG)
    assert words(VECTOR, "--nln=roads (2024)", context=GPKG) == ("--output-layer=roads (2024)",)


@pytest.mark.claim("args.no-bare-words")
def test_a_switch_in_the_place_of_a_value_is_refused_even_where_any_text_would_do() -> None:
    for switch in ("--skip-errors", "--config", "-l"):
        with pytest.raises(ArgumentRefused):
            bind_switches(VECTOR, ["--output-layer", switch], GPKG)
    assert words(VECTOR, "--output-layer=-l", context=GPKG) == ("--output-layer=-l",)


def test_creation_options_follow_the_format_wherever_it_is_said() -> None:
    with pytest.raises(ArgumentRefused):
        bind_switches(RASTER, ["--co=COMPRESS=LZW"], Context(packaged(), output_name="out"))
    assert words(RASTER, "--co=COMPRESS=LZW", context=Context(packaged(), output_format="GTiff")) == (
        "--creation-option=COMPRESS=LZW",
    )
    with pytest.raises(ArgumentRefused):
        bind_switches(
            RASTER, ["--co=COMPRESS=LZW"], Context(packaged(), output_name="out.tif", output_format="PNG")
        )
    with pytest.raises(ArgumentRefused):
        bind_switches(RASTER, ["--of=GTiff"], Context(packaged(), output_format="GTiff"))


def test_a_path_stays_as_written_until_it_is_resolved() -> None:
    bound = bind_switches(REPROJECT, ["--like", "../outside.tif"], CONTEXT)
    assert [(one.name, one.role, one.values) for one in bound.arguments] == [
        ("like", Role.INPUT, ("../outside.tif",))
    ]
    with pytest.raises(ValueError, match="like"):
        render(bound)
    with pytest.raises(ValueError, match="like"):
        bound.resolve(lambda _argument, text: text)
    assert render(bound.resolve(lambda argument, _text: f"/{argument.name}")) == ("--like=/like",)


CONVERT = (RASTER, VECTOR)


def test_convert_takes_what_either_kind_knows_and_says_which() -> None:
    assert bind_switches_of(CONVERT, ["--input-layer=poly", "--skip-errors"], GPKG).paths == (
        "vector convert",
    )
    assert bind_switches_of(CONVERT, ["--co=COMPRESS=LZW"], CONTEXT).paths == ("raster convert",)
    assert bind_switches_of(CONVERT, ["--co=VERSION=1.3"], GPKG).paths == ("raster convert", "vector convert")
    assert bind_switches_of(CONVERT, [], GPKG).paths == ("raster convert", "vector convert")
    assert bind_switches_of(CONVERT, ["--of=PNG"], GPKG).paths == ("raster convert",)


def test_convert_refuses_what_neither_kind_takes_as_a_whole() -> None:
    for switches in [
        ["--lco=FID=id", "--co=COMPRESS=LZW"],
        ["--input-layer=x", "--of=PNG"],
        ["--add-alpha"],
        ["--config=X=Y"],
        ["--append"],
    ]:
        with pytest.raises(ArgumentRefused):
            bind_switches_of(CONVERT, switches, GPKG)


def test_an_unknown_switch_suggests_a_near_one() -> None:
    with pytest.raises(UnknownArgument) as caught:
        bind_switches(REPROJECT, ["--resample=near"], CONTEXT)
    assert "resampling" in caught.value.suggestion


def test_arguments_by_name_bind_input_and_output_too() -> None:
    bound = bind_named(
        RASTER, {"input": ["a,b.tif"], "output": ["o.tif"], "co": ["TILED=YES"]}, Context(packaged())
    )
    assert placed(bound) == ("--input=/ws/a,b.tif", "--output=/ws/o.tif", "--creation-option=TILED=YES")
    with pytest.raises(ArgumentRefused):
        bind_named(RASTER, {"input": ["a.tif"]}, Context(packaged()))
    with pytest.raises(ArgumentRefused):
        bind_named(RASTER, {"input": ["a.tif"], "output": ["o.tif"], "config": ["X=Y"]}, Context(packaged()))
    with pytest.raises(ArgumentRefused):
        bind_named(RASTER, {"input": ["a.tif", "b.tif"], "output": ["o.tif"]}, Context(packaged()))


def test_what_the_server_decides_is_returned_and_not_rendered() -> None:
    bound = bind_named(
        RASTER, {"input": ["a"], "output": ["o.tif"], "overwrite": ["true"]}, Context(packaged())
    )
    assert bound.get("overwrite") == ("true",)
    assert placed(bound) == ("--input=/ws/a", "--output=/ws/o.tif")


NAMES = st.sampled_from(
    [name for algorithm in (*CONVERT, REPROJECT) for name in algorithm.long_names] + [t[2:] for t in RESERVED]
)
VALUES = st.sampled_from(
    [
        "true", "false", "EPSG:4326", "near", "1,2", "1,2,3,4", "1", "-1", "COMPRESS=LZW", "NUM_THREADS=2",
        "GTiff", "poly", "--config", "--CONFIG", "CPL_LOG=/tmp/x", "=?", "?", "@/etc/passwd", "/etc/passwd",
        "a\0b", 'a"b', "a,b", "None",
    ]
) | st.text(max_size=12)  # fmt: skip


@st.composite
def switch_lists(draw: st.DrawFn) -> list[str]:
    """Mostly well-formed switches with values that fit or are hostile."""
    found: list[str] = []
    for _ in range(draw(st.integers(0, 4))):
        name, value = draw(NAMES), draw(VALUES)
        found += draw(
            st.sampled_from(
                [[f"--{name}={value}"], [f"--{name}", value], [f"--{name}"], [value], [f"-{name[:1]}", value]]
            )
        )
    return found


@pytest.mark.claim("args.no-bare-words")
@given(st.sampled_from([RASTER, VECTOR, REPROJECT]), switch_lists())
def test_whatever_is_bound_renders_to_words_that_cannot_be_misread(
    algorithm: Algorithm, switches: list[str]
) -> None:
    try:
        rendered = words(algorithm, *switches)
    except ArgumentRefused:
        return
    canonical = {argument.name for argument in algorithm.arguments}
    for word in rendered:
        assert word.startswith("--")
        assert word.lower() not in RESERVED
        assert word.partition("=")[0].lower() not in RESERVED
        assert word[2:].partition("=")[0] in canonical
        assert not word.endswith("=?")
        assert "\0" not in word
        assert "/etc" not in word or word.startswith("--like=/ws/")
    assert (
        len(
            {word.partition("=")[0] for word in rendered} & {"--input", "--output", "--overwrite", "--append"}
        )
        == 0
    )
