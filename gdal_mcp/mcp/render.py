"""Turns a reply of the pipeline into what the protocol carries."""

import base64
import json
from typing import Any

import mcp_types as t

from gdal_mcp.pipeline import Reply
from gdal_mcp.records import media_type
from gdal_mcp.tools.model import Tool

MAX_LINKS = 20


def tool(one: Tool[Any]) -> t.Tool:
    """A tool as clients see it. Nothing here reaches a network, so no tool is open-world."""
    return t.Tool(
        name=one.name,
        title=one.title,
        description=one.description,
        input_schema=one.input_schema,
        output_schema=one.output_schema,
        annotations=t.ToolAnnotations(
            title=one.title,
            read_only_hint=not one.writes,
            destructive_hint=one.replaces,
            idempotent_hint=not one.writes,
            open_world_hint=False,
        ),
    )


def result(reply: Reply) -> t.CallToolResult:
    """The structured result, its text twin, links to the outputs and the preview."""
    content: list[t.ContentBlock] = [
        t.TextContent(text=json.dumps(reply.result, ensure_ascii=False, separators=(",", ":")))
    ]
    if reply.done is not None:
        content += _links(reply)
        if reply.done.preview:
            data = base64.b64encode(reply.done.preview).decode()
            content.append(t.ImageContent(data=data, mime_type="image/png"))
    return t.CallToolResult(
        content=content, structured_content=dict(reply.result), is_error=reply.error is not None
    )


def _links(reply: Reply) -> list[t.ContentBlock]:
    published = reply.done.published if reply.done else None
    if published is None:
        return []
    return [
        t.ResourceLink(
            name=file.located.name,
            uri=file.located.uri,
            mime_type=media_type(file.located.name),
            size=file.size,
        )
        for file in published.files[:MAX_LINKS]
    ]
