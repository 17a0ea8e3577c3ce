"""The process that servers are copied from (see tests/forking.py). Each copy dies or waits at a point on request."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.forking import serve
from tests.security.faults.points import instrument


class Stop:
    """The action at a point once the test has armed it: the process dies, or waits until the test releases it."""

    def __init__(self) -> None:
        self.point, self.armed, self.trail, self.dies = "", "", "", True

    def __call__(self, point: str) -> None:
        if self.trail:
            with open(self.trail, "a") as trail:
                trail.write(f"{point}\n")
        if point == self.point and self._is_armed():
            Path(self.armed).write_text(REACHED)
            if self.dies:
                os.kill(os.getpid(), signal.SIGKILL)
            while os.path.exists(self.armed):
                time.sleep(0.005)

    def _is_armed(self) -> bool:
        try:
            return Path(self.armed).read_text() != REACHED
        except FileNotFoundError:
            return False


REACHED = "reached"
STOP = Stop()


class Clock:
    """The wall clock, shifted by the seconds in the file at `path`; the monotonic clock is not shifted."""

    def __init__(self) -> None:
        self.path, self._real = "", time.time

    def __call__(self) -> float:
        return self._real() + (float(Path(self.path).read_text()) if self.path else 0.0)


CLOCK = Clock()


def prepare(order: Mapping[str, Any]) -> None:
    """Prepares this copy as the test requests."""
    STOP.point, STOP.armed, STOP.trail, STOP.dies = (
        order[name] for name in ("point", "armed", "trail", "dies")
    )
    if STOP.point or STOP.trail:
        instrument(STOP)
    if order["clock"]:
        _go_by(order["clock"])
    if order["patience"]:
        _hurry(order["patience"])


def _go_by(clock: str) -> None:
    """Makes the file set the wall clock. Containers of other servers, labelled by another clock, are left alone."""
    from gdal_mcp.server.mcp import background

    background.REAP_SECONDS = 1e9
    CLOCK.path = clock


def _hurry(seconds: float) -> None:
    """Makes the server wait this long for each answer of the engine, for which it would otherwise wait a minute."""
    from gdal_mcp.records import schema as registry_schema
    from sandbox.engines import docker, opening

    connect = opening.connect
    registry_schema._BUSY_SECONDS = seconds
    opening.connect = lambda address, kind="": connect(address, seconds, kind)
    docker.DockerEngine.removal_seconds = seconds


if __name__ == "__main__":
    time.time = CLOCK
    serve(prepare)
