"""`gdal-mcp serve --transport http`: assembles and runs one server."""

import socket
import sys
from functools import partial
from typing import Final

import anyio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from gdal_mcp.approvals.waiting import ConsoleUrl
from gdal_mcp.policy.identity import READ, SCOPES
from gdal_mcp.policy.tokens import TokenStore
from gdal_mcp.records.artifacts import ArtifactStore
from gdal_mcp.server.app import App, local_user
from gdal_mcp.server.console.routes import console_routes, home_url
from gdal_mcp.server.http import address
from gdal_mcp.server.http.address import MCP_PATH
from gdal_mcp.server.http.arrivals import ListeningSocket
from gdal_mcp.server.http.auth import Authenticator, TokenVerifier
from gdal_mcp.server.http.concurrency import RequestLimit
from gdal_mcp.server.http.files import FILES_PATH, Files
from gdal_mcp.server.http.guard import HostFilter
from gdal_mcp.server.http.health import HEALTH_PATH, READY_PATH, Watch, health_routes, look, metrics_route
from gdal_mcp.server.http.issuers import Issuer, SigningKeys
from gdal_mcp.server.http.links import CredentialStatus
from gdal_mcp.server.http.oauth import SignedTokens
from gdal_mcp.server.http.protocol import ProtocolEndpoint
from gdal_mcp.server.http.serving import ListenOptions, bind, require_certificate, serve_routes
from gdal_mcp.server.http.signing import Signer
from gdal_mcp.server.http.tiles import Tiles
from gdal_mcp.server.http.uploads import UploadRoutes
from gdal_mcp.server.mcp.background import end_on_signal, get_ready, reap
from gdal_mcp.server.mcp.http import Protocol
from gdal_mcp.server.operations.uploading import Uploads
from gdal_mcp.settings import Settings

METADATA_PATH: Final = f"/.well-known/oauth-protected-resource{MCP_PATH}"
_SENT: Final = (
    *("Authorization", "Content-Type", "Accept", "Last-Event-ID", "MCP-Protocol-Version", "Mcp-Session-Id"),
    *("Mcp-Method", "Mcp-Name"),
    *("Range", "If-Range", "If-None-Match", "If-Match", "Content-Digest"),  # of requests for files
)
_SHOWN: Final = (
    *("Mcp-Session-Id", "WWW-Authenticate", "Retry-After"),
    # of responses with files
    *("Accept-Ranges", "Content-Range", "Content-Disposition", "ETag", "Repr-Digest", "Location"),
)


def prepare(settings: Settings) -> ListeningSocket:
    """Checks that the server is safe to start, and binds its socket. Raises SettingsError, TokensUnavailable."""
    address.require_safe(settings, tokens=bool(TokenStore(settings.state.tokens).all()))
    for text in settings.issuers:
        Issuer.parsed(text)
    require_certificate(settings.tls_cert, settings.tls_key)
    return bind(settings.host, settings.port)


def console_url(settings: Settings, bound: socket.socket) -> ConsoleUrl:
    """A function that returns the address where calls of the server on this socket can be approved."""
    home = home_url(settings, bound.getsockname()[1])

    async def url(_needed: bool) -> str | None:  # noqa: FBT001 - as ConsoleUrl has it
        return home

    return url


