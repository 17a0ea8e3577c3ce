"""`gdal-mcp serve --transport http`: everything that one such server is made of, from its start to its end."""

import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial

import anyio
from starlette.routing import BaseRoute

from gdal_mcp.access.tokens import TokenStore
from gdal_mcp.app import App, local_user
from gdal_mcp.approval.waiting import ConsoleUrl
from gdal_mcp.console.hosted import console_routes, home_url
from gdal_mcp.http import address
from gdal_mcp.http.bearer import StaticTokens, Verifier, Verifiers
from gdal_mcp.http.gate import Gate
from gdal_mcp.http.guard import Door, Names
from gdal_mcp.http.serving import Listening, bind, port_of, require_certificate, serve_routes
from gdal_mcp.mcp.background import end_on_signal, get_ready, reap
from gdal_mcp.mcp.http import Bounds, Protocol
from gdal_mcp.settings import Settings
from gdal_mcp.web.app import METADATA_PATH, Front, compose, metadata_route, protocol_route
from gdal_mcp.web.exchange import file_routes
from gdal_mcp.web.files import FILES_PATH
from gdal_mcp.web.health import HEALTH_PATH, READY_PATH, Metrics, Watch, health_routes, look, metrics_route
from gdal_mcp.web.issuers import Issuer, Keys
from gdal_mcp.web.oauth import SignedTokens
from gdal_mcp.web.protocol import Counter

# the routes of one more part, from what all parts share and the address that clients know
More = Callable[[App, Front, str], Sequence[BaseRoute]]


def prepare(settings: Settings) -> socket.socket:
    """The bound socket of a server that is safe to start. Raises SettingsError, TokensUnavailable."""
    address.require_safe(settings, tokens=bool(TokenStore(settings.state.tokens).all()))
    for text in settings.issuers:
        Issuer.parsed(text)
    require_certificate(_listening(settings))
    return bind(settings.host, settings.port)


def console_url(settings: Settings, bound: socket.socket) -> ConsoleUrl:
    """Where calls of a server on this socket can be approved."""
    home = home_url(settings, port_of(bound))

    async def url(_needed: bool) -> str | None:  # noqa: FBT001 - as ConsoleUrl has it
        return home

    return url


async def serve(app: App, bound: socket.socket, more: Sequence[More] = (file_routes,)) -> None:
    """Serves until a signal, which cancels every call, waits for their containers and ends the process."""
    port = port_of(bound)
    protocol = _protocol(app, port)
    front = _front(app.settings, port)
    url = address.base_url(app.settings, port)
    routes = [
        *_routes(app, front, protocol, port),
        *(route for one in more for route in one(app, front, url)),
    ]
    async with anyio.create_task_group() as group:
        serving = anyio.CancelScope()
        group.start_soon(end_on_signal, serving, app)
        group.start_soon(get_ready, app)
        group.start_soon(reap, app)
        with serving:
            async with protocol.running():
                await serve_routes(
                    compose(front, routes, (HEALTH_PATH, READY_PATH)),
                    bound,
                    _listening(app.settings),
                    started=lambda: _say(app.settings, port),
                    ending=front.gate.close,
                )
        if serving.cancel_called:
            await anyio.sleep_forever()  # until the process is ended: calls may still be on their way out
        group.cancel_scope.cancel()


def _protocol(app: App, port: int) -> Protocol:
    settings = app.settings
    return Protocol(
        app,
        Bounds(
            hosts=address.hosts(settings, port),
            origins=address.origins(settings, port),
            body_bytes=settings.body_size,
            sessions=settings.http_sessions,
            sessions_each=settings.http_sessions_each,
            idle_seconds=settings.http_idle_seconds,
            downloads=address.base_url(settings, port) + FILES_PATH,
        ),
    )


def _front(settings: Settings, port: int) -> Front:
    gate = Gate(settings.http_requests, settings.http_requests_each)
    verifier = None
    if not settings.no_auth:
        verifier = Verifiers(StaticTokens(TokenStore(settings.state.tokens)), _signed(settings, port))
    metadata = address.base_url(settings, port) + METADATA_PATH if settings.issuers else ""
    local = local_user()
    names = Names(address.hosts(settings, port), address.origins(settings, port))
    return Front(Door(verifier, local, gate, metadata), gate, names)


def _signed(settings: Settings, port: int) -> Verifier | None:
    if not settings.issuers:
        return None
    issuers = [Issuer.parsed(text) for text in settings.issuers]
    return SignedTokens({one.name: Keys(one) for one in issuers}, address.resource(settings, port))


def _routes(app: App, front: Front, protocol: Protocol, port: int) -> list[BaseRoute]:
    settings = app.settings
    writing = frozenset(name for name, tool in app.surface.callable.items() if tool.writes)
    counter = Counter(protocol, front.door, writing, settings.body_size)
    watch = Watch(partial(look, app))
    routes = [
        protocol_route(front, counter),
        *health_routes(watch),
        metrics_route(Metrics(app, watch), front.door, free=settings.metrics_are_free),
        *console_routes(app, port, front.door.principal),
    ]
    if settings.issuers:
        routes.append(
            metadata_route(
                address.resource(settings, port), [one.partition(" ")[0] for one in settings.issuers]
            )
        )
    return routes


def _listening(settings: Settings) -> Listening:
    connections = settings.http_requests * 2  # idle ones are connections too
    return Listening(settings.host, settings.port, connections, settings.tls_cert, settings.tls_key)


def _say(settings: Settings, port: int) -> None:
    """Where it is, for people on stderr and for programs on stdout."""
    url = address.resource(settings, port)
    auth = "none: whoever reaches the port is the local user" if settings.no_auth else "tokens"
    sys.stderr.write(f"gdal-mcp: serving {url} (authentication: {auth})\n")
    sys.stdout.write(url + "\n")
    sys.stdout.flush()
