"""A process that has loaded the server and is copied for each one that a test wants, which dies or waits at a point if told to.

`python -m tests.faults.zygote` takes orders over the socket that is its standard input: one JSON object with three descriptors,
for standard input, output and errors of the copy. It answers with the copy's process id, and later, asked for it, with how it
ended.
"""

import builtins
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.faults.points import instrument

_MOST = 64 << 10


class Stop:
    """What happens at a point once the test has armed it: the process dies, or waits until the test lets it go on."""

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
    """The wall clock as the file at `path` moves it, in seconds; the monotonic one goes on as it does."""

    def __init__(self) -> None:
        self.path, self._real = "", time.time

    def __call__(self) -> float:
        return self._real() + (float(Path(self.path).read_text()) if self.path else 0.0)


CLOCK = Clock()


def main() -> None:
    time.time = CLOCK
    instrument(STOP)
    _load()
    orders = socket.socket(fileno=os.dup(0))
    while True:
        data, descriptors, _, _ = socket.recv_fds(orders, _MOST, 3)
        if not data:
            return
        order = json.loads(data)
        if "ended" in order:
            orders.send(json.dumps(os.waitpid(order["ended"], 0)[1]).encode())
            continue
        child = os.fork()
        if child == 0:
            orders.close()
            _become(order, descriptors)
        for one in descriptors:
            os.close(one)
        orders.send(json.dumps(child).encode())


def _load() -> None:
    """What a server imports and reads, which is most of its start."""
    from gdal_mcp import (
        app,  # noqa: F401
        cli,  # noqa: F401
    )
    from gdal_mcp.gdal.catalogue.load import packaged
    from gdal_mcp.host import image  # noqa: F401
    from gdal_mcp.mcp import stdio  # noqa: F401
    from gdal_mcp.operations import undoing  # noqa: F401
    from sandbox.engines import discovery, docker  # noqa: F401

    packaged()


def _become(order: Mapping[str, Any], descriptors: list[int]) -> None:
    """The program with these arguments and nothing of the zygote's but its memory. Never returns."""
    for target, one in enumerate(descriptors):
        os.dup2(one, target)
        os.close(one)
    sys.stdin, sys.stdout, sys.stderr = (open(number, mode) for number, mode in enumerate("rww"))
    os.environ.clear()
    os.environ.update(order["env"])
    STOP.point, STOP.armed, STOP.trail, STOP.dies = (
        order[name] for name in ("point", "armed", "trail", "dies")
    )
    if order["clock"]:
        _go_by(order["clock"])
    if order["patience"]:
        _hurry(order["patience"])
    from gdal_mcp.cli import main as program

    code = 1
    try:
        code = program(order["argv"])
    finally:
        for stream in (sys.stdout, sys.stderr):
            builtins.print(end="", flush=True, file=stream)
        os._exit(code)


def _go_by(clock: str) -> None:
    """The wall clock is what this file says; containers of other servers, labelled by another clock, are left alone."""
    from gdal_mcp.mcp import background

    background.REAP_SECONDS = 1e9
    CLOCK.path = clock


def _hurry(seconds: float) -> None:
    """The server waits so long for each answer of the engine, where it would wait a minute."""
    from gdal_mcp.ledger import schema as registry_schema
    from sandbox.engines import docker, opening

    connect = opening.connect
    registry_schema._BUSY_SECONDS = seconds
    opening.connect = lambda address, _timeout, *kind: connect(address, seconds, *kind)
    docker._REMOVAL_SECONDS = seconds


if __name__ == "__main__":
    main()
