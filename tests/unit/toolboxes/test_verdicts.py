"""What a check finds is told for each input and step by itself, and what could not be examined is not called fine."""

from pathlib import Path
from typing import Any

import pytest
from test_preflight import desk_in, drafted, raster
from test_preflight_checks import FLOAT, NORTH
from test_preflight_estimate import ask

from gdal_mcp.errors import ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.preflight.call import Finding, Verdict, distinct
from gdal_mcp.toolboxes.gdal.preflight.checks.transformations import crs_changes, key
from gdal_mcp.toolboxes.gdal.preflight.checks.values import pixel_probes
from gdal_mcp.toolboxes.gdal.preflight.service import examined_files, findings
from gdal_mcp.toolboxes.gdal.preflight.suggested_calls import with_suggested_call
from gdal_mcp.tools.classic import CLASSIC
from gdal_mcp.tools.common import DraftContext

NAMES = [f"n{number:02}" for number in range(11)]
UTM = {"crs": {"code": "EPSG:32632", "degrees": False}, "extent": [500000, 4990000, 510000, 5000000]}
OTHER = {"crs": {"code": "EPSG:32633", "degrees": False}, "extent": [500000, 4990000, 510000, 5000000]}
BALLPARK = {"operations": [{"name": "x", "ballpark": True}], "ballpark": True, "alike": False}


@pytest.fixture
def desk(tmp_path: Path) -> DraftContext:
    known = {name: raster(9, 9) for name in NAMES}
    return desk_in(tmp_path / "ws", tmp_path / "state", **known, data=raster(9, 9), a=raster(9, 9))


def described(desk: DraftContext, draft: Any, change: Any, **rows: Any) -> None:
    """What a container says of the files of a draft: for each name a change of CRS."""
    found = [
        {"facts": raster(9, 9), "changes": {key(change): rows.get(one.name.partition(".")[0])}}
        for one in examined_files(draft)
    ]
    desk.preflight.described(examined_files(draft), found)


def classic(desk: DraftContext, program: str, **arguments: object) -> Any:
    tool = next(one for one in CLASSIC if one.name == program)
    draft = tool.draft(arguments, desk)
    assert isinstance(draft, Draft)
    return draft.like(tool.like)


def test_a_refusal_is_not_replaced_by_a_finding_of_the_same_code():
    refused = Finding("ballpark_transformation", "from A", "", refuses=True, inputs=(0,))
    told = Finding("ballpark_transformation", "from B", "", inputs=(1,))
    assert [one.refuses for one in distinct([refused, told])] == [True, False]
    assert [one.inputs for one in distinct([refused, refused])] == [(0,)]


def test_findings_of_several_inputs_keep_the_numbers_of_all():
    many = [Finding("x", f"of {number}", "", inputs=(number,)) for number in range(30)]
    found = distinct(many)
    assert len(found) < 10
    assert {number for one in found for number in one.inputs} == {*range(30)}


def test_two_changes_of_crs_of_which_one_is_refused_are_refused(desk: DraftContext):
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
    found = [one for one in desk.preflight.look(draft).findings if one.code == "ballpark_transformation"]
    assert [(one.refuses, one.inputs) for one in found] == [(True, (0,)), (False, (1,))]


def test_an_input_is_found_by_its_whole_name(desk: DraftContext):
    text = "read a.png ! reproject --like=data.png --output-crs=EPSG:4326 ! write o.tif"
    draft = drafted(desk, "raster pipeline", pipeline=text)
    (change,) = crs_changes(draft, packaged())
    for name, count in (("data", 0), ("a", 1)):
        described(desk, draft, change, **{name: BALLPARK})
        found = [one for one in desk.preflight.look(draft).findings if one.code == "ballpark_transformation"]
        assert len(found) == count


def unknown_yet(desk: DraftContext, program: str, **more: Any) -> Any:
    """A draft of eleven inputs that nobody has described."""
    desk.preflight.known._facts.clear()
    inputs = [f"{name}.png" for name in NAMES]
    return classic(desk, program, src_datasets=inputs, dst_dataset="o.tif", **more)


def test_inputs_that_nobody_could_look_at_refuse_where_their_crs_matters(desk: DraftContext):
    row = {"facts": raster(9, 9, **UTM), "looks": {"holes": {}}}  # the latter is asked for gdal_merge
    for program, more in (("gdal_merge", {}), ("gdalwarp", {"t_srs": "EPSG:4326"})):
        whole = desk.preflight.check_described(unknown_yet(desk, program, **more), {"inputs": [row] * 11})
        assert [one for one in whole.findings if one.verdict is Verdict.UNKNOWN] == []
        with pytest.raises(ToolError) as caught:
            desk.preflight.check_described(unknown_yet(desk, program, **more), {"inputs": [row] * 10})
        assert caught.value.check["verdict"] == "unknown"
        assert caught.value.check["inputs"] == [10]


