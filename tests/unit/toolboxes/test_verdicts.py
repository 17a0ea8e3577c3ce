"""Findings are reported for each input and step separately, and parts that could not be examined are not called fine."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_preflight import desk_in, drafted, raster
from test_preflight_checks import FLOAT, NORTH
from test_preflight_estimate import ask

from gdal_mcp.errors import ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.toolboxes.base import CallAnswer
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.preflight.call import Finding, Verdict, distinct
from gdal_mcp.toolboxes.gdal.preflight.checks.transformations import crs_changes, key
from gdal_mcp.toolboxes.gdal.preflight.checks.values import pixel_probes
from gdal_mcp.toolboxes.gdal.preflight.service import examined_files, findings
from gdal_mcp.toolboxes.gdal.preflight.suggested_calls import with_suggested_call
from gdal_mcp.tools.classic import CLASSIC
from gdal_mcp.tools.common import DraftContext
from gdal_mcp.tools.query import QUERY
from gdal_mcp.tools.validate import VALIDATE_CALL

NAMES = [f"n{number:02}" for number in range(11)]
UTM = {"crs": {"code": "EPSG:32632", "degrees": False}, "extent": [500000, 4990000, 510000, 5000000]}
OTHER = {"crs": {"code": "EPSG:32633", "degrees": False}, "extent": [500000, 4990000, 510000, 5000000]}
BALLPARK = {"operations": [{"name": "x", "ballpark": True}], "ballpark": True, "alike": False}


@pytest.fixture
def desk(tmp_path: Path) -> DraftContext:
    known = {name: raster(9, 9) for name in NAMES}
    return desk_in(tmp_path / "ws", tmp_path / "state", **known, data=raster(9, 9), a=raster(9, 9))


def described(desk: DraftContext, draft: Any, change: Any, **rows: Any) -> None:
    """A container's description of the files of a draft: for each name a change of CRS."""
    descriptions = [
        {"facts": raster(9, 9), "changes": {key(change): rows.get(file.name.partition(".")[0])}}
        for file in examined_files(draft)
    ]
    desk.preflight.described(examined_files(draft), descriptions)


def classic(desk: DraftContext, program: str, **arguments: object) -> Any:
    tool = next(candidate for candidate in CLASSIC if candidate.name == program)
    draft = tool.draft(arguments, desk)
    assert isinstance(draft, Draft)
    return draft.like(tool.like)


def test_refusal_is_not_replaced_by_same_code_finding():
    refused = Finding("ballpark_transformation", "from A", "", refuses=True, inputs=(0,))
    remark = Finding("ballpark_transformation", "from B", "", inputs=(1,))
    assert [finding.refuses for finding in distinct([refused, remark])] == [True, False]
    assert [finding.inputs for finding in distinct([refused, refused])] == [(0,)]


def test_merged_findings_keep_all_input_numbers():
    many = [Finding("x", f"of {number}", "", inputs=(number,)) for number in range(30)]
    merged = distinct(many)
    assert len(merged) < 10
    assert {number for finding in merged for number in finding.inputs} == {*range(30)}


def test_one_refused_crs_change_of_two_refuses_both(desk: DraftContext):
    draft = classic(
        desk,
        "gdalwarp",
        src_datasets=["a.png", "data.png"],
        dst_dataset="o.tif",
        t_srs="EPSG:4326",
        overwrite=True,
    )
    (change,) = crs_changes(draft, packaged())
    described(
        desk,
        draft,
        change,
        a={**BALLPARK, "from": "EPSG:4806"},
        data={**BALLPARK, "from": "EPSG:4265", "in_use": False},
    )
    matching = [
        finding
        for finding in desk.preflight.look(draft).findings
        if finding.code == "ballpark_transformation"
    ]
    assert [(finding.refuses, finding.inputs) for finding in matching] == [(True, (0,)), (False, (1,))]


def test_an_input_is_found_by_its_whole_name(desk: DraftContext):
    text = "read a.png ! reproject --like=data.png --output-crs=EPSG:4326 ! write o.tif"
    draft = drafted(desk, "raster pipeline", pipeline=text)
    (change,) = crs_changes(draft, packaged())
    for name, count in (("data", 0), ("a", 1)):
        described(desk, draft, change, **{name: BALLPARK})
        matching = [
            finding
            for finding in desk.preflight.look(draft).findings
            if finding.code == "ballpark_transformation"
        ]
        assert len(matching) == count


