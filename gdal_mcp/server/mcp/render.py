"""Converts tools and the replies of the pipeline to the types of the protocol."""

import base64
from collections.abc import Mapping
from urllib.parse import quote

import mcp_types as t

from gdal_mcp.calls.longresults import FULL_RESULT
from gdal_mcp.calls.pipeline import Reply
from gdal_mcp.calls.records import media_type
from gdal_mcp.server.mcp import panel
from gdal_mcp.toolboxes.base import Tool
from gdal_mcp.toolboxes.shortening import json_text

MAX_LINKS = 20
DOWNLOAD = "io.gdal-mcp/download"  # the address of a file over HTTP, for clients that may read it


def tool(tool_description: Tool, *, with_panel: bool = False) -> t.Tool:
    """A tool in the form for clients."""
    ui = (
        {"ui": {"resourceUri": panel.URI}}
        if with_panel and (tool_description.writes or tool_description.pictures)
        else {}
    )
    return t.Tool(
        name=tool_description.name,
        title=tool_description.title,
        description=tool_description.description,
        input_schema=dict(tool_description.input_schema),
        output_schema=dict(tool_description.listed_schema),
        annotations=t.ToolAnnotations(
            read_only_hint=not tool_description.writes,
            # the protocol defines this hint only for tools that write; without an idempotent hint, it assumes a tool is
            # not idempotent
            destructive_hint=tool_description.replaces if tool_description.writes else None,
            open_world_hint=tool_description.reaches_out,
        ),
        _meta={**tool_description.meta, **ui} or None,
    )


def result(reply: Reply, downloads: str = "") -> t.CallToolResult:
    """A reply in the form for clients.

    It has the structured result, also as text; links to the complete result if it was cut, and to the outputs; and
    the preview. `downloads` is the address below which outputs are served over HTTP, if they are.
    """
    content: list[t.ContentBlock] = [t.TextContent(text=json_text(reply.result))]
    note = reply.result.get(FULL_RESULT)
    if isinstance(note, Mapping) and note.get("uri"):
        content.append(
            t.ResourceLink(
                name=f"result-{reply.call_id}.json",
                title="The whole result",
                uri=note["uri"],
                mime_type="application/json",
                size=note["bytes"],
            )
        )
    published = reply.done.published if reply.done else None
    for file in published.files[:MAX_LINKS] if published else ():
        name = file.located.name
        address = f"{downloads}/{reply.call_id}/{quote(name, safe='')}"
        content.append(
            t.ResourceLink(
                name=name,
                uri=file.located.uri,
                mime_type=media_type(name),
                size=file.size,
                _meta={DOWNLOAD: address} if downloads else None,
            )
        )
    pictures = (reply.done.preview, *reply.done.figures) if reply.done is not None else ()
    content += [
        t.ImageContent(data=base64.b64encode(data).decode(), mime_type="image/png")
        for data in pictures
        if data
    ]
    return t.CallToolResult(
        content=content, structured_content=dict(reply.result), is_error=reply.error is not None
    )
