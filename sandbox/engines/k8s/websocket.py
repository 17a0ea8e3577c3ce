"""A container's streams over a websocket to the cluster's API (`v4.channel.k8s.io`).

wsproto implements the protocol; the socket is ours.

Invariants:
* Every wait has a time limit.
* A frame is never interrupted by another one.
* Data is passed on as it arrives, also parts of a frame, so that memory stays bounded.
* After `receive`, no decrypted data is left where a poll cannot see it.
"""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Message,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
)
from wsproto.utilities import ProtocolError

from sandbox.engine import STDERR, STDOUT
from sandbox.engines.k8s.cluster import Cluster
from sandbox.errors import EngineUnavailable
from sandbox.waiting import writable

CONNECT_SECONDS: Final = 20.0
_STDIN: Final = b"\0"  # channel number of stdin
_CHANNELS: Final = "v4.channel.k8s.io"
_CHUNK: Final = 1 << 16
_RECORD: Final = 1 << 14  # bytes, the most that TLS returns at once
_AT_ONCE: Final = 1 << 20  # bytes; one `receive` reads up to this size and the rest of a TLS record


class StreamRefused(EngineUnavailable):
    """The API answered with an HTTP error instead of a websocket; `status` is its HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"the cluster refused a stream ({status}): {text[:400]}")
        self.status = status


def connect(cluster: Cluster, path: str) -> "PodWire":
    """Opens the streams at a path of the API.

    Raises StreamRefused, and EngineUnavailable if the API does not answer.
    """
    server = urlsplit(cluster.server)
    with contextlib.ExitStack() as opened:
        try:
            plain = socket.create_connection((server.hostname or "", server.port or 443), CONNECT_SECONDS)
            opened.enter_context(plain)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = opened.enter_context(cluster.tls.wrap_socket(plain, server_hostname=server.hostname))
            protocol = WSConnection(ConnectionType.CLIENT)
            stream.sendall(protocol.send(_request(cluster, path)))
            _complete_handshake(stream, protocol)
        except (OSError, ValueError, ProtocolError) as error:
            raise EngineUnavailable(
                f"the cluster's API at {cluster.server} does not answer: {error}"
            ) from error
        opened.pop_all()
    return PodWire(stream, protocol)


def _request(cluster: Cluster, path: str) -> Request:
    token, server = cluster.token(), urlsplit(cluster.server)
    headers = [(b"Origin", f"{server.scheme}://{server.netloc}".encode())]
    if token:
        headers.append((b"Authorization", f"Bearer {token}".encode()))
    # an API server behind a gateway has a base path, such as /k8s/clusters/c-1
    target = f"{server.path}{path}"
    return Request(host=server.netloc, target=target, subprotocols=[_CHANNELS], extra_headers=headers)


def _complete_handshake(stream: ssl.SSLSocket, protocol: WSConnection) -> None:
    """Reads the API's response to the upgrade request. Raises StreamRefused for an HTTP error."""
    protocol.receive_data(_read_head(stream))
    answer, *body = protocol.events()
    if isinstance(answer, AcceptConnection):
        return
    if not body:
        protocol.receive_data(stream.recv(_CHUNK))
        body = list(protocol.events())
    text = b"".join(event.data for event in body if isinstance(event, RejectData))
    status = answer.status_code if isinstance(answer, RejectConnection) else 0
    raise StreamRefused(status, text.decode("utf-8", "replace"))


def _read_head(stream: ssl.SSLSocket) -> bytes:
    """Reads the head of a response and no byte after it, because a poll could not see bytes that were read already."""
    head = b""
    while not head.endswith(b"\r\n\r\n") and len(head) < _CHUNK:
        byte = stream.recv(1)
        if not byte:
            raise ConnectionError("the connection ended in the middle of an answer")
        head += byte
    return head


