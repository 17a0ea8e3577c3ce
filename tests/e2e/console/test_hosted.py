"""The console of a server over HTTP: a token gives access to what its scopes permit, and to nothing of other principals."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gdal_mcp.approvals.model import Grant
from gdal_mcp.policy.identity import ADMIN, APPROVE, READ, WRITE
from gdal_mcp.policy.tokens import TokenStore
from tests.e2e.console.conftest import sampled
from tests.e2e.console.kit import Person, approvals, console, open_question, origin, plain, published
from tests.e2e.web.hosted import Hosted, hosting, new_token

pytestmark = pytest.mark.engine

SCOPES = {
    "ann": (READ, WRITE), "bob": (READ, WRITE), "carol": (READ, APPROVE), "dora": (READ, ADMIN),
    "erik": (READ, APPROVE, ADMIN),
}  # fmt: skip


@dataclass(frozen=True)
class House:
    server: Hosted
    tokens: dict[str, str]

    @property
    def base(self) -> str:
        return f"{self.server.base}/console/"

    def person(self, name: str) -> Person:
        return Person.by(self.base, {"token": self.tokens[name]})


@pytest.fixture(scope="module")
def house(grounds: Path) -> Iterator[House]:
    place = sampled(grounds / "house")
    tokens = {name: new_token(place, name, *scopes) for name, scopes in SCOPES.items()}
    policy = grounds / "policy.toml"
    policy.write_text('[[principal]]\nprincipals = ["token:ann", "token:bob", "token:dora", "token:gone"]\n')
    options = ("--console", "on", "--http-origins", "https://app.example.org", "--policy", str(policy))
    with hosting(place, grounds / "house.log", *options) as server:
        yield House(server, tokens)


@pytest.fixture(scope="module")
def people(house: House) -> dict[str, Person]:
    return {name: house.person(name) for name in SCOPES}


def statuses(people: dict[str, Person], path: str, body: dict[str, object] | None = None) -> dict[str, int]:
    ask = (lambda person: person.get(path)) if body is None else (lambda person: person.post(path, body))
    return {name: ask(person).status_code for name, person in people.items()}


@pytest.mark.claim("identity.others-unseen")
def test_records_outputs_and_pictures_need_owner_or_administrator(house, people):
    path = house.server.place.path("ann.tif")
    path.write_bytes(b"ann's")
    call, artifact = published(house.server.place, "token:ann", path)
    may = {"ann": 200, "bob": 404, "carol": 404, "dora": 200, "erik": 200}
    assert statuses(people, f"api/calls/{call.id}") == may
    assert statuses(people, f"api/link/{artifact.id}", {}) == may
    pictures = statuses(people, f"api/pictures/{artifact.id}")
    assert (pictures["bob"], pictures["carol"]) == (404, 404)
    for name, person in people.items():
        listed = [row["id"] for row in person.get("api/calls").json()["calls"]]
        shown = [row["id"] for row in person.get("api/outputs").json()["outputs"]]
        assert (call.id in listed, artifact.id in shown) == (may[name] == 200,) * 2
    for name in ("bob", "carol"):
        text = people[name].get("api/calls?q=ann").text + people[name].get("api/outputs").text
        assert "ann" not in text


def test_undo_takes_somebody_who_could_have_said_yes(house: House, people: dict[str, Person]):
    place = house.server.place
    call, _ = published(place, "token:ann", place.path("undone.tif"))
    may = {"ann": 403, "bob": 404, "carol": 404, "dora": 409, "erik": 409}  # 409: no workspace can undo it
    assert statuses(people, f"api/undo/{call.id}", {}) == may
    assert not people["ann"].get(f"api/calls/{call.id}").json()["undoable"]
    own, _ = published(place, "token:carol", place.path("own.tif"))
    assert people["carol"].post(f"api/undo/{own.id}").status_code == 409


def test_call_of_another_server_cannot_be_cancelled(house: House, people: dict[str, Person]):
    call, _ = published(house.server.place, "token:ann", house.server.place.path("over.tif"))
    assert set(statuses(people, f"api/cancel/{call.id}", {}).values()) == {404}


def test_deciding_is_for_those_who_may_approve(house: House, people: dict[str, Person]):
    row = open_question(house.server.place, "token:ann")
    assert statuses(people, f"api/questions/{row.id}") == {**dict.fromkeys(SCOPES, 200), "bob": 404}
    asks = (("decide", {"approved": True}), ("decide", {"approved": False}), ("allow", {"minutes": 15}))
    for name, code in {"ann": 403, "bob": 404, "dora": 403}.items():
        for path, body in asks:
            assert people[name].post(f"api/{path}/{row.id}", body).status_code == code
    with approvals(house.server.place) as store:
        assert store.get(row.id).state == "asked"
        assert store.grants() == ()
    decision = people["carol"].post(f"api/decide/{row.id}", {"approved": True}).json()
    assert (decision["state"], decision["by"], decision["yours"]) == ("released", "token:carol", True)


def test_a_stream_holds_what_its_viewer_may_see(house: House, people: dict[str, Person]):
    row = open_question(house.server.place, "token:ann")
    first_events = {name: person.first_event() for name, person in people.items()}
    assert {name for name, text in first_events.items() if row.id in text} == {"ann", "carol", "dora", "erik"}
    assert "token:ann" not in first_events["bob"]


def test_figures_audit_and_doctor_are_for_administrators(people: dict[str, Person]):
    refused = {"ann": 403, "bob": 403, "carol": 403}
    for path in ("api/figures", "api/audit"):
        assert statuses(people, path) == {**refused, "dora": 200, "erik": 200}
    assert statuses(people, "api/audit/verify", {}) == {**refused, "dora": 200, "erik": 200}
    outsiders = {name: people[name] for name in refused}
    assert statuses(outsiders, "api/doctor", {}) == refused


def test_approvers_grant_and_owners_or_administrators_revoke(house, people):
    row = open_question(house.server.place, "token:ann")
    assert people["carol"].post(f"api/allow/{row.id}", {"minutes": 15}).json()["yours"]
    for minutes in (16, 0, -15, True, "15", 10**9, None, 15.5):
        assert people["carol"].post(f"api/allow/{row.id}", {"minutes": minutes}).status_code == 400
    other = Grant("token:ann", "convert", str(house.server.place.workspace), "token:erik", "here")
    with approvals(house.server.place) as store:
        (mine,) = store.grants()
        theirs = store.grant(other, 60)
    assert (mine.principal, mine.tool, mine.workspace) == (other.principal, other.tool, other.workspace)
    assert mine.expires - mine.created == 15 * 60
    shown = {name: len(person.get("api/grants").json()["grants"]) for name, person in people.items()}
    assert shown == {**dict.fromkeys(SCOPES, 2), "bob": 0}
    assert people["bob"].post(f"api/revoke/{mine.id}").status_code == 404
    assert people["ann"].post(f"api/revoke/{mine.id}").status_code == 403
    assert people["carol"].post(f"api/revoke/{theirs.id}").status_code == 403
    assert people["carol"].post(f"api/revoke/{mine.id}").json()["state"] == "revoked"
    assert people["dora"].post(f"api/revoke/{theirs.id}").json()["state"] == "revoked"


def test_always_asked_operations_cannot_be_granted_beforehand(house, people):
    destroys = open_question(house.server.place, "token:ann", effect="destroy")
    details = {"sentence": "?", "removes": {"shown": ["/a"], "more": 0}}
    moves = open_question(house.server.place, "token:ann", details=details)
    for row in (destroys, moves):
        assert people["carol"].post(f"api/allow/{row.id}", {"minutes": 15}).status_code == 409
        with approvals(house.server.place) as store:
            assert store.get(row.id).state == "asked"


def test_console_approval_fails_where_policy_demands_another_channel(house, people):
    row = open_question(house.server.place, "token:ann", ways=("terminal",))
    assert people["carol"].post(f"api/decide/{row.id}", {"approved": True}).status_code == 409
    with approvals(house.server.place) as store:
        assert store.get(row.id).state == "asked"
    assert people["carol"].post(f"api/decide/{row.id}", {"approved": False}).json()["state"] == "denied"


def test_who_decides_needs_nothing_else_of_the_policy(house, people):
    assert people["carol"].get("api/me").json()["workspaces"] == []
    root = str(house.server.place.workspace)
    for name in ("ann", "erik"):  # by the policy, and as an administrator
        assert people[name].get("api/me").json()["workspaces"] == [root]


@pytest.mark.claim("console.session-needed")
def test_revoked_token_ends_everything_it_opened(house: House):
    store = TokenStore(house.server.place.state / "tokens.sqlite")
    token = store.new("gone", (READ, APPROVE), None)
    person = Person.by(house.base, {"token": token})
    assert person.get("api/me").json()["decides"]
    store.revoke("gone")
    store.new("gone", (READ,), None)  # a token with the same name, but another secret
    assert person.get("api/me").status_code == 401
    assert person.post("api/decide/x", {"approved": True}).status_code == 401


@pytest.mark.claim("console.session-needed")
def test_program_uses_its_token_but_foreign_pages_cannot(house: House):
    headers = {"Authorization": f"Bearer {house.tokens['dora']}"}
    assert plain("GET", f"{house.base}api/me", headers=headers).json()["admin"]
    for where in ("https://app.example.org", "https://evil.example"):
        foreign_headers = {**headers, "Origin": where}
        assert plain("GET", f"{house.base}api/me", headers=foreign_headers).status_code == 403
        assert plain("POST", f"{house.base}api/login", json={}, headers=foreign_headers).status_code == 403


def test_no_foreign_request_causes_a_server_error(house: House):
    for path in ("pictures/{}", "questions/x/picture/{}"):
        assert plain("GET", f"{house.base}api/{path.format('9' * 5000)}").status_code == 404
    for token in ("\u20ac", "\ud800"):
        body = json.dumps({"token": token}).encode()
        headers = {"Origin": origin(house.base), "Content-Type": "application/json"}
        assert plain("POST", f"{house.base}api/login", content=body, headers=headers).status_code == 401


def test_many_downloads_of_one_block_nobody_else(house, people):
    path = house.server.place.path("many.tif")
    path.write_bytes(b"ann's")
    _, artifact = published(house.server.place, "token:ann", path)
    while (reply := people["ann"].post(f"api/link/{artifact.id}")).status_code == 200:
        pass
    assert reply.status_code == 429
    assert people["dora"].post(f"api/link/{artifact.id}").status_code == 200


def test_local_user_enters_by_a_link(house: House):
    base, _, ticket = console(house.server.place.state).stdout.strip().partition("#ticket=")
    assert base == house.base
    assert Person.by(base, {"ticket": ticket}).get("api/me").json()["principal"].startswith("local:")


def test_server_without_accounts_still_asks_who_decides(grounds: Path):
    place = sampled(grounds / "open-house")
    with hosting(place, grounds / "open-house.log", "--no-auth", "--console", "on") as server:
        base = f"{server.base}/console/"
        for body in ({"token": "x"}, {"token": ""}, {}):
            reply = plain("POST", f"{base}api/login", json=body, headers={"Origin": origin(base)})
            assert reply.status_code == 401
        assert plain("GET", f"{base}api/me", headers={"Authorization": "Bearer x"}).status_code == 401
        link = console(place.state).stdout.strip()
        assert Person.by(base, {"ticket": link.partition("=")[2]}).get("api/me").status_code == 200
