"""Reads the values of a raster at a position on the map, by calls of `raster pixel-info` in a container.

Invariants:
* values are read only for a viewer who has the workspace, and whom the policy lets read the dataset without approval;
* calls are made one at a time, so that clicks never take the slots of other calls.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from gdal_mcp.calls.pipeline import Reply
from gdal_mcp.records.artifacts import Absent, ArtifactStore, Gone
from gdal_mcp.records.registry import Artifact
from gdal_mcp.server.app import App
from gdal_mcp.server.console.auth import Refused
from gdal_mcp.server.console.sessions import Viewer
from gdal_mcp.server.operations.allowed_calls import call_if_allowed
from gdal_mcp.toolboxes.untrusted import UNTRUSTED
from sandbox.workspace import Workspaces

WAITING: Final = 8  # clicks that may wait
LIMITS: Final = (180.0, 90.0)  # degrees of longitude and latitude


@dataclass(slots=True)
class Identify:
    """Reads values for the viewers of one server. For one event loop."""

    app: App
    store: ArtifactStore
    _one: anyio.Lock = field(default_factory=anyio.Lock)

    async def values(
        self, artifact: Artifact, viewer: Viewer, workspaces: Workspaces, position: object
    ) -> dict[str, Any]:
        """The value of each band; `position` is [longitude, latitude] in degrees (WGS 84).

        Raises Refused, also for a place outside the raster.
        """
        degrees = _degrees(position)
        try:
            opened = await anyio.to_thread.run_sync(self.store.open, artifact, workspaces)
        except (Absent, Gone) as error:
            raise Refused(404, "That output no longer exists.") from error
        opened.close()
        if self._one.statistics().tasks_waiting >= WAITING:
            raise Refused(429, "Too many values are being read. Try again.")
        async with self._one:
            reply = await self._read(artifact, viewer, degrees)
        if reply is None:
            raise Refused(403, "The policy asks a person before this dataset is read.")
        if reply.error is not None:
            raise Refused(409, f"{reply.error.message} {reply.error.suggestion}")
        return {"position": degrees, "bands": _bands(reply)}

    async def _read(self, artifact: Artifact, viewer: Viewer, position: list[float]) -> Reply | None:
        algorithm_arguments = {"input": artifact.path, "position": position, "position_crs": "EPSG:4326"}
        arguments = {"algorithm": "raster pixel-info", "arguments": algorithm_arguments}
        return await call_if_allowed(self.app, viewer.principal, "gdal_read", arguments)


def _degrees(position: object) -> list[float]:
    """The position as numbers. Raises Refused for an invalid one."""
    numbers = position if isinstance(position, list) else []
    degrees = [
        float(number) for number in numbers if isinstance(number, int | float) and math.isfinite(number)
    ]
    if len(numbers) != len(LIMITS) or len(degrees) != len(LIMITS):
        raise Refused(400, "`position` is a longitude and a latitude in degrees.")
    if any(abs(degree) > limit for degree, limit in zip(degrees, LIMITS, strict=True)):
        raise Refused(400, "`position` lies outside the world.")
    return degrees


def _bands(reply: Reply) -> list[dict[str, Any]]:
    """Number and value of each band, from the GeoJSON that the algorithm prints. Raises Refused for a place without pixels."""
    (feature,) = reply.result[UNTRUSTED]["report"]["features"]
    rows = feature["properties"]["bands"]
    if not all("unscaled_value" in band for band in rows):
        raise Refused(404, "No value at this position.")
    return [{"band": band["band_number"], "value": band["unscaled_value"]} for band in rows]
