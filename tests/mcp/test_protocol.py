"""The protocol as a client meets it, in both eras."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from gdal_mcp.gdal.catalogue.load import packaged
from gdal_mcp.tools.listing import core
from tests.mcp.talk import Place, Talk

pytestmark = pytest.mark.engine


READING = {tool.name for tool in core(packaged()) if not tool.writes}


def test_every_tool_is_listed_with_schemas_and_true_annotations(talk: Talk):
    tools = talk.ask("list_tools").tools
    assert [one.name for one in tools] == [one.name for one in core(packaged())]
    for one in tools:
        assert one.title
        assert one.description
        assert one.annotations.read_only_hint == (one.name in READING)
        assert one.annotations.destructive_hint == (None if one.name in READING else True)
        assert one.annotations.open_world_hint is False
        for schema in (one.input_schema, one.output_schema):
            jsonschema.Draft202012Validator.check_schema(schema)


def _objects(schema: Any, name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of an object, by the name of the property that has it."""
    if isinstance(schema, dict):
        if "object" in (schema.get("type"), *_as_list(schema.get("type"))):
            yield name, schema
        for key, value in schema.items():
            if key == "properties":
                for inner, one in value.items():
                    yield from _objects(one, inner)
            else:
                yield from _objects(value, name)
    elif isinstance(schema, list):
        for value in schema:
            yield from _objects(value, name)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def test_an_object_that_names_arguments_takes_none_that_is_unknown(
    modern: Talk, place: Place, subtests: pytest.Subtests
):
    for tool, arguments in (
        ("gdal_read", {"algorithm": "raster info", "arguments": {"input": "dem.tif", "shell": "x"}}),
        (
            "gdal_write",
            {"algorithm": "raster slope", "arguments": {"input": "dem.tif", "output": "o.tif", "shell": "x"}},
        ),
        (
            "raster_clip",
            {"input": "dem.tif", "output": "o.tif", "bbox": [0, 0, 1, 1], "options": {"shell": "x"}},
        ),
        (
            "raster_clip",
            {"input": "dem.tif", "output": "o.tif", "bbox": [0, 0, 1, 1], "options": "--config=A=B"},
        ),
        ("convert", {"input": "dem.tif", "output": "o.tif", "creation_options": {"SHELL": "x"}}),
        ("pipeline", {"pipeline": [{"step": "read", "input": "dem.tif", "shell": "x"}, {"step": "info"}]}),
        ("validate_call", {"tool": "info", "arguments": {"path": "dem.tif", "shell": "x"}}),
    ):
        with subtests.test(tool=tool, arguments=arguments):
            error = modern.failed(tool, **arguments)
            assert (error["code"], error["stage"]) == ("INVALID_ARGUMENT", "validate")
            assert not place.path("o.tif").exists()


def test_a_result_is_told_twice_and_fits_its_schema(talk: Talk):
    schemas = {one.name: one.output_schema for one in talk.ask("list_tools").tools}
    result = talk.call("info", path="dem.tif")
    assert json.loads(result.content[0].text) == result.structured_content
    jsonschema.validate(result.structured_content, schemas["info"], jsonschema.Draft202012Validator)


def test_a_refused_call_is_a_tool_error_that_says_where_and_what_to_do(talk: Talk, subtests: pytest.Subtests):
    for tool, arguments, code, stage in (
        ("info", {"path": "absent.tif"}, "NOT_FOUND", "resolve"),
        ("info", {"path": "/etc/passwd"}, "PATH_NOT_ALLOWED", "resolve"),
        ("info", {"path": "/vsicurl/http://192.0.2.1/a.tif"}, "NETWORK_BLOCKED", "resolve"),
        ("info", {"path": "dem.tif", "color": True}, "INVALID_ARGUMENT", "validate"),
        ("info", {}, "INVALID_ARGUMENT", "validate"),
        ("info", {"path": 7}, "INVALID_ARGUMENT", "validate"),
        ("info", {"path": "zones.dbf.txt\n"}, "PATH_NOT_ALLOWED", "resolve"),
        (
            "gdal_rasterize",
            {"src_vector": "zones.gpkg", "burn_value": 10**400},
            "INVALID_ARGUMENT",
            "validate",
        ),
        (
            "reproject",
            {
                "input": "dem.tif",
                "output": "x.tif",
                "dst_crs": "EPSG:3857",
                "size": [5, 5],
                "resolution": 2.0,
            },
            "INVALID_ARGUMENT",
            "validate",
        ),
        (
            "convert",
            {"input": "dem.tif", "output": "x.tif", "extra_args": ["--config=GDAL_SKIP="]},
            "INVALID_ARGUMENT",
            "validate",
        ),
    ):
        with subtests.test(tool=tool, arguments=arguments, code=code, stage=stage):
            error = talk.failed(tool, **arguments)
            assert (error["code"], error["stage"]) == (code, stage)
            assert error["message"]
            assert error["suggestion"]
            assert error["call_id"]


def test_a_failure_of_gdal_keeps_its_own_words_apart_as_untrusted(talk: Talk, place):
    place.path("noise.txt").write_text("this is no dataset at all")
    error = talk.failed("gdalinfo", dataset="noise.txt")
    assert (error["code"], error["stage"]) == ("GDAL_ERROR", "run")
    assert any("noise.txt" in text for text in error["untrusted"]["gdal"])
    assert "stderr" not in error["untrusted"]  # which says the same


def test_progress_of_a_long_computation_only_grows_and_reaches_the_end(talk: Talk):
    name = f"progress-{talk.modern}.tif"
    talk.done(
        "reproject",
        input="rgb.tif",
        output=name,
        dst_crs="EPSG:3857",
        size=[1500, 1500],
        resampling="lanczos",
    )
    told = [fraction for fraction, _ in talk.progress]
    assert len(told) > 2
    assert told == sorted(told)  # a call that is sent again with its answer begins anew
    assert told[-1] == 1.0
    assert {total for _, total in talk.progress} == {1.0}
