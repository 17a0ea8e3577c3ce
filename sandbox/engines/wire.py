"""The attached streams of Docker's API (stdout and stderr on one connection), and the errors of its SDK."""

import contextlib
import os
import socket
import struct
import traceback
from collections.abc import Iterator
from typing import Any, Final

import docker.errors
import urllib3.exceptions

from sandbox.errors import EngineUnavailable
from sandbox.waiting import write_all

HEADER: Final = struct.Struct(">BxxxI")  # number of the stream (stdout or stderr), length of the frame
_CHUNK: Final = 1 << 18


class DockerStreams:
    """Demultiplexes an attached connection. `stream` is a socket, or an object of the SDK around one."""

    def __init__(self, stream: Any) -> None:
        # a reference is kept, because garbage collection would close the connection under the duplicate
        self._stream = stream
        self._socket = socket.socket(fileno=os.dup(stream.fileno()))
        self._socket.settimeout(0)
        self._buffer = bytearray()

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> list[tuple[int, bytes]] | None:
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        self._buffer += data
        pieces = []
        # partial frames are passed on as they arrive, so that a long frame does not fill the memory
        while len(self._buffer) >= HEADER.size:
            kind, length = HEADER.unpack_from(self._buffer)
            have = min(length, len(self._buffer) - HEADER.size)
            if have == 0 and length:
                break
            pieces.append((kind, bytes(self._buffer[HEADER.size : HEADER.size + have])))
            del self._buffer[: HEADER.size + have]
            if have < length:
                self._buffer[:0] = HEADER.pack(kind, length - have)
        return pieces

    def send(self, data: bytes, seconds: float) -> None:
        write_all(self._socket, self._socket.send, data, seconds)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        # closing the SDK's object leaves the connection under it open; the response is closed first, because otherwise
        # it would flush a connection that is already closed
        inner = [getattr(self._stream, name, None) for name in ("_response", "_sock")]
        for connection in (inner[0], self._stream, inner[1]):
            if connection is not None:
                with contextlib.suppress(OSError):
                    connection.close()


@contextlib.contextmanager
def translate_errors(doing: str) -> Iterator[None]:
    """Raises EngineUnavailable for errors of the SDK and its HTTP stack. All errors of requests are OSErrors."""
    try:
        yield
    except docker.errors.APIError as error:
        raise EngineUnavailable(
            f"the container engine refused when {doing}: {error.explanation or error}"
        ) from error
    except (docker.errors.DockerException, urllib3.exceptions.HTTPError, OSError) as error:
        below: BaseException | None = error
        while below is not None:
            _close_refused(below)
            traceback.clear_frames(below.__traceback__)
            below = below.__cause__ or below.__context__
        raise EngineUnavailable(
            f"the container engine does not answer (when {doing}). Start it, then try again."
        ) from error


def _close_refused(error: BaseException) -> None:
    """Closes the socket of a refused connection.

    The SDK leaves it open while the error is referenced, which is too long for a server that retries a silent engine.
    """
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__") == "docker.transport.unixconn":
            for value in frame.f_locals.values():
                if isinstance(value, socket.socket):
                    value.close()
