"""Schemas of arguments: valid, closed, and in agreement with the binding."""

import json
from typing import Any

from jsonschema import Draft202012Validator

from gdal_mcp.toolboxes.gdal.catalogue.binding import bind
from gdal_mcp.toolboxes.gdal.catalogue.checks import Context
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.model import Role
from gdal_mcp.toolboxes.gdal.catalogue.schema import input_schema, json_name, offered

EVERY = {
    **packaged().algorithms,
    **{f"step {path}": step.algorithm for path, step in packaged().steps.items()},
}


def accepts(path: str, call: dict[str, Any], *, compact: bool = False) -> bool:
    return bool(Draft202012Validator(input_schema(EVERY[path], compact=compact)).is_valid(call))


def binds(path: str, call: dict[str, Any]) -> bool:
    try:
        bind(EVERY[path], call, Context(packaged(), threads=4))
    except ArgumentRefused:
        return False
    return True


def test_schemas_are_valid_closed_described_and_widely_readable() -> None:
    for path in sorted(EVERY):
        for compact in [False, True]:
            schema = input_schema(EVERY[path], compact=compact)
            Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
            assert schema["additionalProperties"] is False
            assert set(schema.get("required", ())) <= set(schema["properties"])
            assert not accepts(path, {"config": ["A=B"]}, compact=compact)
            assert not compact or set(schema) <= {"type", "properties", "required", "additionalProperties"}
        for name, property_schema in input_schema(EVERY[path])["properties"].items():
            assert property_schema.get("description") or path not in packaged().algorithms, (path, name)
            assert "default" not in property_schema or Draft202012Validator(property_schema).is_valid(
                property_schema["default"]
            ), name


def test_nothing_hidden_or_forbidden_is_offered() -> None:
    for path in sorted(EVERY):
        algorithm = EVERY[path]
        shown = set(input_schema(algorithm)["properties"])
        closed = {
            json_name(argument.name)
            for argument in algorithm.arguments
            if argument.hidden or argument.role is Role.FORBIDDEN
        }
        assert not shown & (closed | {"progress", "quiet"})
        owned = {
            json_name(argument.name) for argument in algorithm.arguments if argument.role is Role.HOST_OWNED
        } & shown
        assert owned <= {"overwrite"}


def test_all_compact_schemas_together_stay_small() -> None:
    schemas = [input_schema(algorithm, compact=True) for algorithm in packaged().algorithms.values()]
    texts = [json.dumps(schema, separators=(",", ":")) for schema in schemas]
    assert sum(map(len, texts)) < 160_000
    assert max(map(len, texts)) < 4_000


def test_schema_and_binding_agree() -> None:
    for path, call, good in [
        ("raster clip", {"bbox": [1, 2, 3, 4]}, True),
        ("raster clip", {"bbox": "1,2,3,4"}, True),
        ("raster clip", {"bbox": [1, 2, 3]}, False),
        ("raster clip", {"bbox": [1, 2, 3, "x"]}, False),
        ("raster clip", {"bbox": True}, False),
        ("raster clip", {"bbox": [1, 2, 3, 4], "window": [0, 0, 1, 1]}, False),
        ("raster clip", {"bbox": [1, 2, 3, 4], "overwrite": True}, True),
        ("raster clip", {"bbox": [1, 2, 3, 4], "overwrite": "yes"}, False),
        ("raster clip", {"bbox": [1, 2, 3, 4], "creation_option": {"COMPRESS": "LZW", "TILED": True}}, True),
        ("raster clip", {"bbox": [1, 2, 3, 4], "creation_option": ["COMPRESS=LZW"]}, True),
        ("raster clip", {"bbox": [1, 2, 3, 4], "creation_option": 5}, False),
        ("raster clip", {"bbox": [1, 2, 3, 4], "no_such": 5}, False),
        ("raster hillshade", {"altitude": 90}, True),
        ("raster hillshade", {"altitude": 90.5}, False),
        ("raster hillshade", {"variant": "Igor"}, True),
        ("raster hillshade", {"variant": "nice"}, False),
        ("raster neighbors", {"kernel": ["u"], "size": 3}, True),
        ("raster neighbors", {"kernel": ["u"], "size": 101}, False),
        ("raster contour", {"interval": 10}, True),
        ("raster contour", {"interval": 0}, False),
        ("raster contour", {"interval": 10, "levels": ["5"]}, False),
        ("raster contour", {"levels": "5,10,MAX"}, True),
        ("raster contour", {"levels": [5, 10, "MAX"]}, True),
        ("raster resize", {"size": ["50%", 100]}, True),
        ("raster resize", {"size": "50%,100"}, True),
        ("raster reproject", {"input_nodata": [-9999, "nan"]}, True),
        ("raster reproject", {"num_threads": 2}, True),
    ]:
        arguments = {"input": "a.tif", "output": "b.gpkg" if path == "raster contour" else "b.tif", **call}
        assert accepts(path, arguments) is good
        assert binds(path, arguments) is good


def test_required_and_dependent_arguments_are_said() -> None:
    assert not accepts("raster clip", {"input": "a.tif"})
    scale = {"input": "a.tif", "output": "b.tif", "input_min": 0}
    assert not accepts("raster scale", scale)
    assert accepts("raster scale", {**scale, "input_max": 1})


def test_no_help_text_offers_what_is_refused() -> None:
    for algorithm in packaged().algorithms.values():
        schema = input_schema(algorithm)
        assert "@<" not in json.dumps(schema)
        assert {json_name(argument.name) for argument in offered(algorithm)} == set(schema["properties"])
