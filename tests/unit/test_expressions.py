"""Formulas, kernels, mappings, geometries and short texts: recognised completely, and never a file."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.gdal.catalogue.binding import Context, bind_json
from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.catalogue.expressions import (
    MAX_TEXT,
    check_document,
    check_formula,
    check_gcp,
    check_kernel,
    check_level,
    check_mapping,
    check_multidim,
    check_pixel_argument,
)
from gdal_mcp.gdal.catalogue.geometry import check_geometry
from gdal_mcp.gdal.catalogue.load import catalogue, packaged
from gdal_mcp.gdal.catalogue.plain import PLAIN
from tests.quick import quick


@pytest.mark.parametrize(
    "text", ["A+B", "(A>3 && B<=1) ? A : -1.5e3", "sqrt(A^2 + B^2)", "A[1]*0.5 + A[2]", "min(A,B)", " A "]
)
def test_a_formula_of_bands_passes(text: str) -> None:
    assert check_formula(text, "muparser", "calc") == text.strip()


@pytest.mark.claim("args.expressions-read")
@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "A;B",
            "A='x'",
            'A="x"',
            "A\\B",
            "@x",
            "/etc/passwd",
            "A//x",
            "A..B",
            "{A}",
            "A#B",
            "A\0",
            "A\nB",
        ),
        *("(A", "A)", "A[1", "(" * 40 + "A" + ")" * 40, "A" * 5000, "A=?", "é", "__import__('os')"),
    ],
)
def test_a_formula_with_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ArgumentRefused):
        check_formula(text, "muparser", "calc")


@pytest.mark.parametrize("text", ["mean", "mul(k=2)", "pow(k=2.5,propagateNoData=true)"])
def test_a_built_in_function_passes(text: str) -> None:
    assert check_formula(text, "builtin", "calc") == text


@pytest.mark.claim("args.expressions-read")
@pytest.mark.parametrize(
    "text",
    [
        *(
            "expression",
            "EXPRESSION(expression=A,dialect=exprtk)",
            "expression(expression=A)",
            "mean;mean",
            "mean(",
        ),
        *("mul(k=(2))", "mul(k=/etc/x)", "mul(k=2,)", "A+B", ""),
    ],
)
def test_a_call_that_could_reach_another_engine_is_refused(text: str) -> None:
    with pytest.raises(ArgumentRefused):
        check_formula(text, "builtin", "calc")


def test_the_dialect_of_a_call_decides_on_its_formula() -> None:
    calc = catalogue().algorithms["raster calc"]
    call = {"input": ["A=a.tif"], "output": "b.tif", "calc": "A+1"}
    assert bind_json(calc, call, Context(packaged())).get("calc") == ("A+1",)
    for spoiled in (
        {"dialect": "builtin"},
        {"dialect": "exprtk"},
        {"calc": "expression(dialect=exprtk)", "dialect": "builtin"},
    ):
        with pytest.raises(ArgumentRefused):
            bind_json(calc, {**call, **spoiled}, Context(packaged()))


def test_a_pixel_expression_needs_the_engine_that_only_computes() -> None:
    assert check_pixel_argument("k=2", (), "arg") == "k=2"
    both = ("expression=A+B", "dialect=muparser")
    assert check_pixel_argument(both[0], both, "arg") == both[0]
    for text, others in [
        ("expression=A+B", ("expression=A+B",)),
        ("expression=A+B", ("expression=A+B", "dialect=exprtk")),
        ("dialect=exprtk", ()),
        ("DIALECT=exprtk", ()),
        ("expression=while(1){}", both),
        ("k=/etc/passwd", ()),
        ("k", ()),
        ("=2", ()),
    ]:
        with pytest.raises(ArgumentRefused):
            check_pixel_argument(text, others, "arg")


@pytest.mark.parametrize(
    "text", ["u", "unsharp-masking", "[[0,1,0],[1,-2.5,1],[0,1,0]]", "[[1, 2, 1],\n[2, 4, 2], [1, 2, 1]]"]
)
def test_a_kernel_passes_without_blanks(text: str) -> None:
    assert check_kernel(text.replace("\n", " "), "kernel") == "".join(text.split())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "foo",
        "[[1,2],[3,4]]",
        "[[1,2,3],[1,2],[1,2,3]]",
        "[1,2,3]",
        "[[a]]",
        "/etc/passwd",
        "@k",
        "[[1]]?",
    ],
)
def test_a_kernel_that_gdal_would_not_take_is_refused(text: str) -> None:
    with pytest.raises(ArgumentRefused):
        check_kernel(text, "kernel")


@pytest.mark.parametrize(
    "text", ["[1,3]=10", "[-inf, 5)=1; (5,10]=2 ;12=NO_DATA; NO_DATA=0;DEFAULT=PASS_THROUGH", "default=1"]
)
def test_a_mapping_passes(text: str) -> None:
    assert [one.strip() for one in text.split(";")] == check_mapping(text, "mapping").split(";")


@pytest.mark.parametrize(
    "text", ["", ";", "@/etc/passwd", "/etc/passwd", "1=2=3", "[1,2=3", "1=x", "[1;2]=3", "1=@x"]
)
def test_a_mapping_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ArgumentRefused):
        check_mapping(text, "mapping")


def test_control_points_levels_and_names_inside_the_input() -> None:
    assert check_gcp("0, 0, 440720, 3751320.5", "gcp") == "0,0,440720,3751320.5"
    assert (check_level("min", "levels"), check_level("-5", "levels")) == ("MIN", "-5")
    assert check_multidim("name=temp,view=[0:10,::2]", "array") == "name=temp,view=[0:10,::2]"
    for check, text in [
        (check_gcp, "@/etc/passwd"),
        (check_gcp, "1,2,3"),
        (check_gcp, "1,2,3,4,5,6"),
        (check_level, "MID"),
        (check_level, "inf"),
        (check_multidim, "/a/../b"),
        (check_multidim, "@x"),
        (check_multidim, 'a("b)'),
        (check_multidim, "//host/x"),
        (check_multidim, "a;b"),
    ]:
        with pytest.raises(ArgumentRefused):
            check(text, "argument")


@pytest.mark.parametrize(
    "text",
    [
        "POINT (1 2)",
        "point z (1 2 3)",
        "POLYGON((0 0,1 0,1 1,0 0))",
        "MULTIPOLYGON (((0 0,1 0,1 1,0 0)),((5 5,6 5,6 6,5 5)))",
        "GEOMETRYCOLLECTION (POINT (1 2),LINESTRING EMPTY)",
        "POLYGON EMPTY",
        "CURVEPOLYGON (CIRCULARSTRING (0 0,1 1,2 0,1 -1,0 0))",
    ],
)
def test_wkt_passes(text: str) -> None:
    assert check_geometry(text, "geometry") == text


def test_geojson_passes_as_its_geometry_alone() -> None:
    point = {"type": "Point", "coordinates": [1, 2.5]}
    assert json.loads(check_geometry(json.dumps({**point, "crs": {"x": "y"}}), "geometry")) == point
    feature = {"type": "Feature", "properties": {"a": "/etc/passwd"}, "geometry": point}
    assert json.loads(check_geometry(json.dumps(feature), "geometry")) == point
    collection = {"type": "GeometryCollection", "geometries": [point]}
    assert json.loads(check_geometry(json.dumps(collection), "geometry")) == collection


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "@/etc/passwd",
            "/etc/passwd",
            "POINT",
            "POINT (1 2",
            "POINT 1 2)",
            "POINTS (1 2)",
            "POINT (1 x)",
        ),
        *(
            "SRID=4326;POINT(1 2)",
            "POINT (1 2) /etc/passwd",
            "POLYGON " + "(" * 30 + "0 0" + ")" * 30,
            "CIRCLE (1 2)",
        ),
        *(
            "{",
            "{}",
            "[]",
            '{"type":"Point"}',
            '{"type":"Point","coordinates":[1]}',
            '{"type":["Point"],"coordinates":[1,2]}',
        ),
        *(
            '{"type":"Point","coordinates":["1","2"]}',
            '{"type":"Point","coordinates":[NaN,1]}',
            '{"type":"Point","coordinates":[true,1]}',
        ),
        *(
            '{"type":"Polygon","coordinates":[1,2]}',
            '{"type":"FeatureCollection","features":[]}',
            '{"type":"Link","href":"http://x"}',
        ),
        '{"type":"Point","coordinates":[' + "9" * 400 + ",1]}",
        '{"type":"GeometryCollection","geometries":[' * 50 + "]}" * 50,
        "LINESTRING (" + "0 0," * MAX_TEXT + "1 1)",
    ],
)
def test_what_is_no_geometry_is_refused(text: str) -> None:
    with pytest.raises(ArgumentRefused):
        check_geometry(text, "geometry")


COORDINATES = st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=2, max_size=3)


@given(st.lists(COORDINATES, min_size=2, max_size=6))
def test_any_line_of_numbers_survives(line: list[list[float]]) -> None:
    value = {"type": "LineString", "coordinates": line}
    assert json.loads(check_geometry(json.dumps(value), "geometry")) == value


@pytest.mark.claim("args.expressions-read")
@given(st.text(max_size=40))
def test_no_text_passes_as_a_geometry_unless_it_is_words_numbers_and_brackets(text: str) -> None:
    try:
        passed = check_geometry(text, "geometry")
    except ArgumentRefused:
        return
    assert not set(passed) & set("/\\@~<;'=")


def test_a_document_is_one_bounded_object() -> None:
    assert json.loads(check_document('{"layers": [{"name": "é"}]}', "schema")) == {"layers": [{"name": "é"}]}
    for text in (
        "[]",
        "1",
        "{",
        '{"a": Infinity}',
        '{"a": "x\\u0000"}',
        '{"a\\u202e": 1}',
        "{" + '"a":{' * 60 + "}" * 61,
    ):
        with pytest.raises(ArgumentRefused):
            check_document(text, "schema")
    with pytest.raises(ArgumentRefused):
        check_document(json.dumps({"a": "x" * MAX_TEXT}), "schema")


@pytest.mark.claim("args.expressions-read")
@pytest.mark.parametrize("name", sorted(PLAIN))
def test_the_example_of_every_short_text_passes_and_no_path_does(name: str) -> None:
    plain = PLAIN[name]
    example = (
        plain.example.partition(",")[0].partition(" or ")[0]
        if name not in ("resolution", "tuples", "fetch-metadata", "color")
        else None
    )
    if example is not None and name not in ("label", "page-text"):
        assert plain.check(example, name) == example
    for text in ("@/etc/passwd", "../x", "/vsicurl/http://x", "a\0b", "<x>", "x=?", ""):
        if name == "page-text" and text not in ("a\0b", "<x>", "x=?"):
            continue
        with pytest.raises(ArgumentRefused):
            plain.check(text, name)


@pytest.mark.parametrize(
    "text",
    [
        "x/part_%d",
        "../part_%d",
        "part",
        "part_%s",
        "part_%n",
        "part_%d_%d",
        ".%d",
        "part_%99999d",
        "{OTHER}_%d",
        "%d\\x",
        "part_%d/",
    ],
)
def test_a_pattern_of_file_names_stays_in_its_folder(text: str) -> None:
    with pytest.raises(ArgumentRefused):
        PLAIN["file-pattern"].check(text, "pattern")


@pytest.mark.parametrize("text", ["<script>", "a & b", 'a" onload="x', "`x`", "${x}", "javascript:x'"])
def test_text_of_a_page_holds_no_markup(text: str) -> None:
    tile = catalogue().algorithms["raster tile"]
    for name in ("title", "copyright", "url"):
        with pytest.raises(ArgumentRefused):
            bind_json(tile, {"input": "a.tif", "output": "tiles", name: text}, Context(packaged()))


# What fuzzing found: texts that took minutes, or that ended in another exception


@pytest.mark.claim("args.no-text-hangs-the-server")
@pytest.mark.parametrize(
    ("check", "text"),
    [
        (check_kernel, f"[[{'11111,' * 60}x]]"),
        (check_gcp, f"{','.join(['1' * 20] * 5)}x"),
        (lambda text, what: check_formula(text, "builtin", what), f"mul(a={('y' * 20 + '=') * 10}!)"),
    ],
)
def test_a_list_that_fails_at_its_end_is_refused_at_once(check: Callable[[str, str], str], text: str) -> None:
    with quick(), pytest.raises(ArgumentRefused):
        check(text, "value")


def test_a_number_that_no_double_holds_is_no_number() -> None:
    for text in ('{"a": 1e999}', '{"a": [-1e999]}'):
        with pytest.raises(ArgumentRefused):
            check_document(text, "schema")


def test_arguments_of_a_function_have_commas_between_them() -> None:
    assert check_formula("mul(k=2,b=x)", "builtin", "calc") == "mul(k=2,b=x)"
    for text in ("mul(k=2b=3)", "mul(k=2,)", "mul(,k=2)"):
        with pytest.raises(ArgumentRefused):
            check_formula(text, "builtin", "calc")
