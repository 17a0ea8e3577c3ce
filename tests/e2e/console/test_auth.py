"""Requests without the secrets of a session get no information and change nothing."""

import hashlib
import re
import time
from pathlib import Path
from unittest import mock

import pytest

from gdal_mcp.server.app import local_user
from gdal_mcp.server.console import runtime_file
from gdal_mcp.server.console.routes import Console
from gdal_mcp.server.console.sessions import LINK_SECONDS, new_login_token
from tests.e2e.console.kit import Person, Stage, approvals, open_question, origin, plain, published

pytestmark = pytest.mark.engine

STATIC = Path(runtime_file.__file__).parent / "static"


def paths(method: str) -> list[str]:
    """Every address of the console that answers this method, with an example value for each variable part."""
    _page, mount = Console(mock.Mock(), None, None, *[mock.Mock()] * 4).routes()
    api = next(route for route in mount.app.app.routes if getattr(route, "path", "") == "/api")
    addresses = {route.path for route in api.routes if method in route.methods} - {"/login", "/logout"}
    assert addresses
    return [re.sub(r"{\w+(:int)?}", "1", f"api{path}") for path in sorted(addresses)]


@pytest.fixture(scope="module")
def base(stage: Stage) -> str:
    return stage.base


@pytest.fixture(scope="module")
def person(stage: Stage) -> Person:
    return stage.enter()


@pytest.mark.claim("console.session-needed")
@pytest.mark.parametrize("path", paths("GET"))
def test_nothing_is_told_without_a_session(base: str, person: Person, path: str):
    cookie, key = {"Cookie": person.cookie}, {"X-Console-Key": person.key}
    wrong = {"X-Console-Key": person.key[:-1] + ("A" if person.key[-1] != "A" else "B")}
    for headers in ({}, cookie, key, {**cookie, **wrong}, {"Authorization": "Bearer x"}):
        assert plain("GET", base + path, headers=headers).status_code == 401


@pytest.mark.claim("console.session-needed")
@pytest.mark.parametrize("path", paths("POST"))
def test_nothing_happens_without_session_or_from_other_origins(base: str, person: Person, path: str):
    url, good, own = base + path, person.headers, {"Origin": origin(base)}
    assert plain("POST", url, json={}, headers=own).status_code == 401
    assert plain("POST", url, json={}, headers={**own, "Cookie": person.cookie}).status_code == 401
    for foreign in ("https://evil.example", "null", "http://127.0.0.1:1", origin(base) + ".evil.example"):
        assert plain("POST", url, json={}, headers={**good, "Origin": foreign}).status_code == 403
    nowhere = {name: value for name, value in good.items() if name != "Origin"}
    assert plain("POST", url, json={}, headers=nowhere).status_code == 403
    assert plain("POST", url, json={}, headers={**good, "Sec-Fetch-Site": "same-site"}).status_code == 403
    assert plain("POST", url, content="{}", headers={**good, "Content-Type": "text/plain"}).status_code == 415
    assert plain("POST", url, json={"x": "x" * 100_000}, headers=good).status_code == 413
    assert plain("GET", url, headers=good).status_code == 405


@pytest.mark.claim("console.session-needed")
def test_a_question_survives_every_forged_decision(stage: Stage, base: str, person: Person):
    row = open_question(stage.place, local_user().id)
    foreign = ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"})
    for forged in (*foreign, {"X-Console-Key": ""}, {"Cookie": ""}):
        headers = {**person.headers, **forged}
        plain("POST", f"{base}api/decide/{row.id}", json={"approved": True}, headers=headers)
    for body in ({}, {"approved": 1}, {"approved": "true"}, {"approved": None}):
        assert person.post(f"api/decide/{row.id}", body).status_code == 400
    with approvals(stage.place) as store:
        assert store.get(row.id).state == "asked"
        store.end(row.id, store.get(row.id).holder)


@pytest.mark.claim("console.session-needed")
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example", ""])
def test_foreign_name_resolving_here_reaches_nothing(base: str, host: str):
    assert plain("GET", base, headers={"Host": host}).status_code in (400, 421)


@pytest.mark.claim("console.links-once")
def test_a_link_opens_the_page_once(stage: Stage):
    address, _, ticket = stage.link().partition("#ticket=")
    Person.by(address, {"ticket": ticket})
    again = plain("POST", f"{address}api/login", json={"ticket": ticket}, headers={"Origin": origin(address)})
    assert again.status_code == 401
    assert "set-cookie" not in again.headers


@pytest.mark.claim("console.links-once")
def test_expired_forged_or_foreign_link_opens_nothing(stage: Stage, base: str):
    (notice,) = runtime_file.running(stage.place.state, lambda _server: True)
    good = new_login_token(notice.secret, time.time())
    ends, nonce, proof = good.split(".")
    forged = [
        new_login_token(notice.secret, time.time() - LINK_SECONDS - 1),
        new_login_token(notice.secret, time.time() + 10 * LINK_SECONDS), new_login_token("another", time.time()),
        f"{int(ends) + 30}.{nonce}.{proof}", f"{ends}.{nonce}.{'0' * 64}", "", good + "\n",
    ]  # fmt: skip
    for ticket in forged:
        reply = plain("POST", f"{base}api/login", json={"ticket": ticket}, headers={"Origin": origin(base)})
        assert reply.status_code == 401
    for body in ({"token": "gdalmcp_x"}, {"ticket": 1}, {"ticket": None}, {}, {"token": ""}):
        reply = plain("POST", f"{base}api/login", json=body, headers={"Origin": origin(base)})
        assert reply.status_code == 401


