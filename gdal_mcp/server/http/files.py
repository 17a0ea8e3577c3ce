"""`/files`: the outputs of calls over HTTP, with ranges.

`/files/CALL` lists the files of a call as JSON, `/files/CALL/` as an HTML index, which GDAL reads to find sidecar files;
`/files/CALL/NAME` is one file, and a POST to it makes a link to it.

Invariants:
* without a valid token or link, nobody learns whether a call or file exists;
* one entity tag always stands for the same bytes;
* a browser runs nothing of a file: the headers give its type, forbid guessing another, and put it in a sandbox.
"""

import base64
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import anyio
import anyio.to_thread
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.status import HTTP_304_NOT_MODIFIED, HTTP_412_PRECONDITION_FAILED
from starlette.types import ASGIApp, Receive, Scope, Send

from gdal_mcp.calls.entitlements import EntitlementResolver
from gdal_mcp.errors import ToolError
from gdal_mcp.policy.identity import READ, Principal
from gdal_mcp.policy.tokens import TokensUnavailable
from gdal_mcp.records.artifacts import FOLDER, Absent, ArtifactStore, Fingerprint, Gone, Opened
from gdal_mcp.records.audit_files import AuditUnavailable
from gdal_mcp.records.audit_record import time_text
from gdal_mcp.records.registry import Artifact, RegistryUnavailable
from gdal_mcp.server.http import links, replies
from gdal_mcp.server.http.auth import Authenticator
from gdal_mcp.server.http.links import CredentialStatus, Subject
from gdal_mcp.server.http.sending import ChangedWhileSent, OpenFile, disposition
from gdal_mcp.server.http.signing import Signer

FILES_PATH: Final = "/files"
MIN_LINK_SECONDS: Final = 1.0
MAX_LINK_SECONDS: Final = 3600.0  # seconds; longer access needs a token
_OPENERS: Final = 4  # threads that find files and check that they are unchanged
_INLINE: Final = frozenset({"image/png", "image/jpeg", "image/webp"})  # types that a browser only draws
ALWAYS: Final = {
    "Cache-Control": "private, no-cache",  # caches must revalidate each time, because access can be revoked
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address may be a signed link
}
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Files:
    """The files of one server. `base` is its public address, `link_seconds` the default lifetime of a link."""

    store: ArtifactStore
    reaches: EntitlementResolver
    signer: Signer
    status: CredentialStatus
    auth: Authenticator
    audit: Callable[[dict[str, Any]], object]
    base: str
    link_seconds: float
    _openers: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(_OPENERS))

    def routes(self) -> list[BaseRoute]:
        file = f"{FILES_PATH}/{{call}}/{{name}}"
        return [
            Route(f"{FILES_PATH}/{{call}}", self.guarded(self._list), methods=["GET"]),
            Route(f"{FILES_PATH}/{{call}}/", self.guarded(self._index), methods=["GET"]),
            Route(file, self._get, methods=["GET", "HEAD"]),
            Route(file, self.guarded(self._link), methods=["POST"]),
        ]

    async def _get(self, request: Request) -> ASGIApp:
        """Serves a file. A request with a signature is authorized only by that, even if it has a token."""
        signed = links.SIGNATURE in request.query_params
        return _answering(self._linked) if signed else self.guarded(self._read)

    def guarded(self, answer: Callable[[Principal, Request], Awaitable[ASGIApp]]) -> ASGIApp:
        return self.auth.guarded(lambda who: _answering(partial(answer, who)), READ)

    async def _read(self, who: Principal, request: Request) -> ASGIApp:
        artifact = await self.thread(self.artifact_of, who, request)
        return await self._sent(artifact, who.id, request)

    async def _linked(self, request: Request) -> ASGIApp:
        """Serves a file by a link. An invalid link gets the same response whatever is wrong, also if there is no such
        file.
        """
        signed = await self.thread(self._signed_for, request)
        if signed is None:
            return replies.refused(403, "invalid_link", "the link is not valid, or has expired")
        artifact, principal = signed
        return self.auth.limited(principal, _answering(partial(self._sent, artifact, principal)))

    async def _sent(self, artifact: Artifact, principal: str, request: Request) -> ASGIApp:
        """The response to a request for a file or a range of it, in the workspaces of `principal`."""
        etag = f'"{artifact.sha256}"'
        opened: Opened = await self.thread(self.opened, artifact, principal)
        if (status := precondition(request.headers, etag)) is not None:
            opened.close()
            return Response(None, status, {**ALWAYS, "ETag": etag})

        def check() -> None:
            if Fingerprint.of(opened.file) != opened.fingerprint:
                raise ChangedWhileSent(f"{artifact.path} was changed while it was sent")

        modified = formatdate(int(artifact.created), usegmt=True)
        headers = {**ALWAYS, **about(artifact), "ETag": etag, "Last-Modified": modified}
        return OpenFile(opened.file, headers, opened.close, check)

    async def _list(self, who: Principal, request: Request) -> ASGIApp:
        rows = await self.thread(
            lambda: [self._row(artifact) for artifact in self._listed_artifacts(who, request)]
        )
        return JSONResponse({"files": rows}, headers=ALWAYS)

    async def _index(self, who: Principal, request: Request) -> ASGIApp:
        """An HTML index of a call's files, without which GDAL would request dozens of possible sidecar files."""
        artifacts = await self.thread(self._listed_artifacts, who, request)
        names = [quote(artifact.name, safe="") for artifact in artifacts if artifact.media_type != FOLDER]
        title = f"<title>Index of {FILES_PATH}/{request.path_params['call']}/</title>"
        rows = [f'<a href="{name}">{name}</a><br>' for name in names]
        return HTMLResponse("\n".join([title, *rows, ""]), headers=ALWAYS)

    def _listed_artifacts(self, who: Principal, request: Request) -> tuple[Artifact, ...]:
        """The files that a call published and that the registry still lists. Raises Absent."""
        self.store.owner(request.path_params["call"], who)
        artifacts = self.store.registry.artifacts_of(request.path_params["call"])
        return tuple(artifact for artifact in artifacts if artifact.state == "listed")

    def _row(self, artifact: Artifact) -> dict[str, Any]:
        row = {"name": artifact.name, "bytes": artifact.size, "published": time_text(artifact.created)}
        same = self.store.quick_check(artifact)
        if same is not None:
            row |= {"sha256": artifact.sha256} if same else {"changed": True}
        if artifact.media_type == FOLDER:
            return {**row, "folder": True}
        return {
            **row,
            "media_type": artifact.media_type,
            "url": self.base + path_of(artifact.call_id, artifact.name),
        }

    async def _link(self, who: Principal, request: Request) -> ASGIApp:
        """Makes a link. Only the owner of a file may, so that administrators cannot give away files of others."""
        artifact = await self.thread(self.artifact_of, who, request)
        owner = await self.thread(self.store.owner, artifact.call_id)
        try:
            seconds = float(request.query_params.get("seconds", self.link_seconds))
        except ValueError:
            seconds = math.nan
        if not MIN_LINK_SECONDS <= seconds <= MAX_LINK_SECONDS:
            most = f"seconds is a number from {MIN_LINK_SECONDS:g} to {MAX_LINK_SECONDS:g}"
            return replies.refused(400, "invalid_request", most)
        credential_version = await self.thread(self.status.of, owner) if links.may_link(who, owner) else None
        if credential_version is None:
            return replies.refused(403, "not_yours", "only the owner of the call may make links to its files")
        opened: Opened = await self.thread(self.opened, artifact, owner)
        opened.close()
        expires, signature = self.signer.sign(_subject(artifact, owner, credential_version), seconds)
        event = {
            "type": "link.made",
            "outcome": "OK",
            "subject": {"principal": owner},
            "call": artifact.call_id,
            "file": artifact.path,
            "sha256": artifact.sha256,
            "expires": expires,
        }
        await self.thread(
            self.audit, event
        )  # recorded before the link is sent, because everybody who has the link can read the file
        query = urlencode({links.EXPIRES: expires, links.SIGNATURE: signature})
        url = f"{self.base}{path_of(artifact.call_id, artifact.name)}?{query}"
        document = {
            "url": url,
            "expires": time_text(expires),
            "bytes": artifact.size,
            "sha256": artifact.sha256,
        }
        return JSONResponse(document, 201, {**ALWAYS, "Location": url, "Cache-Control": "no-store"})

    def artifact_of(self, who: Principal, request: Request) -> Artifact:
        call_id = request.path_params["call"]
        self.store.owner(call_id, who)
        return self.store.find(call_id, request.path_params["name"])

    def _signed_for(self, request: Request) -> tuple[Artifact, str] | None:
        """The file of a link, and its owner; None for an invalid link."""
        signed = links.expiry_and_signature(request.query_params.multi_items())
        try:
            owner = self.store.owner(request.path_params["call"])
            artifact = self.store.find(request.path_params["call"], request.path_params["name"])
        except (Absent, Gone):
            return None
        credential_version = self.status.of(owner)
        if signed is None or credential_version is None:
            return None
        valid = self.signer.verify(_subject(artifact, owner, credential_version), *signed)
        return (artifact, owner) if valid else None

    def opened(self, artifact: Artifact, principal: str) -> Opened:
        return self.store.open(artifact, self.reaches.of(principal).workspaces)

    async def thread(self, work: Callable[..., _T], *arguments: Any) -> _T:
        return await anyio.to_thread.run_sync(partial(work, *arguments), limiter=self._openers)