def unknown_yet(desk: DraftContext, program: str, **more: Any) -> Any:
    """A draft with eleven inputs that have no description."""
    desk.preflight.known._facts.clear()
    inputs = [f"{name}.png" for name in NAMES]
    return classic(desk, program, src_datasets=inputs, dst_dataset="o.tif", **more)


def test_unexamined_inputs_refuse_where_crs_matters(desk: DraftContext):
    row = {"facts": raster(9, 9, **UTM), "looks": {"holes": {}}}  # `looks` is requested for gdal_merge
    for program, options in (("gdal_merge", {}), ("gdalwarp", {"t_srs": "EPSG:4326"})):
        full = desk.preflight.check_described(unknown_yet(desk, program, **options), {"inputs": [row] * 11})
        assert [finding for finding in full.findings if finding.verdict is Verdict.UNKNOWN] == []
        with pytest.raises(ToolError) as caught:
            desk.preflight.check_described(unknown_yet(desk, program, **options), {"inputs": [row] * 10})
        assert caught.value.check["verdict"] == "unknown"
        assert caught.value.check["inputs"] == [10]


def test_unexamined_pixels_are_not_called_fine(desk: DraftContext):
    draft = drafted(desk, "raster mosaic", input=["a.png", "data.png"], output="o.png")
    looks = {name: {} for name in pixel_probes(draft, packaged())}
    assert looks
    desk.preflight.known._facts.clear()
    rows = [{"facts": raster(9, 9), "looks": looks}, {"facts": raster(9, 9)}]
    by_code = {
        finding.code: finding for finding in desk.preflight.check_described(draft, {"inputs": rows}).findings
    }
    assert (by_code["pixels_unexamined"].verdict, by_code["pixels_unexamined"].inputs) == (
        Verdict.UNKNOWN,
        (1,),
    )


def test_eleventh_input_is_judged_like_the_first(desk: DraftContext):
    rows = [{"facts": raster(9, 9, **(OTHER if number == 10 else UTM))} for number in range(11)]
    with pytest.raises(ToolError) as caught:
        desk.preflight.check_described(unknown_yet(desk, "gdal_merge"), {"inputs": rows})
    assert caught.value.check["code"] == "other_crs"


def test_unknown_format_is_checked_and_named(desk: DraftContext):
    draft = drafted(desk, "raster reproject", input="a.png", output="o.tif", **{"output-crs": "EPSG:4326"})
    (change,) = crs_changes(draft, packaged())
    facts = raster(9, 9) | {"driver": "GTiff2030", "crs": None}
    row = {"facts": facts, "changes": {key(change): BALLPARK}}
    desk.preflight.described(examined_files(draft), [row])
    by_code = {finding.code: finding for finding in desk.preflight.look(draft).findings}
    assert {"driver_unexamined", "ballpark_transformation", "no_input_crs"} <= by_code.keys()
    assert by_code["driver_unexamined"].verdict is Verdict.UNKNOWN


CHANGED = (
    *(
        ("raster convert", {"output-format": "COG", "creation-option": option})
        for option in (
            ["TARGET_SRS=EPSG:4326"],
            ["TILING_SCHEME=NZTM2000"],
            ["target_srs=EPSG:3857"],
        )
    ),
    *(
        ("vector convert", {"layer-creation-option": [f"RFC7946={value}"], "output-format": "GeoJSON"})
        for value in (
            "TRUE",
            "ON",
            "yes",
            "1",
        )
    ),
    ("vector convert", {"creation-option": ["EXTENT_UNITS=CBMTILE"], "output-format": "MapML"}),
    ("vector convert", {"output-format": "MapML"}),
    ("vector convert", {"output-format": "JSONFG"}),
)
UNCHANGED = (
    ("raster convert", {"output-format": "COG", "creation-option": ["TILING_SCHEME=CUSTOM"]}),
    ("vector convert", {"layer-creation-option": ["RFC7946=NO"], "output-format": "GeoJSON"}),
    ("vector convert", {"layer-creation-option": ["WRITE_GEOMETRY=NO"], "output-format": "JSONFG"}),
)


