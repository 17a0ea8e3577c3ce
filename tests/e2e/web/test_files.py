"""Outputs over HTTP: complete, in parts, by link, and for an attacker with a valid token."""

import hashlib
import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdal_mcp.policy.identity import ADMIN, READ
from gdal_mcp.policy.tokens import TokenStore
from tests.e2e.web.files_kit import Sender, csv, digest_field
from tests.e2e.web.hosted import Hosted
from tests.waiting import until

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def stranger(http_server: Hosted, bob: str) -> Iterator[Sender]:
    with Sender(http_server, bob) as sender:
        yield sender


@pytest.fixture(scope="module")
def anybody(http_server: Hosted) -> Iterator[Sender]:
    with Sender(http_server) as sender:
        yield sender


@pytest.fixture(scope="module")
def served(sender: Sender) -> str:
    """The path of an output of a call, which follows from the call's id and the file name."""
    with sender.hosted.talking(sender.token) as talk:
        result = talk.done("convert", input="zones.gpkg", output="files_zones.shp")
    return f"/files/{result['receipt']['call_id']}/files_zones.shp"


@pytest.fixture(scope="module")
def data(sender: Sender, served: str) -> bytes:
    return sender.hosted.place.path(served.rpartition("/")[2]).read_bytes()


def test_file_is_served_with_digest_type_and_name(sender: Sender, served: str, data: bytes):
    reply = sender.ask("GET", served)
    assert reply.status_code == 200
    assert reply.content == data
    assert reply.headers["etag"] == f'"{hashlib.sha256(data).hexdigest()}"'
    assert reply.headers["repr-digest"] == digest_field(data)
    assert reply.headers["content-type"] == "application/vnd.shp"
    assert reply.headers["content-disposition"].startswith("attachment;")
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in reply.headers["content-security-policy"]
    assert sender.ask("GET", served, headers={"If-None-Match": reply.headers["etag"]}).status_code == 304
    assert sender.ask("GET", served, headers={"If-Match": '"other"'}).status_code == 412
    head = sender.ask("HEAD", served)
    assert (head.status_code, head.content) == (200, b"")
    names = ("etag", "content-length", "accept-ranges", "last-modified", "content-type")
    assert [head.headers[name] for name in names] == [reply.headers[name] for name in names]


def test_files_of_a_call_are_served_together(sender: Sender, served: str):
    rows = sender.ask("GET", served.rpartition("/")[0]).json()["files"]
    assert {Path(row["name"]).suffix for row in rows} >= {".shp", ".shx", ".dbf", ".prj"}
    for row in rows:
        reply = sender.ask("GET", row["url"].removeprefix(sender.hosted.base))
        assert hashlib.sha256(reply.content).hexdigest() == row["sha256"]


def test_a_result_says_where_its_files_are_served(sender: Sender):
    with sender.hosted.talking(sender.token) as talk:
        content = talk.call("convert", input="zones.gpkg", output="files_told.geojson").content
    (link,) = [part for part in content if part.type == "resource_link"]
    address = link.meta["io.gdal-mcp/download"]
    assert address.startswith(sender.hosted.base)
    reply = sender.ask("GET", address.removeprefix(sender.hosted.base))
    assert reply.content == sender.hosted.place.path("files_told.geojson").read_bytes()


@pytest.mark.claim("http.files")
def test_nobody_reads_lists_or_links_another_ones_file(sender, stranger, served, anybody):
    for path in (served, served.rpartition("/")[0]):
        never = path.replace(served.split("/")[2], "0123456789abcdef")
        for method in ("GET", "HEAD"):
            refused, absent = stranger.ask(method, path), stranger.ask(method, never)
            assert (refused.status_code, refused.content) == (404, absent.content)
            assert sender.ask(method, path).status_code == 200
    assert stranger.ask("POST", served).status_code == 404
    assert anybody.ask("GET", served).status_code == 401
    made_up = {"Authorization": f"Bearer gdalmcp_{'0' * 16}_{'a' * 43}"}
    assert anybody.ask("GET", served, headers=made_up).status_code == 401


