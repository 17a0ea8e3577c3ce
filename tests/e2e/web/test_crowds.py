"""Many users at once, and some who never finish: they only delay themselves."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import pytest

from gdal_mcp.policy.identity import ADMIN, APPROVE, READ
from gdal_mcp.server.console.auth import MAX_PENDING_LOGINS
from tests.e2e.console.kit import origin, plain
from tests.e2e.mcp.talk import HELLO, Place
from tests.e2e.web.hosted import Hosted, bearer, hosting
from tests.e2e.web.raw import ACCEPT
from tests.waiting import until

pytestmark = pytest.mark.engine

EACH = 2  # sessions of one principal
OPEN = MAX_PENDING_LOGINS + 4  # requests at once


@pytest.fixture(scope="module")
def small(grounds: Path) -> Iterator[Hosted]:
    """A server with little capacity and without an engine, because no request here needs one."""
    options = ("--http-sessions-each", str(EACH), "--http-requests", str(OPEN), "--console", "on")
    place = Place.made(grounds / "small")
    with hosting(place, grounds / "small.log", *options, "--engine", "unix:///nonexistent.sock") as hosted:
        yield hosted


def opening(server: Hosted, token: str, stack: ExitStack) -> tuple[socket.socket, bytes]:
    """A request to open a session, sent without its last byte."""
    connection = stack.enter_context(server.connected())
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})
    headers = {**ACCEPT, **bearer(token), "Host": server.host, "Content-Length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    request = f"POST /mcp HTTP/1.1\r\n{head}\r\n{body}".encode()
    connection.sendall(request[:-1])
    return connection, request[-1:]


@pytest.mark.claim("http.bounded")
def test_simultaneous_session_requests_respect_the_bound(small: Hosted):
    number = 12
    token = small.token("crowd")
    with ExitStack() as stack:
        asking = [opening(small, token, stack) for _ in range(number)]
        assert small.request("GET", "/healthz").status_code == 200  # the server has received them all
        for connection, last in asking:
            connection.sendall(last)
        statuses = [connection.recv(4096).split(b" ")[1] for connection, _ in asking]
        # a new session may count twice for a moment, so fewer may be accepted at once
        opened = statuses.count(b"200")
        assert 1 <= opened <= EACH
        assert statuses.count(b"429") == number - opened
        for room in [b"200"] * (EACH - opened) + [b"429"]:
            connection, last = opening(small, token, stack)
            connection.sendall(last)
            assert connection.recv(4096).split(b" ")[1] == room


def dawdle(server: Hosted, stack: ExitStack) -> None:
    """Begins to sign in and does not continue."""
    head = f"POST /console/api/login HTTP/1.1\r\nHost: {server.host}\r\nOrigin: {server.base}\r\n"
    text = f'{head}Content-Type: application/json\r\nContent-Length: 90\r\n\r\n{{"ticket":'
    stack.enter_context(server.connected()).sendall(text.encode())


@pytest.mark.claim("console.strangers-bounded")
def test_login_finds_room_despite_many_slow_ones(small: Hosted):
    base = f"{small.base}/console/"
    request = {"json": {"token": small.token("person")}, "headers": {"Origin": origin(base)}}
    with ExitStack() as stack:
        for _ in range(OPEN + 4):
            dawdle(small, stack)
        until(lambda: plain("POST", f"{base}api/login", **request).status_code == 200)


@pytest.mark.claim("http.silence-keeps-nobody-out")
def test_hundreds_of_silent_strangers_keep_nobody_out(small: Hosted):
    token = small.token("patient")
    with ExitStack() as stack:
        for _ in range(6):
            for _ in range(90):
                stack.enter_context(small.connected())
            assert small.request("GET", "/healthz").status_code == 200
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
            # 429: the principal has the largest permitted number of sessions
            assert small.request("POST", token=token, json=body, headers=ACCEPT).status_code in (200, 429)


@pytest.mark.claim("http.bounded")
def test_a_head_with_thousands_of_headers_is_refused(small: Hosted):
    token = small.token("talker")
    many = {f"x-{number}": "y" for number in range(5000)}
    for headers in (many, {"x": "y" * 40_000}, {"x": "y" * 70_000}):
        with suppress(httpx2.HTTPError):
            reply = small.request("GET", "/healthz", token=token, headers=headers)
            assert reply.status_code in (400, 431)


@pytest.mark.claim("console.needs-read")
@pytest.mark.parametrize("scopes", [(APPROVE,), (APPROVE, ADMIN)])
def test_a_token_that_may_not_read_opens_nothing(small: Hosted, scopes: tuple[str, ...]):
    base = f"{small.base}/console/"
    token = small.token(f"blind-{len(scopes)}", *scopes)
    reply = plain("POST", f"{base}api/login", json={"token": token}, headers={"Origin": origin(base)})
    assert reply.status_code == 403
    assert "set-cookie" not in reply.headers
    for path in ("me", "live", "calls", "outputs", "grants", "figures", "audit"):
        assert plain("GET", f"{base}api/{path}", headers=bearer(token)).status_code == 403
    decide = plain("POST", f"{base}api/decide/x", json={"approved": True}, headers=bearer(token))
    assert decide.status_code == 403
    seeing = small.token(f"seeing-{len(scopes)}", READ, *scopes)
    assert plain("GET", f"{base}api/me", headers=bearer(seeing)).status_code == 200


@pytest.mark.claim("http.nobody-read-on")
@pytest.mark.parametrize("path", ["/mcp", "/console/api/decide/x", "/files/x/y", "/uploads/0/x", "/nothing"])
def test_a_stranger_s_body_is_not_even_parsed(small: Hosted, path: str):
    method = "PUT" if path.startswith("/uploads") else "POST"
    with small.connected() as client:
        client.settimeout(4)  # shorter than the deadline of a request's head
        head = f"{method} {path} HTTP/1.1\r\nHost: {small.host}\r\nOrigin: {small.base}\r\n"
        client.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n".encode())
        answer = b""
        while piece := client.recv(4096):
            answer += piece
    assert answer.split(b" ")[1] in (b"401", b"404")
