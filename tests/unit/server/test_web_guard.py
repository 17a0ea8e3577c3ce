"""Access checks: who is admitted, how many requests may be open, and how much of a request is read."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import anyio
import pytest
from starlette.requests import ClientDisconnect

from gdal_mcp.policy.identity import ADMIN, APPROVE, READ, WRITE, Principal
from gdal_mcp.policy.tokens import TokenStore, TokensUnavailable
from gdal_mcp.server.http import address, guard, protocol
from gdal_mcp.server.http.auth import Authenticator, TokenVerifier, Unavailable
from gdal_mcp.server.http.concurrency import LimitExceeded, RequestLimit
from gdal_mcp.server.http.guard import HostFilter, TooLarge, TooSlow, complete_body
from gdal_mcp.server.http.protocol import ProtocolEndpoint
from gdal_mcp.settings import load_settings
from tests.unit.virtual_time import run, settle

ANN = Principal("token:ann", frozenset({READ}))
LOCAL = Principal("local:me")


class Tokens:
    """Valid tokens with their principals."""

    def __init__(self, **good: Principal) -> None:
        self.good = good
        self.error: Exception | None = None

    async def verify(self, text: str) -> Principal | None:
        if self.error:
            raise self.error
        return self.good.get(text)


class Asked:
    """One request and its answer."""

    def __init__(
        self, *headers: tuple[str, str], method: str = "GET", path: str = "/mcp", body: Sequence[bytes] = ()
    ) -> None:
        pairs = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
        self.scope: dict[str, Any] = {
            "type": "http", "method": method, "path": path, "headers": pairs, "state": {},
        }  # fmt: skip
        self.parts = [{"type": "http.request", "body": part, "more_body": True} for part in body]
        self.messages: list[Any] = []
        self.read = 0

    async def receive(self) -> Any:
        self.read += 1
        if not self.parts:
            await anyio.sleep_forever()
        return self.parts.pop(0)

    async def send(self, message: Any) -> None:
        self.messages.append(message)

    def with_last_part(self, body: bytes) -> "Asked":
        """The request with a complete body."""
        self.parts.append({"type": "http.request", "body": body, "more_body": False})
        return self

    async def of(self, app: Any) -> "Asked":
        await app(self.scope, self.receive, self.send)
        return self

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    def header(self, name: str) -> str:
        return dict(self.messages[0]["headers"]).get(name.encode(), b"").decode()


async def ok(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def door(verifier: Tokens | None, each: int = 10) -> Authenticator:
    return Authenticator(verifier, LOCAL, RequestLimit(100, each), "https://gdal.example/meta")


def answer_of(
    of: Authenticator, *headers: tuple[str, str], scopes: Sequence[str] = (READ,), **more: Any
) -> Asked:
    return run(Asked(*headers, **more).of, of.guarded(lambda _who: ok, *scopes))


@pytest.mark.claim("http.no-open-door")
def test_without_one_good_token_nothing_is_read(subtests: pytest.Subtests):
    texts = (
        "Bearer bad", "Bearer ", "Bearer", "good", "Basic good", "Bearer bad, Bearer good",
        "Bearer " + "x" * 20_000,
    )  # fmt: skip
    for headers in (
        [], *([("Authorization", text)] for text in texts),
        [("Authorization", "Bearer good"), ("Authorization", "Bearer good")],
        [("Authorization", "Bearer good"), ("Authorization", "Bearer bad")],
        [("X-Authorization", "Bearer good")], [("Cookie", "Authorization=Bearer good")],
    ):  # fmt: skip
        with subtests.test(headers=headers):
            answer = answer_of(door(Tokens(good=ANN)), *headers, method="POST", body=[b"{}"])
            assert (answer.status, answer.read) == (401, 0)
            assert 'resource_metadata="https://gdal.example/meta"' in answer.header("www-authenticate")
            assert f'scope="{READ}"' in answer.header("www-authenticate")


@pytest.mark.claim("identity.scopes")
def test_a_missing_scope_is_named():
    for granted, needed in ((READ, (READ, WRITE)), (APPROVE, (READ,)), (ADMIN, (READ,)), (WRITE, (READ,))):
        tokens = Tokens(good=Principal("token:ann", frozenset({granted})))
        answer = answer_of(door(tokens), ("Authorization", "Bearer good"), scopes=needed)
        assert answer.status == 403
        assert 'error="insufficient_scope"' in answer.header("www-authenticate")
        assert f'scope="{" ".join(needed)}"' in answer.header("www-authenticate")


def test_uncheckable_token_gives_503_and_is_not_bad():
    tokens = Tokens(good=ANN)
    for tokens.error in (Unavailable("issuer"), TokensUnavailable("disk")):
        answer = answer_of(door(tokens), ("Authorization", "Bearer good"))
        assert (answer.status, answer.header("www-authenticate")) == (503, "")


def test_issuer_tokens_fail_without_an_issuer(tmp_path: Any):
    assert anyio.run(TokenVerifier(TokenStore(tmp_path / "t"), None).verify, "a.b.c") is None


@pytest.mark.claim("http.bounded")
def test_one_principal_cannot_take_the_room_of_all():
    gate = RequestLimit(100, 2)

    async def attempt() -> None:
        with gate.per_principal("ann"), gate.per_principal("ann"):
            with pytest.raises(LimitExceeded), gate.per_principal("ann"):
                pass
            with gate.per_principal("bob"):
                pass
        with gate.per_principal("ann"):
            pass

    run(attempt)


def test_too_many_open_requests_give_429_with_delay():
    answer = answer_of(door(Tokens(good=ANN), each=0), ("Authorization", "Bearer good"))
    assert answer.status == 429
    assert int(answer.header("retry-after")) > 0


NAMES = ("gdal.example:1",), ("https://app.example",)
OURS, PAGE = ("Host", "gdal.example:1"), ("Origin", "https://app.example")
FOREIGN = [("Host", name) for name in ("evil.example", "gdal.example:1.evil.example", "gdal.example")]
ELSEWHERE = [
    ("Origin", origin) for origin in ("https://evil.example", "null", "https://app.example.evil.example")
]


@pytest.mark.claim("http.host-and-origin")
@pytest.mark.parametrize("loopback", ["127.0.0.1", "::1"])
def test_other_address_spellings_are_not_server_names(loopback: str):
    """They lead to the same address, and a page that was opened under one of them sends it as the host."""
    spelled = """127.1 127.0.1 0x7f.1 0x7f000001 2130706433 0177.0.0.1 127.000.000.001 127.0.0.1. localhost. LOCALHOST.
        0.0.0.0 0 127.0.0.2 [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [0:0:0:0:0:0:0:1] [::1%lo] ::1 [::1]. localhost.localdomain
        user@127.0.0.1 user:word@localhost 127.0.0.1@evil.test evil.test#127.0.0.1 127.0.0.1\\@evil.test localhost,evil.test
        http://127.0.0.1 127.0.0.1/x \uff11\uff12\uff17.0.0.1""".split()
    ports = (
        ":8000",
        ":08000",
        ":8000:8000",
        ":",
        "",
        ":80",
        ":8000 ",
        ":+8000",
        ":8000.",
        ":8000/",
        ":00x1f40",
    )
    settings = load_settings(workspaces=["/nonexistent"], host=loopback, port=8000)
    known = address.hosts(settings, 8000)
    named = {f"{name}:8000" for name in ("127.0.0.1", "localhost", "[::1]")}
    assert named <= set(known)
    reached: list[str] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        reached.append(dict(scope["headers"])[b"host"].decode())
        await ok(scope, receive, send)

    for name in (*spelled, *_LOOPBACK):
        for port in ports:
            host = f"{name}{port}".encode()
            answer = run(
                Asked(("Host", host.decode("latin-1"))).of,
                HostFilter(inner, RequestLimit(9, 9), known, (), ()),
            )
            assert answer.status == (200 if host.decode() in known else 421)
    assert set(reached) == {name for name in known if name in named}


_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@pytest.mark.claim("http.host-and-origin")
def test_foreign_hosts_and_origins_reach_nothing(subtests: pytest.Subtests):
    for headers, status in (
        ([OURS], 200),
        ([OURS, PAGE], 200),
        ([], 421),
        *(([header], 421) for header in FOREIGN),
        ([OURS, FOREIGN[0]], 421),
        ([FOREIGN[0], ("X-Forwarded-Host", "gdal.example:1")], 421),
        *(([OURS, header], 403) for header in ELSEWHERE),
        ([OURS, PAGE, ELSEWHERE[0]], 403),
    ):
        reached: list[str] = []

        async def inner(scope: Any, receive: Any, send: Any, reached=reached) -> None:
            reached.append(scope["path"])
            await ok(scope, receive, send)

        with subtests.test(headers=headers):
            answer = run(Asked(*headers).of, HostFilter(inner, RequestLimit(9, 9), *NAMES, ("/healthz",)))
            assert (answer.status, bool(reached)) == (status, status == 200)


def test_closed_gate_starts_nothing_and_ends_open_requests():
    gate = RequestLimit(9, 9)
    ended: list[str] = []

    async def endless(_scope: Any, _receive: Any, _send: Any) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    async def attempt() -> tuple[Asked, Asked]:
        app = HostFilter(endless, gate, *NAMES, ("/mcp",))
        first = Asked()
        async with anyio.create_task_group() as group:
            group.start_soon(first.of, app)
            await settle()
            gate.close()
        return first, await Asked().of(app)

    first, second = run(attempt)
    assert ended == ["cancelled"]
    assert (first.status, second.status) == (503, 503)


@pytest.mark.claim("http.bounded")
def test_body_is_bounded_whatever_length_it_declares():
    small = Asked(body=[b"a" * 10]).with_last_part(b"b")
    assert run(complete_body, small.receive, 11) == b"a" * 10 + b"b"
    with pytest.raises(TooLarge):
        run(complete_body, Asked(body=[b"a" * 6] * 2).receive, 11)


@pytest.mark.claim("http.bounded")
def test_a_body_of_very_many_values_is_refused():
    """Its values would use 25 times its length in memory while its call runs."""
    endpoint: Any = ProtocolEndpoint(Endless(), door(Tokens(good=ANN)), frozenset({"w"}), 4 << 20)  # type: ignore[arg-type]
    many = b'{"jsonrpc":"2.0","id":1,"method":"x","params":[' + b"[]," * 300_000 + b"0]}"
    request = Asked(("Authorization", "Bearer good"), method="POST").with_last_part(many)
    assert run(request.of, endpoint.auth.guarded(endpoint.of, READ)).status == 413


@pytest.mark.claim("http.bounded")
def test_trickling_body_is_not_awaited():
    class Dripping(Asked):
        async def receive(self) -> Any:
            await anyio.sleep(guard.BODY_SECONDS / 10)
            return {"type": "http.request", "body": b"x", "more_body": True}

    with pytest.raises(TooSlow):
        run(complete_body, Dripping().receive, 1000)


def test_client_leaving_during_its_body_is_released():
    leaving = Asked()
    leaving.parts.append({"type": "http.disconnect"})
    with pytest.raises(ClientDisconnect):
        run(complete_body, leaving.receive, 1000)


class Endless:
    """Replaces the protocol: every request of it is a stream."""

    cancelled = 0

    sessions = ("mine",)

    def opening(self, _who: Principal) -> AbstractContextManager[None]:
        return nullcontext()

    async def __call__(self, _scope: Any, _receive: Any, _send: Any) -> None:
        try:
            await anyio.sleep(protocol.RECHECK_SECONDS * 10)
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise


@pytest.mark.parametrize(
    ("method", "sent", "cancelled"),
    [
        ("GET", b"", 1),
        ("POST", b'{"method": "subscriptions/listen"}', 1),
        ("POST", b'{"method": "tools/call"}', 0),
    ],
)
def test_stream_ends_with_token_but_call_does_not(method: str, sent: bytes, cancelled: int):
    tokens, endless = Tokens(good=ANN), Endless()
    counter: Any = ProtocolEndpoint(endless, door(tokens), frozenset(), 1000)  # type: ignore[arg-type]
    request = Asked(("Authorization", "Bearer good"), method=method)
    request.with_last_part(sent)

    async def attempt() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(request.of, counter.auth.guarded(counter.of, READ))
            await anyio.sleep(protocol.RECHECK_SECONDS * 2.5)
            assert endless.cancelled == 0
            tokens.good.clear()

    run(attempt)
    assert endless.cancelled == cancelled


@pytest.mark.claim("identity.scopes")
def test_writing_tool_needs_write_scope_in_any_spelling():
    counter: Any = ProtocolEndpoint(Endless(), door(Tokens(good=ANN)), frozenset({"w"}), 1000)  # type: ignore[arg-type]
    for body in (
        b'{"method": "tools/call", "params": {"name": "w"}}',
        b' [{"method": "ping"}, {"method": "tools/call", "params": {"name": "w"}}]',
        b'{"method": "tools\\/call", "params": {"name": "\\u0077"}}',
        b'{"method": "ping", "method": "tools/call", "params": {"name": "r", "name": "w"}}',
        '{"method": "tools/call", "params": {"name": "w"}}'.encode("utf-16"),
    ):
        request = Asked(("Authorization", "Bearer good"), method="POST").with_last_part(body)
        answer = run(request.of, counter.auth.guarded(counter.of, READ))
        assert answer.status == 403, body
        assert f'scope="{READ} {WRITE}"' in answer.header("www-authenticate")


class Prompt(Endless):
    """Replaces the protocol: every request is answered at once."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await ok(scope, receive, send)


@pytest.mark.claim("identity.answers-as-calls")
@pytest.mark.parametrize(
    ("session", "tool", "answer", "status"),
    [
        ("mine", "w", b'{"id": 1, "result": {}}', 403),
        ("mine", "w", b'[{"id": 1, "result": {}}]', 403),
        ("mine", "w", b'{"id": 2, "method": "ping"}', 200),
        ("mine", "r", b'{"id": 1, "result": {}}', 200),
        ("none", "w", b'{"id": 1, "result": {}}', 200),
    ],
)
def test_answers_to_writing_sessions_need_write_scope(session, tool, answer, status):
    called = json.dumps({"method": "tools/call", "params": {"name": tool}}).encode()
    tokens = Tokens(good=ANN, whole=Principal(ANN.id, frozenset({READ, WRITE})))
    counter: Any = ProtocolEndpoint(Prompt(), door(tokens), frozenset({"w"}), 1000)  # type: ignore[arg-type]

    def sent(token: str, body: bytes) -> int:
        request = Asked(("Authorization", f"Bearer {token}"), ("Mcp-Session-Id", session), method="POST")
        return int(run(request.with_last_part(body).of, counter.auth.guarded(counter.of, READ)).status)

    assert sent("good", answer) == 200
    assert sent("whole", called) == 200
    assert sent("good", answer) == status
    assert sent("whole", answer) == 200
