"""Turns a reply of the pipeline into what the protocol carries."""

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import mcp_types as t

from gdal_mcp.calls.longresults import WHOLE, json_text
from gdal_mcp.calls.records import media_type
from gdal_mcp.pipeline import Reply
from gdal_mcp.toolbox import Tool

MAX_LINKS = 20
DOWNLOAD = "io.gdal-mcp/download"  # where a file is served over HTTP, to those who may read it


def tool(one: Tool) -> t.Tool:
    """A tool as clients see it. Nothing here reaches a network, so no tool is open-world."""
    return t.Tool(
        name=one.name,
        title=one.title,
        description=one.description,
        input_schema=dict(one.input_schema),
        output_schema=_of_either_end(one.output_schema),
        annotations=t.ToolAnnotations(
            read_only_hint=not one.writes,
            # of a tool that only reads the protocol asks neither
            destructive_hint=one.replaces if one.writes else None,
            idempotent_hint=False if one.writes else None,
            open_world_hint=False,
        ),
    )


def _of_either_end(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What a call ends with, be it an error: many clients hold errors to it too, and show nothing of one that does not fit.

    So no key is required. What a success must have is in the tool's own schema, which our tests hold it to.
    """
    return {name: value for name, value in schema.items() if name != "required"}


def result(reply: Reply, downloads: str = "") -> t.CallToolResult:
    """The structured result, its text twin, links to the whole of a long one and to the outputs, and the preview.

    `downloads` is the address below which outputs are served over HTTP, if they are.
    """
    content: list[t.ContentBlock] = [t.TextContent(text=json_text(reply.result))]
    content += _whole(reply)
    if reply.done is not None:
        content += _links(reply, downloads)
        if reply.done.preview:
            data = base64.b64encode(reply.done.preview).decode()
            content.append(t.ImageContent(data=data, mime_type="image/png"))
    return t.CallToolResult(
        content=content, structured_content=dict(reply.result), is_error=reply.error is not None
    )


def _whole(reply: Reply) -> list[t.ContentBlock]:
    """The way to what was cut from the result, if it was kept."""
    note = reply.result.get(WHOLE)
    if not isinstance(note, Mapping) or not note.get("uri"):
        return []
    return [
        t.ResourceLink(
            name=f"result-{reply.call_id}.json",
            title="The whole result",
            uri=note["uri"],
            mime_type="application/json",
            size=note["bytes"],
        )
    ]


def _links(reply: Reply, downloads: str) -> list[t.ContentBlock]:
    published = reply.done.published if reply.done else None
    if published is None:
        return []
    return [
        t.ResourceLink(
            name=file.located.name,
            uri=file.located.uri,
            mime_type=media_type(file.located.name),
            size=file.size,
            _meta=_download(downloads, reply.call_id, file.located.name),
        )
        for file in published.files[:MAX_LINKS]
    ]


def _download(downloads: str, call_id: str, name: str) -> dict[str, Any] | None:
    return {DOWNLOAD: f"{downloads}/{call_id}/{quote(name, safe='')}"} if downloads else None
