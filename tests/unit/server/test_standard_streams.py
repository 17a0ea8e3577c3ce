"""Messages on stdin and stdout that are pipes: lines of any size and content arrive whole, and nothing else uses them."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import anyio
import pytest

from gdal_mcp.server.mcp.pipes import LineReader, TextWriter

pytestmark = pytest.mark.anyio
LARGE = "x" * (1 << 20)  # many times what a pipe holds
PROGRAM = """
import os, sys
from gdal_mcp.server.mcp.pipes import standard_streams
with standard_streams() as streams:
    os.write(1, b"stray ")
    if sys.stderr:
        sys.stderr.write(f"{len(streams)} {len(os.read(0, 9)) if streams else ''}")
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["pipe", "socket"])
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """The reading and the writing end of a connection. The server's end does not block."""
    pair = os.pipe() if request.param == "pipe" else tuple(end.detach() for end in socket.socketpair())
    yield pair
    for descriptor in pair:
        os.close(descriptor)


async def all_lines(descriptor: int) -> list[str]:
    return [line async for line in LineReader(descriptor)]


@pytest.mark.parametrize(
    ("sent", "lines"),
    [
        (b"", []),
        (b"one\ntwo\n", ["one\n", "two\n"]),
        (b"\n\r\n", ["\n", "\r\n"]),
        (b"a\rb\n", ["a\rb\n"]),
        (b"without an end", ["without an end"]),
        (b"\xff\xfe\n", ["\ufffd\ufffd\n"]),
        ("é€😀".encode() * 50_000 + b"\nnext\n", ["é€😀" * 50_000 + "\n", "next\n"]),
        (b"x\n" * 100_000, ["x\n"] * 100_000),
    ],
)
async def test_lines_arrive_whole(ends: tuple[int, int], sent: bytes, lines: list[str]) -> None:
    reading, writing = ends[0], os.dup(ends[1])
    os.set_blocking(reading, False)

    def send() -> None:
        left = memoryview(sent)
        while left:
            left = left[os.write(writing, left[:1000]) :]
        os.close(writing)
        os.dup2(os.open(os.devnull, os.O_RDONLY), ends[1])  # the end of input

    received: list[str] = []
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, send)
        received += await all_lines(reading)
    assert received == lines


async def test_sender_is_not_read_ahead_of(ends: tuple[int, int]) -> None:
    """A client that sends faster than the server reads waits, so that the server's memory stays small."""
    reading, writing = ends
    for descriptor in ends:
        os.set_blocking(descriptor, False)
    lines = LineReader(reading).__aiter__()
    os.write(writing, b"first\n")
    assert await anext(lines) == "first\n"
    with pytest.raises(BlockingIOError):
        for _ in range(10_000):
            os.write(writing, b"more\n" * 1000)


async def test_message_is_written_whole_even_if_cancelled(ends: tuple[int, int]) -> None:
    reading, writing = ends
    os.set_blocking(writing, False)
    received = bytearray()

    def receive() -> None:
        while len(received) < len(LARGE):
            received.extend(os.read(reading, 1 << 16))

    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            scope.cancel()
            group.start_soon(anyio.to_thread.run_sync, receive)
            await TextWriter(writing).write(LARGE)
    assert received.decode() == LARGE


async def test_writing_to_nobody_is_an_error() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        await TextWriter(writing).write("text")
    os.close(writing)


@pytest.mark.parametrize("case", ["pipes", "stdin is a file", "stdout is stderr", "no stderr", "one socket"])
def test_only_separate_pipes_are_used(case: str) -> None:
    pipe = subprocess.PIPE
    streams = {"stdin": pipe, "stdout": pipe, "stderr": pipe}
    if case == "stdin is a file":
        streams["stdin"] = subprocess.DEVNULL
    if case == "stdout is stderr":
        streams["stderr"] = subprocess.STDOUT
    if case == "one socket":
        ours, theirs = socket.socketpair()
        streams |= {"stdin": theirs.fileno(), "stdout": theirs.fileno()}
    command = [sys.executable, "-c", PROGRAM]
    if case == "no stderr":
        command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, **streams, check=False)  # type: ignore[call-overload]
    assert done.returncode == 0
    if case == "pipes":
        assert (done.stdout, done.stderr) == (b"", b"stray 2 0")
    elif case == "one socket":
        assert (ours.recv(100), done.stderr) == (b"stray ", b"0 ")
        ours.close()
        theirs.close()
    else:
        assert done.stdout.startswith(b"stray ")
