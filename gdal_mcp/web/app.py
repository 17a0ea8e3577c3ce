"""Everything that is served over HTTP, as one application."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from gdal_mcp.access.identity import READ, SCOPES
from gdal_mcp.http.address import MCP_PATH
from gdal_mcp.http.gate import Gate
from gdal_mcp.http.guard import Door, Names, Outermost
from gdal_mcp.web.endpoint import Endpoint
from gdal_mcp.web.protocol import Counter

METADATA_PATH: Final = f"/.well-known/oauth-protected-resource{MCP_PATH}"
_METADATA_SECONDS: Final = 3600
_SENT: Final = (
    *("Authorization", "Content-Type", "Accept", "Last-Event-ID", "MCP-Protocol-Version", "Mcp-Session-Id"),
    *("Mcp-Method", "Mcp-Name"),
    *("Range", "If-Range", "If-None-Match", "If-Match", "Content-Digest"),  # of files
)
_SHOWN: Final = (
    *("Mcp-Session-Id", "WWW-Authenticate", "Retry-After"),
    *("Accept-Ranges", "Content-Range", "Content-Disposition", "ETag", "Repr-Digest", "Location"),  # of files
)


@dataclass(frozen=True, slots=True)
class Front:
    """What all parts of one server share."""

    door: Door
    gate: Gate
    names: Names


def compose(front: Front, routes: Sequence[BaseRoute], anywhere: Sequence[str]) -> ASGIApp:
    """The application. `anywhere` are paths that are answered whatever name the server is called by."""
    inner = Starlette(routes=list(routes), middleware=_browsers(front.names))
    return Outermost(inner, front.gate, front.names, anywhere)


def protocol_route(front: Front, counter: Counter) -> BaseRoute:
    return Route(MCP_PATH, Endpoint(front.door.guarded(counter.of, READ)))


def metadata_route(resource: str, issuers: Sequence[str]) -> BaseRoute:
    """Which issuers' tokens are good here, as RFC 9728 has it."""
    document = {
        "resource": resource,
        "authorization_servers": list(issuers),
        "scopes_supported": list(SCOPES),
        "bearer_methods_supported": ["header"],
        "resource_name": "GDAL in a sandbox",
    }

    async def metadata(_request: Request) -> Response:
        return JSONResponse(document, headers={"Cache-Control": f"public, max-age={_METADATA_SECONDS}"})

    return Route(METADATA_PATH, metadata, methods=["GET"])


def _browsers(names: Names) -> list[Middleware]:
    """Pages of the origins that are answered may read what they are answered."""
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=list(names.origins),
            allow_methods=["GET", "HEAD", "POST", "PUT", "DELETE"],
            allow_headers=list(_SENT),
            expose_headers=list(_SHOWN),
        )
    ]
