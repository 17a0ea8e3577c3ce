"""`/files`: what calls published, for programs that read by HTTP, in parts if they like.

`/files/CALL` lists the files of a call as JSON, `/files/CALL/` as a page of the kind that GDAL reads to know what lies beside
a file, `/files/CALL/NAME` is one of them, and a POST to that makes a link to it.

Invariants:
* without a good token or a good link nobody learns whether there is such a call or file;
* what is answered under one entity tag is the same bytes for ever, or nothing;
* nothing of a file is run by a browser: it is told its type, not to guess another, and to show it apart from everything.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import anyio
import anyio.to_thread
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gdal_mcp.access.identity import READ, Principal
from gdal_mcp.access.tokens import TokensUnavailable
from gdal_mcp.entitlements import EntitlementResolver
from gdal_mcp.errors import ToolError
from gdal_mcp.http import replies
from gdal_mcp.http.gate import Full, Gate
from gdal_mcp.http.guard import Door
from gdal_mcp.ledger.artifacts import FOLDER, Absent, ArtifactStore, Busy, Gone, Opened
from gdal_mcp.ledger.audit import AuditUnavailable
from gdal_mcp.ledger.registry import Artifact, RegistryUnavailable
from gdal_mcp.ledger.statement import time_text
from gdal_mcp.web import links
from gdal_mcp.web.endpoint import Endpoint
from gdal_mcp.web.links import Signer, Standing, Subject
from gdal_mcp.web.ranges import Unsatisfiable, Version, part_of, precondition
from gdal_mcp.web.sending import Sending, about

FILES_PATH: Final = "/files"
LEAST_LINK_SECONDS: Final = 1.0
MOST_LINK_SECONDS: Final = 3600.0  # who needs a file for longer needs a token
_OPENERS: Final = 4  # threads that find files and compare them with what was published
_READERS: Final = 8  # threads that read files, so that calls find threads of their own
_ALWAYS: Final = {
    "Cache-Control": "private, no-cache",  # each use is asked for again, as the right to it can end
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # an address may be a link
}
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Files:
    """The files of one server. `base` is the address that clients know it by, `link_seconds` how long a link holds unless
    another time is asked for.
    """

    shelf: ArtifactStore
    reaches: EntitlementResolver
    signer: Signer
    standing: Standing
    gate: Gate
    door: Door
    audit: Callable[[dict[str, Any]], object]
    base: str
    link_seconds: float
    _openers: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(_OPENERS))
    _readers: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(_READERS))

    def routes(self) -> list[BaseRoute]:
        one = Endpoint(self._one)
        return [
            Route(f"{FILES_PATH}/{{call}}", Endpoint(self._guarded(self._list)), methods=["GET"]),
            Route(f"{FILES_PATH}/{{call}}/", Endpoint(self._guarded(self._index)), methods=["GET"]),
            Route(f"{FILES_PATH}/{{call}}/{{name}}", one, methods=["GET", "HEAD", "POST"]),
        ]

    async def _one(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request with a signature is judged by that alone, whatever token it has besides."""
        request = Request(scope)
        if scope["method"] == "POST":
            app = self._guarded(self._link)
        elif links.SIGNATURE in request.query_params:
            app = _answering(partial(self._linked, request))
        else:
            app = self._guarded(self._read)
        await app(scope, receive, send)

    def _guarded(self, answer: Callable[[Request, Principal], Awaitable[ASGIApp]]) -> ASGIApp:
        """For those with a token."""

        def of(who: Principal) -> ASGIApp:
            async def app(scope: Scope, receive: Receive, send: Send) -> None:
                await _answering(partial(answer, Request(scope), who))(scope, receive, send)

            return app

        return self.door.guarded(of, READ)

    async def _read(self, request: Request, who: Principal) -> ASGIApp:
        artifact = await self._thread(self._found, request, who)
        return await self._sent(request, artifact, who.id)

    async def _linked(self, request: Request) -> ASGIApp:
        """A link that is not good is answered the same, whatever is wrong with it and whether or not there is such a file."""
        found = await self._thread(self._signed_for, request)
        if found is None:
            return replies.refused(403, "invalid_link", "the link is not good, or not any more")
        artifact, principal = found
        return _Shared(self.gate, principal, _answering(partial(self._sent, request, artifact, principal)))

    async def _sent(self, request: Request, artifact: Artifact, principal: str) -> ASGIApp:
        """The answer to a request for a file, with whatever of it is wanted. `principal` is whose workspaces count."""
        version = Version(artifact.sha256, int(artifact.created))
        asked = _joined(request.headers)
        opened: Opened = await self._thread(self._opened, artifact, principal)
        try:
            common = {**_ALWAYS, "ETag": version.etag, "Last-Modified": version.last_modified}
            if (status := precondition(asked, version)) is not None:
                opened.close()
                return Response(None, status, common)
            part = part_of(asked, version, artifact.size) if request.method == "GET" else None
        except Unsatisfiable:
            opened.close()
            return Response(None, 416, {**common, "Content-Range": f"bytes */{artifact.size}"})
        except BaseException:
            opened.close()
            raise
        return Sending(opened, part, {**common, **about(artifact)}, self._readers)

    async def _list(self, request: Request, who: Principal) -> ASGIApp:
        made = await self._thread(self._made, request, who)
        rows = await self._thread(lambda: [self._row(one) for one in made])
        return JSONResponse({"files": rows}, headers=_ALWAYS)

    async def _index(self, request: Request, who: Principal) -> ASGIApp:
        """Without it GDAL asks for each of the dozens of files that may lie beside a dataset."""
        made = await self._thread(self._made, request, who)
        names = [quote(one.name, safe="") for one in made if one.media_type != FOLDER]
        title = f"<title>Index of {FILES_PATH}/{request.path_params['call']}/</title>"
        rows = [f'<a href="{name}">{name}</a><br>' for name in names]
        return HTMLResponse("\n".join([title, *rows, ""]), headers=_ALWAYS)

    def _made(self, request: Request, who: Principal) -> tuple[Artifact, ...]:
        self.shelf.owner(request.path_params["call"], who)
        return self.shelf.files(request.path_params["call"])

    def _row(self, one: Artifact) -> dict[str, Any]:
        row = {"name": one.name, "bytes": one.size, "published": time_text(one.created)}
        same = self.shelf.quick_check(one)
        if same is not None:
            row |= {"sha256": one.sha256} if same else {"changed": True}
        if one.media_type == FOLDER:
            return {**row, "folder": True}
        return {**row, "media_type": one.media_type, "url": self.base + path_of(one)}

    async def _link(self, request: Request, who: Principal) -> ASGIApp:
        """Made by whose file it is: those who may read everybody's could give away what is not theirs."""
        artifact = await self._thread(self._found, request, who)
        owner = await self._thread(self.shelf.owner, artifact.call_id)
        seconds = self._seconds(request)
        if seconds is None:
            most = f"seconds is a number from {LEAST_LINK_SECONDS:g} to {MOST_LINK_SECONDS:g}"
            return replies.refused(400, "invalid_request", most)
        standing = await self._thread(self.standing.of, owner) if links.may_link(who, owner) else None
        if standing is None:
            return replies.refused(403, "not_yours", "links to a file are made by whose call published it")
        opened: Opened = await self._thread(self._opened, artifact, owner)
        opened.close()
        expires, signature = self.signer.sign(_subject(artifact, owner, standing), seconds)
        await self._thread(self.audit, _made_link(artifact, owner, expires))
        query = urlencode({links.EXPIRES: expires, links.SIGNATURE: signature})
        url = f"{self.base}{path_of(artifact)}?{query}"
        told = {"url": url, "expires": time_text(expires), "bytes": artifact.size, "sha256": artifact.sha256}
        return JSONResponse(told, 201, {**_ALWAYS, "Location": url, "Cache-Control": "no-store"})

    def _seconds(self, request: Request) -> float | None:
        """How long a link is to hold; None for what it cannot."""
        try:
            wanted = float(request.query_params.get("seconds", self.link_seconds))
        except ValueError:
            return None
        return wanted if LEAST_LINK_SECONDS <= wanted <= MOST_LINK_SECONDS else None

    def _found(self, request: Request, who: Principal) -> Artifact:
        call_id = request.path_params["call"]
        self.shelf.owner(call_id, who)
        return self.shelf.find(call_id, request.path_params["name"])

    def _signed_for(self, request: Request) -> tuple[Artifact, str] | None:
        """What a link is for, and whose; None unless it is good."""
        signed = links.given(request.query_params.multi_items())
        try:
            owner = self.shelf.owner(request.path_params["call"])
            artifact = self.shelf.find(request.path_params["call"], request.path_params["name"])
        except (Absent, Gone):
            return None
        standing = self.standing.of(owner)
        if signed is None or standing is None:
            return None
        good = self.signer.good(_subject(artifact, owner, standing), *signed)
        return (artifact, owner) if good else None

    def _opened(self, artifact: Artifact, principal: str) -> Opened:
        return self.shelf.open(artifact, self.reaches.of(principal).workspaces)

    async def _thread(self, work: Callable[..., _T], *given: Any) -> _T:
        return await anyio.to_thread.run_sync(partial(work, *given), limiter=self._openers)


