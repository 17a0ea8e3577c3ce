"""Warm calls over HTTP: how many a second, and how long each takes, with several clients at once."""

import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.abc
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from bench.arena import Arena, NotMeasurable
from bench.cold import Field
from bench.report import Section, milliseconds
from bench.series import Series

CLIENTS = (1, 4, 16)
_PAUSE = 1.0  # seconds between two tables rows, so that the pool is full when each begins
_TOKEN_END = 60  # for the program that makes the token

Call = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Run:
    """What so many clients found: seconds of each call, how many of them a container waited for, and seconds in all."""

    clients: int
    calls: Series
    warm: int
    whole: float

    def row(self) -> tuple[str, ...]:
        number = len(self.calls.seconds)
        return (
            str(self.clients),
            f"{number / self.whole:.1f}",
            milliseconds(self.calls.p50),
            milliseconds(self.calls.p95),
            f"{self.warm / number:.0%}",
        )


def measure(place: Field, source: str, seconds: float) -> Section:
    """One server, its official client over HTTP with a token, `info` over and over for so long with each number of clients."""
    with _serving(place.arena) as (url, token):
        found = anyio.run(_measured, url, token, source, seconds)
    header = ("clients", "calls a second", "p50 ms", "p95 ms", "warm")
    note = (
        f"`info` of a 512 x 512 GeoTIFF for {seconds:g} s with each number of clients, all of one process, each sending its next "
        "call when the last is answered. The last column is the share of calls for which a started container waited."
    )
    return Section("Calls over HTTP", note, header, [run.row() for run in found])


@contextmanager
def _serving(arena: Arena) -> Iterator[tuple[str, str]]:
    """The address of a new server with its default pool, and a token for it."""
    serve = arena.serve_command()
    at = serve.index("serve")
    make = [*serve[:at], "token", "new", "bench", "--scope", "gdal:read", *serve[at + 1 :]]
    environment = arena.python_environment()
    token = subprocess.run(
        make, env=environment, capture_output=True, text=True, timeout=_TOKEN_END, check=False
    ).stdout
    command = [*serve, "--transport", "http", "--port", "0"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url or not token:
            raise NotMeasurable("the server over HTTP did not start")
        yield url, token.strip()
    finally:
        process.terminate()
        process.communicate()


async def _measured(url: str, token: str, source: str, seconds: float) -> list[Run]:
    return [await _run(url, token, source, seconds, clients) for clients in CLIENTS]


async def _run(url: str, token: str, source: str, seconds: float, clients: int) -> Run:
    rows: list[tuple[float, bool]] = []
    async with anyio.create_task_group() as group:
        ready = [await group.start(partial(_client, url, token, source)) for _ in range(clients)]
        await anyio.sleep(_PAUSE)
        begun = time.perf_counter()
        async with anyio.create_task_group() as calling:
            for call in ready:
                calling.start_soon(_repeated, call, begun + seconds, rows)
        whole = time.perf_counter() - begun
        group.cancel_scope.cancel()
    return Run(clients, Series(tuple(row[0] for row in rows)), sum(row[1] for row in rows), whole)


async def _client(url: str, token: str, source: str, *, task_status: anyio.abc.TaskStatus[Call]) -> None:
    """Stays connected; hands out a function that makes one call and says whether it was a warm one."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):

        async def call() -> bool:
            reply = await client.call_tool("info", {"path": source})
            if reply.is_error or reply.structured_content is None:
                raise NotMeasurable(f"info failed: {str(reply.structured_content)[:500]}")
            return bool(reply.structured_content["receipt"]["pool"] == "warm")

        await call()
        task_status.started(call)
        await anyio.sleep_forever()


async def _repeated(call: Call, end: float, rows: list[tuple[float, bool]]) -> None:
    while time.perf_counter() < end:
        begun = time.perf_counter()
        warm = await call()
        rows.append((time.perf_counter() - begun, warm))
