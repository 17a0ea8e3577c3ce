"""How long a signed-in person may stay, and how many may be connected at once."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from gdal_mcp.approvals.model import Approval
from gdal_mcp.approvals.store import Approvals
from gdal_mcp.calls.activity import Activity
from gdal_mcp.policy.identity import APPROVE, Principal
from gdal_mcp.records.registry import Registry
from gdal_mcp.server.console import live
from gdal_mcp.server.console.live import STREAMS_EACH, Live
from gdal_mcp.server.console.sessions import MAX_PER_PRINCIPAL, MOST, SECONDS, Sessions, Viewer

ANN = Principal("token:ann", frozenset())


def test_a_session_ends_with_its_time():
    now = 0.0
    sessions = Sessions(lambda: now)
    session = sessions.open(ANN, None)
    now = SECONDS - 1
    assert sessions.find(session.id, session.key) == session
    now = SECONDS
    assert sessions.find(session.id, session.key) is None


def test_sessions_are_bounded_and_oldest_makes_room():
    sessions = Sessions()
    opened = [sessions.open(Principal(f"token:{number}", frozenset()), None) for number in range(MOST + 1)]
    assert [sessions.find(session.id, session.key) is not None for session in opened] == [False] + [
        True
    ] * MOST


@pytest.mark.claim("identity.others-unseen")
def test_frequent_login_ends_only_own_sessions():
    sessions = Sessions()
    bob = sessions.open(Principal("token:bob", frozenset()), None)
    opened = [sessions.open(ANN, None) for _ in range(2 * MOST)]
    assert sessions.find(bob.id, bob.key) == bob
    still_open = [sessions.find(session.id, session.key) is not None for session in opened]
    assert still_open == [False] * (len(opened) - MAX_PER_PRINCIPAL) + [True] * MAX_PER_PRINCIPAL


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Any]:
    """The part of a server that a stream uses."""
    path = tmp_path / "registry.sqlite"
    registry, approvals = Registry(path), Approvals(path)
    yield SimpleNamespace(
        registry=registry,
        approvals=SimpleNamespace(approvals=approvals),
        owner=SimpleNamespace(id="own"),
        pipeline=SimpleNamespace(activity=Activity()),
    )
    approvals.close()
    registry.close()


def test_stream_ends_with_the_access_of_its_viewer(server: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "BEAT_SECONDS", 0.0)
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.01)
    good = iter([True, True, False])
    sent: list[bytes] = []

    async def look() -> None:
        async def is_good() -> bool:
            return next(good)

        sent.extend([event async for event in Live(server).events(Viewer(ANN, "x"), is_good)])

    anyio.run(look)
    assert sent[-1].startswith(b"event: over")


def test_the_registry_is_asked_once_however_many_look(server: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "LOOK_SECONDS", 3600.0)
    requests = 0
    real = server.approvals.approvals.pending

    def counted() -> Any:
        nonlocal requests
        requests += 1
        return real()

    monkeypatch.setattr(server.approvals.approvals, "pending", counted)

    async def look() -> None:
        streams = Live(server)
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(streams.now)

    anyio.run(look)
    assert requests == 1


def test_each_is_sent_what_that_one_may_see(server: Any):
    approval = Approval(plan_digest="d", principal="token:bob", tool="t", summary="?")
    row = server.approvals.approvals.request(approval, 60)
    snapshot = anyio.run(Live(server).now)
    bob, carol = Principal("token:bob", frozenset()), Principal("token:carol", frozenset({APPROVE}))
    for who, visible in ((ANN, []), (bob, [row.id]), (carol, [row.id])):
        assert [question["id"] for question in snapshot.questions(Viewer(who, "x"))["pending"]] == visible


@pytest.mark.claim("console.strangers-bounded")
def test_simultaneously_opened_windows_are_counted_too(server: Any):
    statuses: list[int] = []
    all_answered = anyio.Event()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
        if len(statuses) == STREAMS_EACH + 3:
            all_answered.set()
        await anyio.sleep(0.01)  # a client takes its time, and others come meanwhile

    async def good() -> bool:
        return True

    async def look() -> None:
        watched = live.Stream(Live(server), Viewer(ANN, "x"), good)
        async with anyio.create_task_group() as group:
            for _ in range(STREAMS_EACH + 3):
                group.start_soon(watched, {"type": "http"}, anyio.sleep_forever, send)
            with anyio.fail_after(30):
                await all_answered.wait()
            group.cancel_scope.cancel()
        assert not watched.live.streams._open

    anyio.run(look)
    assert sorted(statuses) == [200] * STREAMS_EACH + [429] * 3
