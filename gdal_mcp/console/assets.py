"""The page's own files, read once. What is not among them does not exist, however it is spelled."""

import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

PAGE = "index.html"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".json": "application/json", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    data: bytes
    media_type: str
    tag: str


@cache
def assets() -> dict[str, Asset]:
    """By their names below the folder `static`."""
    return dict(_found(files("gdal_mcp.console").joinpath("static"), ""))


def _found(folder: Traversable, prefix: str) -> list[tuple[str, Asset]]:
    found = []
    for one in folder.iterdir():
        name = prefix + one.name
        if one.is_dir():
            found += _found(one, f"{name}/")
        else:
            found.append((name, _asset(name, one.read_bytes())))
    return found


def _asset(name: str, data: bytes) -> Asset:
    suffix = "." + name.rpartition(".")[2]
    kind = _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "text/plain"
    return Asset(data, kind, f'"{hashlib.sha256(data).hexdigest()[:32]}"')


async def asset(request: Request) -> Response:
    """One of them; the page itself where no name is given."""
    found = assets().get(request.path_params.get("name") or PAGE)
    if found is None:
        return Response("There is no such page.\n", 404, media_type="text/plain")
    headers = {"ETag": found.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.data, headers=headers, media_type=found.media_type)
