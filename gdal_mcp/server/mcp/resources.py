"""Outputs, records of calls and long results as resources.

Only what the registry lists is readable, through descriptors that follow no link; the list itself has only outputs. A
digest is included only for a file that was checked to be the published one; a different file is reported as changed.
`of` is the principal whose calls are visible; calls of others are answered as if they did not exist. If it is None,
the calls of all principals are visible.
"""

import base64
import codecs
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import mcp_types as t
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from gdal_mcp.calls.longresults import ResultStore, result_uri
from gdal_mcp.records.artifacts import ArtifactStore, Fingerprint
from gdal_mcp.records.audit_record import time_text
from gdal_mcp.records.registry import Artifact
from gdal_mcp.records.statement import CALLS, record, statement
from gdal_mcp.server.mcp.icons import OUTPUT, RECORD
from sandbox.errors import PathRefused
from sandbox.workspace import WorkspacePath, Workspaces, open_file

PAGE = 100
_OURS = "io.gdal-mcp/"  # the prefix of our names in `_meta`
_MAX_OFFSET = 1 << 62  # the largest off_t, with room for a length
_LEGACY_NOT_FOUND = -32002  # the error code of protocol versions up to 2025-11-25
_RECORDS = ("", "provenance")  # the documents of a call in addition to its result

_JSON = "application/json"
# media types of text, and of formats that are JSON or XML
_TEXT = re.compile(
    r"(text/|application/(jsonl|json|xml|yaml)\b|application/[\w.+-]+\+(json|json-seq|xml)\b|application/geo\+json-seq)"
)


def _template(name: str, uri: str, title: str, description: str) -> t.ResourceTemplate:
    of_call = name.startswith("call")
    return t.ResourceTemplate(
        name=name,
        icons=[RECORD if of_call else OUTPUT],
        title=title,
        uri_template=uri,
        description=description,
        mime_type=_JSON if of_call else None,
    )


TEMPLATES = (
    _template(
        "output",
        "file://{+path}",
        "An output of a call",
        "A file that a call published. A long one answers with its size and its first bytes.",
    ),
    _template(
        "output-range",
        "file://{+path}?offset={offset}&length={length}",
        "A part of an output",
        "Bytes of an output from `offset`; at most the server's read bound at a time.",
    ),
    _template(
        "call",
        "gdal://calls/{id}",
        "The record of a call",
        "Tool, arguments, command, image, limits, inputs and outputs with digests, and outcome of a call, as JSON.",
    ),
    _template(
        "call-provenance",
        "gdal://calls/{id}/provenance",
        "The provenance of a call's outputs",
        "The same as an in-toto statement: outputs as subjects, inputs as materials. Not signed.",
    ),
    _template(
        "call-result",
        "gdal://calls/{id}/result",
        "The whole result of a call",
        "The result that a call's answer was cut from, for some days. A long one answers with its first bytes.",
    ),
    _template(
        "call-result-range",
        "gdal://calls/{id}/result?offset={offset}&length={length}",
        "A part of the whole result of a call",
        "Bytes of a whole result from `offset`; at most the server's read bound at a time.",
    ),
)


