"""Which KEY=VALUE options pass, and that there is a decision on every option of every driver."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.model import OptionSpec, Scope
from gdal_mcp.toolboxes.gdal.catalogue.options import check_option, decide, needs_review
from gdal_mcp.toolboxes.gdal.catalogue.values import KINDS
from gdal_mcp.toolboxes.gdal.environment import SKIPPED_DRIVERS

Row = tuple[str, Scope, OptionSpec]


def declared() -> Iterator[Row]:
    for driver in packaged().drivers:
        for scope, specs in driver.options.items():
            yield from ((driver.name, scope, spec) for spec in specs)
    for scope, specs in packaged().shared_options.items():
        yield from (("*", scope, spec) for spec in specs)


ROWS = list(declared())

# Options that surveys of GDAL found to open, write, delete or run something. Disabled drivers are included.
DANGEROUS = {
    Scope.OPEN: {
        "GTI": "SQL SPATIAL_SQL", "VRT": "ROOT_PATH", "MVT": "METADATA_FILE", "OSM": "CONFIG_FILE",
        "GML": "OGR_SCHEMA XSD GFS_TEMPLATE REGISTRY DOWNLOAD_SCHEMA", "CSV": "OGR_SCHEMA",
        "GeoJSON": "OGR_SCHEMA", "SQLite": "OGR_SCHEMA PRELUDE_STATEMENTS", "GPKG": "PRELUDE_STATEMENTS",
        "PostgreSQL": "PRELUDE_STATEMENTS", "ADBC": "PRELUDE_STATEMENTS ADBC_DRIVER SQL",
        "Interlis 1": "MODEL", "Interlis 2": "MODEL", "SXF": "SXF_RSC_FILENAME", "GMLAS": "XSD",
        "WFS": "URL", "WMTS": "URL", "OAPIF": "USERPWD", "GPSBabel": "FILENAME", "PLMOSAIC": "CACHE_PATH",
    },
    Scope.CREATION: {
        "HFA": "DEPENDENT_FILE", "netCDF": "CONFIG_FILE", "ISIS3": "EXTERNAL_FILENAME", "VICAR": "LABEL",
        "PDS4": "IMAGE_FILENAME TEMPLATE", "JP2OpenJPEG": "GMLJP2V2_DEF", "MBTiles": "CONF TEMPORARY_DB",
        "PDF": """JPEG2000_DRIVER EXTRA_IMAGES EXTRA_RASTERS OGR_DATASOURCE JAVASCRIPT JAVASCRIPT_FILE
            COMPOSITION_FILE XMP EXTRA_STREAM""",
        "MVT": "CONF TEMPORARY_DB", "PMTiles": "CONF", "MRF": "DATANAME INDEXNAME CACHEDSOURCE",
        "BAG": "TEMPLATE", "S102": "QUALITY_DATASET", "DGN": "SEED", "GPX": "GPX_EXTENSIONS_NS_URL",
        "DXF": "HEADER TRAILER", "GeoRSS": "HEADER", "MapML": "HEAD HEAD_LINKS",
        "GMLAS": "INPUT_XSD CONFIG_FILE OUTPUT_XSD_FILENAME",
    },
    Scope.LAYER: {
        "FlatGeobuf": "TEMPORARY_DIR", "Elasticsearch": "MAPPING WRITE_MAPPING INDEX_DEFINITION",
    },
}  # fmt: skip

# options that pass unchanged
PERMITTED = {
    ("GTiff", Scope.CREATION): ["PREDICTOR=2", "SPARSE_OK=TRUE", "NUM_THREADS=4", "DISCARD_LSB=1,2,3"],
    ("gtiff", Scope.CREATION): ["COMPRESS=LZW"],
    ("COG", Scope.CREATION): [
        "TILING_SCHEME=GoogleMapsCompatible", "BLOCKSIZE=256", "EXTENT=-10,-20,30.5,4e1", "PREDICTOR=2",
    ],
    ("PNG", Scope.CREATION): ["TITLE=A map, with a comma"],
    ("JPEG", Scope.CREATION): ["QUALITY=90"],
    ("HFA", Scope.CREATION): ["COMPRESS=YES"],
    ("GPKG", Scope.LAYER): ["GEOMETRY_NAME=geom", "FID=id"],
    ("GPKG", Scope.CREATION): ["VERSION=1.4"],
    ("GeoJSON", Scope.LAYER): ["RFC7946=YES", "COORDINATE_PRECISION=5"],
    ("CSV", Scope.LAYER): ["GEOMETRY=AS_XY"],
    ("CSV", Scope.OPEN): ["X_POSSIBLE_NAMES=lon*,x"],
    ("ESRI Shapefile", Scope.LAYER): ["ENCODING=utf-8"],
    ("ESRI Shapefile", Scope.OPEN): ["ENCODING=LDID/87", "ENCODING="],
    ("GPX", Scope.CREATION): ["METADATA_LINK_0_TEXT=Home"],
    ("NITF", Scope.CREATION): ["FTITLE=Title"],
    ("XYZ", Scope.CREATION): ["COLUMN_SEPARATOR= "],
}  # fmt: skip
RESPELT = [
    ("GTiff", "COMPRESS=lzw", "COMPRESS=LZW"), ("GTiff", "compress=DEFLATE", "COMPRESS=DEFLATE"),
    ("GTiff", "TILED=yes", "TILED=YES"), ("GTiff", "NUM_THREADS=all_cpus", "NUM_THREADS=ALL_CPUS"),
    ("COG", "RESAMPLING=average", "RESAMPLING=AVERAGE"), ("COG", "TARGET_SRS=epsg:3857", "TARGET_SRS=EPSG:3857"),
]  # fmt: skip

REFUSED = [
    ("GTiff", Scope.CREATION, "COMPRESS"), ("GTiff", Scope.CREATION, ""), ("GTiff", Scope.CREATION, "=LZW"),
    ("GTiff", Scope.CREATION, "COMPRESS=/etc/passwd"), ("GTiff", Scope.CREATION, "COMPRESS=?"),
    ("GTiff", Scope.CREATION, "COMPRESS=LZW\n"), ("GTiff", Scope.CREATION, "COMPRESS=LZW\0"),
    ("GTiff", Scope.CREATION, "COM PRESS=LZW"), ("GTiff", Scope.CREATION, "--config=GDAL_SKIP"),
    ("GTiff", Scope.CREATION, "CPL_LOG=x"), ("GTiff", Scope.CREATION, "TILED=maybe"),
    ("GTiff", Scope.CREATION, "ZLEVEL=99"), ("GTiff", Scope.CREATION, "BLOCKXSIZE=1e3"),
    ("GTiff", Scope.CREATION, "NUM_THREADS=0"), ("GTiff", Scope.CREATION, "NUM_THREADS=/x"),
    ("GTiff", Scope.CREATION, "SOURCE_ICC_PROFILE=AAAA"), ("GTiff", Scope.OPEN, "GEOREF_SOURCES=/etc/passwd"),
    ("GTiff", Scope.CREATION, "TILED=Y\u200bES"), ("COG", Scope.CREATION, "TARGET_SRS=/etc/passwd"),
    ("COG", Scope.CREATION, "EXTENT=1,2,nan,4"), ("COG", Scope.CREATION, "RESAMPLING=/x"),
    ("PNG", Scope.CREATION, "TITLE=@/etc/passwd"), ("PNG", Scope.CREATION, "TITLE=a/b"),
    ("PNG", Scope.CREATION, "TITLE=?"), ("PNG", Scope.CREATION, "TITLE=a=?"),
    ("GPX", Scope.CREATION, "METADATA_LINK_*_TEXT=x"), ("GPX", Scope.CREATION, "METADATA_LINK_0/1_TEXT=x"),
    ("PNG", Scope.CREATION, "TITLE=" + "x" * 2000),
    ("GPKG", Scope.CREATION, "TILING_SCHEME=/ws/scheme.json"),
    ("GPKG", Scope.LAYER, 'GEOMETRY_NAME=a"; DROP TABLE x'),
    ("ESRI Shapefile", Scope.OPEN, "ENCODING=../../x"),
    ("ESRI Shapefile", Scope.OPEN, "ENCODING=LDID/../x"), ("NITF", Scope.CREATION, "FSCLAS=TOO LONG"),
    ("NITF", Scope.CREATION, "TRE=BLOCKA=x"), ("Unheard Of", Scope.CREATION, "COMPRESS=LZW"),
    # that would select another driver, another size or another path
    *(("GTiff", Scope.CREATION, text) for text in (
        "DRIVER=VRT", "-of=VRT", "QUALITY=90 -outsize 300000 300000", "WIDTH=300000", "SIZE=300000", "@/etc/passwd",
        "COMPRESS=LZW --config=x", "NUM_THREADS=100000",
    )),
    *((driver, scope, f"{name}=x") for driver in SKIPPED_DRIVERS for scope in Scope for name in ("HOST", "URL", "API_KEY", "USERPWD")),
]  # fmt: skip


def test_every_declared_option_has_a_reasoned_decision() -> None:
    rules = [(row, decide(packaged(), *row)) for row in ROWS]
    assert len(rules) > 1000
    assert [row for row, rule in rules if not rule.reason] == []
    assert [row for row, rule in rules if rule.shape is not None and rule.shape.kind not in KINDS] == []


def test_every_text_or_dangerous_option_has_human_decision() -> None:
    rules = packaged().option_rules
    undecided = [
        (driver, str(scope), spec.name)
        for driver, scope, spec in ROWS
        if (spec.type == "string" or needs_review(spec))
        and (driver, scope, spec.name) not in rules
        and ("*", scope, spec.name) not in rules
    ]
    assert undecided == []


@pytest.mark.claim("args.options-allow-listed")
def test_unreviewed_option_is_refused_unless_plainly_closed() -> None:
    for spec in [
        OptionSpec("BRAND_NEW", "string"),
        OptionSpec("BRAND_NEW", "unheard-of type"),
        OptionSpec("BRAND_NEW_FILE", "boolean"),
        OptionSpec("BRAND_NEW", "string-select", choices=("A", "B"), description="Which library to load"),
    ]:
        assert decide(packaged(), "GTiff", Scope.CREATION, spec).shape is None
    assert decide(packaged(), "GTiff", Scope.CREATION, OptionSpec("BRAND_NEW", "boolean")).shape is not None


def test_every_rule_is_about_an_option_that_exists() -> None:
    exact = {(driver, spec.name) for driver, _, spec in ROWS}
    names = {spec.name for _, _, spec in ROWS}
    stale = {
        (driver, name)
        for driver, _, name in packaged().option_rules
        if (driver, name) not in exact and not (driver == "*" and name in names)
    }
    assert stale == set()


@pytest.mark.claim("args.options-allow-listed")
def test_options_that_open_write_or_run_never_pass() -> None:
    for scope, drivers in DANGEROUS.items():
        for driver, names in drivers.items():
            for name in names.split():
                for value in ("x", "YES", "/etc/passwd", "1"):
                    with pytest.raises(ArgumentRefused):
                        check_option(packaged(), scope, (driver,), f"{name}={value}")


def test_a_plain_option_passes_in_the_declared_spelling() -> None:
    for (driver, scope), texts in PERMITTED.items():
        for text in texts:
            assert check_option(packaged(), scope, (driver,), text) == text
    for driver, text, passed in RESPELT:
        assert check_option(packaged(), Scope.CREATION, (driver,), text) == passed


@pytest.mark.claim("args.options-allow-listed")
def test_anything_else_is_refused() -> None:
    for driver, scope, text in REFUSED:
        with pytest.raises(ArgumentRefused):
            check_option(packaged(), scope, (driver,), text)


# without a named driver: for an input that GDAL identifies, for the warper and for the transformer
ALONE = {
    Scope.OPEN: (
        "NUM_THREADS=2 AUTODETECT_TYPE=YES",
        "ROOT_PATH=x XSD=x OGR_SCHEMA=x PRELUDE_STATEMENTS=SELECT LAYER=x",
    ),
    Scope.WARP: (
        """INIT_DEST=NO_DATA INIT_DEST=0,0,255 SAMPLE_GRID=YES SAMPLE_STEPS=ALL SOURCE_EXTRA=5 NUM_THREADS=2 OPTIMIZE_SIZE=TRUE
        CUTLINE_ALL_TOUCHED=YES UNIFIED_SRC_NODATA=PARTIAL EXCLUDED_VALUES=(0,0,0),(1,1,1)""",
        "CUTLINE=POLYGON((0,1)) INIT_DEST=/x CPL_LOG=/x SAMPLE_STEPS=x",
    ),
    Scope.TRANSFORM: (
        """METHOD=GCP_TPS SRC_METHOD=RPC MAX_GCP_ORDER=2 INSERT_CENTER_LONG=NO CENTER_LONG=180 RPC_HEIGHT=120.5 RPC_HEIGHT_SCALE=1
        GCPS_OK=YES ONLY_BEST=YES AREA_OF_INTEREST=1,2,3,4 NUM_THREADS=ALL_CPUS""",
        """RPC_DEM=/etc/passwd RPC_DEM_SRS=EPSG:4326 COORDINATE_OPERATION=+proj=pipeline SRC_GEOLOC_ARRAY=x.tif GEOLOC_ARRAY=x.tif
        DST_GEOLOC_ARRAY=x.tif SRC_SRS=EPSG:4326 DST_SRS=EPSG:4326 RPC_FOOTPRINT=POINT(0) DEM_SRS=x""",
    ),
    Scope.CREATION: ("", "COMPRESS=LZW"),
}


@pytest.mark.claim("args.options-allow-listed")
def test_without_driver_only_universally_safe_options_pass() -> None:
    for scope, (passing, refused) in ALONE.items():
        for text in passing.split():
            assert check_option(packaged(), scope, (), text) == text
        for text in refused.split():
            with pytest.raises(ArgumentRefused) as caught:
                check_option(packaged(), scope, (), text)
            assert caught.value.suggestion


PATHLIKE = st.sampled_from(
    ["/etc/passwd", "../x", "a\\b", "@file", "~/x", "<xml/>", "{}", "http://h/x", "/vsimem/x", "x/y"]
)


@pytest.mark.claim("args.options-allow-listed")
@given(st.sampled_from(ROWS), st.text(max_size=8), PATHLIKE, st.text(max_size=8))
def test_path_like_value_passes_only_as_listed_choice(row, head, path, tail):
    driver, scope, spec = row
    text = f"{spec.name.replace('*', '0')}={head}{path}{tail}"
    try:
        _, _, passed = check_option(packaged(), scope, (driver,), text).partition("=")
    except ArgumentRefused:
        return
    assert "/" not in passed or passed in spec.choices
    assert not passed.startswith(("@", "~", "<"))
    assert not passed.startswith("{") or re.match(r"\{[0-9, ]+\}", passed)
    assert "\\" not in passed
