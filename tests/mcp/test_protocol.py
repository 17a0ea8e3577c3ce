"""The protocol as a client meets it, in both eras."""

import json

import jsonschema
import pytest
from mcp.shared.exceptions import MCPError

from gdal_mcp.tools.listing import ALL
from tests.mcp.talk import Talk

pytestmark = pytest.mark.engine


def test_every_tool_is_listed_with_schemas_and_annotations(talk: Talk):
    tools = talk.ask("list_tools").tools
    assert [one.name for one in tools] == [one.name for one in ALL]
    for one in tools:
        assert one.title and one.description and one.output_schema
        assert one.annotations.read_only_hint == (one.name in ("info", "gdalinfo"))
        assert one.annotations.destructive_hint != one.annotations.read_only_hint
        assert one.annotations.open_world_hint is False
        for schema in (one.input_schema, one.output_schema):
            jsonschema.Draft202012Validator.check_schema(schema)


def test_the_list_is_the_same_each_time_and_in_both_eras(talks: dict[str, Talk]):
    lists = [
        json.dumps([one.model_dump(mode="json") for one in talk.ask("list_tools").tools])
        for talk in (*talks.values(), *talks.values())
    ]
    assert len(set(lists)) == 1


def test_an_unknown_tool_is_an_error_of_the_protocol(talk: Talk):
    with pytest.raises(MCPError) as caught:
        talk.call("raster_explode", path="dem.tif")
    assert caught.value.error.code == -32602
