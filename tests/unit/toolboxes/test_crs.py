"""Which texts are accepted as a CRS, and that none of them can make GDAL or PROJ open a file or a connection."""

import contextlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.errors import Code
from gdal_mcp.toolboxes.gdal.catalogue.crs import MAX_BYTES, check_crs
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from tests.quick import quick

WKT1 = (
    'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563,AUTHORITY["EPSG","7030"]],'
    'AUTHORITY["EPSG","6326"]],PRIMEM["Greenwich",0,AUTHORITY["EPSG","8901"]],'
    'UNIT["degree",0.0174532925199433,AUTHORITY["EPSG","9122"]],AXIS["Latitude",NORTH],AXIS["Longitude",EAST],'
    'AUTHORITY["EPSG","4326"]]'
)
WKT2 = (
    'PROJCRS["OSGB36 / British National Grid",BASEGEOGCRS["OSGB36",DATUM["Ordnance Survey of Great Britain 1936",'
    'ELLIPSOID["Airy 1830",6377563.396,299.3249646,LENGTHUNIT["metre",1]]],PRIMEM["Greenwich",0,'
    'ANGLEUNIT["degree",0.0174532925199433]],ID["EPSG",4277]],CONVERSION["British National Grid",'
    'METHOD["Transverse Mercator",ID["EPSG",9807]],PARAMETER["Latitude of natural origin",49,'
    'ANGLEUNIT["degree",0.0174532925199433],ID["EPSG",8801]]],CS[Cartesian,2],'
    'AXIS["(E)",east,ORDER[1],LENGTHUNIT["metre",1]],AXIS["(N)",north,ORDER[2],LENGTHUNIT["metre",1]],'
    'USAGE[SCOPE["Survey."],AREA["United Kingdom: 49°45\'N to 61°N."],BBOX[49.75,-9.01,61.01,2.01]],ID["EPSG",27700]]'
)
PROJJSON = {
    "$schema": "https://proj.org/schemas/v0.7/projjson.schema.json", "type": "GeographicCRS",
    "name": "WGS 84",
    "datum": {
        "type": "GeodeticReferenceFrame", "name": "World Geodetic System 1984",
        "ellipsoid": {"name": "WGS 84", "semi_major_axis": 6378137, "inverse_flattening": 298.257223563},
    },
    "coordinate_system": {
        "subtype": "ellipsoidal",
        "axis": [
            {"name": "Geodetic latitude", "abbreviation": "Lat", "direction": "north", "unit": "degree"},
            {"name": "Geodetic longitude", "abbreviation": "Lon", "direction": "east", "unit": "degree"},
        ],
    },
    "remarks": "See https://example.org/", "id": {"authority": "EPSG", "code": 4326},
}  # fmt: skip
BOUND = (
    'BOUNDCRS[SOURCECRS[{0}],TARGETCRS[{0}],ABRIDGEDTRANSFORMATION["t",METHOD["{1}",ID["EPSG",9615]],{2}]]'
)

MERCATOR = WKT1.replace("GEOGCS", "PROJCS")[:-1] + ',EXTENSION["PROJ4","+proj=merc +nadgrids=@null +wktext"]]'

# texts that stay unchanged, and the results for others
WHOLE = [
    "EPSG:4326", "EPSG:4326+5773", "ESRI:102001", "OGC:CRS84", "IAU_2015:30100", "IGNF:LAMB93", "IGNF:ED50UTM31.NGF84", "NKG:ETRF00",
    "NAD27", "urn:ogc:def:crs:IAU:2015:30100", "urn:ogc:def:crs:EPSG::4326", "urn:ogc:def:crs:OGC:1.3:CRS84",
    "urn:ogc:def:crs,crs:EPSG::27700,crs:EPSG::5701",
    "+proj=longlat +datum=WGS84 +no_defs", "+type=crs +proj=utm +zone=32",
    "+proj=merc +a=6378137 +b=6378137 +nadgrids=@null +wktext +no_defs",
    "+proj=tmerc +lat_0=49 +lon_0=-2 +k=0.9996 +ellps=airy +towgs84=446.4,-125.1,542.0",
    "+proj=ob_tran +o_proj=longlat +o_lon_p=0 +o_lat_p=40 +lon_0=10 +R=6370000", "+proj=longlat +pm=2d20'14.025\"E +ellps=intl",
    WKT1, MERCATOR,
]  # fmt: skip
CANONICAL = {
    **{text: text for text in WHOLE}, "epsg:32611": "EPSG:32611", " EPSG:3857 ": "EPSG:3857",
    "EPSG:4326+epsg:5773": "EPSG:4326+EPSG:5773", "EPSG:9000 @ 2020.5": "EPSG:9000@2020.5",
    "CRS84": "OGC:CRS84", "CRS:84": "OGC:CRS84", "ignf:STPM50_V": "IGNF:STPM50_V", "wgs84": "WGS84",
    WKT1.replace(",", ",\n  "): WKT1.replace(",", ", "), WKT2: WKT2,
    WKT2[:-1] + ',REMARK["See https://example.org/"]]': WKT2,
}  # fmt: skip