def test_format_options_that_change_crs_count_as_changes(desk: DraftContext):
    for cases, count in ((CHANGED, 1), (UNCHANGED, 0)):
        for algorithm, options in cases:
            draft = drafted(desk, algorithm, input="a.png", output="o.out", **options)
            assert len(crs_changes(draft, packaged())) == count, options
    text = "read a.png ! write o.tif --of=COG --co=TARGET_SRS=EPSG:4326"
    assert len(crs_changes(drafted(desk, "raster pipeline", pipeline=text), packaged())) == 1


def test_first_of_two_equal_options_counts():
    for options, expected in (
        (("COMPRESS=JPEG", "COMPRESS=LZW"), True),
        (("COMPRESS=LZW", "COMPRESS=JPEG"), False),
    ):
        call = ask("raster convert", FLOAT, driver="GTiff", creation_option=options)
        assert ("lossy_compression" in {finding.code for finding in findings(call)}) is expected


def test_correction_replaces_an_option_of_the_same_name(desk: DraftContext):
    draft = drafted(
        desk,
        "raster convert",
        input="a.png",
        output="o.tif",
        **{"creation-option": ["TILED=YES", "COMPRESS=LZW"]},
    )
    finding = Finding("x", "", "", change={"creation-option": ("compress=deflate",)})
    suggested = with_suggested_call(finding, draft, "raster convert", packaged()).suggested_call
    assert suggested is not None
    assert suggested["arguments"]["arguments"]["creation-option"] == ["TILED=YES", "compress=deflate"]


def test_explicit_scale_silences_the_units_remark():
    codes = [
        {finding.code for finding in findings(ask("raster slope", NORTH, **options))}
        for options in ({}, {"xscale": "2", "yscale": "2"})
    ]
    assert ["mercator_units" in remarks for remarks in codes] == [True, False]


def test_only_bands_used_in_the_output_are_examined(desk: DraftContext):
    for steps, look in (
        ("select 1 ! set-type --output-data-type=UInt8", "UInt8:1"),
        ("select --band=1,3 ! set-type --output-data-type=UInt8", "UInt8:1,3"),
        ("set-type --output-data-type=UInt8", "UInt8"),
    ):
        draft = drafted(desk, "raster pipeline", pipeline=f"read a.png ! {steps} ! write o.tif")
        assert look in pixel_probes(draft, packaged())


def layer(*, degrees: bool | None = None, **more: Any) -> dict[str, Any]:
    """A container's description of a layer of polygons."""
    crs = None if degrees is None else {"code": "EPSG:4326" if degrees else "EPSG:32632", "degrees": degrees}
    row = {"geometry": "Polygon", "features": 1, "field_count": 1, "crs": crs, **more}
    return {"driver": "GPKG", "layer_count": 1, "layers": [row]}


def query_draft(desk: DraftContext, sql: str) -> Draft:
    draft = QUERY.draft({"inputs": ["a.png", "data.png"], "sql": sql}, desk)
    assert isinstance(draft, Draft)
    return draft


def refused_codes(desk: DraftContext, draft: Draft, *rows: Any) -> list[str]:
    """The codes of findings that refuse a call, after a container described its inputs."""
    desk.preflight.described(examined_files(draft), list(rows))
    return [
        finding.code for finding in desk.preflight.look(draft, described=True).findings if finding.refuses
    ]


UNREAD = "SELECT CAST(a.id AS UNSIGNED BIG INT) AS n FROM a, data WHERE {}"
UNLIKE = ({"facts": layer(degrees=True)}, {"facts": layer(degrees=False)})
ALIKE = ({"facts": layer(degrees=False)}, {"facts": layer(degrees=False)})


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("ST_X(ST_Transform(a.geom, 4326)) > 0", ALIKE),
        ('ST_X("Transform" (a.geom, 4326)) > 0', ALIKE),
        ("TransformXY(a.geom, 4326) IS NOT NULL", ALIKE),
        ("ST_Intersects(a.geom, data.geom)", UNLIKE),
        ("ST_Distance (a.geom, data.geom) < 5", UNLIKE),
    ],
)
def test_unreadable_statement_risking_wrong_places_is_refused(desk: DraftContext, condition: str, rows: Any):
    assert refused_codes(desk, query_draft(desk, UNREAD.format(condition)), *rows) == ["statement_unexamined"]


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("a.id > 3", UNLIKE),
        ("a.name = 'ST_Transform(geom, 4326)'", UNLIKE),
        ("ST_Intersects(a.geom, data.geom)", ALIKE),
    ],
)
def test_harmless_unreadable_statement_is_allowed(desk: DraftContext, condition: str, rows: Any):
    draft = query_draft(desk, UNREAD.format(condition))
    assert refused_codes(desk, draft, *rows) == []
    assert "statement_unexamined" in {finding.code for finding in desk.preflight.look(draft).findings}