async def serve(app: App, bound: ListeningSocket) -> None:
    """Serves until a signal arrives. The signal cancels every call, waits for the containers, and ends the process."""
    settings, port = app.settings, bound.getsockname()[1]
    hosts, origins = address.hosts(settings, port), address.origins(settings, port)
    protocol = Protocol(app, hosts, origins, address.base_url(settings, port) + FILES_PATH)
    limit = RequestLimit(settings.http_requests, settings.http_requests_each)

    def started() -> None:
        """Prints the server's address: for people on stderr, for programs on stdout."""
        url = address.resource(settings, port)
        auth = "none: everybody who reaches the port acts as the local user" if settings.no_auth else "tokens"
        sys.stderr.write(f"gdal-mcp: serving {url} (authentication: {auth})\n")
        sys.stdout.write(url + "\n")
        sys.stdout.flush()

    inner = Starlette(
        routes=_routes(app, _authenticator(settings, port, limit), protocol, port),
        middleware=[
            Middleware(  # lets pages of the accepted origins read the replies
                CORSMiddleware,
                allow_origins=list(origins),
                allow_methods=["GET", "HEAD", "POST", "PUT", "DELETE"],
                allow_headers=list(_SENT),
                expose_headers=list(_SHOWN),
            )
        ],
    )
    async with anyio.create_task_group() as group:
        serving = anyio.CancelScope()
        group.start_soon(end_on_signal, serving, app)
        group.start_soon(get_ready, app)
        group.start_soon(reap, app)
        with serving:
            async with protocol.running():
                await serve_routes(
                    HostFilter(inner, limit, hosts, origins, (HEALTH_PATH, READY_PATH)),
                    bound,
                    _listening(settings),
                    started=started,
                    ending=limit.close,
                )
        if serving.cancel_called:
            # until `end_on_signal` ends the process, because calls may still be ending
            await anyio.sleep_forever()
        group.cancel_scope.cancel()


def _listening(settings: Settings) -> ListenOptions:
    """The limits of connections. Behind a proxy all connections come from one peer."""
    most = settings.http_requests
    each = most if settings.behind_proxy else settings.http_silent_each
    return ListenOptions(most, each, settings.tls_cert, settings.tls_key)


def _authenticator(settings: Settings, port: int, limit: RequestLimit) -> Authenticator:
    verifier = signed = None
    if settings.issuers:
        issuers = [Issuer.parsed(text) for text in settings.issuers]
        signed = SignedTokens(
            {issuer.name: SigningKeys(issuer) for issuer in issuers}, address.resource(settings, port)
        )
    if not settings.no_auth:
        verifier = TokenVerifier(TokenStore(settings.state.tokens), signed)
    metadata = address.base_url(settings, port) + METADATA_PATH if settings.issuers else ""
    return Authenticator(verifier, local_user(), limit, metadata)


def _routes(app: App, auth: Authenticator, protocol: Protocol, port: int) -> list[BaseRoute]:
    settings = app.settings
    writing = frozenset(name for name, tool in app.surface.callable.items() if tool.writes)
    endpoint = ProtocolEndpoint(protocol, auth, writing, settings.body_size)
    watch = Watch(partial(look, app))
    files = Files(
        store=ArtifactStore(app.registry),
        reaches=app.entitlements,
        signer=Signer(),
        status=CredentialStatus(None if settings.no_auth else TokenStore(settings.state.tokens)),
        auth=auth,
        audit=app.audit.append,
        base=address.base_url(settings, port),
        link_seconds=settings.link_seconds,
    )
    uploads = UploadRoutes(
        uploads=Uploads(app),
        auth=auth,
        limit=RequestLimit(settings.http_requests, settings.uploads_each),
        seconds=settings.upload_seconds,
        most=settings.upload_size,
    )
    return [
        Route(MCP_PATH, auth.guarded(endpoint.of, READ)),
        *health_routes(watch),
        metrics_route(app, watch, auth),
        *console_routes(app, port, auth.principal),
        *files.routes(),
        *(Tiles(app=app, files=files).routes() if settings.tiles else ()),
        *uploads.routes(),
        *([_metadata_route(settings, port)] if settings.issuers else ()),
    ]


def _metadata_route(settings: Settings, port: int) -> BaseRoute:
    """The route of the metadata that names the issuers whose tokens are accepted (RFC 9728)."""
    document = {
        "resource": address.resource(settings, port),
        "authorization_servers": [issuer.partition(" ")[0] for issuer in settings.issuers],
        "scopes_supported": list(SCOPES),
        "bearer_methods_supported": ["header"],
        "resource_name": "GDAL in a sandbox",
    }
    headers = {"Cache-Control": "public, max-age=3600"}
    return Route(METADATA_PATH, JSONResponse(document, headers=headers), methods=["GET"])
