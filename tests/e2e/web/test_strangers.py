"""Two users of one server: what each can do with data of the other."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from gdal_mcp.policy.identity import READ, WRITE
from gdal_mcp.policy.tokens import TokenStore
from tests.e2e.mcp.talk import ERAS, HELLO, Place
from tests.e2e.web.hosted import Hosted, hosting
from tests.e2e.web.raw import Raw, reply
from tests.waiting import until

pytestmark = pytest.mark.engine


@pytest.mark.claim("identity.others-unseen")
def test_session_serves_only_its_owner(http_server: Hosted, ann: str, bob: str):
    mine = Raw(http_server, ann, ERAS[0]).hello()
    thief = Raw(http_server, bob, ERAS[0], session=mine.session)
    stolen = {"Accept": "text/event-stream", "Mcp-Session-Id": str(mine.session)}
    attempts: tuple[Callable[[], httpx2.Response], ...] = (
        lambda: thief.send("tools/list"),
        lambda: thief.call("info", path="dem.tif"),
        lambda: http_server.request("DELETE", token=bob, headers=stolen),
        lambda: http_server.request("GET", token=bob, headers=stolen),
    )
    for attempt in attempts:
        answer = attempt()
        assert 400 <= answer.status_code < 500
        assert "tools" not in answer.text
    assert "tools" in mine.ask("tools/list")["result"]


@pytest.mark.claim("identity.scopes")
def test_session_gives_weaker_token_no_more_rights(http_server: Hosted):
    session = Raw(http_server, http_server.token("owner", READ, WRITE), ERAS[0]).hello().session
    TokenStore(http_server.place.state / "tokens.sqlite").revoke("owner")
    lesser = Raw(http_server, http_server.token("owner", READ), ERAS[0], session=session)
    assert "tools" in lesser.ask("tools/list")["result"]
    assert lesser.call("convert", input="dem.tif", output="stolen.tif").status_code == 403
    assert not http_server.place.path("stolen.tif").exists()


@pytest.mark.claim("identity.others-unseen")
def test_what_one_wrote_is_no_resource_of_another(http_server: Hosted, ann: str, bob: str):
    anns, bobs = Raw(http_server, ann), Raw(http_server, bob, tasks=True)
    result = reply(anns.call("convert", input="dem.tif", output="anns.tif"))["result"]["structuredContent"]
    call = result["receipt"]["call_id"]
    mine = [row["uri"] for row in anns.ask("resources/list")["result"]["resources"]]
    assert any("anns.tif" in uri for uri in mine)
    for uri in (*mine, f"gdal://calls/{call}", f"gdal://calls/{call}/provenance"):
        assert "error" in bobs.ask("resources/read", {"uri": uri}), uri
    listed = json.dumps(bobs.ask("resources/list"))
    assert "anns.tif" not in listed
    assert call not in listed


@pytest.fixture(scope="module")
def narrow(grounds: Path) -> Iterator[Hosted]:
    options = ("--http-sessions-each", "2", "--http-sessions", "3", "--engine", "unix:///nonexistent.sock")
    with hosting(Place.made(grounds / "narrow"), grounds / "narrow.log", *options) as hosted:
        yield hosted


@pytest.mark.claim("http.bounded")
def test_sessions_are_bounded_individually_and_totally_with_reuse(narrow: Hosted):
    ann, bob, eve = (narrow.token(name) for name in ("ann", "bob", "eve"))

    def opened(token: str) -> int:
        return Raw(narrow, token, ERAS[0]).send("initialize", HELLO).status_code

    first = Raw(narrow, ann, ERAS[0]).hello()
    assert [opened(ann), opened(ann)] == [200, 429]
    assert opened(bob) == 200
    assert opened(eve) == 503
    assert Raw(narrow, eve).ask("tools/list")["result"]["tools"]  # the newer era has no sessions
    assert "result" in first.ask("tools/list")
    narrow.request("DELETE", token=ann, headers={"Mcp-Session-Id": str(first.session)})
    until(lambda: opened(eve) == 200)


def test_server_without_engine_is_alive_but_not_ready(narrow: Hosted):
    assert narrow.request("GET", "/healthz").status_code == 200
    answer = narrow.request("GET", "/readyz")
    assert answer.status_code == 503
    failed = dict.fromkeys(("engine", "image", "attestation"), "failed")
    assert answer.json() == {"ready": False, **failed, "audit": "ok"}
    assert "sock" not in answer.text


def test_no_auth_makes_every_client_the_local_user(make_place, grounds: Path):
    silent = make_place("dem.tif")
    with hosting(silent, grounds / "open.log", "--no-auth") as hosted:
        answer = Raw(hosted, "anything").call("info", path="dem.tif")
    assert answer.status_code == 200
    assert {event["subject"]["principal"].partition(":")[0] for event in silent.audited} == {"local"}
