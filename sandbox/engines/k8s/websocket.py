"""A container's streams over a websocket as the API speaks it (RFC 6455, `v4.channel.k8s.io`).

Invariants: nothing waits without a time limit; a frame is never cut by another one; what has arrived is given out as it is, whole
frame or not, so that memory stays bounded; after `receive`, nothing that was decrypted is left where a poll cannot see it.
"""

import base64
import contextlib
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from sandbox.engine import STDERR, STDOUT
from sandbox.engines.k8s.cluster import Cluster
from sandbox.errors import EngineUnavailable
from sandbox.waiting import writable

CONNECT_SECONDS: Final = 20.0
_STDIN: Final = b"\0"  # the channel of it
_CHANNELS: Final = "v4.channel.k8s.io"
_CHUNK: Final = 1 << 16
_RECORD: Final = 1 << 14  # bytes, the most that TLS gives at once
_AT_ONCE: Final = 1 << 20  # bytes that one `receive` reads, and what is left of a record
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10
_LONG, _LONGEST = 126, 127  # lengths that say that the length follows, in two bytes or in eight


class Refused(EngineUnavailable):
    """The API answered, but not with a websocket: `status` says why, as HTTP has it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"the cluster refused a stream ({status}): {text[:400]}")
        self.status = status


def _upgraded(cluster: Cluster, path: str) -> ssl.SSLSocket:
    """A connection that speaks websocket; the caller's from now on. Raises Refused, and EngineUnavailable."""
    place = urlsplit(cluster.server)
    with contextlib.ExitStack() as opened:
        try:
            plain = socket.create_connection((place.hostname or "", place.port or 443), CONNECT_SECONDS)
            opened.enter_context(plain)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = opened.enter_context(cluster.tls.wrap_socket(plain, server_hostname=place.hostname))
            stream.sendall(_request(cluster, path))
            status = int(_line(stream).split()[1])
            if status != HTTPStatus.SWITCHING_PROTOCOLS:
                said = stream.recv(_CHUNK).partition(b"\r\n\r\n")[2]
                raise Refused(status, said.decode("utf-8", "replace"))
            while _line(stream) != b"\r\n":
                pass
        except (OSError, ValueError, IndexError) as error:
            raise EngineUnavailable(
                f"the cluster's API at {cluster.server} does not answer: {error}"
            ) from error
        opened.pop_all()
    return stream


def _line(stream: ssl.SSLSocket) -> bytes:
    """And not a byte of what follows, which a poll could not see any more."""
    line = b""
    while not line.endswith(b"\r\n"):
        if not (one := stream.recv(1)):
            raise ConnectionError("it ended in the middle of an answer")
        line += one
    return line


