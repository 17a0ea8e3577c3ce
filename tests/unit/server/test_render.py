"""A reply as the protocol carries it."""

import base64
import json

import jsonschema
import mcp_types as t

from gdal_mcp.calls.invocation import JobResult
from gdal_mcp.calls.pipeline import Reply
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.server.mcp import render
from gdal_mcp.server.mcp.render import MAX_LINKS
from sandbox.outcome import Usage
from sandbox.outputs.store import Published, PublishedFile
from tests.boxes import known_tools
from tests.unit.values import located

PNG = b"\x89PNG\r\n\x1a\nrest"


def done(*names: str, preview: bytes | None = None) -> JobResult:
    files = tuple(PublishedFile(located(name), 7, "00") for name in names)
    published = Published("id", files) if files else None
    return JobResult(Usage("cold"), "", None, "", (), (), "3.13.3", published=published, preview=preview)


def test_the_text_says_the_same_as_the_structure():
    structure = {"a": "é\n", "n": None, "list": [1.5]}
    rendered = render.result(Reply("id", structure, done()))
    assert json.loads(rendered.content[0].text) == rendered.structured_content == structure
    assert not rendered.is_error


def test_error_conforms_to_the_tool_result_schema():
    for name in known_tools():
        error = ToolError(Code.TIMEOUT, Stage.RUN, "too long", "less", {"stderr": "x"})
        rendered = render.result(Reply("id", error.as_dict("id"), error=error))
        schema = render.tool(known_tools()[name]).output_schema
        jsonschema.validate(rendered.structured_content, schema, jsonschema.Draft202012Validator)


def test_outputs_are_linked_by_encoded_uris_with_preview():
    rendered = render.result(Reply("id", {}, done("a b#?.tif", "é.gpkg", preview=PNG)))
    _text, first, second, picture = rendered.content
    assert isinstance(first, t.ResourceLink)
    assert [str(link.uri) for link in (first, second)] == [
        f"file:///data/ws/{name}" for name in ("a%20b%23%3F.tif", "%C3%A9.gpkg")
    ]
    assert (first.size, second.size) == (7, 7)
    assert isinstance(picture, t.ImageContent)
    assert (picture.mime_type, base64.b64decode(picture.data)) == ("image/png", PNG)
    rendered = render.result(Reply("id", {}, done(*(f"{i}.tif" for i in range(100)))))
    assert len(rendered.content) == 1 + MAX_LINKS


def test_annotations_tell_the_truth():
    for tool in known_tools().values():
        shown = render.tool(tool)
        assert shown.annotations is not None
        assert shown.annotations.read_only_hint is not tool.writes
        assert shown.annotations.destructive_hint is (tool.replaces if tool.writes else None)
        assert shown.annotations.idempotent_hint is None
        assert shown.annotations.open_world_hint is tool.reaches_out
        assert shown.model_dump(mode="json")["input_schema"] == tool.input_schema
