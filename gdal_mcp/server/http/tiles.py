"""`/tiles`: map tiles of the rasters that calls published, drawn by the tool `preview` in containers.

`/tiles/CALL/NAME` is a TileJSON document, `/tiles/CALL/NAME/Z/X/Y.png` one tile of 256 pixels in Web Mercator.
Invariants:
* a tile is for a principal who may read the file at `/files`, and whom the policy lets call `preview` on it without
  approval;
* a tile shows the published content, which is checked before and after it is drawn. Other files that it reads, such
  as its sidecar files and the sources of a VRT, may have changed since;
* a cached tile is for one principal and one content of one file, and the cache is bounded in bytes;
* a bounded number of blocks is drawn at once, so that a map never takes the slots of other calls.
"""

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from gdal_mcp.calls.drafting import Drafted, Drafting
from gdal_mcp.calls.invocation import Invocation, Reply
from gdal_mcp.calls.operation import Operation
from gdal_mcp.errors import Code
from gdal_mcp.policy.identity import Principal
from gdal_mcp.records.artifacts import Absent, Fingerprint, Gone, Opened
from gdal_mcp.records.registry import Artifact
from gdal_mcp.server.app import App
from gdal_mcp.server.http import replies
from gdal_mcp.server.http.concurrency import LimitExceeded, RequestLimit
from gdal_mcp.server.http.files import ALWAYS, Files, precondition
from gdal_mcp.server.http.tile_grid import (
    MAX_LATITUDE,
    MAX_ZOOM,
    WHOLE_WORLD,
    Box,
    Place,
    bounds_of,
    finest_zoom,
    places_of,
    side_of,
    touches,
)
from gdal_mcp.server.operations.allowed_calls import call_if_allowed
from gdal_mcp.toolboxes.base import ImmediateResult

TILES_PATH: Final = "/tiles"
AT_ONCE: Final = 2  # blocks that are drawn at once
CACHE_BYTES: Final = 64 << 20
# bytes for a tile's key and its entry in the cache; an empty tile has only about a hundred bytes
_ENTRY_BYTES: Final = 1 << 10
_NUMBER: Final = re.compile(r"0|[1-9]\d{0,8}", re.ASCII)


class TileSource(NamedTuple):
    """The key of cached tiles: one content of one file, drawn for one principal."""

    principal: str
    artifact: int
    sha256: str
    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True)
class DrawTiles(Operation):
    """A call of `preview` whose picture is a block of tiles.

    `legend` is the colours and stretch of earlier tiles; None for the first ones.
    """

    block: Place = WHOLE_WORLD
    legend: Mapping[str, Any] | None = None

    def draft(self, call: Invocation, drafting: Drafting) -> Drafted | ImmediateResult:
        drafted = Operation.draft(self, call, drafting)
        assert isinstance(drafted, Drafted)  # `preview` runs in a container
        command = drafted.draft.command
        preview = {
            **command.extra["preview"],
            **(self.legend or {}),
            "block": [*self.block, side_of(self.block.zoom)],
        }
        return drafted._replace(
            draft=replace(drafted.draft, command=replace(command, extra={"preview": preview}))
        )


@dataclass(slots=True)
class TileCache:
    """A cache of tiles and their legends, which drops the least recently used ones first. For one event loop."""

    most: int = CACHE_BYTES
    legends: "OrderedDict[TileSource, Mapping[str, Any]]" = field(default_factory=OrderedDict)
    _tiles: "OrderedDict[tuple[TileSource, Place], bytes]" = field(default_factory=OrderedDict)
    _bytes: int = 0

    def get(self, content: TileSource, place: Place) -> bytes | None:
        tile = self._tiles.get((content, place))
        if tile is not None:
            self._tiles.move_to_end((content, place))
        return tile

    def put(self, content: TileSource, place: Place, data: bytes) -> None:
        if (old := self._tiles.pop((content, place), None)) is not None:
            self._bytes -= len(old) + _ENTRY_BYTES
        self._tiles[content, place] = data
        self._bytes += len(data) + _ENTRY_BYTES
        while self._bytes > self.most:
            self._bytes -= len(self._tiles.popitem(last=False)[1]) + _ENTRY_BYTES

    def remember(self, content: TileSource, shown: Mapping[str, Any]) -> None:
        self.legends[content] = {name: shown.get(name) for name in ("color", "bands", "stretch")}
        while len(self.legends) > 1000:  # each has some hundred bytes
            self.legends.popitem(last=False)


class NotDrawn(Exception):
    """A tile was not drawn. `reply` is the response with the reason."""

    def __init__(self, reply: ASGIApp) -> None:
        super().__init__()
        self.reply = reply


