"""Outputs as resources. Only what the registry lists is readable, through descriptors that follow no link."""

import base64
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import mcp_types as t
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from gdal_mcp.registry import Artifact, Registry
from sandbox.errors import PathRefused
from sandbox.workspace import Located, Workspaces, open_file

PAGE = 100
_MAX_OFFSET = (1 << 63) - 1  # off_t
_LEGACY_NOT_FOUND = -32002  # protocol versions up to 2025-11-25

TEMPLATES = (
    t.ResourceTemplate(
        name="output",
        title="An output of a call",
        uri_template="file://{+path}",
        description="A file that a call published. A long one answers with its size and its first bytes.",
    ),
    t.ResourceTemplate(
        name="output-range",
        title="A part of an output",
        uri_template="file://{+path}?offset={offset}&length={length}",
        description="Bytes of an output from `offset`; at most the server's read bound at a time.",
    ),
    t.ResourceTemplate(
        name="call",
        title="The record of a call",
        uri_template="gdal://calls/{id}",
        description="Tool, command, image, limits, outcome and outputs of a call, as JSON.",
        mime_type="application/json",
    ),
)


@dataclass(frozen=True, slots=True)
class Resources:
    """Lists and reads what calls published."""

    registry: Registry
    workspaces: Workspaces
    chunk: int  # the most bytes that one read answers with

    def page(self, cursor: str | None) -> t.ListResourcesResult:
        try:
            found = self.registry.artifacts(cursor, PAGE)
        except ValueError as error:
            raise MCPError(t.INVALID_PARAMS, "the cursor is not one that this server gave") from error
        return t.ListResourcesResult(
            resources=[_resource(one) for one in found.items], next_cursor=found.next_cursor
        )

    def read(self, uri: str, version: str) -> t.ReadResourceResult:
        """The content, or a bounded part of it. Raises MCPError for what is not listed."""
        if uri.startswith("gdal://calls/"):
            return self._call(uri, version)
        plain, offset, length = self._range(uri)
        artifact = self.registry.artifact(plain)
        if artifact is None:
            raise _not_found(uri, version)
        try:
            located = self._located(artifact)
            if located.is_folder:
                return t.ReadResourceResult(contents=[_folder(uri, artifact)])
            with open_file(located) as file:
                size = os.fstat(file).st_size
                data = os.pread(file, min(length, self.chunk), offset)
        except PathRefused as error:
            raise _not_found(uri, version) from error
        return t.ReadResourceResult(contents=self._contents(uri, artifact, _Part(offset, data, size)))

    def _located(self, artifact: Artifact) -> Located:
        """The very place that was published; a link that stands there now is not followed, wherever it leads."""
        located = self.workspaces.input(artifact.path)
        if str(located) != artifact.path:
            raise PathRefused(f"{artifact.path} is another place now.")
        return located

    def _contents(
        self, uri: str, artifact: Artifact, part: "_Part"
    ) -> list[t.TextResourceContents | t.BlobResourceContents]:
        meta = {
            "io.gdal-mcp/size": part.size,
            "io.gdal-mcp/offset": part.offset,
            "io.gdal-mcp/length": len(part.data),
            "io.gdal-mcp/sha256": artifact.sha256,
            "io.gdal-mcp/call": artifact.call_id,
        }
        blob = t.BlobResourceContents(
            uri=uri, mime_type=artifact.media_type, blob=base64.b64encode(part.data).decode(), _meta=meta
        )
        if part.is_whole:
            return [blob]
        rest = part.offset + len(part.data)
        told: dict[str, Any] = {
            "size": part.size,
            "offset": part.offset,
            "length": len(part.data),
            "sha256": artifact.sha256,
            "path": artifact.path,
            "next": f"{artifact.uri}?offset={rest}&length={self.chunk}" if rest < part.size else None,
        }
        return [
            t.TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(told), _meta=meta),
            blob,
        ]

    def _range(self, uri: str) -> tuple[str, int, int]:
        """The registered URI in a URI, and the bytes it asks for."""
        plain, mark, query = uri.partition("?")
        if not mark:
            return uri, 0, self.chunk
        try:
            asked = {name: int(value) for name, value in parse_qsl(query, strict_parsing=True)}
        except ValueError as error:
            raise MCPError(t.INVALID_PARAMS, "a range is ?offset=BYTES&length=BYTES") from error
        offset, length = asked.pop("offset", 0), asked.pop("length", self.chunk)
        if asked or not 0 <= offset <= _MAX_OFFSET or length < 1:
            raise MCPError(t.INVALID_PARAMS, "a range is ?offset=BYTES&length=BYTES")
        return plain, offset, length

    def _call(self, uri: str, version: str) -> t.ReadResourceResult:
        call = self.registry.call(uri.removeprefix("gdal://calls/"))
        if call is None:
            raise _not_found(uri, version)
        told = {
            "id": call.id,
            "tool": call.tool,
            "argv": list(call.argv),
            "image": call.image,
            "gdal_version": call.gdal_version,
            "tier": call.tier,
            "plan": call.plan_digest,
            "started": _time(call.started),
            "finished": _time(call.finished) if call.finished else None,
            "outcome": call.outcome,
            "message": call.message,
            "seconds": dict(call.durations),
            "receipt": dict(call.receipt),
        }
        return t.ReadResourceResult(
            contents=[t.TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(told))]
        )


@dataclass(frozen=True, slots=True)
class _Part:
    offset: int
    data: bytes
    size: int

    @property
    def is_whole(self) -> bool:
        return self.offset == 0 and len(self.data) == self.size


def _resource(artifact: Artifact) -> t.Resource:
    return t.Resource(
        uri=artifact.uri,
        name=artifact.name,
        mime_type=artifact.media_type,
        size=artifact.size,
        annotations=t.Annotations(last_modified=_time(artifact.created)),
        _meta={
            "io.gdal-mcp/call": artifact.call_id,
            "io.gdal-mcp/created": _time(artifact.created),
            "io.gdal-mcp/sha256": artifact.sha256,
        },
    )


def _folder(uri: str, artifact: Artifact) -> t.TextResourceContents:
    """What there is to tell of an output that is a folder; its files are not resources of their own."""
    told = {"folder": artifact.path, "size": artifact.size, "sha256": artifact.sha256}
    return t.TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(told))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _not_found(uri: str, version: str) -> MCPError:
    code = t.INVALID_PARAMS if version in MODERN_PROTOCOL_VERSIONS else _LEGACY_NOT_FOUND
    return MCPError(code, "there is no such resource", {"uri": uri})
