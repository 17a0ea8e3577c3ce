"""Which dataset names are accepted, with which meaning, and that no accepted name has a second meaning."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.toolboxes.gdal.datasets.names import MAX_BYTES, MAX_PARTS, DatasetName, parse, table
from gdal_mcp.toolboxes.gdal.environment import SKIPPED_DRIVERS

CANONICAL = "/ws/file"
ARCHIVES = ("zip", "tar")


def refusal(text: str) -> ToolError:
    with pytest.raises(ToolError) as caught:
        parse(text)
    assert caught.value.stage is Stage.RESOLVE
    assert caught.value.suggestion
    return caught.value


def rendered(text: str) -> tuple[str, str]:
    """The path in a text as written, and the name for GDAL."""
    name = parse(text)
    assert not name.unsplit
    return name.path, name.at(CANONICAL)


def test_text_unclaimed_by_drivers_is_a_path():
    for text in [
        "a.tif", "./NETCDF:a.nc", "/ws/PG:host=x", "C:/x.tif", "2024-01-01T10:00.tif", "a b", "@list",
        "file:///ws/a.tif", "é/vsicurl/x",
    ]:  # fmt: skip
        name = parse(text)
        assert (name.is_plain, name.path, name.at(CANONICAL)) == (True, text, CANONICAL)


@pytest.mark.claim("names.read-whole")
def test_driver_name_has_one_path_and_canonical_spelling():
    for text, path, name in [
        ('NETCDF:"a.nc":tos', "a.nc", 'NETCDF:"/ws/file":tos'),
        ("NETCDF:a.nc:tos", "a.nc", 'NETCDF:"/ws/file":tos'),
        ("netcdf:/ws/a.nc", "/ws/a.nc", 'NETCDF:"/ws/file"'),
        ('NETCDF:"a:b.nc":"x:y"', "a:b.nc", 'NETCDF:"/ws/file":"x:y"'),
        ('HDF5:"a.h5"://group/ds', "a.h5", 'HDF5:"/ws/file"://group/ds'),
        ('HDF4_SDS:UNKNOWN:"a.hdf":12', "a.hdf", 'HDF4_SDS:UNKNOWN:"/ws/file":12'),
        ('HDF4_EOS:EOS_GRID:"a.hdf":MOD Grid:1 km', "a.hdf", 'HDF4_EOS:EOS_GRID:"/ws/file":MOD Grid:1 km'),
        ('ZARR:"a.zarr":/g/a:3', "a.zarr", 'ZARR:"/ws/file":/g/a:3'),
        ("GTIFF_DIR:2:a.tif", "a.tif", "GTIFF_DIR:2:/ws/file"),
        ("GTIFF_DIR:off:408:../x/a.tif", "../x/a.tif", "GTIFF_DIR:off:408:/ws/file"),
        ("GTIFF_RAW:a.tif", "a.tif", "GTIFF_RAW:/ws/file"),
        ("GPKG:a.gpkg:my table", "a.gpkg", "GPKG:/ws/file:my table"),
        ("NITF_IM:1:a.ntf", "a.ntf", "NITF_IM:1:/ws/file"),
        ("PDF_IMAGE:1:17:a.pdf", "a.pdf", "PDF_IMAGE:1:17:/ws/file"),
        ("DERIVED_SUBDATASET:PHASE:a.tif", "a.tif", "DERIVED_SUBDATASET:PHASE:/ws/file"),
        ("SENTINEL2_L1C:MTD.xml:10m:EPSG_32632", "MTD.xml", "SENTINEL2_L1C:/ws/file:10m:EPSG_32632"),
        ('MiraMonRaster:"a.rel","b 1"', "a.rel", 'MiraMonRaster:"/ws/file","b 1"'),
        ("/vsigzip//ws/a.tif.gz", "/ws/a.tif.gz", "/vsigzip//ws/file"),
        ("/vsigzip/a.tif.gz", "a.tif.gz", "/vsigzip//ws/file"),
        ("/vsizip/{a.zip}/b/c.tif", "a.zip", "/vsizip/{/ws/file}/b/c.tif"),
        ("/vsitar/{/ws/a.tgz}", "/ws/a.tgz", "/vsitar/{/ws/file}"),
        ('NETCDF:"/vsizip/{a.zip}/b.nc":v', "a.zip", 'NETCDF:"/vsizip/{/ws/file}/b.nc":v'),
        ("GTIFF_DIR:1:/vsigzip//ws/a.gz", "/ws/a.gz", "GTIFF_DIR:1:/vsigzip//ws/file"),
    ]:
        assert rendered(text) == (path, name)


def test_archive_path_can_split_at_each_name():
    for kind in ARCHIVES:
        for root in ["", "/"]:
            name = parse(f"/vsi{kind}/{root}x.zip//real.zip/in.tif")
            archive = f"/vsi{kind}/{{/ws/file}}"
            assert [(reading.path, reading.at(CANONICAL)) for reading in name.splits()] == [
                (f"{root}x.zip", f"{archive}/real.zip/in.tif"),
                (f"{root}x.zip/real.zip", f"{archive}/in.tif"),
                (f"{root}x.zip/real.zip/in.tif", archive),
            ]


@pytest.mark.claim("names.files-only")
def test_non_file_name_is_refused_by_its_target():
    for text, code in [
        *(
            (f"/vsi{scheme}/bucket/a.tif", Code.NETWORK_BLOCKED)
            for scheme in ("s3", "gs", "az", "adls", "oss", "swift", "hdfs", "webhdfs")
        ),
        *((text, Code.NETWORK_BLOCKED) for text in (
            "/vsicurl/https://example.org/a.tif", "/vsicurl?url=https%3A%2F%2Fexample.org",
            "/vsis3_streaming/b/a.tif", "/VSIS3/b/a.tif", "s3://bucket/a.tif", "https://example.org/a.tif",
            "postgresql://db/x", "PG: dbname=x", "pg:dbname=x", "ODBC:DRIVER=/tmp/x.so", "MSSQL:server=x",
            'STACIT:"a.json":b', "/vsizip//vsicurl/https://example.org/a.zip/b",
            "/vsizip/vsis3/bucket/a.zip/b", "/vsitar/{/vsicurl/https://example.org/a.tar}/b",
            "/vsigzip//vsis3/b/a.gz", 'NETCDF:"https://example.org/a.nc":v',
            "NETCDF:https://example.org/a.nc:v", 'ZARR:"/vsicurl/https://example.org/a.zarr":/a',
            "DERIVED_SUBDATASET:REAL:/vsis3/b/a.tif", "GPKG:a.gpkg:/vsicurl/x", 'NETCDF:"a.nc":/vsis3/b',
            'HDF5:"a.h5"://http://h/x',
        )),
        *((text, Code.PATH_NOT_ALLOWED) for text in (
            "/vsimem/x", "/vsistdin/", "/vsistdin?buffer_limit=-1", "/vsisubfile/0_100,/ws/a.tif",
            "/vsicrypt/key=00,file=/ws/a.tif", "/vsisparse/a.xml", "/vsicached?file=/ws/a.tif",
            "/vsikerchunk_json_ref/{a.json}/x", "/vsi7z/a.7z/b", "/vsinew/a", "/vsi", "vrt://a.tif?bands=1",
            "<VRTDataset/>", '{"type":"gdal_streamed_alg"}', "MEM:::DATAPOINTER=1", "CSV:/etc/passwd",
            "SQLITE:a.db", "NEWDRIVER:a.xyz", "ADRG:a.gen,b.thf", "JPEG_SUBFILE:0,9,/etc/passwd", "",
            "a\nb", 'NETCDF:"a.nc":v\u2028', "a\udcff", "x" * (MAX_BYTES + 1),
        )),
    ]:  # fmt: skip
        assert refusal(text).code is code


@pytest.mark.claim("names.read-whole")
def test_what_no_grammar_reads_whole_is_refused():
    for text in [
        'NETCDF:"a.nc":', 'NETCDF:"a.nc":x"y', 'NETCDF:"a.nc":x:y', 'NETCDF:"a.nc"x', 'NETCDF:""',
        'NETCDF:"a.nc":../x', 'NETCDF:"a.nc":x/../y', 'NETCDF:"a.nc":"x/.."', 'NETCDF:"a\\".nc":x',
        'HDF5:"a.h5"', 'ZARR:"a.zarr":/..', 'ZARR:"a.zarr":/a:x', 'ZARR:"a.zarr":/a:1:2:3',
        "GTIFF_DIR:a.tif", "GTIFF_DIR:-1:a.tif", "GTIFF_DIR:1:x:a.tif", "GTIFF_DIR:off:1:",
        "GPKG:a.gpkg:t:u", "GPKG:a.gpkg:../t", "DERIVED_SUBDATASET:OTHER:a.tif",
        'DERIVED_SUBDATASET:REAL:NETCDF:"a.nc":v', "DERIVED_SUBDATASET:REAL:<VRTDataset/>",
        'NETCDF:"NETCDF:a.nc":v', "GTIFF_DIR:1:{x}", 'ZARR:"{}":/a', "PDF:1:file:///ws/a.pdf",
        'NETCDF:"file:///ws/a.nc":v', "NETCDF :a.nc:v", "/vsizip/", "/vsizip", "/vsizip?a.zip",
        "/vsizip/a.zip/../b", "/vsizip/a.zip/./b", "/vsizip/a.zip/b\\..\\c", "/vsizip/a.zip/{b}",
        "/vsizip/{a.zip", "/vsizip/{}/b", "/vsizip/{a.zip}b", "/vsizip/{a.zip}/..", "/vsizip/{a.zip}/{b}",
        "/vsizip/{{a.zip}}/b", "/vsizip/{{a.zip}/b", "/vsizip/{/vsitar/{a.tar}/b.zip}/c",
        "/vsizip/{/vsimem/a.zip}/b", "/vsizip//vsitar/a.tar/b.zip/c", "/vsizip/vsitar/a.tar/b.zip/c",
        "/vsizip/vsizip//ws/a.zip/b.zip/c", "/vsizip/file:///ws/a.zip/b", "/vsizip/{file:///ws/a.zip}/b",
        "/vsigzip//vsizip/a.zip/b.gz", "/vsigzip/file:///a.gz", "/vsigzip/",
        "/vsizip/" + "a/" * (MAX_PARTS + 1),
    ]:  # fmt: skip
        assert refusal(text).code is Code.PATH_NOT_ALLOWED


@pytest.mark.claim("names.files-only")
def test_path_that_gdal_would_misread_is_refused():
    for text, canonical in [
        ('NETCDF:"a.nc":v', '/ws/a".nc'), ('NETCDF:"a.nc":v', "/ws/a\\.nc"),
        ("GTIFF_DIR:1:a.tif", "/ws/a:b.tif"), ("GPKG:a.gpkg:t", '/ws/"a.gpkg'),
        ("/vsizip/{a.zip}/b", "/ws/a}/b.zip"), ("/vsizip/{a.zip}/b", "/ws/{a.zip"),
        ('NETCDF:"/vsizip/{a.zip}/b.nc":v', '/ws/a".zip'),
        ('NETCDF:"/vsizip/{a.zip}/b.nc":v', "/ws/a}.zip"), ("a.tif", "/vsimem/a.tif"),
        ("a.tif", "/vsicurl?x/a.tif"),
    ]:  # fmt: skip
        name = parse(text)
        with pytest.raises(ToolError) as caught:
            name.at(canonical)
        assert caught.value.code is Code.PATH_NOT_ALLOWED


def test_harmless_special_characters_in_path_are_accepted():
    for canonical in ["/ws/a:b.nc", "/ws/{x}.nc", "/ws/a,b c.nc", "/ws/NETCDF:x"]:
        assert parse('NETCDF:"a.nc":v').at(canonical) == f'NETCDF:"{canonical}":v'


def example(name: str) -> str:
    """A text that the grammar of a form accepts."""
    fields = {"path": "a.x", "number": "3", "word": "w_1", "name": "n 1", "quoted": "q: 1"}
    return re.sub(r"\{([^{}]+)\}", lambda match: fields.get(match[1], match[1].split("|")[0]), name)


def test_every_table_row_matches_only_its_own_grammar():
    for form, name in ((row, name) for row in table().forms for name in row["names"]):
        text = example(name)
        grammars = table().grammars[name.partition(":")[0].upper()]
        assert [grammar.form for grammar in grammars if grammar.pattern.fullmatch(text)] == [form]
        parsed = parse(text)
        assert (parsed.path, parsed.place) == ("a.x", form["place"])
        assert parsed.before + parsed.path + parsed.after == text


def test_prefixes_are_accepted_or_refused_with_a_reason():
    read = table()
    assert not set(read.grammars) & set(read.refusals)
    assert all(row["reason"] and row["driver"] for row in read.forms)
    assert all(row.reason for row in read.refusals.values())
    assert all(row.suggestion for row in read.refusals.values())


# the prefix of names of a disabled driver, if it has its own
PREFIXES = {
    "PostgreSQL": "PG", "PostGISRaster": "PG", "MSSQLSpatial": "MSSQL", "Elasticsearch": "ES",
    "GNMFile": "GNM", "GNMDatabase": "GNM",
}  # fmt: skip


@pytest.mark.claim("network.drivers-off")
def test_every_disabled_driver_is_refused_by_name():
    for driver in SKIPPED_DRIVERS:
        assert PREFIXES.get(driver, driver).upper() in table().refusals


# texts that resemble every grammar: pieces of names in any order
PIECES = [
    *sorted({name.partition(":")[0] for form in table().forms for name in form["names"]}),
    *("/vsizip/", "/vsitar/", "/vsigzip/", "/vsicurl/", "/vsimem/", "vsizip/", "vrt://", "https://", "file://"),
    *(":", '"', "/", "{", "}", "..", ".", ",", "\\", "?", " ", "<", "\n", "off:", "1", "a", "a.zip", "/ws/b.tif", "10m"),
    *("SIGMA0", "REAL", "v", "PG", "é"),
]  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.sampled_from([example(name) for form in table().forms for name in form["names"]]).flatmap(
        lambda text: st.tuples(
            st.integers(0, len(text)), st.sampled_from(PIECES), st.integers(0, len(text))
        ).map(lambda edit: text[: edit[0]] + edit[1] + text[edit[2] :])
    ),
)
SENTINEL = "/=ws=/=file="
# text that may surround the path, defined a second time and less strictly
AROUND = re.compile(
    r"""([A-Za-z0-9_]+:(?:[^"/\\{}]*:)?(?:[^":\\]*:)*"?)?(/vsi(zip|tar)/\{|/vsigzip/)?"""
    + SENTINEL
    + r"""(\}(/[^{}\\]*)?)?("?[:,]?.*)?"""
)


@pytest.mark.claim("names.read-whole")
@given(TEXTS)
def test_accepted_text_has_one_path_opening_nothing_else(text: str):
    try:
        name = parse(text)
    except ToolError:
        return
    for reading in name.splits():
        written = reading.at(SENTINEL)
        assert written.count(SENTINEL) == 1
        assert AROUND.fullmatch(written)
        around = written.replace(SENTINEL, "")
        assert len(re.findall("/vsi", reading.before)) <= 1
        assert "://" not in reading.before
        assert ".." not in re.split(r'[/":]', around)
        assert "\\" not in around
        assert around.isprintable() or not any(ord(letter) < 32 for letter in around)
        if not reading.is_plain:
            assert re.sub("/+", "/", reading.path) in re.sub("/+", "/", text)


@given(TEXTS)
def test_accepted_name_parses_again_to_the_same(text: str):
    try:
        name = parse(text)
    except ToolError:
        return
    for reading in name.splits():
        written = reading.at(CANONICAL)
        again = parse(written)
        assert [second.at(CANONICAL) for second in again.splits() if second.path == CANONICAL] == [written]
        assert isinstance(again, DatasetName)
