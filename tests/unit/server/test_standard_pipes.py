"""Standard input and output as pipes and sockets: long lines, busy senders, clients that leave without reading."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from mcp.server.lowlevel.server import Server

from gdal_mcp.server.mcp import pipes, stdio
from gdal_mcp.server.mcp.pipes import LineReader, TextWriter

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[3]
PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def opened(folder: Path, data: bytes) -> int:
    (folder / "input").write_bytes(data)
    return os.open(folder / "input", os.O_RDONLY)


async def lines_of(descriptor: int) -> list[str]:
    try:
        return [line async for line in LineReader(descriptor)]
    finally:
        os.close(descriptor)


async def test_lines_are_separated_at_newlines_only(tmp_path: Path):
    data = b"a\r\n\n\xff\x80\nb\x0b\xe2\x80\xa8c\nrest"
    assert await lines_of(opened(tmp_path, data)) == [
        "a\r\n",
        "\n",
        "\ufffd\ufffd\n",
        "b\x0b\u2028c\n",
        "rest",
    ]


async def test_too_long_line_is_not_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A part of it alone could be a message that nobody sent."""
    monkeypatch.setattr(pipes, "LONGEST_LINE", 200_000)
    middle = PING[:-1] + b',"params":{"a":"' + b"x" * 1_000_000 + b'"}}'
    padded = b" " * 1_000_000 + PING
    first, second, third = await lines_of(opened(tmp_path, b"\n".join((middle, padded, PING))))
    assert max(len(first), len(second)) < 400_000
    for line in (first, second):
        with pytest.raises(json.JSONDecodeError):
            json.loads(line)
    assert third.encode() == PING


async def test_other_tasks_continue_beside_a_fast_sender(tmp_path: Path):
    reader, turns = opened(tmp_path, b"x" * 1_000_000), 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        await lines_of(reader)
        group.cancel_scope.cancel()
    assert turns > 5


async def test_connection_reset_is_the_end_of_input():
    client, server = socket.socketpair()
    server.sendall(b"not read")
    client.close()
    assert await lines_of(server.detach()) == []


def test_pipes_can_be_waited_for_after_the_server():
    """The next program of a shell script uses the same pipes."""
    reading, writing = os.pipe()
    other_reading, other_writing = os.pipe()
    code = "from gdal_mcp.server.mcp.pipes import standard_streams\nwith standard_streams() as s: assert len(s) == 2"
    command = [sys.executable, "-c", code]
    ended = subprocess.run(
        command, check=False, cwd=ROOT, stdin=reading, stdout=other_writing, stderr=subprocess.DEVNULL
    )
    assert ended.returncode == 0
    assert os.get_blocking(reading)
    assert os.get_blocking(other_writing)
    for descriptor in (reading, writing, other_reading, other_writing):
        os.close(descriptor)


async def test_client_that_closes_only_the_output_has_left(monkeypatch: pytest.MonkeyPatch):
    """Calls whose client stopped waiting go on, so they must be ended."""
    (reading, to_server), (from_server, writing) = os.pipe(), os.pipe()
    for descriptor in (reading, writing):
        os.set_blocking(descriptor, False)

    @contextmanager
    def streams() -> Iterator[Any]:
        yield LineReader(reading), TextWriter(writing)

    monkeypatch.setattr(stdio, "standard_streams", streams)
    ended: list[bool] = []
    os.close(from_server)
    os.write(to_server, PING + b"\n")
    with pytest.raises(BaseExceptionGroup) as raised:
        await stdio.run_stdio(Server("x", version="1"), lambda: ended.append(True))
    assert raised.value.subgroup(BrokenPipeError) is not None
    assert ended == [True]
    for descriptor in (reading, to_server, writing):
        os.close(descriptor)


_UNREAD = """
import sys
from dataclasses import replace
from pathlib import Path
import anyio
from gdal_mcp.server.mcp import background, stdio
from tests.integration.memory_server import server
background.UNREAD_SECONDS = 0.2
with server(Path(sys.argv[1])) as memory_server:
    anyio.run(stdio.serve, replace(memory_server.app, hosting=memory_server.pipeline.execution.hosting))
"""


def test_server_ends_if_nobody_reads_its_last_answers(tmp_path: Path):
    """The client has left, and a program that it started holds its end of the output."""
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", _UNREAD, str(tmp_path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=writing
    )
    os.close(writing)
    requests = [{"id": 0, "method": "initialize", "params": HELLO}, {"method": "notifications/initialized"}]
    requests += [{"id": number, "method": "tools/list"} for number in range(1, 400)]
    assert process.stdin is not None
    process.stdin.write(b"".join(json.dumps({"jsonrpc": "2.0", **row}).encode() + b"\n" for row in requests))
    process.stdin.close()
    try:
        assert process.wait(120) == 1
    finally:
        process.kill()
        os.close(reading)