@dataclass(frozen=True, kw_only=True)
class Tiles:
    """The tiles of one server. For one event loop."""

    app: App
    files: Files
    cache: TileCache = field(default_factory=TileCache)
    # tiles that wait to be drawn, in total and for one principal
    _waiting: RequestLimit = field(default_factory=lambda: RequestLimit(128, 32))
    _drawing: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(AT_ONCE))

    def routes(self) -> list[BaseRoute]:
        about = f"{TILES_PATH}/{{call}}/{{name}}"
        return [
            Route(about, self.files.guarded(self._document), methods=["GET"]),
            Route(f"{about}/{{z}}/{{x}}/{{y}}.png", self.files.guarded(self._tile), methods=["GET"]),
        ]

    async def _document(self, who: Principal, request: Request) -> ASGIApp:
        artifact = await self.files.thread(self.files.artifact_of, who, request)
        dataset = await self.files.thread(self._dataset, artifact)
        west, south, east, north = bounds_of(_boxes(dataset))
        document = {
            "tilejson": "3.0.0",
            "name": artifact.name,
            "tiles": [f"{self.files.base}{_path(artifact)}/{{z}}/{{x}}/{{y}}.png"],
            "bounds": [west, max(south, -MAX_LATITUDE), east, min(north, MAX_LATITUDE)],
            "minzoom": 0,
            "maxzoom": finest_zoom(dataset["size"][0], east - west),
        }
        return JSONResponse(document, headers=ALWAYS)

    async def _tile(self, who: Principal, request: Request) -> ASGIApp:
        place = _parse_place(request.path_params)
        artifact = await self.files.thread(self.files.artifact_of, who, request)
        boxes = _boxes(await self.files.thread(self._dataset, artifact))
        opened: Opened = await self.files.thread(self.files.opened, artifact, who.id)
        try:
            headers = {**ALWAYS, "ETag": f'"{artifact.sha256[:32]}.{place.zoom}.{place.x}.{place.y}"'}
            if not any(touches(place, box) for box in boxes):
                return Response(None, 204, headers)
            if (status := precondition(request.headers, headers["ETag"])) is not None:
                return Response(None, status, headers)
            data = await self._drawn(who, opened, place)
        except NotDrawn as refused:
            return refused.reply
        except LimitExceeded:
            return replies.busy(429, "too many tiles are waiting to be drawn")
        finally:
            opened.close()
        return Response(data, media_type="image/png", headers=headers)

    async def _drawn(self, who: Principal, opened: Opened, place: Place) -> bytes:
        """The PNG of a tile, from the cache or drawn now. Raises NotDrawn, Gone, LimitExceeded."""
        artifact = opened.artifact
        content = TileSource(who.id, artifact.id, artifact.sha256, opened.fingerprint)
        if (tile := self.cache.get(content, place)) is not None:
            return tile
        with self._waiting.request(), self._waiting.per_principal(who.id):
            async with self._drawing:
                # another request drew it in the meantime
                if (tile := self.cache.get(content, place)) is not None:
                    return tile
                tiles = await self._draw(who, artifact, content, place.block)
                if not await self.files.thread(opened.is_in_place):
                    raise Gone("it was changed")
        for drawn, data in tiles.items():
            self.cache.put(content, drawn, data)
        return tiles[place]

    async def _draw(
        self, who: Principal, artifact: Artifact, content: TileSource, block: Place
    ) -> Mapping[Place, bytes]:
        operation = DrawTiles(in_history=False, block=block, legend=self.cache.legends.get(content))
        arguments = {"path": artifact.path}
        reply = await call_if_allowed(
            self.app, who, "preview", arguments, client="tiles", operation=operation
        )
        places = list(places_of(block))
        if reply is None or reply.done is None or len(reply.done.figures) != len(places):
            raise NotDrawn(_refusal(reply))
        self.cache.remember(content, reply.result.get("shown", {}))
        return dict(zip(places, reply.done.figures, strict=True))

    def _dataset(self, artifact: Artifact) -> Mapping[str, Any]:
        """The description of a raster in the record of its call.

        Raises Absent for other files, and for rasters without a position.
        """
        call = self.app.registry.call(artifact.call_id)
        rows = (row for row in (call.outputs if call else ()) if row.get("path") == artifact.path)
        dataset = next(rows, {})
        if not (dataset.get("size") and dataset.get("wgs84")):
            raise Absent
        return dataset


def _refusal(reply: Reply | None) -> ASGIApp:
    if reply is None:
        return replies.refused(403, "approval_required", "the policy asks a person before this file is drawn")
    code = reply.error.code if reply.error is not None else Code.GDAL_ERROR
    if code is Code.RATE_LIMITED:
        return replies.busy(429, "the limits of your calls are reached")
    if code in (Code.BUSY, Code.ENGINE_UNAVAILABLE):
        return replies.busy(503, "no container is free to draw the tile")
    if code in (Code.DENIED, Code.NOT_FOUND):
        return replies.refused(403, "denied", "you may not call `preview` on this file")
    return replies.refused(422, "not_drawn", "GDAL could not draw this tile")


def _path(artifact: Artifact) -> str:
    """The URL path of a file's tiles, without braces, because those would belong to the URL template."""
    return f"{TILES_PATH}/{artifact.call_id}/{quote(artifact.name, safe='')}"


def _parse_place(named: Mapping[str, str]) -> Place:
    """The tile that a path names. Raises Absent if it is not a tile of Web Mercator."""
    texts = [named[name] for name in ("z", "x", "y")]
    if not all(map(_NUMBER.fullmatch, texts)):
        raise Absent
    place = Place(*map(int, texts))
    if place.zoom > MAX_ZOOM or max(place.x, place.y) >= 1 << place.zoom:
        raise Absent
    return place


def _boxes(dataset: Mapping[str, Any]) -> list[Box]:
    return [(west, south, east, north) for west, south, east, north in dataset["wgs84"]]
