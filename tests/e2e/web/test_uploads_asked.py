"""Uploads that need approval, and uploads with small limits."""

import select
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gdal_mcp.approvals.model import Decision
from tests.e2e.console.kit import approvals
from tests.e2e.mcp.talk import Place
from tests.e2e.web.files_kit import Sender, arriving, csv, tree
from tests.e2e.web.hosted import Hosted, hosting
from tests.e2e.web.test_uploads import begin_upload
from tests.waiting import until

pytestmark = pytest.mark.engine
MOST = 64 << 10
POLICY = f"""
[[principal]]
principals = ["token:little"]
output_bytes_a_day = {len(csv("row")) + 10}

[[principal]]
principals = ["token:asks"]
tools = ["info"]

[[principal]]
principals = ["token:reads"]
read_only = true

[[principal]]
principals = ["token:ann", "token:bob"]

[[rule]]
decision = "allow"
principals = ["token:little"]
"""


@pytest.fixture(scope="module")
def strict(grounds: Path) -> Iterator[Hosted]:
    """A server that asks before it writes, accepts only small files, and waits two seconds for them."""
    place = Place.made(grounds / "strict")
    policy = grounds / "strict.toml"
    policy.write_text(POLICY)
    policy.chmod(0o600)
    options = ("--policy", str(policy), "--upload-size", str(MOST), "--upload-seconds", "2")
    with hosting(place, grounds / "strict.log", *options) as hosted:
        yield hosted
    assert place.staged == []


@pytest.fixture(scope="module")
def sender_of(strict: Hosted) -> Iterator[Callable[[str], Sender]]:
    """`sender_of(name)`: a user with a token of that name."""
    names = ("ann", "bob", "little", "asks", "reads", "new")
    senders = {name: Sender(strict, strict.token(name)) for name in names}
    yield senders.__getitem__
    for sender in senders.values():
        sender.__exit__()


def approve(place: Place, approval: object) -> None:
    yes = Decision(approved=True, by="the person", how="a page", way="console")
    with approvals(place) as store:
        assert store.decide(str(approval), yes)


def question(sender: Sender, name: str, data: bytes) -> dict[str, object]:
    reply = sender.put(name, data)
    assert reply.status_code == 409, reply.text
    return reply.json()["error"]["requiresConfirmation"]


@pytest.mark.claim("http.uploads")
def test_upload_needs_one_approval_for_exactly_these_bytes(sender_of, strict):
    ann, place = sender_of("ann"), strict.place
    before = tree(place)
    first = question(ann, "asked.csv", csv("mine"))
    assert tree(place) == before
    approve(place, first["approval"])
    for sender, name, data in (
        (ann, "asked.csv", csv("more")),
        (ann, "other.csv", csv("mine")),
        (sender_of("bob"), "asked.csv", csv("mine")),
    ):
        assert question(sender, name, data)["approval"] != first["approval"]
    assert tree(place) == before
    assert ann.put("asked.csv", csv("mine")).status_code == 201
    assert place.path("asked.csv").read_bytes() == csv("mine")
    place.path("asked.csv").unlink()
    assert question(ann, "asked.csv", csv("mine"))["approval"] != first["approval"]


def test_server_part_without_uploads_accepts_none(sender_of, strict):
    before = tree(strict.place)
    for name in ("asks", "reads", "new"):
        reply = sender_of(name).put("x.csv", csv("x"))
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "DENIED")
    assert tree(strict.place) == before
    uploads = [event for event in strict.place.audited if event.get("tool") == "upload"]
    denied = [event for event in uploads if event.get("outcome") == "DENIED"]
    assert {event["subject"]["principal"] for event in denied} >= {"token:asks", "token:reads", "token:new"}


def test_what_a_day_allows_is_not_passed(sender_of: Callable[[str], Sender], strict: Hosted):
    assert sender_of("little").put("first.csv", csv("row")).status_code == 201
    reply = sender_of("little").put("second.csv", csv("row"))
    assert reply.status_code == 429
    assert int(reply.headers.get("retry-after", "1")) > 0
    assert not strict.place.path("second.csv").exists()


def status(opened: socket.socket) -> int:
    with opened, opened.makefile("rb") as answer:
        return int(answer.readline().split()[1])


def test_oversized_upload_is_refused_before_sending(sender_of: Callable[[str], Sender], strict: Hosted):
    opened = begin_upload(
        sender_of("ann"), "large.csv", f"Content-Length: {MOST + 1}", "Expect: 100-continue"
    )
    assert status(opened) == 413
    assert arriving(strict.place) == []


@pytest.mark.claim("http.uploads")
def test_upload_without_length_is_cut_off(sender_of: Callable[[str], Sender], strict: Hosted):
    opened = begin_upload(sender_of("ann"), "large.csv", "Transfer-Encoding: chunked")
    piece = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    try:
        for _ in range(200):
            opened.sendall(piece)
    except OSError:  # the server stopped reading
        pass
    else:
        assert status(opened) == 413
    opened.close()
    assert not strict.place.path("large.csv").exists()


def test_upload_that_is_too_slow_is_not_awaited(sender_of: Callable[[str], Sender], strict: Hosted):
    """It never pauses, and would take forever."""
    opened = begin_upload(sender_of("ann"), "slow.csv", "Content-Length: 60000")

    def answered() -> bool:
        ready, _, _ = select.select([opened], [], [], 0)
        if not ready:
            opened.sendall(b"x")
        return bool(ready)

    until(answered, seconds=20)
    assert status(opened) == 408
    assert arriving(strict.place) == []