def _request(cluster: Cluster, path: str) -> bytes:
    token, server = cluster.token(), urlsplit(cluster.server)
    lines = [
        # an API server behind a gateway has a path of its own, as /k8s/clusters/c-1
        f"GET {server.path}{path} HTTP/1.1",
        f"Host: {server.netloc}",
        f"Origin: {server.scheme}://{server.netloc}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
        f"Sec-WebSocket-Protocol: {_CHANNELS}",
        *([f"Authorization: Bearer {token}"] if token else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


class PodWire:
    """The attached streams of a container: a `Wire`. Closing it ends the container's stdin.

    Safe for one thread that receives beside one that sends.
    """

    def __init__(self, made: ssl.SSLSocket) -> None:
        made.settimeout(0)
        self._socket = made
        self._tls = threading.Lock()  # OpenSSL lets one thread at a time use a connection
        self._sending = threading.Lock()  # over one frame
        self._buffer = bytearray()
        self._left = 0  # bytes of the current frame that are still to come
        self._begins = True  # whether its next byte is the first one of a message, which names the channel
        self._channel = -1
        self._pongs: list[bytes] = []
        self.ended = False  # by the other side

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> list[tuple[int, bytes]] | None:
        got = 0
        try:
            while True:
                with self._tls:
                    if got >= _AT_ONCE and not self._socket.pending():
                        break
                    data = self._socket.recv(_RECORD)
                self.ended |= not data
                if not data:
                    break
                self._buffer += data
                got += len(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except (OSError, ValueError):
            self.ended = True
        pieces = list(self._pieces())
        # pings are answered here, unless a frame is on its way: who sends it answers them
        if self._pongs and self._sending.acquire(blocking=False):
            try:
                self._flush_pongs()
            finally:
                self._sending.release()
        return None if self.ended and not pieces else pieces

    def _pieces(self) -> Iterator[tuple[int, bytes]]:
        while self._left or self._next_frame():
            piece = bytes(self._buffer[: self._left])
            del self._buffer[: len(piece)]
            self._left -= len(piece)
            if piece and self._begins:
                self._channel, piece, self._begins = piece[0], piece[1:], False
            # there is a channel for the API's own errors, too: the Pod's status says more
            if piece and self._channel in (STDOUT, STDERR):
                yield self._channel, piece
            if self._left:
                return

    def _next_frame(self) -> bool:
        """Whether the head of one was there, and for a control frame the rest of it. What a server sends is never masked."""
        if len(self._buffer) < 2:
            return False
        kind, length, start = self._buffer[0] & 15, self._buffer[1] & 127, 2
        if length in (_LONG, _LONGEST):
            start = 4 if length == _LONG else 10
            if len(self._buffer) < start:
                return False
            length = int.from_bytes(self._buffer[2:start], "big")
        if kind < _CLOSE:
            del self._buffer[:start]
            self._left, self._begins = length, self._begins or kind in (_TEXT, _BINARY)
            return True
        if len(self._buffer) < start + length:
            return False
        body = bytes(self._buffer[start : start + length])
        del self._buffer[: start + length]
        if kind == _PING:
            self._pongs.append(body)
        self.ended |= kind == _CLOSE
        return kind != _CLOSE

    def _flush_pongs(self) -> None:
        while self._pongs:
            with contextlib.suppress(OSError, ValueError):
                self._write(_frame(_PONG, self._pongs.pop()), time.monotonic() + 1)

    def send(self, data: bytes, seconds: float) -> None:
        end = time.monotonic() + seconds
        for start in range(0, len(data), _CHUNK):
            with self._sending:
                self._flush_pongs()
                self._write(_frame(_BINARY, _STDIN + data[start : start + _CHUNK]), end)

    def _write(self, data: bytes, end: float) -> None:
        view = memoryview(data)
        while view:
            try:
                with self._tls:
                    view = view[self._socket.send(view) :]
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                left = end - time.monotonic()
                if left <= 0 or not writable(self._socket, left):
                    # half a frame is out: nothing can follow it
                    self.close()
                    raise TimeoutError("the other side does not take what is sent") from None

    def end(self) -> None:
        """As of a container that ended: whoever waits for it finds its end. It is still to be closed."""
        with contextlib.suppress(OSError, ValueError):
            # the connection's end alone: a TLS socket's own method would go on in plain text, in both directions
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        self.end()
        with self._tls:
            self._socket.close()


def _frame(kind: int, data: bytes) -> bytes:
    """Whole, and masked as clients must, with zeros: the mask is against proxies that take plain text for requests."""
    length, head = len(data), 0x80 | kind
    if length < _LONG:
        start = struct.pack(">BB", head, 0x80 | length)
    elif length < 1 << 16:
        start = struct.pack(">BBH", head, 0x80 | _LONG, length)
    else:
        start = struct.pack(">BBQ", head, 0x80 | _LONGEST, length)
    return start + bytes(4) + data


def attached(cluster: Cluster, pod: str, container: str) -> PodWire:
    """The streams of a Pod's container. Raises Refused until it runs."""
    asked = f"stdin=true&stdout=true&stderr=true&container={container}"
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/{pod}/attach?{asked}"
    return PodWire(_upgraded(cluster, path))
