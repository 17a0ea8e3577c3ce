"""Files in both directions, as one part of a server: what calls published goes out, what clients have comes in."""

from starlette.routing import BaseRoute

from gdal_mcp.access.tokens import TokenStore
from gdal_mcp.app import App
from gdal_mcp.http.gate import Gate
from gdal_mcp.ledger.artifacts import ArtifactStore
from gdal_mcp.operations.uploading import Uploads
from gdal_mcp.web.app import Front
from gdal_mcp.web.files import Files
from gdal_mcp.web.links import Signer, Standing
from gdal_mcp.web.uploads import Arrivals


def file_routes(app: App, front: Front, base: str) -> list[BaseRoute]:
    """`base` is the address that clients know the server by."""
    settings = app.settings
    files = Files(
        shelf=ArtifactStore(app.registry),
        reaches=app.reaches,
        signer=Signer(),
        standing=Standing(None if settings.no_auth else TokenStore(settings.state.tokens)),
        gate=front.gate,
        door=front.door,
        audit=app.audit.append,
        base=base,
        link_seconds=settings.link_seconds,
    )
    arrivals = Arrivals(
        uploads=Uploads(app),
        door=front.door,
        gate=Gate(settings.http_requests, settings.uploads_each),
        seconds=settings.upload_seconds,
        most=settings.upload_size,
    )
    return [*files.routes(), *arrivals.routes()]
