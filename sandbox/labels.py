"""The labels every container carries: who made it, for which call, and when it must be gone at the latest."""

import time
from collections.abc import Mapping

OWNER = "io.gdal-mcp.owner"
CALL = "io.gdal-mcp.call"
STARTED = "io.gdal-mcp.started"  # seconds since the epoch
DEADLINE = "io.gdal-mcp.deadline"  # likewise


def labels(owner: str, call: str, wall_seconds: float) -> Mapping[str, str]:
    now = time.time()
    return {OWNER: owner, CALL: call, STARTED: f"{now:.3f}", DEADLINE: f"{now + wall_seconds:.3f}"}