def test_who_leaves_is_out(stage: Stage):
    person = stage.enter()
    assert person.get("api/me").status_code == 200
    assert person.post("api/logout").status_code == 200
    assert person.get("api/me").status_code == 401


@pytest.mark.claim("console.links-once")
def test_cookie_is_hidden_from_scripts_and_other_sites(stage: Stage):
    address, _, ticket = stage.link().partition("#ticket=")
    reply = plain("POST", f"{address}api/login", json={"ticket": ticket}, headers={"Origin": origin(address)})
    parts = {part.strip().partition("=")[0].lower() for part in reply.headers["set-cookie"].split(";")}
    assert {"httponly", "samesite", "path", "max-age"} <= parts
    assert "samesite=strict" in reply.headers["set-cookie"].lower()


def test_the_file_that_lets_in_is_private(stage: Stage, base: str):
    folder = stage.place.state / runtime_file.FOLDER
    assert folder.stat().st_mode & 0o077 == 0
    assert [path.stat().st_mode & 0o077 for path in folder.glob("*.json")] == [0]


@pytest.mark.claim("console.text-is-text")
@pytest.mark.parametrize(
    "path", ["", "app.js", "nothing", "api/me", "api/nothing", "files/x", "vendor/leaflet.js"]
)
def test_every_answer_forbids_browsers_whatever_is_not_ours(base: str, path: str):
    headers = plain("GET", base + path).headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers
    if path.startswith(("api", "files")):
        assert headers["cache-control"] == "no-store"


def test_only_the_page_s_own_files_are_served(base: str):
    server = base.removesuffix("console/")
    tricks = [
        "../routes.py", "%2e%2e/routes.py", "static/app.js", "vendor/", "vendor/../app.js%00",
        "..%2f..%2fapp.py",
    ]  # fmt: skip
    for path in tricks:
        assert plain("GET", f"{server}console/{path}").status_code in (404, 307, 308), path
    assert plain("GET", base + "app.js").content == (STATIC / "app.js").read_bytes()


MARKUP = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=", "onclick=")


@pytest.mark.claim("console.text-is-text")
def test_no_asset_names_another_server_or_makes_markup():
    for path in STATIC.glob("*.*"):
        text = path.read_text("utf-8")
        match = re.search(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[a-z]", text.replace("// ", ""))
        assert not match, path.name
        assert not [fragment for fragment in MARKUP if fragment in text], path.name


@pytest.mark.claim("console.text-is-text")
def test_vendored_files_match_their_listed_digests():
    listed = re.findall(r"\| `([\w.]+)` \|.*`([0-9a-f]{64})` \|", (STATIC / "vendor/VENDORED.md").read_text())
    assert {name for name, _ in listed} == {"leaflet.js", "leaflet.css", "land.json"}
    for name, digest in listed:
        assert hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() == digest


def test_output_is_downloaded_unchanged_and_never_displayed(stage: Stage, person: Person):
    path = stage.place.path('"; filename=x.html\u00e4 <b>.svg')
    path.write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    _, artifact = published(stage.place, local_user().id, path)
    href = person.post(f"api/link/{artifact.id}").json()["href"]
    reply = plain("GET", person.base + href)
    assert reply.content == path.read_bytes()
    assert reply.headers["content-type"] == "application/octet-stream"
    disposition = reply.headers["content-disposition"]
    assert disposition.startswith("attachment;")
    assert disposition.count('"') == 2  # around a name of plain letters: nothing in the name ends it
    assert disposition.count("filename=") == 1
    assert reply.headers["content-security-policy"].startswith("sandbox;")
    assert plain("GET", person.base + href).status_code == 404  # once


@pytest.mark.parametrize("number", ["0", str(10**12), str(10**30), "-1", "1.5", "x", "1%2F..%2F2"])
def test_an_output_that_is_none_is_not_found(person: Person, number: str):
    assert person.post(f"api/link/{number}").status_code in (404, 405)
    assert person.get(f"api/pictures/{number}").status_code == 404


def test_history_has_gapless_pages_and_literal_search(stage: Stage, person: Person):
    paths = [stage.place.path(f"paged-{number}.tif") for number in range(60)]
    calls = [published(stage.place, local_user().id, path)[0].id for path in paths]
    listed: list[str] = []
    cursor = ""
    while cursor is not None:
        page = person.get(f"api/calls?q=paged-&{cursor and f'cursor={cursor}'}").json()
        listed += [call["id"] for call in page["calls"]]
        cursor = page["next"]
    assert listed == calls[::-1]
    for words, count in (("paged%2559", 0), ("paged-59", 1), ("'%20OR%201=1", 0)):
        assert len(person.get(f"api/calls?q={words}").json()["calls"]) == count
    assert person.get("api/calls?cursor=x").status_code == 400
