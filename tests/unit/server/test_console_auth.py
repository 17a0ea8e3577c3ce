"""Login to the console: how much is read from unauthenticated clients, and for how long."""

import json
from typing import Any

import anyio
import pytest
from starlette.requests import Request

from gdal_mcp.policy.identity import APPROVE, READ, Principal
from gdal_mcp.server.console.auth import (
    BODY_SECONDS,
    KEY_HEADER,
    MAX_PENDING_LOGINS,
    TICKET_BYTES,
    ConsoleAuth,
    LoginThrottle,
    Refused,
    Verify,
)
from gdal_mcp.server.console.sessions import LoginTokens, new_login_token
from tests.unit.virtual_time import run, settle

ORIGIN = "http://here"
LOCAL = Principal("local:me", frozenset({READ}))


def entrance(verify: Verify | None = None) -> ConsoleAuth:
    return ConsoleAuth(LOCAL, LoginTokens("secret", lambda: 1_000_000_000.0), "cookie", (ORIGIN,), verify)


def signing_in(*parts: bytes, pause: float = 0.0, ends: bool = True) -> Request:
    """A request whose body arrives in these parts, each after a pause in seconds."""
    left = list(parts)

    async def receive() -> Any:
        await anyio.sleep(pause if left else 10_000)
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or not ends}

    headers = [(b"origin", ORIGIN.encode()), (b"content-type", b"application/json")]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive)


def ticket() -> bytes:
    return json.dumps({"ticket": new_login_token("secret", 1_000_000_000.0)}).encode()


def refused(door: ConsoleAuth, request: Request) -> tuple[int, float]:
    """The status of the refusal, and the seconds until it was sent."""

    async def attempt() -> tuple[int, float]:
        with pytest.raises(Refused) as caught:
            await door.enter(request)
        return caught.value.status, anyio.current_time()

    refusal: tuple[int, float] = run(attempt)
    return refusal


@pytest.mark.claim("console.strangers-bounded")
def test_a_stranger_has_seconds_however_the_body_drips():
    status, after = refused(entrance(), signing_in(*[b" "] * 500, pause=1.0))
    assert (status, after) == (408, BODY_SECONDS)
    assert run(entrance().enter, signing_in(ticket(), pause=BODY_SECONDS - 1)).principal == LOCAL


@pytest.mark.claim("console.strangers-bounded")
def test_unauthenticated_request_is_read_only_to_ticket_size():
    long = b" " * (TICKET_BYTES + 1)
    assert refused(entrance(), signing_in(long, ends=False))[0] == 413


@pytest.mark.claim("console.strangers-bounded")
def test_longest_waiting_login_makes_room_for_newcomers():
    door, ended = LoginThrottle(), []

    async def stand(number: int) -> None:
        try:
            with door.slot():
                await anyio.sleep(1000)
        except Refused as error:
            ended.append((number, error.status))

    async def crowd() -> None:
        async with anyio.create_task_group() as group:
            for number in range(MAX_PENDING_LOGINS + 3):
                group.start_soon(stand, number)
                await settle()
            assert ended == [(0, 408), (1, 408), (2, 408)]
            group.cancel_scope.cancel()

    run(crowd)


@pytest.mark.claim("console.needs-read")
def test_token_without_read_scope_is_refused_even_later():
    scopes = {APPROVE}

    async def verify(_text: str) -> Principal:
        return Principal("token:ann", frozenset(scopes))

    door, body = entrance(verify), json.dumps({"token": "x"}).encode()
    assert refused(door, signing_in(body))[0] == 403
    scopes.add(READ)
    session = run(door.enter, signing_in(body))
    key = (KEY_HEADER.lower().encode(), session.key.encode())
    headers = [(b"cookie", f"cookie={session.id}".encode()), key]
    request = Request({"type": "http", "method": "GET", "path": "/", "headers": headers})
    assert run(door.viewer, request).principal == session.principal
    scopes.discard(READ)
    with pytest.raises(Refused):
        run(door.viewer, request)