@dataclass(frozen=True, slots=True)
class Resources:
    store: ArtifactStore
    workspaces: Workspaces | None  # None for a principal without workspaces, who sees no outputs
    chunk: int  # bytes that one read returns at most
    results: ResultStore
    lockdown: bool = False  # True: content is sent as bytes, never as text

    def page(self, cursor: str | None, of: str | None) -> t.ListResourcesResult:
        try:
            page = self.store.registry.artifacts(cursor, PAGE, principal=of)
        except ValueError as error:
            raise MCPError(t.INVALID_PARAMS, "the cursor is not from this server") from error
        return t.ListResourcesResult(
            resources=[self._resource(artifact) for artifact in page.items if self._is_within(artifact)],
            next_cursor=page.next_cursor,
        )

    def readable(self, uris: Sequence[str], of: str | None) -> list[str]:
        """The URIs that are listed outputs or records of calls."""

        def exists(uri: str) -> bool:
            if not uri.startswith(CALLS):
                artifact = self.store.registry.artifact(uri, of)
                return artifact is not None and self._is_within(artifact)
            call_id, _, what = uri.removeprefix(CALLS).partition("/")
            return what in _RECORDS and self.store.registry.call(call_id, of) is not None

        return [uri for uri in uris if exists(uri)]

    def read(self, uri: str, version: str, of: str | None) -> t.ReadResourceResult:
        """The content of a resource, or a bounded part of it. Raises MCPError for a URI that is not listed."""
        if uri.startswith(CALLS):
            return self._of_call(uri, version, of)
        plain, offset, length = self._range(uri)
        artifact = self.store.registry.artifact(plain, of)
        if artifact is None:
            raise not_found(uri, version)
        try:
            located = self._located(artifact)
            if located.is_folder:  # the files in a folder are not resources
                was = {"size": artifact.size, "sha256": artifact.sha256}
                return _json(uri, json.dumps({"folder": artifact.path, "published": was}))
            with open_file(located) as file:
                before = Fingerprint.of(file)
                same = self.store.is_unchanged(artifact, file)
                data = os.pread(file, min(length, self.chunk), offset)
                same = same and Fingerprint.of(file) == before
        except PathRefused as error:
            raise not_found(uri, version) from error
        content = _content(artifact, same=same)
        part = _ByteRange(
            uri, artifact.uri, artifact.media_type, offset, data, before.size, text=not self.lockdown
        )
        about = {**content, "path": artifact.path}
        return part.result(self.chunk, about, {**content, "call": artifact.call_id})

    def _resource(self, artifact: Artifact) -> t.Resource:
        content = _content(artifact, same=self.store.quick_check(artifact))
        created = time_text(artifact.created)
        return t.Resource(
            uri=artifact.uri,
            name=artifact.name,
            mime_type=artifact.media_type,
            size=artifact.size,
            annotations=t.Annotations(last_modified=created),
            _meta=_ours({"call": artifact.call_id, "created": created, **content}),
        )

    def _is_within(self, artifact: Artifact) -> bool:
        path = Path(artifact.path)
        roots = self.workspaces.items if self.workspaces else ()
        return any(path.is_relative_to(workspace.root) for workspace in roots)

    def _located(self, artifact: Artifact) -> WorkspacePath:
        """The published path itself. Raises PathRefused if a link has replaced it, wherever that leads."""
        if self.workspaces is None:
            raise PathRefused("there is no workspace.")
        located = self.workspaces.input(artifact.path)
        if str(located) != artifact.path:
            raise PathRefused(f"{artifact.path} was replaced by a link.")
        return located

    def _range(self, uri: str) -> tuple[str, int, int]:
        """The registered URI in a URI, and the offset and length in bytes that it requests."""
        plain, mark, query = uri.partition("?")
        if not mark:
            return uri, 0, self.chunk
        try:
            bounds = {name: int(value) for name, value in parse_qsl(query, strict_parsing=True)}
        except ValueError as error:
            raise MCPError(t.INVALID_PARAMS, "a range is ?offset=BYTES&length=BYTES") from error
        offset, length = bounds.pop("offset", 0), bounds.pop("length", self.chunk)
        if bounds or not 0 <= offset <= _MAX_OFFSET or length < 1:
            raise MCPError(t.INVALID_PARAMS, "a range is ?offset=BYTES&length=BYTES")
        return plain, offset, length

    def _of_call(self, uri: str, version: str, of: str | None) -> t.ReadResourceResult:
        plain, offset, length = self._range(uri)
        call_id, _, what = plain.removeprefix(CALLS).partition("/")
        if what == "result":
            stored = self.results.read(call_id, offset, min(length, self.chunk), of)
            if stored is None:
                raise not_found(uri, version)
            data, size = stored
            if offset == 0 and len(data) == size:
                return _json(uri, data.decode("utf-8", "replace"))
            return _ByteRange(uri, result_uri(call_id), _JSON, offset, data, size, text=True).result(
                self.chunk, {}, {}
            )
        call = self.store.registry.call(call_id, of)
        if call is None or what not in _RECORDS or plain != uri:
            raise not_found(uri, version)
        return _json(
            uri, json.dumps(statement(call) if what else record(call, self.store.registry.steps_of(call.id)))
        )


@dataclass(frozen=True, slots=True)
class _ByteRange:
    """A range of bytes of a resource. `uri` is the requested URI, `plain` the URI of the complete resource."""

    uri: str
    plain: str
    media_type: str
    offset: int
    data: bytes
    size: int
    text: bool  # True if text may be sent as text, which a model can read, instead of base64

    def result(self, chunk: int, about: Mapping[str, Any], meta: Mapping[str, Any]) -> t.ReadResourceResult:
        """The content of the range; if it is only a part, also `about` and the URI of the next part."""
        text = self._text()
        data = self.data if text is None else text.encode()
        span = {"size": self.size, "offset": self.offset, "length": len(data)}
        ours = _ours({**span, **meta})
        named: dict[str, Any] = {"uri": self.uri, "mime_type": self.media_type, "_meta": ours}
        content: t.TextResourceContents | t.BlobResourceContents
        if text is None:
            content = t.BlobResourceContents(blob=base64.b64encode(data).decode(), **named)
        else:
            content = t.TextResourceContents(text=text, **named)
        rest = self.offset + len(data)
        if self.offset == 0 and rest == self.size:
            return t.ReadResourceResult(contents=[content])
        following = f"{self.plain}?offset={rest}&length={chunk}" if rest < self.size else None
        text = json.dumps({**span, **about, "next": following})
        described = t.TextResourceContents(uri=self.uri, mime_type=_JSON, text=text, _meta=ours)
        return t.ReadResourceResult(contents=[described, content])

    def _text(self) -> str | None:
        """The bytes as text, up to the last whole character; None if the media type or the bytes are not text."""
        if not (self.text and self.data and _TEXT.match(self.media_type)):
            return None
        last = self.offset + len(self.data) >= self.size
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            text = decoder.decode(self.data, final=last)
        except UnicodeDecodeError:
            return None
        return text or None


def _ours(content: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{_OURS}{name}": value for name, value in content.items()}


def _json(uri: str, text: str) -> t.ReadResourceResult:
    content = t.TextResourceContents(uri=uri, mime_type=_JSON, text=text)
    return t.ReadResourceResult(contents=[content])


def _content(artifact: Artifact, *, same: bool | None) -> dict[str, Any]:
    """The digest of a file that is the published one, or the flag that it was changed; empty if that is unknown."""
    if same is None:
        return {}
    return {"sha256": artifact.sha256} if same else {"changed": True}


def not_found(uri: str, version: str) -> MCPError:
    """The error for a URI that is not listed, in the form of the protocol version."""
    code = t.INVALID_PARAMS if version in MODERN_PROTOCOL_VERSIONS else _LEGACY_NOT_FOUND
    return MCPError(code, "there is no such resource", {"uri": uri})
