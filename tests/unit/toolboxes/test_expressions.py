"""Formulas, kernels, mappings, geometries, documents and short texts: of a known form, and never a file."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.toolboxes.gdal.catalogue.binding import bind
from gdal_mcp.toolboxes.gdal.catalogue.checks import Context
from gdal_mcp.toolboxes.gdal.catalogue.documents import MAX_TEXT, check_document, check_geometry
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.plain import PLAIN
from tests.quick import quick

# texts that stay unchanged, and the results for others
WHOLE = {
    "calc": [
        "A+B", "(A>3 && B<=1) ? A : -1.5e3", "sqrt(A^2 + B^2)", "A[1]*0.5 + A[2]", "mean", "mul(k=2)",
        "pow(k=2.5,propagateNoData=true)",
    ],
    "pixel-function-argument": ["k=2", "expression=A+B"],
    "kernel": ["u", "unsharp-masking", "[[0,1,0],[1,-2.5,1],[0,1,0]]"],
    "mapping": ["[-inf, 5)=1; (5,10]=2 ;12=NO_DATA; NO_DATA=0;DEFAULT=PASS_THROUGH", "default=1"],
    "level": ["-5"],
    "multidim": ["name=temp,view=[0:10,::2]", "name=t,view=[2,...]", "name=t,view=[...,0]", "t,view=[...]"],
}  # fmt: skip
CANONICAL = [
    ("calc", " A ", "A"),
    ("kernel", "[[1, 2, 1],\n[2, 4, 2], [1, 2, 1]]", "[[1,2,1],[2,4,2],[1,2,1]]"),
    ("mapping", "[1,3]=10;", "[1,3]=10"),
    ("gcp", "0, 0, 440720, 3751320.5", "0,0,440720,3751320.5"),
    ("level", "min", "MIN"),
]
REFUSED = {
    "calc": [
        *("", " ", "A;B", "A='x'", 'A="x"', "A\\B", "@x", "/etc/passwd", "A//x", "A..B", "{A}", "A#B", "A\0", "A\nB"),
        *("A" * 5000, "A=?", "é", "__import__('os')", "<VRTDataset/>"),
    ],
    "pixel-function-argument": ["expression=while(1){}", "k=/etc/passwd", "k=@x", "k", "=2"],
    "kernel": ["", "foo", "[1,2,3]", "[[a]]", "/etc/passwd", "@k", "[[1]]?"],
    "mapping": ["", ";", "@/etc/passwd", "/etc/passwd", "1=2=3", "[1,2=3", "1=x", "[1;2]=3", "1=@x"],
    "gcp": ["@/etc/passwd", "1,2,3", "1,2,3,4,5,6", "/etc/passwd"],
    "level": ["MID", "inf", "@x"],
    "multidim": ["/a/../b", "..", "/a/..", "[../b]", "a,../b", "[.../b]", "/...", "@x", "//host/x", "a;b"],
    "file-pattern": [
        *("x/part_%d", "../part_%d", "part", "part_%s", "part_%n", "part_%d_%d", ".%d", "part_%99999d"),
        *("{OTHER}_%d", "%d\\x", "part_%d/"),
    ],
}  # fmt: skip


def test_texts_of_a_known_form_pass() -> None:
    complete = [(name, text, text) for name, texts in WHOLE.items() for text in texts]
    for name, text, passed in (*complete, *CANONICAL):
        assert PLAIN[name].check(text, name) == passed


@pytest.mark.claim("args.expressions-read")
def test_texts_of_another_form_are_refused() -> None:
    for name, texts in REFUSED.items():
        for text in texts:
            with pytest.raises(ArgumentRefused):
                assert not PLAIN[name].check(text, name)


@pytest.mark.claim("args.expressions-read")
def test_every_expression_example_passes_but_no_path() -> None:
    several = tuple("calc color fetch-metadata gcp kernel label mapping multidim page-text".split())
    several += ("pixel-function-argument", "resolution", "tuples")
    for name, plain in PLAIN.items():
        if name not in several:
            example = plain.example.partition(",")[0].partition(" or ")[0]
            assert plain.check(example, name) == example
        for text in ("@/etc/passwd", "../x", "/vsicurl/http://x", "a\0b", "<x>", "x=?", ""):
            if name == "page-text" and text not in ("a\0b", "<x>", "x=?"):
                continue
            with pytest.raises(ArgumentRefused):
                assert not plain.check(text, name)


def test_dialect_unknown_to_gdal_is_refused() -> None:
    calc = packaged().algorithms["raster calc"]
    call = {"input": ["A=a.tif"], "output": "b.tif", "calc": "A+1"}
    assert bind(calc, call, Context(packaged())).get("calc") == ("A+1",)
    with pytest.raises(ArgumentRefused):
        bind(calc, {**call, "dialect": "exprtk"}, Context(packaged()))


def test_text_of_a_page_holds_no_markup() -> None:
    tile = packaged().algorithms["raster tile"]
    for text in ("<script>", "a & b", 'a" onload="x', "`x`", "${x}", "javascript:x'"):
        for name in ("title", "copyright", "url"):
            with pytest.raises(ArgumentRefused):
                bind(tile, {"input": "a.tif", "output": "tiles", name: text}, Context(packaged()))


def test_wkt_passes() -> None:
    for text in (
        "POINT (1 2)", "point z (1 2 3)", "POLYGON((0 0,1 0,1 1,0 0))",
        "MULTIPOLYGON (((0 0,1 0,1 1,0 0)),((5 5,6 5,6 6,5 5)))",
        "GEOMETRYCOLLECTION (POINT (1 2),LINESTRING EMPTY)", "POLYGON EMPTY",
        "CURVEPOLYGON (CIRCULARSTRING (0 0,1 1,2 0,1 -1,0 0))",
    ):  # fmt: skip
        assert check_geometry(text, "geometry") == text


def test_geojson_passes_as_its_geometry_alone() -> None:
    point = {"type": "Point", "coordinates": [1, 2.5]}
    assert json.loads(check_geometry(json.dumps({**point, "crs": {"x": "y"}}), "geometry")) == point
    feature = {"type": "Feature", "properties": {"a": "/etc/passwd"}, "geometry": point}
    assert json.loads(check_geometry(json.dumps(feature), "geometry")) == point
    collection = {"type": "GeometryCollection", "geometries": [{**point, "crs": {"type": "link"}}]}
    passed = json.loads(check_geometry(json.dumps(collection), "geometry"))
    assert passed == {"type": "GeometryCollection", "geometries": [point]}


NO_GEOMETRY = [
    "", "@/etc/passwd", "/etc/passwd", "POINT", "POINT (1 2", "POINT 1 2)", "POINTS (1 2)", "POINT.wkt",
    "SRID=4326;POINT(1 2)", "POINT (1 2) /etc/passwd", "CIRCLE (1 2)", "{", "{}", "[]", '{"type":"Point"}',
    '{"type":["Point"],"coordinates":[1,2]}', '{"type":"Point","coordinates":["1","2"]}',
    '{"type":"Point","coordinates":[NaN,1]}', '{"type":"FeatureCollection","features":[]}',
    '{"type":"Link","href":"http://x"}', '{"type":"Point","coordinates":[' + "9" * 400 + ",1]}",
    "LINESTRING (" + "0 0," * MAX_TEXT + "1 1)",
]  # fmt: skip


def test_what_is_no_geometry_is_refused() -> None:
    for text in NO_GEOMETRY:
        with pytest.raises(ArgumentRefused):
            assert not check_geometry(text, "geometry")


@pytest.mark.claim("args.expressions-read")
@given(st.text(max_size=40) | st.text("POINT (0,1)/@.;:", max_size=20).map(lambda rest: f"POINT{rest}"))
def test_geometry_text_holds_only_words_numbers_and_brackets(text: str) -> None:
    try:
        passed = check_geometry(text, "geometry")
    except ArgumentRefused:
        return
    assert not set(passed) & set("/\\@~<;'=:")


def test_a_document_is_one_bounded_object() -> None:
    assert json.loads(check_document('{"layers": [{"name": "é"}]}', "schema")) == {"layers": [{"name": "é"}]}
    numbers = ('{"a": Infinity}', '{"a": 1e999}', '{"a": [-1e999]}', f'{{"a": {"9" * 5000}}}')
    long = json.dumps({"a": "x" * MAX_TEXT})
    assert check_document('{"a": "C:\\\\u00\\""}', "schema") == '{"a":"C:\\\\u00\\""}'
    hidden = ('{"a": "x\\u0000"}', '{"a": "x\\ny"}', '{"a\\t": 1}', '{"a\\u202e": 1}')
    for text in ("[]", "1", "{", *hidden, *numbers, long, "{" * 40_000):
        with pytest.raises(ArgumentRefused):
            assert not check_document(text, "schema")


@pytest.mark.claim("args.no-text-hangs-the-server")
def test_list_with_invalid_end_is_refused_at_once() -> None:
    for name, text in (
        ("kernel", f"[[{'11111,' * 60}x]]"), ("gcp", f"{','.join(['1' * 20] * 5)}x"),
        ("mapping", "1=2;" * 10_000 + "x"), ("mapping", " " * 40_000 + "x"),
        ("calc", f"mul(a={('y' * 20 + '=') * 150}!;)"),
    ):  # fmt: skip
        with quick(), pytest.raises(ArgumentRefused):
            PLAIN[name].check(text, "value")
