"""Many simultaneous calls by many clients over HTTP: `python -m bench.crowd`.

Each call reads a raster of another size, so that swapped answers are noticed.
"""

import argparse
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from bench.clients import resident_megabytes, served
from bench.place import Place, place
from bench.report import Section, Series, milliseconds

CLIENTS, CALLS_EACH, WAVES = 20, 10, 3
PAUSE = 0.02  # seconds between two pings
SIDES = range(32, 32 + CLIENTS * CALLS_EACH)  # pixels of each raster's sides; one raster for each call
ROOM = {
    "GDAL_MCP_QUEUE_LENGTH": "500",
    "GDAL_MCP_QUEUE_SECONDS": "600",
    "GDAL_MCP_HTTP_REQUESTS_EACH": "300",
    "GDAL_MCP_HTTP_REQUESTS": "600",
}


@dataclass
class Tally:
    """The results of the calls of one wave. In seconds."""

    right: int = 0
    wrong: int = 0
    failed: list[str] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    pings: list[float] = field(default_factory=list)


def crowd(where: Place) -> Section:
    """Sends waves of simultaneous calls, and pings of one more client meanwhile."""
    for side in SIDES:
        _write(where.workspace / f"side{side}.pgm", side)
    with served(where, ROOM) as (url, token, pid):
        rows = anyio.run(_waves, url, token, pid)
    note = f"{CLIENTS} clients send {CALLS_EACH} calls of `info` each at one moment; one more client pings meanwhile."
    header = (
        "wave",
        "right",
        "another's",
        "failed",
        "seconds",
        "ping p50 ms",
        "ping p99 ms",
        "slowest ping ms",
        "server MB",
    )
    return Section("Calls at once by many clients", note, header, rows)


def _write(path: Path, side: int) -> None:
    path.write_bytes(f"P5\n{side} {side}\n255\n".encode() + bytes(side * side))


async def _waves(url: str, token: str, pid: int) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for number in range(1, WAVES + 1):
        tally, started = Tally(), time.perf_counter()
        await _wave(url, token, tally)
        pings = Series(tuple(tally.pings))
        p99 = sorted(tally.pings)[int(len(tally.pings) * 0.99)]
        for text in tally.failed[:3]:
            print(text)
        rows.append((
            str(number), str(tally.right), str(tally.wrong), str(len(tally.failed)), f"{time.perf_counter() - started:.1f}",
            milliseconds(pings.p50), milliseconds(p99), milliseconds(max(tally.pings)), f"{resident_megabytes(pid):.1f}",
        ))  # fmt: skip
    return rows


async def _wave(url: str, token: str, tally: Tally) -> None:
    ready, over = anyio.Event(), anyio.Event()

    async def calls_of(number: int) -> None:
        async with (
            _connection(token, number + 2) as connection,
            Client(streamable_http_client(url, http_client=connection)) as client,
            anyio.create_task_group() as group,
        ):
            await ready.wait()
            for side in SIDES[number * CALLS_EACH : (number + 1) * CALLS_EACH]:
                group.start_soon(_call, client, side, tally)

    async def pings() -> None:
        async with (
            _connection(token, 1) as connection,
            Client(streamable_http_client(url, http_client=connection), mode="legacy") as client,
        ):
            await ready.wait()
            while not over.is_set():
                started = time.perf_counter()
                await client.send_ping()
                tally.pings.append(time.perf_counter() - started)
                await anyio.sleep(PAUSE)

    async with anyio.create_task_group() as outer:
        outer.start_soon(pings)
        async with anyio.create_task_group() as group:
            for number in range(CLIENTS):
                group.start_soon(calls_of, number)
            await anyio.sleep(0.1 * CLIENTS)
            ready.set()
        over.set()


def _connection(token: str, number: int) -> httpx2.AsyncClient:
    """A connection of a client with its own address, like clients on other machines."""
    transport = httpx2.AsyncHTTPTransport(local_address=f"127.0.0.{number}")
    return httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=600, transport=transport)


async def _call(client: Client, side: int, tally: Tally) -> None:
    started = time.perf_counter()
    reply = await client.call_tool("info", {"path": f"side{side}.pgm"})
    tally.calls.append(time.perf_counter() - started)
    result = reply.structured_content or {}
    if reply.is_error:
        tally.failed.append(str(result)[:300])
    elif result.get("size") == [side, side]:
        tally.right += 1
    else:
        tally.wrong += 1


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.crowd", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path("/var/tmp"), help="for temporary data (%(default)s)"
    )
    with place(parser.parse_args().folder) as where:
        print(f"load average before: {os.getloadavg()[0]:.1f}")
        print(crowd(where).markdown())


if __name__ == "__main__":
    main()