REFUSED = [
    # not a CRS, or the name of a file
    "", "/etc/passwd", "data/my.prj", "my.prj", "..", "4326", "WGS 84 / UTM zone 31N", "DICT:/etc/passwd,1", "dict:epsg.wkt,4326", "\ud800",
    "IMPORT_FROM_EPSG:4326", "AUTO:42001,99,8888", "EPSG:4326\0", '["x"]', "[]", "{}", "{" * 5000, '{"type":"GeographicCRS"',
    # codes and names with additional text
    "EPSG:/etc/passwd", "EPSG:4326+/etc/passwd", "EPSG:4326@/etc/passwd", "EPSG:4326 EPSG:4326", "ESRI::/etc/passwd", "IGNF:x.gsb",
    "IGNF:X.GSB", "IGNF:..", "OGC:x.gtx", "NKG:x.tif", "EPSG:4326+IGNF:X.TIF", "EPSG:4326+NKG:x.gtx",
    *(f"urn:ogc:def:crs:{rest}" for rest in ("EPSG::../x", "EPSG::x.gsb", "grids::x", "IGNF::x.gsb", "IGNF::X.GSB")),
    "urn:ogc:def:crs,crs:EPSG::4326,crs:EPSG::x.gtx", "urn:ogc:def:crs,crs:EPSG::4326,crs:NKG::x.tif",
    "urn:x-ogc:def:crs:EPSG:9.9:x.gsb", "urn:ogc:def:coordinateOperation:EPSG::1234",
    # PROJ strings with files, grids and operations
    "+init=/etc/passwd:root", "+init=epsg:4326", "init=epsg:4326", "+lat_0=1", "+proj=longlat\n+datum=WGS84", "proj = pipeline +proj=utm",
    "+proj=longlat nadgrids = x", "+proj=ob_tran +o_proj=pipeline", "+proj=pipeline +step +proj=unitconvert", "+proj=hgridshift +grids=x.gsb",
    "+proj=gridshift +grids=x.tif", "+proj=deformation +xy_grids=x", "+proj=tinshift +file=x.json", "+proj=defmodel +model=x.json",
    *(f"+proj=longlat +{rest}" for rest in (
        "init=epsg:4326", "nadgrids=/etc/passwd", "nadgrids=@null,/etc/passwd", "nadgrids=@null,x", "nadgrids=conus", "catalog=x.csv",
        "ellps=/etc/passwd", "ellps=WGS84 +geoidgrids=/vsicurl/x", "geoidgrids=x.gtx", "datum=x.gsb",
    )),
    # documents with the same contents
    'GEOGCS["x"] /etc/passwd', 'GEOGCS["/etc/passwd"]', 'GEOGCS["http://example.org/"]', '{"type":"Transformation","name":"x"}',
    'COORDINATEOPERATION["x",METHOD["y"]]', 'CONCATENATEDOPERATION["x"]', 'CONVERSION["x",METHOD["y"]]', 'UNIT["metre",1]',
    'PARAMETERFILE["x","y"]', 'GEOGCS["x",EXTENSION["PROJ4","+proj=longlat +nadgrids=/etc/passwd"]]',
    *(f'VERTCRS["x",VDATUM["x"],CS[vertical,1],AXIS["h",up],GEOIDMODEL["{name}"]]' for name in (
        "ntv2.lst", "PROJ /etc/passwd", "us_nga_egm96_15.tif",
    )),
    'PROJCRS["x",CONVERSION["x",METHOD["PROJ hgridshift grids=x"]]]',
    'PROJCRS["x",CONVERSION["x",METHOD["y"],PARAMETER["p","/etc/passwd"]]]',
    BOUND.format(WKT1, "NTv2", 'PARAMETERFILE["Latitude and longitude difference file","x"]'),
    BOUND.format(WKT1, "PROJ-based operation method: x", 'PARAMETER["a",1]'),
]  # fmt: skip


def refused(text: str) -> ArgumentRefused:
    with pytest.raises(ArgumentRefused) as caught:
        check_crs(text)
    assert caught.value.message, text
    assert caught.value.suggestion, text
    return caught.value


