"""Runs an ASGI application on a port, inside a task group of the caller's.

Invariants:
* who sends its request, or takes its answer, slower than a deadline is cut off, so that silent connections do not fill the
  server;
* what one connection sent is parsed in short turns, so that a body of many small chunks holds up nobody else;
* the port is bound before anything is said of it, and the address that is said is the one that is bound;
* a cancellation closes the port and returns within a bounded time.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from gdal_mcp.settings import SettingsError

HEADER_SECONDS: Final = 10.0  # for the head of a request, from the moment that its first byte may come
TAKE_SECONDS: Final = 60.0  # for what is buffered of an answer to be taken, up to where it goes on
_KEEP_SECONDS: Final = 15  # a connection between two requests
_HEAD_BYTES: Final = 32 << 10
_END_SECONDS: Final = 5  # for responses that are under way to be cut, once their requests are cancelled
_BACKLOG: Final = 256
_SLICE_BYTES: Final = (
    4 << 10
)  # parsed without a look at the clock: some ten milliseconds if each byte is a chunk
_TURN_SECONDS: Final = 0.005  # of parsing, after which others have theirs


@dataclass(frozen=True, slots=True)
class Listening:
    """Where to listen, with which certificate, and for how many connections at once."""

    host: str
    port: int
    connections: int
    tls_cert: Path | None = None
    tls_key: Path | None = None


def bind(host: str, port: int) -> socket.socket:
    """A bound socket. Raises SettingsError when the address cannot be had."""
    try:
        family, kind, number, _name, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with ExitStack() as stack:
            bound = stack.enter_context(socket.socket(family, kind, number))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            stack.pop_all()
    except OSError as error:
        raise SettingsError(
            f"{host}:{port} cannot be listened on: {error.strerror or error}. Choose another --port or --host."
        ) from error
    return bound


def require_certificate(listening: Listening) -> None:
    """Raises SettingsError for a certificate and key that cannot be used."""
    if listening.tls_cert is None:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            listening.tls_cert, listening.tls_key, password=_no_password
        )
    except (OSError, ValueError) as error:  # ssl's are OSErrors
        raise SettingsError(
            f"the certificate {listening.tls_cert} and its key cannot be used: {error}. Both are PEM files of this user, the "
            "key without a password."
        ) from error


def _no_password() -> str:
    """In the place of a prompt on a terminal, which nobody may be at."""
    raise ValueError("the key has a password")


def port_of(bound: socket.socket) -> int:
    port: int = bound.getsockname()[1]
    return port


async def serve_routes(
    app: Any,
    bound: socket.socket,
    listening: Listening,
    *,
    started: Callable[[], None],
    ending: Callable[[], None],
) -> None:
    """Serves until it is cancelled.

    `started` is called once connections are taken, `ending` when the end begins: it must cancel what the application has
    under way.
    """
    server = _Server(_config(app, listening), started)

    async def stop() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ending()
            server.should_exit = True

    async with anyio.create_task_group() as group:
        group.start_soon(stop)
        with anyio.CancelScope(shield=True):
            await server.serve(sockets=[bound])
        group.cancel_scope.cancel()


def _config(app: Any, listening: Listening) -> uvicorn.Config:
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    config = uvicorn.Config(
        app,
        http=_Patient,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # nothing here goes by who the peer is, and a header can say anything
        server_header=False,
        limit_concurrency=listening.connections,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_SECONDS,
        timeout_graceful_shutdown=_END_SECONDS,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        ssl_certfile=listening.tls_cert,
        ssl_keyfile=listening.tls_key,
    )
    config.load()
    return config


class _Server(uvicorn.Server):
    """Leaves signals to this program, and says when it takes connections."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = started

    def capture_signals(self) -> Any:
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_start()


class _Flow(FlowControl):
    """Nothing more is read while it is asked for, or while something that was read waits to be parsed."""

    _asked = False
    _held = False

    def pause_reading(self) -> None:
        self._asked = True
        self._settle()

    def resume_reading(self) -> None:
        self._asked = False
        self._settle()

    def hold(self, *, held: bool) -> None:
        self._held = held
        self._settle()

    def _settle(self) -> None:
        if self._asked or self._held:
            super().pause_reading()
        else:
            super().resume_reading()


class _Patient(H11Protocol):
    """Has a deadline for the head of each request, and for a client that takes nothing of its answer."""

    _deadline: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None
    _turn: asyncio.Handle | None = None  # the next one of parsing

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.flow = self._reading = _Flow(transport)
        self._waiting = bytearray()
        self._watch()

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        if self._turn is None:
            self._parse()

    def _parse(self) -> None:
        """As much as there is, or as can be done in one turn."""
        self._turn = None
        ends = self.loop.time() + _TURN_SECONDS
        while self._waiting and not self.transport.is_closing():
            piece = bytes(self._waiting[:_SLICE_BYTES])
            del self._waiting[:_SLICE_BYTES]
            super().data_received(piece)
            self._watch()
            if self._waiting and self.loop.time() >= ends:
                self._turn = self.loop.call_soon(self._parse)
                break
        self._reading.hold(held=self._turn is not None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._turn is not None:
            self._turn.cancel()
        super().connection_lost(exc)
        self._rest()
        self._flows()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._flows()
        self._stuck = self.loop.call_later(TAKE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._flows()

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():  # closing would wait for a client that takes nothing
            self.transport.abort()
        super().timeout_keep_alive_handler()

    def _flows(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _watch(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._rest()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _rest(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
