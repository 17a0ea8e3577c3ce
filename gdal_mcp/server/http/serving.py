"""Runs an ASGI application on a port, in the caller's task group.

Invariants:
* a client is disconnected if it misses a deadline, for sending the head of a request or for reading its response;
* connections without a request are bounded, in total and for each peer, and keep no other peer out (`arrivals`);
* the port is bound before its address is announced;
* a cancellation closes the port and returns within a bounded time.
"""

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
from starlette.types import Receive, Scope, Send

from gdal_mcp.server.http.arrivals import ListeningSocket, SilentConnections
from gdal_mcp.settings import SettingsError

# seconds for the head of a request, from the start of the connection or the end of the previous response
HEADER_SECONDS: Final = 5.0
WRITE_SECONDS: Final = 60.0  # seconds within which the client must read some of a response
SWEEP_SECONDS: Final = 1.0  # seconds between two checks of the connections
_KEEP_SECONDS: Final = 5  # seconds that a connection may be idle between two requests
_HEAD_BYTES: Final = 32 << 10
_END_SECONDS: Final = 5  # seconds for open responses to end after their requests are cancelled


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """The options for listening.

    `silent` bounds the connections without a request, `silent_each` those of one peer.
    """

    silent: int
    silent_each: int
    tls_cert: Path | None = None
    tls_key: Path | None = None


def bind(host: str, port: int) -> ListeningSocket:
    """A bound socket. Raises SettingsError if the address is not available."""
    try:
        family, kind, number, _name, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with ExitStack() as stack:
            bound = stack.enter_context(ListeningSocket(family, kind, number))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            stack.pop_all()
    except OSError as error:
        raise SettingsError(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. Choose another --port or --host."
        ) from error
    return bound


def require_certificate(tls_cert: Path | None, tls_key: Path | None) -> None:
    """Raises SettingsError for a certificate and key that cannot be used."""
    if tls_cert is None:
        return

    def no_password() -> str:  # without this function, OpenSSL would prompt on the terminal
        raise ValueError("the key has a password")

    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            tls_cert, tls_key, password=no_password
        )
    except (OSError, ValueError) as error:  # errors of ssl are OSErrors
        raise SettingsError(
            f"the certificate {tls_cert} and its key cannot be used: {error}. Both must be PEM files that this user "
            "can read, the key without a password."
        ) from error


async def serve_routes(
    app: Any,
    bound: ListeningSocket,
    listening: ListenOptions,
    *,
    started: Callable[[], None],
    ending: Callable[[], None],
) -> None:
    """Serves until it is cancelled.

    `started` is called when connections are accepted. `ending` is called at the start of the shutdown, and must
    cancel the application's open requests.
    """
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    silent = bound.silent = SilentConnections(listening.silent, min(listening.silent_each, listening.silent))

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        with silent.answering((client[0], client[1]) if client else None):
            await app(scope, receive, send)

    config = _uvicorn_config(answering, listening)
    config.load()
    server = _Server(config, started)

    async def until_cancelled() -> None:
        try:
            await _disconnect_slow_clients(server, silent)
        finally:
            ending()
            server.should_exit = True

    async with anyio.create_task_group() as group:
        group.start_soon(until_cancelled)
        with anyio.CancelScope(shield=True):
            await server.serve(sockets=[bound])
        group.cancel_scope.cancel()


def _uvicorn_config(app: Any, listening: ListenOptions) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # a client can put any address into such a header
        server_header=False,
        backlog=256,
        timeout_keep_alive=_KEEP_SECONDS,
        timeout_graceful_shutdown=_END_SECONDS,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        ssl_certfile=listening.tls_cert,
        ssl_keyfile=listening.tls_key,
    )


class _Server(uvicorn.Server):
    """A server that does not handle signals, and reports when it accepts connections."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = started

    def capture_signals(self) -> Any:
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_start()


async def _disconnect_slow_clients(server: uvicorn.Server, silent: SilentConnections) -> None:
    """Disconnects clients that miss a deadline.

    Uvicorn bounds only the time between two requests; it waits forever for request heads and slow readers.
    """
    states: dict[Any, tuple[object, float]] = {}  # by connection: its state, and since when it has it
    while True:
        await anyio.sleep(SWEEP_SECONDS)
        silent.end_unasked(
            HEADER_SECONDS
        )  # including connections in their TLS handshake, which uvicorn does not know yet
        now = anyio.current_time()
        before, states = states, {}
        connections: set[Any] = server.server_state.connections  # uvicorn's H11Protocol
        for connection in tuple(connections):
            unsent = connection.transport.get_write_buffer_size()
            answering = connection.cycle is not None and not connection.cycle.response_complete
            if answering and not unsent:
                continue
            state = unsent or "no request"
            known, since = before.get(connection, (state, now))
            states[connection] = (state, since if known == state else now)
            if now - states[connection][1] >= (WRITE_SECONDS if unsent else HEADER_SECONDS):
                connection.transport.abort()
