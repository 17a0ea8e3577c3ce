"""Standard input and output, read and written by the event loop itself if they are pipes.

The SDK's own streams use a thread for each line, each write and each flush. While calls are prepared, every change of
threads waits for a processor and for the interpreter's lock: of `ping` during calls, that was most of the time.
"""

import os
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final, cast

import anyio
import anyio.lowlevel

_CHUNK: Final = 1 << 16  # bytes; as many as a pipe holds
LONGEST_LINE: Final = 64 << 20  # bytes; calls have a few kilobytes, and a line is held in memory as a whole
_UNREADABLE: Final = (
    b"\xff"  # part of no UTF-8 text, so a line with it is answered as one that cannot be parsed
)
_STANDARD: Final = (0, 1, 2)  # descriptors of stdin, stdout and stderr


class LineReader:
    """Iterates over the lines of a pipe. Reads only when the next line is wanted, so that a sender can be too fast.

    A line of more than `LONGEST_LINE` bytes is dropped as it arrives, and replaced by an unreadable one.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def __aiter__(self) -> AsyncIterator[str]:
        start = bytearray()  # of the next line
        while data := await self._read():
            *lines, rest = data.split(b"\n")
            for line in lines:
                yield (start + line + b"\n").decode("utf-8", "replace")
                start.clear()
            start += rest
            if len(start) > LONGEST_LINE:
                start[:] = _UNREADABLE
            if not lines:  # a sender that is never too slow must not occupy the event loop
                await anyio.lowlevel.checkpoint()
        if start:
            yield start.decode("utf-8", "replace")

    async def _read(self) -> bytes:
        while True:
            try:
                return os.read(self._descriptor, _CHUNK)
            except BlockingIOError:
                await anyio.wait_readable(self._descriptor)
            except ConnectionResetError:  # the other end of a socket was closed with data that nobody read
                return b""


class TextWriter:
    """Writes to a pipe. Raises BrokenPipeError if nobody reads from it any more."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def write(self, text: str) -> None:
        left = memoryview(text.encode())
        with anyio.CancelScope(shield=True):  # a message must not be cut off
            while left:
                try:
                    left = left[os.write(self._descriptor, left) :]
                except BlockingIOError:
                    await anyio.wait_writable(self._descriptor)

    async def flush(self) -> None:
        """Does nothing: `write` returns when everything is written."""


@contextmanager
def standard_streams() -> "Iterator[tuple[anyio.AsyncFile[str], anyio.AsyncFile[str]] | tuple[()]]":
    """Streams for the SDK's `stdio_server`, or none if its own must be used, as for a terminal, a file or on Windows.

    From then on, descriptor 0 is empty and descriptor 1 is stderr, so that nothing else can read or write messages.
    """
    if sys.platform == "win32" or not _are_separate_pipes():
        yield ()
        return
    reading, writing = os.dup(0), os.dup(1)  # other programs do not inherit them
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    for descriptor in (reading, writing):
        os.set_blocking(descriptor, False)
    try:
        # `stdio_server` uses no other methods of its files
        yield cast(
            "tuple[anyio.AsyncFile[str], anyio.AsyncFile[str]]", (LineReader(reading), TextWriter(writing))
        )
    finally:
        for descriptor in (reading, writing):  # programs that use the same pipes next expect to wait for them
            os.set_blocking(descriptor, True)


def _are_separate_pipes() -> bool:
    """True if stdin and stdout are pipes or sockets, and neither is shared with the other or with stderr.

    Not to wait for a pipe is a property of the pipe itself, and log messages must be able to wait for stderr.
    """
    try:
        kinds = [os.fstat(number) for number in _STANDARD]
    except OSError:  # one of them is closed
        return False
    pipes = all(stat.S_ISFIFO(kind.st_mode) or stat.S_ISSOCK(kind.st_mode) for kind in kinds[:2])
    return pipes and len({(kind.st_dev, kind.st_ino) for kind in kinds}) == len(kinds)
