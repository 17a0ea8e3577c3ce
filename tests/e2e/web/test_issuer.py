"""A server for a team: tokens of issuers with keys from the network, and a policy that limits what a user may
request.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gdal_mcp.policy.identity import READ, WRITE
from tests.e2e.mcp.talk import ERAS, Place
from tests.e2e.web.hosted import Hosted, hosting
from tests.e2e.web.issuing import Issuer, Signer, Site, site
from tests.e2e.web.raw import Raw

pytestmark = pytest.mark.engine

POLICY = """
[[principal]]
principals = ["token:hasty"]
calls_per_minute = 2

[[principal]]
principals = ["oauth:*", "token:first"]
"""
DESCRIBED = "/.well-known/oauth-authorization-server"


@pytest.fixture(scope="module")
def web() -> Iterator[Site]:
    with site() as opened:
        yield opened


@pytest.fixture(scope="module")
def issuer(web: Site) -> Issuer:
    """An issuer on loopback that describes itself."""
    new_issuer = Issuer(web.base)
    web.documents |= {
        DESCRIBED: {"issuer": web.base, "jwks_uri": f"{web.base}/jwks"},
        "/jwks": new_issuer.keys,
    }
    return new_issuer


@pytest.fixture(scope="module")
def other(web: Site) -> Issuer:
    """A second issuer, with the address of its keys in the settings."""
    new_issuer = Issuer("https://other.example", Signer("RS256", "r1"))
    web.documents["/other"] = new_issuer.keys
    return new_issuer


@pytest.fixture(scope="module")
def server(issuer: Issuer, other: Issuer, web: Site, place: Place, grounds: Path) -> Iterator[Hosted]:
    known = f"{issuer.name},{other.name} {web.base}/other"
    own = Place.made(grounds / "issued")
    own.path("dem.tif").write_bytes(place.path("dem.tif").read_bytes())
    policy = grounds / "issued.toml"
    policy.write_text(POLICY)
    with hosting(own, grounds / "issued.log", "--issuers", known, "--policy", str(policy)) as hosted:
        yield hosted


def test_a_stranger_is_led_to_the_issuers(server: Hosted, issuer: Issuer, other: Issuer):
    challenge = server.request("POST").headers["www-authenticate"]
    place = challenge.partition('resource_metadata="')[2].partition('"')[0]
    assert place == f"{server.base}/.well-known/oauth-protected-resource/mcp"
    document = server.request("GET", "/.well-known/oauth-protected-resource/mcp").json()
    assert document["resource"] == server.url
    assert document["authorization_servers"] == [issuer.name, other.name]
    assert {READ, WRITE} <= set(document["scopes_supported"])


@pytest.mark.parametrize("era", ERAS)
def test_signed_token_gives_the_principal_in_records(server: Hosted, issuer: Issuer, era: str):
    with server.talking(issuer.token(server.url), era) as talk:
        call = talk.done("info", path="dem.tif")["receipt"]["call_id"]
    mine = [event for event in server.place.audited if event.get("call") == call]
    assert {event["subject"]["principal"] for event in mine} == {f"oauth:{issuer.name}#ann"}


@pytest.mark.claim("identity.signed-tokens")
def test_token_for_another_server_is_worthless(server: Hosted, issuer: Issuer, other: Issuer):
    # the token is accepted, but has no session
    assert server.request("GET", token=issuer.token(server.url)).status_code == 400
    for text in (
        issuer.token("https://elsewhere.example/mcp"),
        issuer.token(server.url, exp=1),
        issuer.signer.sign(issuer.claims(server.url, iss=other.name)),
        Signer().sign(issuer.claims(server.url)),
    ):
        refused = server.request("GET", token=text)
        assert refused.status_code == 401
        assert 'error="invalid_token"' in refused.headers["www-authenticate"]


def test_excess_call_gets_retry_time_and_disturbs_nobody(server, issuer):
    hasty = Raw(server, server.token("hasty", READ))
    answers = [hasty.call("info", path="dem.tif").json()["result"] for _ in range(3)]
    assert [bool(answer.get("isError")) for answer in answers] == [False, False, True]
    error = answers[2]["structuredContent"]["error"]
    assert error["code"] == "RATE_LIMITED"
    assert 0 < error["retry_after_seconds"] <= 60
    other = Raw(server, issuer.token(server.url)).call("info", path="dem.tif").json()["result"]
    assert not other.get("isError")


def test_principal_unnamed_in_policy_has_no_rights(server: Hosted):
    stray = Raw(server, server.token("stray", READ))
    assert stray.ask("tools/list")["result"]["tools"] == []
    assert stray.ask("resources/list")["result"]["resources"] == []
    answer = stray.ask("tools/call", {"name": "info", "arguments": {"path": "dem.tif"}})
    assert "error" in answer or answer["result"]["isError"]