@dataclass(frozen=True)
class _Shared:
    """An answer that counts as a request of whoever made it possible."""

    gate: Gate
    principal: str
    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self.gate.share(self.principal):
                await self.app(scope, receive, send)
        except Full:
            await replies.busy(429, "too many requests of its maker are open")(scope, receive, send)


def _answering(answer: Callable[[], Awaitable[ASGIApp]]) -> ASGIApp:
    """What an answer comes to, or why there is none."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            reply = await answer()
        except Absent:
            reply = replies.refused(404, "not_found", "there is no such file")
        except Gone as gone:
            reply = replies.refused(410, "gone", f"what was published is not there any more: {gone}")
        except Busy:
            reply = replies.busy(503, "the file was touched and is being compared; that takes a while")
        except ToolError as error:
            reply = replies.refused(403, "denied", error.message)
        except (RegistryUnavailable, TokensUnavailable, AuditUnavailable):
            reply = replies.busy(503, "the records cannot be used now")
        await reply(scope, receive, send)

    return app


def path_of(artifact: Artifact) -> str:
    """Where a file is served."""
    return f"{FILES_PATH}/{artifact.call_id}/{quote(artifact.name, safe='')}"


def _made_link(artifact: Artifact, owner: str, expires: int) -> dict[str, Any]:
    """For the audit log: from here on whoever has it may read."""
    about_it = {
        "call": artifact.call_id,
        "file": artifact.path,
        "sha256": artifact.sha256,
        "expires": expires,
    }
    return {"type": "link.made", "outcome": "OK", "subject": {"principal": owner}, **about_it}


def _subject(artifact: Artifact, owner: str, standing: str) -> Subject:
    return Subject(artifact.call_id, artifact.name, artifact.sha256, owner, standing)


def _joined(headers: Headers) -> dict[str, str]:
    """Several lines of one header are one list."""
    return {name: ", ".join(headers.getlist(name)) for name in headers}
