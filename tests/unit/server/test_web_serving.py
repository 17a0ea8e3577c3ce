"""An application on a port: slow and silent clients are disconnected, and shutdown is complete."""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest
from anyio.from_thread import start_blocking_portal

from gdal_mcp.server.http import arrivals, server, serving
from gdal_mcp.server.http.concurrency import RequestLimit
from gdal_mcp.server.http.guard import HostFilter
from gdal_mcp.server.http.serving import ListenOptions, bind, serve_routes
from gdal_mcp.settings import SettingsError, load_settings
from tests.certificates import self_signed
from tests.waiting import until

GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
ANY = ("/", "/stream", "/length", "/flood")
TINY = b"1\r\nx\r\n"  # a chunk of one byte


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "SWEEP_SECONDS", 0.02)


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers at once, with a stream that ends when its client disconnects, or with the length of the whole body."""
    if scope["path"] == "/length":
        await _length(receive, send)
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok", "more_body": scope["path"] != "/"})
    for _ in range(64 if scope["path"] == "/flood" else 0):
        await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
        await anyio.lowlevel.checkpoint()
    while scope["path"] == "/stream" and (await receive())["type"] != "http.disconnect":
        pass


async def _length(receive: Any, send: Any) -> None:
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": f"[{size}]".encode()})


@contextmanager
def served(
    connections: int = 50,
    gate: RequestLimit | None = None,
    tls: Mapping[str, Path] | None = None,
    each: int = 64,
) -> Iterator[tuple[int, Callable[[], None]]]:
    """The port, and a function that stops the server and returns when it has stopped."""
    gate = gate or RequestLimit(50, 50)
    filtered = HostFilter(app, gate, (), (), ANY)
    bound, up = bind("127.0.0.1", 0), threading.Event()
    port = bound.getsockname()[1]
    listening = ListenOptions(connections, each, **(tls or {}))

    async def run(scope: anyio.CancelScope) -> None:
        with scope:
            await serve_routes(filtered, bound, listening, started=up.set, ending=gate.close)

    with start_blocking_portal() as portal:
        scope = portal.call(anyio.CancelScope)
        ended = portal.start_task_soon(run, scope)
        assert up.wait(30)

        def end() -> None:
            portal.call(scope.cancel)
            ended.result(30)

        try:
            yield port, end
        finally:
            end()


def closed(connection: socket.socket) -> bool:
    """True if the server closed the connection, after any answer."""
    connection.settimeout(30)
    with suppress(ConnectionResetError):
        while connection.recv(4096):
            pass
    return True


@pytest.mark.claim("http.bounded")
def test_missing_header_is_not_awaited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(serving, "HEADER_SECONDS", 0.1)
    with served() as (port, _end):
        for sent in (b"", GET, GET[:7]):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(sent)
                assert closed(connection), sent


@pytest.mark.claim("http.bounded")
def test_client_that_reads_no_answer_is_disconnected(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(serving, "WRITE_SECONDS", 0.2)
    gate = RequestLimit(9, 9)
    with served(gate=gate) as (port, _end), socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", port))
        connection.sendall(GET.replace(b"/", b"/flood", 1) + b"\r\n")
        until(lambda: len(gate._open) == 1)
        until(lambda: len(gate._open) == 0)


@pytest.mark.claim("http.bounded")
def test_trickling_header_is_not_awaited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(serving, "HEADER_SECONDS", 0.3)
    pause = threading.Event()
    with served() as (port, _end), socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(GET)

        def cut_off() -> bool:
            pause.wait(0.05)
            try:
                connection.sendall(b"X: y\r\n")
            except OSError:
                return True
            return False

        until(cut_off)


def test_second_header_of_connection_has_a_deadline_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(serving, "HEADER_SECONDS", 1.0)
    with served() as (port, _end), socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(GET + b"\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        connection.sendall(GET)
        assert closed(connection)


def test_a_slow_answer_is_no_slow_question(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(serving, "HEADER_SECONDS", 1.0)
    gate = RequestLimit(9, 9)
    with served(gate=gate) as (port, _end), httpx2.stream("GET", f"http://127.0.0.1:{port}/stream") as answer:
        parts = answer.iter_raw()
        assert next(parts) == b"ok"
        with socket.create_connection(("127.0.0.1", port)) as silent:
            assert closed(silent)  # so the deadline of the first has passed too
        assert len(gate._open) == 1
        del parts


@pytest.mark.claim("http.bounded")
def test_a_head_without_end_is_refused():
    with served() as (port, _end), socket.create_connection(("127.0.0.1", port)) as connection:
        with suppress(OSError):
            connection.sendall(GET + b"X: " + b"y" * (200 << 10))
        connection.settimeout(30)
        with suppress(ConnectionResetError):
            assert b" 200 " not in connection.recv(4096)


def test_shutdown_completes_open_streams_and_closes_the_port():
    with served() as (port, end), httpx2.stream("GET", f"http://127.0.0.1:{port}/stream") as answer:
        parts = answer.iter_raw()
        assert next(parts) == b"ok"
        ending = threading.Thread(target=end)
        ending.start()
        assert list(parts) == []  # not an error: the stream was ended, not cut off
        ending.join(30)
        assert not ending.is_alive()
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=5)


@pytest.mark.claim("http.bounded")
def test_excess_requests_are_informed_and_room_returns():
    gate = RequestLimit(2, 50)
    with served(gate=gate) as (port, _end):
        url = f"http://127.0.0.1:{port}"
        with httpx2.stream("GET", f"{url}/stream"), httpx2.stream("GET", f"{url}/stream"):
            until(lambda: len(gate._open) == 2)
            refused = httpx2.get(url)
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) > 0
        until(lambda: httpx2.get(url).status_code == 200)


def test_occupied_port_is_a_settings_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SettingsError):
            bind("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(SettingsError):
        bind("no.such.host.invalid", 0)


def asking(path: str, head: str) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode()


def read_response(client: socket.socket, until_end: bytes = b"") -> bytes:
    """All data until the end of the connection, or until these bytes."""
    received = b""
    while not (until_end and until_end in received):
        piece = client.recv(65536)
        if not piece:
            break
        received += piece
    return received


@pytest.mark.claim("http.nobody-read-on")
@pytest.mark.parametrize("head", ["Transfer-Encoding: chunked", "Content-Length: 1000000"])
def test_early_answer_before_body_end_closes_the_connection(head: str):
    with served() as (port, _), socket.create_connection(("127.0.0.1", port), 5) as client:
        client.sendall(asking("/", head) + TINY)
        # to its end: if it does not end, the timeout fails the test after some seconds
        received = read_response(client)
    assert received.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in received.lower()


def test_fully_read_body_leaves_the_connection_open():
    with served() as (port, _), socket.create_connection(("127.0.0.1", port), 30) as client:
        for _ in range(2):
            client.sendall(asking("/length", "Content-Length: 3") + b"abc")
            assert b"connection: close" not in read_response(client, b"[3]").lower()


def test_long_body_and_next_request_arrive_complete():
    size = 3 << 20
    with served() as (port, _), socket.create_connection(("127.0.0.1", port), 30) as client:
        first, second = (asking("/length", f"Content-Length: {length}") for length in (size, 5))
        client.sendall(first + bytes(size) + second + b"abcde")
        received = read_response(client, b"[5]")
    assert f"[{size}]".encode() in received


def silent(port: int, stack: ExitStack, number: int, peer: str = "127.0.0.1") -> list[socket.socket]:
    """Connections of one peer on which no data is sent."""
    connections = []
    for _ in range(number):
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), 30, (peer, 0)))
        connection.settimeout(30)
        connections.append(connection)
    return connections


def answered(port: int, peer: str = "127.0.0.1") -> bool:
    with socket.create_connection(("127.0.0.1", port), 30, (peer, 0)) as connection:
        connection.sendall(GET + b"\r\n")
        return connection.recv(4096).startswith(b"HTTP/1.1 200")


def is_open(connection: socket.socket) -> bool:
    """True if a request on it is answered."""
    received = b""
    with suppress(OSError):
        connection.sendall(GET + b"\r\n")
        while not received.endswith(b"0\r\n\r\n") and (piece := connection.recv(4096)):
            received += piece
    return received.startswith(b"HTTP/1.1 200")


@pytest.mark.claim("http.silence-keeps-nobody-out")
def test_silent_connections_keep_nobody_out(monkeypatch: pytest.MonkeyPatch):
    """However many connections one peer opens, requests of the same peer and of others are answered meanwhile."""
    monkeypatch.setattr(serving, "HEADER_SECONDS", 600.0)  # by the limit, not by the deadline
    with served(connections=60) as (port, _end), ExitStack() as stack:
        for _ in range(6):
            silent(port, stack, 50)
            assert all(answered(port, peer) for peer in ("127.0.0.1", "127.0.0.2"))


@pytest.mark.claim("http.silence-keeps-nobody-out")
def test_oldest_silent_connection_of_same_peer_makes_room(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(serving, "HEADER_SECONDS", 600.0)
    monkeypatch.setattr(serving, "_KEEP_SECONDS", 600)
    with served(connections=20, each=10) as (port, _end), ExitStack() as stack:
        [other] = silent(port, stack, 1, "127.0.0.2")
        mine = silent(port, stack, 30)
        for connection in mine[:20]:
            assert closed(connection)
        assert is_open(mine[-1])
        assert is_open(other)
        # many peers: the one with the most connections loses its oldest
        for number in range(3, 14):
            silent(port, stack, 1, f"127.0.0.{number}")
        assert closed(mine[20])
        assert is_open(other)


@pytest.mark.claim("http.silence-keeps-nobody-out")
def test_clients_behind_one_address_keep_allowed_connections(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(serving, "HEADER_SECONDS", 600.0)
    settings = load_settings(workspaces=(str(tmp_path),), http_silent_each=90)
    listening = server._listening(settings)
    with (
        served(connections=listening.silent, each=listening.silent_each) as (port, _end),
        ExitStack() as stack,
    ):
        clients = silent(port, stack, 90)
        assert all(map(is_open, clients))
        newcomers = silent(port, stack, 91)
        assert closed(newcomers[0])
    assert server._listening(settings.model_copy(update={"behind_proxy": True})).silent_each == 256


@pytest.mark.claim("http.silence-keeps-nobody-out")
def test_what_is_being_answered_is_not_silent():
    gate = RequestLimit(9, 9)
    with served(connections=5, gate=gate) as (port, _end), ExitStack() as stack:
        answer = stack.enter_context(httpx2.stream("GET", f"http://127.0.0.1:{port}/stream"))
        parts = answer.iter_raw()
        assert next(parts) == b"ok"
        silent(port, stack, 40)
        assert answered(port)
        until(lambda: len(gate._open) == 1)
        del parts


@pytest.mark.claim("http.silence-keeps-nobody-out")
def test_missing_tls_handshake_is_not_awaited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(serving, "HEADER_SECONDS", 0.1)
    certificate, both = self_signed(tmp_path, "localhost")
    with served(tls={"tls_cert": certificate, "tls_key": both}) as (port, _end):
        for sent in (b"", b"\x16\x03\x01\x02\x00\x01"):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(sent)
                assert closed(connection)


def test_peers_are_addresses_or_networks():
    same = [("10.0.0.1", "10.0.0.1"), ("2001:db8::1", "2001:db8::ffff:1"), ("fe80::1%eth0", "fe80::2%eth1")]
    different = [
        ("10.0.0.1", "10.0.0.2"),
        ("2001:db8::1", "2001:db8:0:1::1"),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2"),
    ]
    assert all(arrivals.peer_of((a, 1)) == arrivals.peer_of((b, 2)) for a, b in same)
    assert not any(arrivals.peer_of((a, 1)) == arrivals.peer_of((b, 1)) for a, b in different)


@pytest.mark.claim("http.bounded")
@pytest.mark.parametrize(
    "head",
    [
        b"X: " + b"y" * 40_000 + b"\r\n",
        b"".join(b"X-%d: y\r\n" % number for number in range(500)),
        b"".join(b"X-%d: %s\r\n" % (number, b"y" * 1000) for number in range(40)),
    ],
)
def test_a_head_beyond_its_bounds_is_refused(head: bytes):
    with served() as (port, _end), socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(30)
        connection.sendall(GET + head + b"\r\n")
        received = b""
        with suppress(ConnectionResetError):
            while piece := connection.recv(4096):
                received += piece
        assert received.split(b" ")[1] in (b"431", b"400")


@pytest.mark.claim("http.bounded")
def test_a_request_line_beyond_its_bounds_is_refused():
    with served() as (port, _end), socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(30)
        connection.sendall(b"GET /?" + b"y" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(4096).split(b" ")[1] in (b"431", b"400")