def test_a_known_form_passes_in_its_canonical_form() -> None:
    for text, passed in CANONICAL.items():
        assert check_crs(text) == passed


@pytest.mark.claim("args.crs-whole")
def test_crs_opening_something_or_being_invalid_is_refused() -> None:
    for text in REFUSED:
        refused(text)


def test_crs_url_is_a_network_refusal() -> None:
    for text in ("http://169.254.169.254/x", "https://epsg.io/4326", "ftp://x/y.prj", "HTTP://X"):
        assert refused(text).code == Code.NETWORK_BLOCKED


def test_projjson_passes_without_its_schema_url_and_prose() -> None:
    passed = json.loads(check_crs(json.dumps(PROJJSON, indent=2)))
    assert passed == {key: value for key, value in PROJJSON.items() if key not in ("$schema", "remarks")}


@pytest.mark.claim("args.crs-whole")
def test_projjson_naming_file_grid_or_operation_is_refused() -> None:
    changes: list[dict[str, object]] = [
        {"type": "Conversion"},
        {"name": "/vsicurl/http://x"},
        {"name": "PROJ /etc/passwd"},
        {"geoid_model": {"name": "PROJ egm96_15.gtx"}},
        {"parameter_file": "x"},
        {"conversion": {"parameters": [{"name": "grid", "value": "x"}]}},
        {"conversion": {"method": {"name": "PROJ-based operation method: +proj=pipeline"}}},
        {"name": "x\u0000y"},
        {"id": {"authority": "EPSG", "code": 1, "uri": "http://www.opengis.net/def/crs/EPSG/0/4326"}},
    ]
    for change in changes:
        refused(json.dumps({**PROJJSON, **change}))


def test_projjson_that_is_not_strict_json_is_refused() -> None:
    refused('{"type":"GeographicCRS","name":"a","name":"b"}')
    for number in ("NaN", "1e999", "-1e999"):
        refused(f'{{"type":"GeographicCRS","value":{number}}}')


@pytest.mark.claim("args.no-text-hangs-the-server")
def test_the_longest_texts_are_decided_on_at_once() -> None:
    for piece in ('"', "a", "(", "[", " ", "+", "=", "1", "{", "/", ',REMARK["', "PROJ", "init "):
        for head in ("", "GEOGCS[", '{"type":"', "+proj=", 'GEOGCS["', "EPSG:"):
            text = (head + piece * MAX_BYTES)[:MAX_BYTES]
            with quick(), contextlib.suppress(ArgumentRefused):
                check_crs(text)
    refused("EPSG:4326" + " x" * MAX_BYTES)


HOSTILE = st.sampled_from(
    [
        "/etc/passwd", "../x", "./x", "~/x", "@null", "/vsicurl/http://h/x", "http://h/x", "file:///x",
        "x.gsb", "\\\\h\\x", "+nadgrids=x", "+geoidgrids=/x", "+init=epsg:1", "+step", "+proj=pipeline",
        "PROJ x.gtx", "DICT:x,1", "grids=x", 'EXTENSION["PROJ4","+proj=x"]', 'PARAMETERFILE["a","b"]', '"',
        "]", ",", "[", "\n", "\0", "=?", "--config",
    ]
)  # fmt: skip
GOOD = st.sampled_from(
    [*CANONICAL, json.dumps(PROJJSON), BOUND.format(WKT1, "Geocentric translations", 'PARAMETER["X",1]')]
)


@st.composite
def spoiled(draw: st.DrawFn) -> str:
    """A valid text with hostile pieces inserted."""
    text = draw(GOOD)
    for piece in draw(st.lists(HOSTILE, max_size=3)):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + piece + text[at:]
    return text


# Written independently of the rules: what a path, a URL or a grid looks like to a reader of the result.
RESOURCE = re.compile(
    r'(^|["\s,(\[=])[/~@][^\s]|://|\.\./|\\|/vsi|grids=|init=|\+step\b|=pipeline\b|PARAMETERFILE|\.gsb\b|\.gtx\b',
    re.IGNORECASE,
)


@pytest.mark.claim("args.crs-whole")
@given(spoiled() | st.text())
def test_accepted_crs_holds_no_path_url_or_grid(text: str) -> None:
    try:
        passed = check_crs(text)
    except ArgumentRefused:
        return
    assert not RESOURCE.search(re.sub(r"nadgrids=@null(?=[\s\"]|$)", "", passed))
    assert passed.isprintable() or "\u00a0" in passed
    assert not passed.startswith(("-", "@", "/", "<"))
