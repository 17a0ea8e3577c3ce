"""The streams of a container as three pipes."""

import contextlib
import io
import os
import select
from typing import Final

from sandbox.engine import STDERR, STDOUT
from sandbox.waiting import write_all

_CHUNK: Final = 1 << 18


class PipeStreams:
    """Our ends of a container's stdin, stdout and stderr. `fileno` is readable if stdout or stderr is."""

    def __init__(self, stdin: int, stdout: int, stderr: int) -> None:
        for descriptor in (stdin, stdout, stderr):
            os.set_blocking(descriptor, False)
        self._stdin = io.FileIO(stdin, "w")
        self._open = {STDOUT: io.FileIO(stdout, "r"), STDERR: io.FileIO(stderr, "r")}
        self._streams = {file.fileno(): stream for stream, file in self._open.items()}
        self._files = (self._stdin, *self._open.values())
        self._epoll = select.epoll()
        for number in self._streams:
            self._epoll.register(number, select.EPOLLIN)

    def fileno(self) -> int:
        return -1 if self._epoll.closed else self._epoll.fileno()

    def receive(self) -> list[tuple[int, bytes]] | None:
        pieces: list[tuple[int, bytes]] = []
        try:
            for number, _ in self._epoll.poll(0):
                stream = self._streams[number]
                data = self._open[stream].read(_CHUNK)
                if data:
                    pieces.append((stream, data))
                elif data is not None:  # end of the stream
                    if len(self._open) == 1:
                        # all streams have ended; the last one stays registered, so that it remains readable
                        return pieces or None
                    self._epoll.unregister(number)
                    del self._open[stream]
        except (OSError, ValueError):  # the streams were closed, possibly by another thread
            return None
        return pieces

    def send(self, data: bytes, seconds: float) -> None:
        try:
            write_all(self._stdin, self._stdin.write, data, seconds)
        except ValueError as error:  # the streams were closed, possibly by another thread
            raise BrokenPipeError("the streams of the container were closed") from error

    def close(self) -> None:
        self._epoll.close()
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()


def piped() -> tuple[PipeStreams, tuple[int, int, int]]:
    """Our ends of three new pipes, and the container's ends, which its runtime passes on.

    Once the runtime has them, close the container's ends here; otherwise the end of a stream is never detected.
    """
    (reading, stdin), (stdout, writing), (stderr, writing_too) = (os.pipe2(os.O_CLOEXEC) for _ in range(3))
    return PipeStreams(stdin, stdout, stderr), (reading, writing, writing_too)