def test_an_unreadable_transformation_runs_if_it_is_allowed(desk: DraftContext):
    draft = query_draft(desk, UNREAD.format("ST_Intersects(a.geom, ST_Transform(data.geom, 4326))"))
    assert refused_codes(desk, draft, *UNLIKE) == ["statement_unexamined"]
    allowed = replace(draft, allows=frozenset({"ballpark_transformation"}))
    assert refused_codes(desk, allowed, *UNLIKE) == []


def test_every_transforming_function_is_a_crs_change(desk: DraftContext):
    for name in ("ST_Transform", "Transform", "TransformXY", "ST_TransformXYZ"):
        draft = query_draft(desk, f"SELECT {name}(a.geom, 4326) AS g FROM a")
        assert [change for change in crs_changes(draft, packaged()) if change[1] == "EPSG:4326"], name


CURVES = (
    ("vector rasterize", {"input": "a.png", "resolution": "1,1"}, 0),
    ("raster zonal-stats", {"input": "data.png", "zones": "a.png", "stat": "mean"}, 1),
    ("raster clip", {"input": "data.png", "like": "a.png"}, 1),
)


@pytest.mark.parametrize(("algorithm", "arguments", "at"), CURVES)
def test_features_not_examined_for_curves_are_refused(
    desk: DraftContext, algorithm: str, arguments: dict[str, str], at: int
):
    draft = drafted(
        desk, algorithm, **arguments, output="o.tif" if algorithm != "raster zonal-stats" else "o.csv"
    )
    looks = {name: {} for name in pixel_probes(draft, packaged())}
    for examined, expected in ((looks, []), ({}, ["pixels_unexamined"])):
        desk.preflight.known._facts.clear()
        rows: list[Any] = [{"facts": raster(9, 9), "looks": looks}] * at
        rows.append({"facts": layer(), "looks": examined})
        assert refused_codes(desk, draft, *rows) == expected
    desk.preflight.known._facts.clear()
    assert refused_codes(desk, draft, *rows[:at]) == ["inputs_unexamined"]


def test_partly_examined_curves_refuse_and_are_counted(desk: DraftContext):
    draft = drafted(desk, "vector rasterize", input="a.png", resolution="1,1", output="o.tif")
    looks = {name: {} for name in pixel_probes(draft, packaged())}
    for curves, expected in (({"curves": False}, []), ({"curves": False, "count": 9}, ["curves_unexamined"])):
        desk.preflight.known._facts.clear()
        row = {"facts": layer(), "looks": {**looks, "curves": curves}}
        assert refused_codes(desk, draft, row) == expected
    [finding] = desk.preflight.look(draft).refusals
    assert (finding.verdict, finding.numbers) == (Verdict.UNKNOWN, {"count": 9})


def test_excess_crs_changes_are_refused_unless_allowed(desk: DraftContext):
    for count, expected in ((8, []), (9, ["changes_unexamined"])):
        steps = " ! ".join(f"reproject --output-crs=EPSG:{32601 + number}" for number in range(count))
        draft = drafted(desk, "raster pipeline", pipeline=f"read a.png ! {steps} ! write o.tif")
        assert refused_codes(desk, draft, {"facts": raster(9, 9, **UTM)}) == expected
        allowed = replace(draft, allows=frozenset({"ballpark_transformation"}))
        assert refused_codes(desk, allowed, {"facts": raster(9, 9, **UTM)}) == []


def test_sheet_columns_beyond_gdal_limit_are_named(desk: DraftContext):
    for driver, count, expected in (("XLSX", 2000, 1), ("ODS", 2000, 1), ("XLSX", 1999, 0), ("CSV", 2000, 0)):
        draft = drafted(desk, "vector convert", input="a.png", output="o.csv")
        facts = {**layer(field_count=count, geometry="None"), "driver": driver}
        desk.preflight.described(examined_files(draft), [{"facts": facts}])
        matching = [
            finding for finding in desk.preflight.look(draft).findings if finding.code == "columns_unexamined"
        ]
        assert [finding.verdict for finding in matching] == [Verdict.UNKNOWN] * expected, (driver, count)


