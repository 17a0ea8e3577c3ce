"""Uploads over HTTP: accepted completely or not at all, examined in a container, and only to permitted places."""

import hashlib
import os
import socket
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from gdal_mcp.policy.identity import READ, WRITE
from tests.e2e.web.files_kit import SECRET, Sender, arriving, csv, digest_field, outside, tree, undo
from tests.waiting import until

pytestmark = pytest.mark.engine


@pytest.fixture
def untouched(sender: Sender) -> Iterator[None]:
    """Checks that nothing in the workspace or its staging has changed after the test."""
    before = tree(sender.hosted.place)
    yield
    assert tree(sender.hosted.place) == before


def events(sender: Sender, call: str) -> list[dict[str, object]]:
    return [event for event in sender.hosted.place.audited if event.get("call") == call]


def test_uploaded_file_is_an_ordinary_output(sender: Sender):
    place = sender.hosted.place
    data = place.path("dem.tif").read_bytes()
    reply = sender.put("sent.tif", data, content_digest=digest_field(data))
    assert reply.status_code == 201
    assert place.path("sent.tif").read_bytes() == data
    result, location = reply.json(), reply.headers["location"]
    assert result["outputs"][0]["description"]["driver"] == "GTiff"
    assert sender.ask("GET", location).content == data
    recorded = events(sender, location.split("/")[2])
    assert recorded[-1]["outputs"][0]["sha256"] == hashlib.sha256(data).hexdigest()
    assert [event["type"] for event in recorded] == ["call.started", "call.finished"]
    assert {event["subject"]["principal"] for event in recorded} == {"token:ann"}
    assert hashlib.sha256(data).hexdigest() in str(recorded[0]["object"])
    with sender.hosted.talking(sender.token or "") as talk:
        listed = [str(resource.uri) for resource in talk.ask("list_resources").resources]
    assert place.path("sent.tif").as_uri() in listed
    assert arriving(place) == []


@pytest.mark.claim("http.uploads")
def test_what_an_upload_replaces_comes_back_with_undo(sender: Sender):
    place = sender.hosted.place
    target, beside = place.path("kept.csv"), place.path("kept.csv.aux.xml")
    target.write_bytes(csv("first"))
    beside.write_text("<PAMDataset/>")  # belongs to the replaced file, and would be wrong for the new one
    assert sender.put("kept.csv", csv("second"), if_none_match="*").status_code == 412
    assert target.read_bytes() == csv("first")
    reply = sender.put("kept.csv", csv("second"))
    assert reply.status_code == 200
    assert (target.read_bytes(), beside.exists()) == (csv("second"), False)
    undo(place, reply.headers["location"])
    assert (target.read_bytes(), beside.exists()) == (csv("first"), True)


@pytest.mark.claim("http.uploads")
@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    "target",
    [
        "0/../x.csv", "0/%2e%2e/x.csv", "0/..%2fx.csv", "0/a/../../x.csv", "0//etc/x.csv", "0/%2fetc/x.csv",
        "0/.gdal-mcp/x.csv", "0/.GDAL-MCP/undo/x.csv", "0/x%00.csv", "0/x%0a.csv", "0/x%ff.csv", "0/x%e2%80%a8.csv",
        "0/", "0", "", "0/.", "0/..", "0/x/", "1/x.csv", "-1/x.csv", "00000/x.csv", f"{'9' * 5000}/x.csv",
        "0/none/x.csv", f"0/{'n' * 256}.csv", f"0/{'d/' * 2500}x.csv", "0/dem.tif/x.csv", "0/PG:x.csv", "0/a:b:c",
        "%30/../../x.csv", "0/link/x.csv", "0/link.csv", "0/folder", "0/pipe.csv",
    ],
)  # fmt: skip
def test_upload_address_cannot_leave_the_output_places(sender: Sender, target: str):
    place = sender.hosted.place
    traps = {"link": place.workspace.parent, "link.csv": outside(place)}
    for name, to in traps.items():
        place.path(name).symlink_to(to)
    place.path("folder").mkdir()
    os.mkfifo(place.path("pipe.csv"))
    around = sorted(place.workspace.parent.iterdir())
    connection = HTTPConnection(sender.hosted.host, timeout=60)  # sends an address unchanged
    try:
        connection.request("PUT", f"/uploads/{target}", csv("x"), {"Authorization": f"Bearer {sender.token}"})
        assert connection.getresponse().status in (400, 403, 404, 405, 422)
    finally:
        connection.close()
        for name in (*traps, "pipe.csv"):
            place.path(name).unlink()
        place.path("folder").rmdir()
    assert outside(place).read_bytes() == SECRET
    assert sorted(place.workspace.parent.iterdir()) == around