class PodWire:
    """The attached streams of a container: an `AttachedStreams`. Closing it ends the container's stdin.

    One thread may receive while another one sends.
    """

    def __init__(self, stream: ssl.SSLSocket, protocol: WSConnection) -> None:
        stream.settimeout(0)
        self._socket = stream
        self._protocol = protocol
        self._tls = threading.Lock()  # OpenSSL allows one thread at a time to use a connection
        self._sending = threading.Lock()  # held while one frame is sent
        self._channel: int | None = None  # channel of the current message, from its first byte
        self._pings: list[Ping] = []  # received and not yet answered
        self.ended = False  # True if the other side has ended the stream

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> list[tuple[int, bytes]] | None:
        pieces = list(self._pieces(self._read()))
        # pings are answered here, unless another thread is sending; the next send then answers them
        if self._pings and self._sending.acquire(blocking=False):
            try:
                self._answer_pings()
            finally:
                self._sending.release()
        return None if self.ended and not pieces else pieces

    def _read(self) -> bytes:
        """Reads and decrypts all available data. It stops only where TLS has no decrypted data left."""
        read = bytearray()
        try:
            while True:
                with self._tls:
                    if len(read) >= _AT_ONCE and not self._socket.pending():
                        break
                    data = self._socket.recv(_RECORD)
                if not data:
                    self.ended = True
                    break
                read += data
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except (OSError, ValueError):
            self.ended = True
        return bytes(read)

    def _pieces(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        self._protocol.receive_data(data)
        for event in self._protocol.events():
            if isinstance(event, Ping):
                self._pings.append(event)
            elif isinstance(event, BytesMessage):
                yield from self._output(event)
            elif isinstance(event, CloseConnection):  # also after data that is not a valid websocket frame
                self.ended = True

    def _output(self, event: BytesMessage) -> Iterator[tuple[int, bytes]]:
        data = bytes(event.data)
        if data and self._channel is None:
            self._channel, data = data[0], data[1:]
        # the API's channel for its own errors is ignored, because the Pod's status has more detail
        if data and self._channel in (STDOUT, STDERR):
            yield self._channel, data
        if event.message_finished:
            self._channel = None

    def send(self, data: bytes, seconds: float) -> None:
        end = time.monotonic() + seconds
        for start in range(0, len(data), _CHUNK):
            with self._sending:
                self._answer_pings()
                self._write(Message(data=_STDIN + data[start : start + _CHUNK]), end)

    def _answer_pings(self) -> None:
        while self._pings:
            with contextlib.suppress(OSError, ValueError):
                self._write(Pong(payload=self._pings.pop().payload), time.monotonic() + 1)

    def _write(self, event: Event, end: float) -> None:
        """Sends one frame before `end`, a time of the monotonic clock.

        Raises OSError, and TimeoutError after closing the connection.
        """
        try:
            view = memoryview(self._protocol.send(event))
        except ProtocolError as error:
            raise ConnectionError("the other side ended the stream") from error
        while view:
            try:
                with self._tls:
                    view = view[self._socket.send(view) :]
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                left = end - time.monotonic()
                if left <= 0 or not writable(self._socket, left):
                    # after half a frame, nothing else can be sent
                    self.close()
                    raise TimeoutError("the other side does not take what is sent") from None

    def end(self) -> None:
        """Shuts the connection down, so that a reader sees the end of the stream. `close` must still be called."""
        with contextlib.suppress(OSError, ValueError):
            # shuts only the TCP connection: the shutdown of a TLS socket would continue in plain text in both
            # directions
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        self.end()
        with self._tls:
            self._socket.close()


def attach(cluster: Cluster, pod: str, container: str) -> PodWire:
    """Attaches to the streams of a Pod's container. Raises StreamRefused until the container runs."""
    query = f"stdin=true&stdout=true&stderr=true&container={container}"
    return connect(cluster, f"/api/v1/namespaces/{cluster.namespace}/pods/{pod}/attach?{query}")