def _answering(answer: Callable[[Request], Awaitable[ASGIApp]]) -> ASGIApp:
    """An application that sends the answer, or the response for its error."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            reply = await answer(Request(scope))
        except Absent:
            reply = replies.refused(404, "not_found", "that file does not exist")
        except Gone as gone:
            reply = replies.refused(410, "gone", f"the published file no longer exists: {gone}")
        except ToolError as error:
            reply = replies.refused(403, "denied", error.message)
        except (RegistryUnavailable, TokensUnavailable, AuditUnavailable):
            reply = replies.busy(503, "the records are not available now")
        await reply(scope, receive, send)

    return app


def path_of(call_id: str, name: str) -> str:
    """The URL path of a file of a call."""
    return f"{FILES_PATH}/{call_id}/{quote(name, safe='')}"


def _subject(artifact: Artifact, owner: str, credential_version: str) -> Subject:
    return Subject(artifact.call_id, artifact.name, artifact.sha256, owner, credential_version)


def about(artifact: Artifact) -> dict[str, str]:
    """The headers that describe a file."""
    digest = base64.b64encode(bytes.fromhex(artifact.sha256)).decode("ascii")
    kind = "inline" if artifact.media_type in _INLINE else "attachment"
    return {
        "Content-Type": artifact.media_type,
        "Content-Disposition": disposition(kind, artifact.name),
        "Repr-Digest": f"sha-256=:{digest}:",
    }


def precondition(headers: Headers, etag: str) -> int | None:
    """The status that If-Match and If-None-Match require instead of the file; None if the file is sent."""
    wanted, known = (
        {tag.strip() for line in headers.getlist(name) for tag in line.split(",")}
        for name in ("if-match", "if-none-match")
    )
    if "if-match" in headers and not wanted & {"*", etag}:
        return HTTP_412_PRECONDITION_FAILED
    return HTTP_304_NOT_MODIFIED if known & {"*", etag, f"W/{etag}"} else None