@pytest.mark.claim("http.uploads")
@pytest.mark.usefixtures("untouched")
def test_what_gdal_cannot_read_is_not_taken(sender: Sender):
    for name in ("bad.tif", "bad.sql"):  # GDAL can write the second format but not read it
        reply = sender.put(name, b"\x00\x01 this is nothing")
        assert reply.status_code == 422
        assert reply.json()["error"]["code"] == "OUTPUT_REJECTED"


HOSTILE = {
    "raw.vrt": '<VRTDataset rasterXSize="9" rasterYSize="1"><VRTRasterBand dataType="Byte" band="1" subClass="VRTRawRasterBand">'
    '<SourceFilename relativetoVRT="0">{path}</SourceFilename></VRTRasterBand></VRTDataset>',
    "source.vrt": '<OGRVRTDataSource><OGRVRTLayer name="outside"><SrcDataSource>{path}</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>',
}


@pytest.mark.claim("http.uploads")
@pytest.mark.parametrize("name", HOSTILE)
def test_uploaded_file_naming_others_reveals_nothing(sender: Sender, name: str):
    """Whether or not it is accepted, no answer and no file made from it contains data from outside."""
    place = sender.hosted.place
    reply = sender.put(name, HOSTILE[name].format(path=outside(place)).encode())
    with sender.hosted.talking(sender.token or "") as talk:
        answers = [talk.call("info", path=name)]
        if reply.status_code == 201:
            answers.append(talk.call("convert", input=name, output=f"from_{name}.geojson"))
    texts = [reply.content, *(str(answer.structured_content).encode() for answer in answers)]
    texts += [path.read_bytes() for path in place.workspace.glob("from_*")]
    assert not any(b"nobody may read this" in data for data in texts)
    place.path(name).unlink(missing_ok=True)


@pytest.mark.claim("http.uploads")
@pytest.mark.usefixtures("untouched")
def test_bytes_unlike_the_promised_digest_are_refused(sender: Sender):
    for field in ("content_digest", "repr_digest"):
        assert sender.put("x.csv", csv("x"), **{field: digest_field(csv("y"))}).status_code == 400
        assert sender.put("x.csv", csv("x"), **{field: "sha-256=:nonsense:"}).status_code == 400
    for header in ({"content_range": "bytes 0-1/9"}, {"if_match": '"x"'}, {"content_encoding": "gzip"}):
        assert sender.put("x.csv", csv("x"), **header).status_code == 400


@pytest.mark.claim("http.uploads")
@pytest.mark.usefixtures("untouched")
def test_only_who_may_write_sends_files(sender: Sender):
    place = sender.hosted.place
    for scopes in ((READ,), (WRITE,)):
        with Sender(sender.hosted, sender.hosted.token(f"only-{scopes[0][5:]}", *scopes)) as user:
            assert user.put("x.csv", csv("x")).status_code == 403
    with Sender(sender.hosted) as nobody:
        assert nobody.put("x.csv", csv("x")).status_code == 401
    assert arriving(place) == []


def begin_upload(sender: Sender, name: str, *headers: str) -> socket.socket:
    """A connection that has sent the head of an upload."""
    opened = sender.hosted.connected()
    first = (f"PUT /uploads/0/{name} HTTP/1.1", f"Host: {sender.hosted.host}")
    lines = (*first, f"Authorization: Bearer {sender.token}", *headers, "", "")
    opened.sendall("\r\n".join(lines).encode())
    return opened


@pytest.mark.usefixtures("untouched")
def test_an_upload_whose_sender_leaves_leaves_nothing(sender: Sender):
    place = sender.hosted.place
    for length in ("Content-Length: 1000000", "Transfer-Encoding: chunked"):
        opened = begin_upload(sender, "x.csv", length)
        opened.sendall(b"400\r\n" + b"x" * 0x400 if "chunked" in length else b"x" * 1000)
        until(lambda: arriving(place) != [])
        opened.close()
        until(lambda: arriving(place) == [])


def test_bytes_beyond_the_promised_length_are_dropped(sender: Sender):
    data = csv("row")
    opened = begin_upload(sender, "longer.csv", f"Content-Length: {len(data)}", "Connection: close")
    opened.sendall(data + b"more,9,9\n")
    answer = opened.makefile("rb").read()
    opened.close()
    assert b"201" in answer.split(b"\r\n", 1)[0]
    assert sender.hosted.place.path("longer.csv").read_bytes() == data


@pytest.mark.usefixtures("untouched")
def test_simultaneous_uploads_per_sender_are_bounded(sender: Sender):
    place = sender.hosted.place
    first = [begin_upload(sender, f"{number}.csv", "Content-Length: 9") for number in range(2)]
    until(lambda: len(arriving(place)) == 2)
    assert sender.put("3.csv", csv("x")).status_code == 429
    for opened in first:
        opened.close()
    until(lambda: arriving(place) == [])