def of_newer_gdal(desk: DraftContext, *inputs: str) -> tuple[DraftContext, Draft]:
    """A call of an algorithm that only the running GDAL has."""
    known = packaged().algorithms
    new = {"raster align": replace(known["raster reproject"], path="raster align")}
    newer = replace(desk.preflight, catalogue=replace(packaged(), algorithms={**known, **new}))
    draft = drafted(desk, "raster mosaic", input=list(inputs), output="o.tif")
    arguments = {"input": inputs, "output-crs": ("EPSG:4326",)}
    return replace(desk, preflight=newer), replace(
        draft, work=replace(draft.work, algorithm="raster align", arguments=arguments)
    )


def test_unknown_algorithm_is_named_and_its_crs_checked(desk: DraftContext):
    newer, draft = of_newer_gdal(desk, "a.png")
    (change,) = crs_changes(draft, newer.preflight.catalogue)
    row = {"facts": raster(9, 9, **UTM), "changes": {key(change): None}}
    assert refused_codes(newer, draft, row) == []
    by_code = {finding.code: finding for finding in newer.preflight.look(draft).findings}
    assert by_code["algorithm_unexamined"].verdict is Verdict.UNKNOWN
    assert refused_codes(newer, draft, {**row, "changes": {key(change): BALLPARK}}) == [
        "ballpark_transformation"
    ]


def test_unknown_algorithm_refuses_mixed_degrees_and_metres(
    desk: DraftContext,
):
    newer, draft = of_newer_gdal(desk, "a.png", "data.png")
    wgs84 = {"crs": {"code": "EPSG:4326", "degrees": True}, "extent": [9, 45, 10, 46]}
    for other, expected in ((UTM, []), (wgs84, ["algorithm_unexamined"])):
        rows = [{"facts": raster(9, 9, **facts)} for facts in (UTM, other)]
        assert refused_codes(newer, draft, *rows) == expected


def test_refusals_do_not_depend_on_known_formats(desk: DraftContext):
    calls = (
        ("raster reproject", {"input": "a.png", "output-crs": "EPSG:4326"}, raster(9, 9)),
        ("raster select", {"input": "a.png", "band": "7"}, raster(9, 9)),
        ("vector check-coverage", {"input": "a.png"}, layer(geometry="Point")),
    )
    for algorithm, options, facts in calls:
        draft = drafted(desk, algorithm, **options, output="o.tif" if "raster" in algorithm else "o.gpkg")
        known, unknown = (
            refused_codes(desk, draft, {"facts": {**facts, "driver": name}}) for name in ("GTiff", "New2030")
        )
        assert known == unknown != []


def test_failed_description_is_unknown_and_refuses(desk: DraftContext):
    """A container opened the dataset, and failed to describe it. What was known of the file no longer counts."""
    arguments = {"input": "a.png", "output": "o.tif", "output_crs": "EPSG:4326"}
    draft = drafted(desk, "raster reproject", **arguments)
    assert refused_codes(desk, draft, {"facts": raster(9, 9, **UTM), "changes": {}}) == []
    assert refused_codes(desk, draft, {"failed": True}) == ["inputs_unexamined"]
    assert desk.preflight.description(draft) is not None


@pytest.mark.parametrize("rows", [[{"failed": True}], [], None, "text"])
def test_dry_run_without_description_is_not_valid(desk: DraftContext, rows: Any):
    """The job that describes the inputs ended, and its answer does not describe them."""
    desk.preflight.known._facts.clear()
    arguments = {"input": "a.png", "output": "o.tif", "dst_crs": "EPSG:4326"}
    dry_run = VALIDATE_CALL.draft({"tool": "reproject", "arguments": arguments}, desk)
    assert isinstance(dry_run, Draft)
    assert dry_run.printed.present is not None
    answer = dry_run.printed.present(CallAnswer("", rows, None, None))
    assert answer["valid"] is False
    assert [(row["code"], row["verdict"]) for row in answer["checks"]] == [("inputs_unexamined", "unknown")]
