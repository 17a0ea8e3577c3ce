"""Every tool that is listed: schemas, descriptions, and the arguments that the specification fixes. Walks the list, so that
no new tool can dodge it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from gdal_mcp.catalogue.errors import ArgumentRefused
from gdal_mcp.errors import ToolError
from gdal_mcp.paths import Paths
from gdal_mcp.plan import Draft
from gdal_mcp.tools.listing import ALL, BY_NAME
from gdal_mcp.tools.model import Tool
from sandbox.workspace import Workspace, Workspaces

SPECIFIED = {
    "info": ("path", "format?"),
    "convert": ("input", "output", "output_format?", "overwrite?", "creation_options?", "extra_args?"),
    "reproject": (
        *(
            "input",
            "output",
            "dst_crs",
            "src_crs?",
            "resampling?",
            "resolution?",
            "size?",
            "bbox?",
            "bbox_crs?",
            "overwrite?",
        ),
        *("creation_options?", "warp_options?", "transform_options?", "extra_args?"),
    ),
    "gdalinfo": ("dataset", "json?", "stats?"),
    "gdal_translate": (
        "src_dataset",
        "dst_dataset?",
        "output_format?",
        "bands?",
        "projwin?",
        "resample_alg?",
    ),
    "gdalwarp": ("src_datasets", "t_srs", "dst_dataset?", "r?", "overwrite?"),
    "gdalbuildvrt": ("src_datasets", "dst_vrt?", "resolution?", "separate?"),
    "gdal_rasterize": ("src_vector", "burn_value", "width", "height", "extent", "dst_raster?", "invert?"),
    "gdal2xyz": ("dataset", "dst_csv?", "skip_nodata?", "bands?", "output_format?"),
    "gdal_merge": ("src_datasets", "dst_dataset?", "n?", "separate?"),
    "gdal_polygonize": ("src_dataset", "dst_vector?", "band?", "mask?", "field_name?"),
}
RESULTS = {
    "gdalinfo": "report", "gdal_translate": "output_uri", "gdalwarp": "output_uri", "gdalbuildvrt": "vrt_uri", "gdal_rasterize": "raster_uri",
    "gdal2xyz": "xyz_uri", "gdal_merge": "merged_uri", "gdal_polygonize": "vector_uri",
}  # fmt: skip
each = pytest.mark.parametrize("tool", ALL, ids=[tool.name for tool in ALL])


def test_the_tools_and_their_parameters_are_those_of_the_specification():
    found = {}
    for tool in ALL:
        schema = tool.input_schema
        required = set(schema.get("required", ()))
        found[tool.name] = tuple(name if name in required else f"{name}?" for name in schema["properties"])
    assert {name: set(names) for name, names in found.items()} == {
        name: set(names) for name, names in SPECIFIED.items()
    }
    assert list(found) == list(SPECIFIED)
    assert set(BY_NAME) == set(SPECIFIED)


@pytest.mark.parametrize(("name", "key"), RESULTS.items())
def test_the_results_key_is_that_of_the_specification(name: str, key: str):
    assert key in BY_NAME[name].output_schema["properties"]
    assert key in BY_NAME[name].output_schema["required"]


@each
def test_names_and_texts_are_fit_for_every_client(tool: Tool[Any]):
    assert re.fullmatch(r"[a-z][a-z0-9_]{0,39}", tool.name)
    assert tool.title
    assert len(tool.description) < 700
    assert tool.description.isprintable()


@each
def test_schemas_are_2020_12_and_name_what_they_take(tool: Tool[Any]):
    for schema in (tool.input_schema, tool.output_schema):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert "null" not in json.dumps(schema.get("properties", {}).get("dst_dataset", {}))
    assert tool.input_schema["additionalProperties"] is False
    for name, inner in tool.input_schema["properties"].items():
        assert inner, name


@each
def test_the_example_in_the_description_is_one_that_the_tool_takes(tool: Tool[Any]):
    found = re.search(r"Example: (\{.*\})", tool.description)
    assert found, tool.description
    example, _ = json.JSONDecoder().raw_decode(found[1])
    jsonschema.validate(example, tool.input_schema, jsonschema.Draft202012Validator)
    tool.arguments.model_validate(example)


@each
def test_an_argument_of_no_name_or_of_another_type_is_refused(tool: Tool[Any]):
    found = re.search(r"Example: (\{.*\})", tool.description)
    assert found
    example, _ = json.JSONDecoder().raw_decode(found[1])
    for wrong in [{**example, "shell": "x"}, *({**example, name: {"$": object}} for name in example), {}]:
        with pytest.raises(ValidationError):
            tool.arguments.model_validate(wrong)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    root = tmp_path / "ws"
    root.mkdir()
    for name in ("a.tif", "b.tif", "zones.gpkg", "--config", "-of"):
        (root / name).write_bytes(b"x")
    return Paths(Workspaces((Workspace.at(root, writable=True),)), "outputs", "0123456789abcdef")


def drafted(tool: str, paths: Paths, **arguments: Any) -> Draft:
    one = BY_NAME[tool]
    return one.draft(one.arguments.model_validate(arguments), paths)


EXAMPLES: list[tuple[str, dict[str, Any]]] = [
    ("info", {"path": "a.tif"}),
    ("convert", {"input": "a.tif", "output": "o.tif", "creation_options": {"TILED": True}}),
    ("reproject", {"input": "a.tif", "output": "o.tif", "dst_crs": "EPSG:3857", "resolution": 30}),
    ("gdalinfo", {"dataset": "a.tif", "json": True}),
    ("gdal_translate", {"src_dataset": "a.tif", "projwin": [-1.5, 2e-7, 3, -4.25]}),
    ("gdalwarp", {"src_datasets": ["a.tif", "b.tif"], "t_srs": "EPSG:4326", "r": "nearest"}),
    ("gdalbuildvrt", {"src_datasets": ["a.tif"], "dst_vrt": "o.vrt"}),
    (
        "gdal_rasterize",
        {"src_vector": "zones.gpkg", "burn_value": -1, "width": 5, "height": 5, "extent": [-1, -2, 3, 4]},
    ),
    ("gdal2xyz", {"dataset": "a.tif", "output_format": "numpy"}),
    ("gdal_merge", {"src_datasets": ["a.tif", "b.tif"], "n": -9999}),
    ("gdal_polygonize", {"src_dataset": "a.tif", "mask": "b.tif", "dst_vector": "o.gpkg"}),
]


@pytest.mark.parametrize(("tool", "arguments"), EXAMPLES, ids=[tool for tool, _ in EXAMPLES])
def test_every_path_on_the_command_line_is_absolute(paths: Paths, tool: str, arguments: dict[str, Any]):
    made = drafted(tool, paths, **arguments)
    words = made.command.argv
    assert all(str(place) in words for place in made.inputs)
    assert (made.output is None) == (not BY_NAME[tool].writes)
    if made.output:
        assert made.output.inside in words
    for word in words:
        assert not word.endswith((".tif", ".gpkg", ".vrt")) or word.startswith("/")


@pytest.mark.parametrize("name", ["--config", "-of"])
def test_a_file_named_like_an_option_is_a_file(paths: Paths, name: str):
    for tool, argument in (("info", "path"), ("gdalinfo", "dataset"), ("gdal_translate", "src_dataset")):
        words = drafted(tool, paths, **{argument: name}).command.argv
        assert str(paths.input(name)) in words
        assert words.count(name) <= (1 if tool == "gdal_translate" else 0)  # its own -of


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("gdal_translate", {"src_dataset": "a.tif", "bands": []}),
    ("gdal_translate", {"src_dataset": "a.tif", "bands": ["0"]}),
    ("gdal_translate", {"src_dataset": "a.tif", "bands": ["1 -co"]}),
    ("gdal_translate", {"src_dataset": "a.tif", "bands": [1]}),
    ("gdal_translate", {"src_dataset": "a.tif", "projwin": [1, 2, 3]}),
    ("gdal_translate", {"src_dataset": "a.tif", "projwin": [1, 2, 3, float("nan")]}),
    ("gdal_translate", {"src_dataset": "a.tif", "projwin": [1, 2, 3, "4"]}),
    ("gdal_translate", {"src_dataset": "a.tif", "resample_alg": "best"}),
    ("gdalwarp", {"src_datasets": [], "t_srs": "EPSG:4326"}),
    ("gdalwarp", {"src_datasets": "a.tif", "t_srs": "EPSG:4326"}),
    (
        "gdal_rasterize",
        {"src_vector": "zones.gpkg", "burn_value": True, "width": 5, "height": 5, "extent": [1, 2, 3, 4]},
    ),
    (
        "gdal_rasterize",
        {"src_vector": "zones.gpkg", "burn_value": 10**400, "width": 5, "height": 5, "extent": [1, 2, 3, 4]},
    ),
    (
        "gdal_rasterize",
        {"src_vector": "zones.gpkg", "burn_value": 1, "width": 5.5, "height": 5, "extent": [1, 2, 3, 4]},
    ),
    (
        "gdal_rasterize",
        {"src_vector": "zones.gpkg", "burn_value": 1, "width": -5, "height": 5, "extent": [1, 2, 3, 4]},
    ),
    ("gdal_polygonize", {"src_dataset": "a.tif", "field_name": "-f"}),
    ("gdal_polygonize", {"src_dataset": "a.tif", "field_name": "x; DROP"}),
    ("gdal_polygonize", {"src_dataset": "a.tif", "band": 0}),
    ("gdal2xyz", {"dataset": "a.tif", "output_format": "csv"}),
    ("convert", {"input": "a.tif", "output": "o.tif", "creation_options": {"A": {"B": 1}}}),
    ("convert", {"input": "a.tif", "output": "o.tif", "creation_options": "TILED=YES"}),
    ("reproject", {"input": "a.tif", "output": "o.tif", "dst_crs": "EPSG:3857", "resolution": 0}),
    ("reproject", {"input": "a.tif", "output": "o.tif", "dst_crs": "EPSG:3857", "size": [1]}),
    ("gdalinfo", {"dataset": "a.tif", "as_json": True}),
]


@pytest.mark.parametrize(
    ("tool", "arguments"), WRONG, ids=[f"{tool}-{number}" for number, (tool, _) in enumerate(WRONG)]
)
def test_a_value_that_makes_no_sense_is_refused(tool: str, arguments: dict[str, Any]):
    with pytest.raises(ValidationError):
        BY_NAME[tool].arguments.model_validate(arguments)


def test_a_driver_that_no_output_may_have_is_refused(paths: Paths):
    for name in ("MEM", "PostGISRaster", "NoSuchFormat", "GTiff -co X=Y"):
        with pytest.raises((ArgumentRefused, ToolError)):
            drafted("gdal_translate", paths, src_dataset="a.tif", dst_dataset="o.tif", output_format=name)


def test_a_result_is_held_to_its_schema():
    for tool in ALL:
        with pytest.raises(ValidationError):
            tool.result.model_validate({"surprise": 1})


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from (value for key, value in schema.items() if key == "$ref")
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


@each
def test_schemas_refer_to_nothing_outside_themselves(tool: Tool[Any]):
    for schema in (tool.input_schema, tool.output_schema):
        assert all(reference.startswith("#/$defs/") for reference in _references(schema))
