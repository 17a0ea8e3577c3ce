"""Access over HTTP: who gets in, and that everybody else learns nothing."""

import json
from pathlib import Path

import httpx2
import pytest

from gdal_mcp.policy.identity import ADMIN, METRICS, READ, WRITE
from gdal_mcp.policy.tokens import TokenStore
from tests.e2e.mcp.talk import ERAS, HELLO, Place
from tests.e2e.web.hosted import Hosted, hosting
from tests.e2e.web.raw import ACCEPT, Raw
from tests.waiting import until

pytestmark = pytest.mark.engine

COPY = {"input": "dem.tif", "output": "copied.tif"}


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.claim("http.no-open-door")
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_protocol_answers_401_without_a_token(http_server: Hosted, method: str):
    answer = http_server.request(method)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer ")
    assert f'scope="{READ}"' in answer.headers["www-authenticate"]


@pytest.mark.claim("identity.static-tokens")
def test_revoked_token_is_refused_at_once(http_server: Hosted, era: str):
    name = f"leaver-{era}"
    raw = Raw(http_server, http_server.token(name), era).hello()
    assert "result" in raw.ask("tools/list")
    TokenStore(http_server.place.state / "tokens.sqlite").revoke(name)
    assert raw.send("tools/list").status_code == 401
    assert http_server.request("GET", token=raw.token, headers=ACCEPT).status_code == 401


@pytest.mark.claim("identity.scopes")
def test_read_token_reads_and_learns_what_writing_needs(http_server: Hosted, era: str):
    raw = Raw(http_server, http_server.token(f"reader-{era}", READ), era).hello()
    before = len(http_server.place.audited)
    refused = raw.call("convert", **COPY)
    assert refused.status_code == 403
    challenge = refused.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in challenge
    assert f'scope="{READ} {WRITE}"' in challenge
    assert len(http_server.place.audited) == before
    assert raw.call("gdal_search", query="hillshade").status_code == 200
    assert not http_server.place.path("copied.tif").exists()


def test_call_named_differently_in_headers_is_refused(http_server: Hosted):
    raw = Raw(http_server, http_server.token("liar", READ), headers={"Mcp-Name": "info"})
    assert raw.call("convert", **COPY).status_code == 403
    raw.headers = {"Mcp-Name": "convert"}
    assert raw.call("info", path="dem.tif").status_code == 400


@pytest.mark.claim("http.host-and-origin")
def test_foreign_hosts_and_pages_fail_even_with_token(http_server: Hosted, ann: str):
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})
    for headers, status in (({"Host": "evil.example"}, 421), ({"Origin": "null"}, 403)):
        for path in ("/mcp", "/metrics"):
            request = {"headers": {**ACCEPT, **headers}, "content": hello}
            assert http_server.request("POST", path, token=ann, **request).status_code == status


def test_a_body_that_is_too_large_is_refused(http_server: Hosted, ann: str):
    try:
        answer = http_server.request("POST", token=ann, headers=ACCEPT, content=b" " * (5 << 20))
    # the server closed the connection before all of it was sent
    except (httpx2.WriteError, httpx2.ReadError):
        return
    assert answer.status_code == 413


def test_anybody_sees_only_liveness_and_readiness(http_server: Hosted):
    assert http_server.request("GET", "/healthz", headers={"Host": "10.0.0.7"}).status_code == 200
    until(lambda: http_server.request("GET", "/readyz").status_code == 200)  # this host is attested first
    answer = http_server.request("GET", "/readyz")
    good = dict.fromkeys(("engine", "image", "attestation", "audit"), "ok")
    assert answer.json() == {"ready": True, **good}


@pytest.mark.claim("identity.scopes")
def test_monitoring_token_reads_figures_and_nothing_else(http_server: Hosted, ann: str):
    assert http_server.request("GET", "/metrics").status_code == 401
    refused = http_server.request("GET", "/metrics", token=ann)
    assert refused.status_code == 403
    assert f'scope="{METRICS}"' in refused.headers["www-authenticate"]
    Raw(http_server, ann).call("info", path="dem.tif")
    answer = http_server.request(
        "GET", "/metrics", token=(monitoring := http_server.token("monitoring", METRICS))
    )
    assert answer.status_code == 200
    assert 'gdal_mcp_calls_total{outcome="OK",tool="info"}' in answer.text
    assert "gdal_mcp_places " in answer.text
    assert "ann" not in answer.text
    assert http_server.request("GET", "/metrics", token=http_server.token("admin", ADMIN)).status_code == 403
    for method, path in (
        ("POST", "/mcp"),
        ("GET", "/console/api/calls"),
        ("GET", "/files/x/y"),
    ):
        assert http_server.request(method, path, token=monitoring).status_code in (403, 404), path


def test_log_names_principal_and_peer_of_every_call(grounds: Path):
    place, log = Place.made(grounds / "named"), grounds / "named.log"
    options = ("--log-level", "info", "--engine", "unix:///nonexistent.sock", "--console", "on")
    with hosting(place, log, *options) as hosted:
        Raw(hosted, hosted.token("ann")).call("list_workspace")
        assert hosted.request("POST", token="gdmcp_wrong").status_code == 401
        assert hosted.request("GET", "/console/api/me", token="gdmcp_wrong").status_code == 401
        writer = hosted.token("bob", READ, WRITE)
        assert hosted.request("PUT", "/uploads/9/x.tif", token=writer, content=b"x").status_code == 400
    rows = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    calls = [(row["principal"], row["peer"], row["tool"]) for row in rows if row["event"] == "call"]
    assert calls == [("token:ann", "127.0.0.1", "list_workspace"), ("token:bob", "127.0.0.1", "upload")]
    [refused] = [row for row in rows if row["event"] == "console_refused"]
    assert (refused["peer"], refused["status"]) == ("127.0.0.1", 401)
    [stranger] = [row for row in rows if row["event"] == "not_authenticated"]
    assert stranger["peer"] == "127.0.0.1"
    assert "gdmcp_wrong" not in log.read_text()


def test_allowed_page_passes_its_preflight_request(http_server: Hosted):
    asking = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    own = http_server.request("OPTIONS", headers={**asking, "Origin": http_server.base})
    assert own.headers["access-control-allow-origin"] == http_server.base
    foreign = http_server.request("OPTIONS", headers={**asking, "Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in foreign.headers
