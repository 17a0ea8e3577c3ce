"""All tools: schemas, descriptions, and the arguments that the specification fixes.

The tests go through the registry, so that they include every new tool.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from gdal_mcp.approvals.model import NullApprover
from gdal_mcp.calls.invocation import Invocation, JobResult, Request
from gdal_mcp.calls.results import structured
from gdal_mcp.errors import Code, ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.policy.identity import local
from gdal_mcp.server.toolboxes import toolboxes
from gdal_mcp.settings import load_settings
from gdal_mcp.toolboxes.base import ImmediateResult, Tool, nearest
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.datasets.paths import Paths
from gdal_mcp.toolboxes.gdal.discovery.entries import tool_name
from gdal_mcp.tools.classic import CLASSIC
from gdal_mcp.tools.common import DraftContext
from gdal_mcp.tools.listing import core
from gdal_mcp.tools.toolbox import REMOTE
from sandbox.outcome import Usage
from sandbox.outputs.store import Published, PublishedFile
from sandbox.workspace import Workspace, Workspaces
from tests.boxes import known_tools, planned, preflight, surface
from tests.unit.values import RECEIPT, draft, output, plan

SPECIFIED = {
    "info": ("path", "format?"),
    "convert": ("input", "output", "output_format?", "overwrite?", "creation_options?", "extra_args?"),
    "reproject": (
        "input", "output", "dst_crs", "src_crs?", "resampling?", "resolution?", "size?", "bbox?", "bbox_crs?", "overwrite?",
        "creation_options?", "warp_options?", "transform_options?", "extra_args?", "allow?",
    ),
    "gdalinfo": ("dataset", "json?", "stats?"),
    "gdal_translate": tuple("src_dataset dst_dataset? output_format? bands? projwin? resample_alg?".split()),
    "gdalwarp": ("src_datasets", "t_srs", "dst_dataset?", "r?", "overwrite?", "allow?"),
    "gdalbuildvrt": ("src_datasets", "dst_vrt?", "resolution?", "separate?"),
    "gdal_rasterize": ("src_vector", "burn_value", "width", "height", "extent", "dst_raster?", "invert?"),
    "gdal2xyz": ("dataset", "dst_csv?", "skip_nodata?", "bands?", "output_format?"),
    "gdal_merge": ("src_datasets", "dst_dataset?", "n?", "separate?"),
    "gdal_polygonize": ("src_dataset", "dst_vector?", "band?", "mask?", "field_name?"),
}  # fmt: skip
RESULTS = {
    "gdalinfo": "report", "gdal_translate": "output_uri", "gdalwarp": "output_uri", "gdalbuildvrt": "vrt_uri", "gdal_rasterize": "raster_uri",
    "gdal2xyz": "xyz_uri", "gdal_merge": "merged_uri", "gdal_polygonize": "vector_uri",
}  # fmt: skip
RESULT = (
    *(
        "outputs",
        "files",
        "replaced",
        "moved",
        "removed",
        "next",
        "checks",
        "untrusted",
        "receipt",
        "return_code",
        "full_result",
    ),
)
ALL = tuple(known_tools().values())
SHOWN = tuple(SPECIFIED)
META = ("pipeline", "find_crs", "gdal_search", "gdal_describe", "gdal_read", "gdal_write")
REFUSALS = (ValidationError, ArgumentRefused, ToolError)


def test_every_algorithm_and_handwritten_tool_is_covered():
    generated = {tool_name(path) for path in packaged().algorithms if " " in path}
    assert len(generated) > 100
    written = {tool.name for tool in (*core(packaged()), *CLASSIC, *REMOTE)}
    assert {tool.name for tool in ALL} == generated | written
    assert [name for name, tool in known_tools().items() if name != tool.name] == []


def test_tools_parameters_and_results_match_the_specification():
    for name, parameters in SPECIFIED.items():
        schema = known_tools()[name].input_schema
        required = set(schema.get("required", ()))
        assert {
            parameter if parameter in required else f"{parameter}?" for parameter in schema["properties"]
        } == set(parameters)
    for name, key in RESULTS.items():
        schema = known_tools()[name].output_schema
        assert key in {*schema["properties"]} & {*schema["required"]}


def test_texts_and_schemas_suit_every_client():
    for tool in ALL:
        assert re.fullmatch(r"[a-z][a-z0-9_]{0,39}", tool.name)
        assert tool.title
        assert 0 < len(tool.description) < 700
        assert tool.description.isprintable()
        for schema in (tool.input_schema, tool.output_schema):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
            json.dumps(schema, allow_nan=False)
            assert all(reference.startswith("#/$defs/") for reference in _references(schema))
        assert tool.input_schema["additionalProperties"] is False
        assert tool.input_schema["properties"]
        assert set(tool.input_schema.get("required", ())) <= set(tool.input_schema["properties"])
        for name, inner in tool.input_schema["properties"].items():
            assert inner, name
            assert {"type": "null"} not in inner.get("anyOf", ()), name


def test_result_schema_names_dependable_keys():
    for tool in ALL:
        schema = tool.output_schema
        assert set(schema.get("required", ())) <= set(schema.get("properties", {}))
        if tool.runs:
            assert "untrusted" in schema["properties"]
        assert ("outputs" in schema.get("properties", {})) is tool.writes


def examples() -> Iterator[tuple[str, dict[str, Any]]]:
    for tool in ALL:
        if match := re.search(r"Example: (\{.*)", tool.description):
            yield tool.name, json.JSONDecoder().raw_decode(match[1])[0]


SAID = dict(examples())


def test_the_hand_written_tools_show_an_example():
    assert {*SHOWN, *META} <= set(SAID)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> DraftContext:
    """One context for all tests, because a draft changes nothing."""
    root = tmp_path_factory.mktemp("ws")
    files = "a.tif b.tif dem.tif scene.tif n43.tif n44.tif classes.tif zones.gpkg lakes.gpkg towns.gpkg --config -of"
    for name in files.split():
        (root / name).write_bytes(b"x")
    settings = load_settings(workspaces=(root,))
    paths = Paths(Workspaces((Workspace.at(root, writable=True),)), "outputs", "0123456789abcdef")
    return DraftContext(paths, settings, surface(settings), preflight(settings), packaged())


def call(desk: DraftContext, tool: str, arguments: Any) -> Draft | ImmediateResult:
    return known_tools()[tool].draft(arguments, desk)


def drafted(tool: str, desk: DraftContext, **arguments: Any) -> Draft:
    draft = call(desk, tool, arguments)
    assert isinstance(draft, Draft)
    return draft


def test_example_in_description_is_accepted_by_the_tool(desk: DraftContext):
    for name in SAID:
        jsonschema.validate(SAID[name], known_tools()[name].input_schema, jsonschema.Draft202012Validator)
        call(desk, name, SAID[name])


def test_example_in_gdal_describe_is_accepted(desk: DraftContext):
    for tool in core(packaged()):
        description = call(desk, "gdal_describe", {"algorithm": tool.name})
        assert isinstance(description, ImmediateResult)
        if tool.name in SAID:
            schema = description.result["input_schema"]
            jsonschema.validate(SAID[tool.name], schema, jsonschema.Draft202012Validator)
    for name in ("query", "vector sql"):
        description = call(desk, "gdal_describe", {"algorithm": name})
        assert isinstance(description, ImmediateResult)
        assert len(description.result["sql"]["query_examples"]) == 13


def test_unknown_argument_or_wrong_type_is_refused(desk: DraftContext):
    for name in SAID:
        required = known_tools()[name].input_schema.get("required", ())
        example = SAID[name]
        for wrong in [{**example, "shell": "x"}, *({**example, key: {"$": object}} for key in example)]:
            with pytest.raises(REFUSALS):
                call(desk, name, wrong)
        for key in required:
            with pytest.raises(REFUSALS):
                call(desk, name, {argument: value for argument, value in example.items() if argument != key})


@pytest.mark.claim("args.unknown-refused")
def test_argument_outside_the_schema_is_refused_first(desk: DraftContext):
    for tool in ALL:
        with pytest.raises(REFUSALS) as caught:
            tool.draft({"shell": "touch /tmp/x"}, desk)
        if isinstance(caught.value, ToolError | ArgumentRefused):
            assert caught.value.code is Code.INVALID_ARGUMENT


BRIEF = [tool for tool in core(packaged()) if "options" in tool.input_schema["properties"]]


def test_further_options_are_an_object_of_known_names(desk: DraftContext):
    """No argument is silently ignored."""
    for tool in BRIEF:
        for options in ["--config=A=B", ["--config=A=B"], 5, None, {"shell": "x"}, {"config": "A=B"}]:
            arguments = {"input": "zones.gpkg" if "vector" in tool.name else "a.tif"}
            if "output" in tool.input_schema["properties"]:
                arguments["output"] = "o.gpkg" if "vector" in tool.name else "o.tif"
            with pytest.raises(REFUSALS) as caught:
                tool.draft({**arguments, "options": options}, desk)
            if not isinstance(caught.value, ValidationError):
                assert caught.value.code is Code.INVALID_ARGUMENT


BURN = {"src_vector": "zones.gpkg", "burn_value": -1, "width": 5, "height": 5, "extent": [1, 2, 3, 4]}
EXAMPLES: list[tuple[str, dict[str, Any]]] = [
    ("info", {"path": "a.tif"}),
    ("convert", {"input": "a.tif", "output": "o.tif", "creation_options": {"TILED": True}}),
    ("reproject", {"input": "a.tif", "output": "o.tif", "dst_crs": "EPSG:3857", "resolution": 30}),
    ("gdalinfo", {"dataset": "a.tif", "json": True}),
    ("gdal_translate", {"src_dataset": "a.tif", "projwin": [-1.5, 2e-7, 3, -4.25]}),
    ("gdalwarp", {"src_datasets": ["a.tif", "b.tif"], "t_srs": "EPSG:4326", "r": "nearest"}),
    ("gdalbuildvrt", {"src_datasets": ["a.tif"], "dst_vrt": "o.vrt"}),
    ("gdal_rasterize", {**BURN, "extent": [-1, -2, 3, 4]}),
    ("gdal2xyz", {"dataset": "a.tif", "output_format": "numpy"}),
    ("gdal_merge", {"src_datasets": ["a.tif", "b.tif"], "n": -9999}),
    ("gdal_polygonize", {"src_dataset": "a.tif", "mask": "b.tif", "dst_vector": "o.gpkg"}),
]


@pytest.mark.claim("args.no-bare-words")
def test_every_path_on_the_command_line_is_absolute(desk: DraftContext):
    for tool, arguments in EXAMPLES:
        draft = drafted(tool, desk, **arguments)
        words = draft.command.argv
        assert all(str(place) in words for place in draft.inputs)
        assert (draft.output is None) == (not known_tools()[tool].writes)
        if draft.output:
            assert draft.output.inside in words
        for word in words:
            assert not word.endswith((".tif", ".gpkg", ".vrt")) or word.startswith("/")


@pytest.mark.claim("args.no-bare-words")
def test_file_named_like_an_option_is_a_file(desk: DraftContext):
    for name in ["--config", "-of"]:
        for tool, argument in (("info", "path"), ("gdalinfo", "dataset"), ("gdal_translate", "src_dataset")):
            words = drafted(tool, desk, **{argument: name}).command.argv
            assert str(desk.paths.input(name)) in words
            assert words.count(name) <= (1 if tool == "gdal_translate" else 0)  # the tool's own -of


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("gdal_translate", {"src_dataset": "a.tif", "bands": []}),
    ("gdal_translate", {"src_dataset": "a.tif", "bands": ["0"]}),
    ("gdal_translate", {"src_dataset": "a.tif", "bands": ["1 -co"]}),
    ("gdal_translate", {"src_dataset": "a.tif", "projwin": [1, 2, 3]}),
    ("gdal_translate", {"src_dataset": "a.tif", "projwin": [1, 2, 3, float("nan")]}),
    ("gdal_translate", {"src_dataset": "a.tif", "projwin": "1,2,3"}),
    ("gdal_translate", {"src_dataset": "a.tif", "resample_alg": "best"}),
    ("gdalwarp", {"src_datasets": [], "t_srs": "EPSG:4326"}),
    ("gdal_rasterize", {**BURN, "burn_value": "red"}),
    ("gdal_rasterize", {**BURN, "burn_value": 10**400}),
    ("gdal_rasterize", {**BURN, "width": 5.5}),
    ("gdal_rasterize", {**BURN, "width": -5}),
    ("gdal_polygonize", {"src_dataset": "a.tif", "field_name": "-f"}),
    ("gdal_polygonize", {"src_dataset": "a.tif", "field_name": "x; DROP"}),
    ("gdal_polygonize", {"src_dataset": "a.tif", "band": 0}),
    ("gdal2xyz", {"dataset": "a.tif", "output_format": "csv"}),
    ("convert", {"input": "a.tif", "output": "o.tif", "creation_options": {"A": {"B": 1}}}),
    ("convert", {"input": "a.tif", "output": "o.tif", "creation_options": "TILED"}),
    ("reproject", {"input": "a.tif", "output": "o.tif", "dst_crs": "EPSG:3857", "resolution": 0}),
    ("reproject", {"input": "a.tif", "output": "o.tif", "dst_crs": "EPSG:3857", "size": [1]}),
    ("gdalinfo", {"dataset": "a.tif", "as_json": True}),
]


@pytest.mark.claim("args.unknown-refused")
def test_a_value_that_makes_no_sense_is_refused(desk: DraftContext):
    for tool, arguments in WRONG:
        with pytest.raises((ValidationError, ToolError)):
            call(desk, tool, arguments)


def test_argument_names_of_similar_tools_are_accepted_once(desk: DraftContext):
    for tool, arguments, same in [
        ("info", {"path": "a.tif"}, {"input": "a.tif"}),
        ("preview", {"path": "a.tif", "max_size": 64}, {"filename": "a.tif", "max-size": 64}),
        ("convert", {"input": "a.tif", "output": "o.tif", "output_format": "COG"}, {"path": "a.tif", "dst_dataset": "o.tif", "output-format": "COG"}),
        ("reproject", {"input": "a.tif", "output": "o.tif", "dst_crs": "EPSG:3857"}, {"src_dataset": "a.tif", "output": "o.tif", "output-crs": "EPSG:3857"}),
        ("vector_reproject", {"input": "zones.gpkg", "output": "o.gpkg", "dst_crs": "EPSG:3857"}, {"path": "zones.gpkg", "destination": "o.gpkg", "t_srs": "EPSG:3857"}),
        ("gdal_read", {"algorithm": "vsi list", "arguments": {"filename": "."}}, {"algorithm": "vsi list", "arguments": {"path": "."}}),
    ]:  # fmt: skip
        assert drafted(tool, desk, **same).command == drafted(tool, desk, **arguments).command
        assert not {*same} - {*arguments} & {*known_tools()[tool].input_schema["properties"]}
    for tool, arguments in [
        ("info", {"path": "a.tif", "input": "a.tif"}),
        (
            "vector_reproject",
            {"input": "a.gpkg", "path": "a.gpkg", "output": "o.gpkg", "dst_crs": "EPSG:3857"},
        ),
    ]:
        with pytest.raises(ToolError) as caught:
            call(desk, tool, arguments)
        assert caught.value.code is Code.INVALID_ARGUMENT


def test_misspelt_name_suggests_the_nearest_one(desk: DraftContext):
    for tool, arguments, meant in [
        ("info", {"pth": "a.tif"}, "`path`"),
        ("convert", {"inptu": "a.tif", "output": "o.tif"}, "`input`"),
        ("gdal_read", {"algorithm": "raster infoo", "arguments": {}}, "`raster info`"),
        ("gdal_write", {"algorithm": "hilshade", "arguments": {}}, "`raster hillshade`"),
        ("validate_call", {"tool": "inf", "arguments": {}}, "`info`"),
    ]:
        with pytest.raises(ToolError) as caught:
            call(desk, tool, arguments)
        assert meant in caught.value.suggestion
    for name in ("inf", "hilshade", "hillshade"):
        assert nearest(name, ("info", "raster_info", "hillshade"))
    assert not nearest("zzz", ("info", "convert"))
    with pytest.raises(ToolError) as caught:
        drafted("info", desk, path="aa.tif")
    assert caught.value.untrusted["similar"][0] == "a.tif"
    with pytest.raises(ToolError) as caught:
        drafted("info", desk, path="../aa.tif")
    assert "similar" not in caught.value.untrusted


def test_driver_forbidden_for_outputs_is_refused(desk: DraftContext):
    for name in ("MEM", "PostGISRaster", "NoSuchFormat", "GTiff -co X=Y"):
        with pytest.raises((ArgumentRefused, ToolError)):
            drafted("gdal_translate", desk, src_dataset="a.tif", dst_dataset="o.tif", output_format=name)


def result_of(tool: Tool, printed: str = "", parsed: Any = None) -> dict[str, Any]:
    """A client's result of a call without anything unusual."""
    target = output() if tool.writes else None
    published = Published("id", (PublishedFile(target.target, 7, "00"),)) if target else None
    done = JobResult(Usage("cold"), printed, parsed, "", (), (), "3.13.3", published=published)
    call = Invocation(Request(tool.name, {}, local("ann"), "test", NullApprover()))
    call = planned(call, plan(draft(target), tool=tool.name))
    return structured(replace(call, receipt=RECEIPT), done)


def test_a_result_fits_its_schema_whatever_was_printed():
    for tool in [tool for tool in ALL if tool.runs]:
        for parsed in (None, {"driverShortName": "GTiff"}, ["x"]):
            result = result_of(tool, "text", parsed)
            jsonschema.validate(result, tool.output_schema, jsonschema.Draft202012Validator)
            assert result["receipt"]["call_id"] == RECEIPT["call_id"]


def test_client_schema_names_every_result_key_or_none():
    """Clients that generate a type from it, such as fastmcp and mcpo, lose keys that it leaves out."""
    own = load_settings(toolboxes=("gdal", "python", "augment"), toolsets=("all",))
    tools = {tool.name: tool for tool in (*ALL, *toolboxes(own).surface(own).listed)}
    assert any(tool.listed_schema.get("properties") for tool in tools.values())
    for tool in tools.values():
        schema = tool.listed_schema
        assert "required" not in schema
        if named := schema.get("properties"):
            assert {*tool.own_keys, "error"} <= set(named), tool.name
            assert set(RESULT) <= set(named) or not tool.runs, tool.name


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from (value for key, value in schema.items() if key == "$ref")
    for value in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _references(value)