def test_pixels_that_there_was_no_time_for_are_not_called_fine(desk: DraftContext):
    draft = drafted(desk, "raster mosaic", input=["a.png", "data.png"], output="o.png")
    looks = {name: {} for name in pixel_probes(draft, packaged())}
    assert looks
    desk.preflight.known._facts.clear()
    rows = [{"facts": raster(9, 9), "looks": looks}, {"facts": raster(9, 9)}]
    found = {one.code: one for one in desk.preflight.check_described(draft, {"inputs": rows}).findings}
    assert (found["pixels_unexamined"].verdict, found["pixels_unexamined"].inputs) == (Verdict.UNKNOWN, (1,))


def test_the_last_of_eleven_inputs_is_judged_as_the_first(desk: DraftContext):
    rows = [{"facts": raster(9, 9, **(OTHER if number == 10 else UTM))} for number in range(11)]
    with pytest.raises(ToolError) as caught:
        desk.preflight.check_described(unknown_yet(desk, "gdal_merge"), {"inputs": rows})
    assert caught.value.check["code"] == "other_crs"


def test_a_format_that_the_catalogue_does_not_know_is_checked_and_named(desk: DraftContext):
    draft = drafted(desk, "raster reproject", input="a.png", output="o.tif", **{"output-crs": "EPSG:4326"})
    (change,) = crs_changes(draft, packaged())
    facts = raster(9, 9) | {"driver": "GTiff2030", "crs": None}
    row = {"facts": facts, "changes": {key(change): BALLPARK}}
    desk.preflight.described(examined_files(draft), [row])
    found = {one.code: one for one in desk.preflight.look(draft).findings}
    assert {"driver_unexamined", "ballpark_transformation", "no_input_crs"} <= found.keys()
    assert found["driver_unexamined"].verdict is Verdict.UNKNOWN


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
)
UNCHANGED = (
    ("raster convert", {"output-format": "COG", "creation-option": ["TILING_SCHEME=CUSTOM"]}),
    ("vector convert", {"layer-creation-option": ["RFC7946=NO"], "output-format": "GeoJSON"}),
)


def test_options_of_a_format_that_change_the_crs_are_changes(desk: DraftContext):
    for cases, count in ((CHANGED, 1), (UNCHANGED, 0)):
        for algorithm, given in cases:
            draft = drafted(desk, algorithm, input="a.png", output="o.out", **given)
            assert len(crs_changes(draft, packaged())) == count, given
    text = "read a.png ! write o.tif --of=COG --co=TARGET_SRS=EPSG:4326"
    assert len(crs_changes(drafted(desk, "raster pipeline", pipeline=text), packaged())) == 1


def test_of_two_options_with_one_name_the_first_counts():
    for options, told in (
        (("COMPRESS=JPEG", "COMPRESS=LZW"), True),
        (("COMPRESS=LZW", "COMPRESS=JPEG"), False),
    ):
        call = ask("raster convert", FLOAT, driver="GTiff", creation_option=options)
        assert ("lossy_compression" in {one.code for one in findings(call)}) is told


def test_a_correction_replaces_an_option_of_the_same_name(desk: DraftContext):
    draft = drafted(
        desk,
        "raster convert",
        input="a.png",
        output="o.tif",
        **{"creation-option": ["TILED=YES", "COMPRESS=LZW"]},
    )
    found = Finding("x", "", "", change={"creation-option": ("compress=deflate",)})
    made = with_suggested_call(found, draft, "raster convert", packaged()).suggested_call
    assert made is not None
    assert made["arguments"]["arguments"]["creation-option"] == ["TILED=YES", "compress=deflate"]


def test_a_raster_whose_scales_are_given_is_not_remarked_on_again():
    codes = [
        {one.code for one in findings(ask("raster slope", NORTH, **given))}
        for given in ({}, {"xscale": "2", "yscale": "2"})
    ]
    assert ["mercator_units" in one for one in codes] == [True, False]


def test_only_bands_that_come_into_the_output_are_looked_at(desk: DraftContext):
    for steps, look in (
        ("select 1 ! set-type --output-data-type=UInt8", "UInt8:1"),
        ("select --band=1,3 ! set-type --output-data-type=UInt8", "UInt8:1,3"),
        ("set-type --output-data-type=UInt8", "UInt8"),
    ):
        draft = drafted(desk, "raster pipeline", pipeline=f"read a.png ! {steps} ! write o.tif")
        assert look in pixel_probes(draft, packaged())