def test_administrator_reads_everything_but_shares_none_of_it(sender, served, data):
    with Sender(sender.hosted, sender.hosted.token("files-admin", READ, ADMIN)) as admin:
        assert admin.ask("GET", served).content == data
        assert admin.ask("POST", served).status_code == 403


@pytest.mark.claim("http.files")
def test_no_address_leads_beyond_listed_files(sender: Sender):
    for path in (
        "../uploads", "%2e%2e/x", "/etc/passwd", "0123456789abcdef/..%2f..%2fetc", "%00/x",
        "0123456789abcdef/%ff", f"{'a' * 3000}/x",
    ):  # fmt: skip
        # sends an address unchanged
        connection = http.client.HTTPConnection(sender.hosted.host, timeout=30)
        connection.request("GET", f"/files/{path}", headers={"Authorization": f"Bearer {sender.token}"})
        assert connection.getresponse().status in (404, 405), path
        connection.close()


def test_file_name_cannot_add_headers(sender: Sender):
    name = 'a"; filename=evil.html; x="%0d%0aX-Evil: é.csv'
    path = sender.published(name, csv("row"))
    reply = sender.ask("GET", path)
    assert reply.content == csv("row")
    assert "x-evil" not in reply.headers
    disposition = reply.headers["content-disposition"]
    assert disposition.count('"') == 2
    assert disposition.count("filename=") == 1
    assert disposition.isascii()


def test_link_reads_one_file_for_any_holder(sender, stranger, served, data, anybody):
    link = sender.link(served)
    recorded = sender.hosted.place.audited[-1]
    assert (recorded["type"], recorded["call"]) == ("link.made", served.split("/")[2])
    assert anybody.ask("GET", link).content == data
    assert anybody.ask("HEAD", link).headers["content-length"] == str(len(data))
    assert anybody.ask("GET", link, headers={"Range": "bytes=0-3"}).content == data[:4]
    query = link.partition("?")[2]
    beside = served.replace(".shp", ".dbf")
    assert anybody.ask("GET", f"{beside}?{query}").status_code == 403
    assert anybody.ask("GET", f"{served.rpartition('/')[0]}?{query}").status_code == 401
    for method in ("POST", "PUT", "DELETE"):
        assert anybody.ask(method, link).status_code in (401, 405)
    assert stranger.ask("GET", link).content == data  # without a token
    assert stranger.ask("GET", served).status_code == 404


@pytest.mark.claim("http.links")
def test_link_expires_within_an_hour(sender, served, anybody):
    link = sender.link(served, seconds=1)
    until(lambda: anybody.ask("GET", link).status_code == 403)
    for seconds in ("0", "-1", "3601", "nan", "inf", "1e9", "x"):
        assert sender.ask("POST", f"{served}?seconds={seconds}").status_code == 400


@pytest.mark.claim("http.links")
def test_link_ends_with_the_token_of_its_maker(http_server: Hosted, anybody: Sender):
    with Sender(http_server, http_server.token("leaving")) as leaving:
        path = leaving.published("leaving.csv", csv("row"))
        link = leaving.link(path)
    assert anybody.ask("GET", link).status_code == 200
    TokenStore(http_server.place.state / "tokens.sqlite").revoke("leaving")
    assert anybody.ask("GET", link).status_code == 403
    with Sender(http_server, http_server.token("leaving")) as again:
        assert anybody.ask("GET", link).status_code == 403
        assert anybody.ask("GET", again.link(path)).status_code == 200


def test_a_folder_is_listed_but_not_served(sender: Sender):
    with sender.hosted.talking(sender.token) as talk:
        arguments = {"input": "rgb.tif", "output": "files_tiles", "min-zoom": 3, "max-zoom": 3}
        result = talk.done("gdal_write", algorithm="raster tile", arguments=arguments)
    call = f"/files/{result['receipt']['call_id']}"
    assert [row["folder"] for row in sender.ask("GET", call).json()["files"]] == [True]
    assert sender.ask("GET", f"{call}/files_tiles").status_code == 404
