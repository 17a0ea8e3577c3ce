"""Additional arguments: which are bound or refused, and that no rendered word can be misread."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.errors import Code
from gdal_mcp.toolboxes.gdal.catalogue.arguments import find_argument
from gdal_mcp.toolboxes.gdal.catalogue.binding import Bound, bind, bind_either, render
from gdal_mcp.toolboxes.gdal.catalogue.checks import Context
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused, UnknownArgument
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.model import Algorithm, Role
from tests.unit.toolboxes.fitting import placed

RASTER, VECTOR, REPROJECT = (
    packaged().algorithms[path] for path in ("raster convert", "vector convert", "raster reproject")
)
CONTEXT = Context(packaged(), output_name="out.tif", threads=4)
GPKG = Context(packaged(), output_name="out.gpkg")

RESERVED = """
    --config --optfile --debug --mempreload --pause --formats --format --version --build --license --help --help-general
    --help-doc --json-usage --locale
""".split()


def extra(algorithm: Algorithm, switches: Sequence[str], context: Context) -> Bound:
    """Binds like a tool that names input and output itself."""
    return bind_either([algorithm], {}, switches, context)


def words(algorithm: Algorithm, *switches: str, context: Context = CONTEXT) -> tuple[str, ...]:
    return placed(extra(algorithm, switches, context))


def test_switches_become_single_words_with_canonical_names() -> None:
    for switches, rendered in [
        (["--resampling=bilinear"], ["--resampling=bilinear"]),
        (["--resampling", "Bilinear"], ["--resampling=bilinear"]), (["-r", "near"], ["--resampling=near"]),
        (["--add-alpha"], ["--add-alpha"]), (["--tap=true"], ["--target-aligned-pixels"]),
        (["--add-alpha=false"], ["--add-alpha=false"]),
        (["--t_srs", "epsg:4326"], ["--output-crs=EPSG:4326"]),
        (["--dst-crs=EPSG:4326", "-s", "EPSG:32611"], ["--output-crs=EPSG:4326", "--input-crs=EPSG:32611"]),
        (["--bbox=1,2,3.5,4e2"], ["--bbox=1,2,3.5,4e2"]), (["--bbox", "-1,-2,3,4"], ["--bbox=-1,-2,3,4"]),
        (["--size=100,0"], ["--size=100,0"]), (["--input-nodata", "-9999"], ["--input-nodata=-9999"]),
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
        (["--et", "0.25"], ["--error-threshold=0.25"]), (["-j", "ALL_CPUS"], ["--num-threads=4"]),
        (["-j", "2"], ["--num-threads=2"]), (["-j", "64"], ["--num-threads=4"]),
        (["--like=a.tif"], ["--like=/ws/a.tif"]), (["--like", "a,b.tif"], ["--like=/ws/a,b.tif"]),
    ]:  # fmt: skip
        assert list(words(REPROJECT, *switches)) == rendered


def test_layers_are_single_or_packed_and_never_ambiguous() -> None:
    expected = ("--input-layer=a", "--input-layer=b", "--skip-errors")
    assert words(VECTOR, "-l", "a", "--layer=b", "--skip-errors", context=GPKG) == expected
    assert words(VECTOR, "--input-layer=a,b", "--skip-errors", context=GPKG) == expected
    for name in ["a,b", 'a"b', ""]:
        given_layers = {"input": ["i"], "output": "o.gpkg", "input-layer": ["x", name]}
        with pytest.raises(ArgumentRefused):
            bind(VECTOR, given_layers, Context(packaged()))


def test_anything_unknown_malformed_or_dangerous_is_refused() -> None:
    for switches in [
        *([spelt] for token in RESERVED for spelt in (token, token.upper(), f"{token}=x")),
        # pairs of words
        ["--config", "GDAL_SKIP="], ["--creation-option", "--config"], ["--resampling", "--config", "CPL_LOG=/x"],
        ["--input-format", "--add-alpha"], ["--input-format", "-r"], ["-j", "0"], ["-j", "many"],
        ["--co", "COMPRESS"], ["--co", "JAVASCRIPT_FILE=/etc/passwd"],
        # words that must not be repeated or combined
        ["--resampling=near", "-r", "near"], ["--size=1,2", "--size=3,4"], ["--resolution=1,1", "--size=2,2"],
        ["--add-alpha", "--add-alpha=true"],
        ["--of=PDF", "--co=JAVASCRIPT_FILE=/etc/passwd"], ["--of=PNG", "--of=JPEG"], ["--like=a.tif", "--like=b.tif"],
        ["--input-nodata=1", "--input-nodata=2"], ["--co=TILED=YES"] * 2000,
        # single words
        *([word] for word in (
            "--creation-option=--config", "/etc/passwd", "out.tif", "", "-", "--", "--=", "---like=x", "-rnear", "-rr",
            "--Resampling=near", "--resamp=near", "--no-such", "--add-alpha true", "--add-alpha=maybe", "--resampling",
            "--resampling=", "--resampling=?", "--resampling=fastest", "--size=1", "--size=1,2,3", "--size=a,b",
            "--size=1.5,2", "--size=99999999999,1", "--size=-1,1", "--bbox=1,2,3,nan", "--bbox=1,2,3,inf", "--et=-1",
            "--et=0x10", "--input-nodata=abc", "--input-nodata=/etc/passwd", "--num-threads-int-hidden=1", "--of=MEM",
            "--of=PostgreSQL", "--of=GeoJSON", "--oo=ROOT_PATH=/etc", "--to=RPC_DEM=/etc/passwd",
            "--to=COORDINATE_OPERATION=+proj=hgridshift +grids=/etc/passwd", "--wo=CUTLINE=POINT(0 0)",
            "--resampling=near\0", "--t_srs=" + "x" * 100_000,
        )),
    ]:  # fmt: skip
        with pytest.raises(ArgumentRefused) as caught:
            extra(REPROJECT, switches, CONTEXT)
        assert caught.value.message
        assert caught.value.suggestion


def test_what_is_not_the_callers_is_refused() -> None:
    """Updating an existing output, and repeating arguments that the tool passes itself."""
    for algorithm, context, switches in (
        (VECTOR, GPKG, ("--update", "--upsert", "--overwrite-layer", "--output-oo=X=Y")),
        (REPROJECT, CONTEXT, ("--input=a.tif", "--output=b.tif", "--progress", "--help")),
        (REPROJECT, CONTEXT, ("--progress", "--overwrite")),
    ):
        for switch in switches:
            with pytest.raises(ArgumentRefused):
                extra(algorithm, [switch], context)


def test_crs_is_checked_and_url_reported_as_such() -> None:
    with pytest.raises(ArgumentRefused):
        extra(REPROJECT, ["--output-crs=/etc/passwd"], CONTEXT)
    with pytest.raises(ArgumentRefused) as caught:
        extra(REPROJECT, ["--bbox-crs=http://169.254.169.254/x"], CONTEXT)
    assert caught.value.code == Code.NETWORK_BLOCKED


def test_layer_name_leaving_the_output_folder_is_refused() -> None:
    for name in ("../x", "a/b", "a\\b", "@x", ""):
        with pytest.raises(ArgumentRefused):
            extra(VECTOR, [f"--output-layer={name}"], GPKG)
    assert words(VECTOR, "--nln=roads (2024)", context=GPKG) == ("--output-layer=roads (2024)",)


@pytest.mark.claim("args.no-bare-words")
def test_switch_in_place_of_value_is_always_refused() -> None:
    for switch in ("--skip-errors", "--config", "-l"):
        with pytest.raises(ArgumentRefused):
            extra(VECTOR, ["--output-layer", switch], GPKG)
    assert words(VECTOR, "--output-layer=-l", context=GPKG) == ("--output-layer=-l",)


def test_creation_options_follow_the_format_however_named() -> None:
    with pytest.raises(ArgumentRefused):
        extra(RASTER, ["--co=COMPRESS=LZW"], Context(packaged(), output_name="out"))
    for switches, output in ((["--of=GTiff"], "out.png"), ([], "out.tif")):
        context = Context(packaged(), output_name=output)
        assert "--creation-option=COMPRESS=LZW" in words(
            RASTER, *switches, "--co=COMPRESS=LZW", context=context
        )
    with pytest.raises(ArgumentRefused):
        extra(RASTER, ["--of=PNG", "--co=COMPRESS=LZW"], CONTEXT)


def test_path_stays_as_written_until_resolved() -> None:
    bound = extra(REPROJECT, ["--like", "../outside.tif"], CONTEXT)
    assert [(argument.name, argument.role, argument.values) for argument in bound.arguments] == [
        ("like", Role.INPUT, ("../outside.tif",))
    ]
    with pytest.raises(ValueError, match="like"):
        render(bound)
    with pytest.raises(ValueError, match="like"):
        bound.resolve(lambda _argument, text: text)
    assert render(bound.resolve(lambda argument, _text: f"/{argument.name}")) == ("--like=/like",)


CONVERT = (RASTER, VECTOR)


def test_convert_accepts_either_kind_and_names_it() -> None:
    assert bind_either(CONVERT, {}, ["--input-layer=poly", "--skip-errors"], GPKG).path == "vector convert"
    assert bind_either(CONVERT, {}, ["--co=COMPRESS=LZW"], CONTEXT).path == "raster convert"
    assert bind_either(CONVERT, {}, ["--co=VERSION=1.3"], GPKG).path == "raster convert"
    assert bind_either(CONVERT, {}, [], GPKG).path == "raster convert"
    assert bind_either(CONVERT, {}, ["--of=PNG"], GPKG).path == "raster convert"


def test_convert_refuses_what_neither_kind_accepts() -> None:
    for switches in [
        ["--lco=FID=id", "--co=COMPRESS=LZW"], ["--input-layer=x", "--of=PNG"], ["--add-alpha"],
        ["--config=X=Y"], ["--append"],
    ]:  # fmt: skip
        with pytest.raises(ArgumentRefused):
            bind_either(CONVERT, {}, switches, GPKG)


def test_an_unknown_switch_suggests_a_near_one() -> None:
    with pytest.raises(UnknownArgument) as caught:
        extra(REPROJECT, ["--resample=near"], CONTEXT)
    assert "resampling" in caught.value.suggestion


def test_misspelt_argument_suggests_only_similar_names() -> None:
    for path, name, meant in (
        ("raster clip", "where", {"like-where"}), ("raster zonal-stats", "field", {"include-field"}),
        ("raster convert", "band", set()), ("raster edit", "unit", set()),
        ("vector convert", "output-crs", set()),
    ):  # fmt: skip
        with pytest.raises(UnknownArgument) as caught:
            find_argument(packaged().algorithms[path], name)
        assert {word.strip("?") for word in caught.value.suggestion.split() if word.startswith("--")} == {
            f"--{option}" for option in meant
        }


def test_words_bind_input_output_and_extend_lists() -> None:
    given_words = ["a,b.tif", "o.tif", "--co", "TILED=YES", "--overwrite"]
    bound = bind(RASTER, {"co": {"COMPRESS": "LZW"}}, Context(packaged()), given_words)
    assert bound.get("overwrite") == ("true",)  # the server handles it, and does not pass it to GDAL
    options = ("--creation-option=COMPRESS=LZW", "--creation-option=TILED=YES")
    assert placed(bound) == ("--input=/ws/a,b.tif", "--output=/ws/o.tif", *options)
    for given_json, wrong in (
        ({}, ["a.tif"]),
        ({}, ["a.tif", "b.tif", "c.tif"]),
        ({}, ["a.tif", "b.tif", "--config=X=Y"]),
        ({}, ["--input=a.tif", "b.tif", "--output=c.tif"]),
        ({"output": "c.tif"}, ["a.tif", "--output=b.tif"]),
    ):
        with pytest.raises(ArgumentRefused):
            bind(RASTER, given_json, Context(packaged()), wrong)


def test_words_without_switch_fill_unnamed_arguments() -> None:
    mosaic = packaged().algorithms["raster mosaic"]
    for algorithm, words, inputs, output in (
        (mosaic, ["a.tif", "b.tif", "o.tif"], ("a.tif", "b.tif"), ("o.tif",)),
        (RASTER, ["--input=a.tif", "o.tif"], ("a.tif",), ("o.tif",)),
    ):
        bound = bind(algorithm, {}, Context(packaged()), words)
        assert (bound.get("input"), bound.get("output")) == (inputs, output)


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

SWITCHES = st.lists(
    st.builds("--{}={}".format, NAMES, VALUES) | st.builds("--{}".format, NAMES) | st.builds("-{:.1}".format, NAMES) | VALUES, max_size=6
)  # fmt: skip


@pytest.mark.claim("args.no-bare-words")
@given(st.sampled_from([RASTER, VECTOR, REPROJECT]), SWITCHES)
def test_bound_arguments_render_to_unambiguous_words(algorithm, switches):
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
    names = {word.partition("=")[0] for word in rendered}
    assert not names & {"--input", "--output", "--overwrite", "--append"}
