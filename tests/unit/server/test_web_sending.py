"""Files over HTTP: conditions, ranges, and answers that are cut off rather than wrong."""

import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers
from starlette.types import Message

from gdal_mcp.server.http.files import precondition
from gdal_mcp.server.http.sending import ChangedWhileSent, OpenFile

DATA = bytes(range(100))
TAG = '"abc"'
DATED = "Tue, 14 Nov 2023 22:13:20 GMT"
CUT = -1  # the status of an answer without its end


class Sent:
    """The answer to a request for an open file with DATA."""

    def __init__(self, path: Path, method: str = "GET", size: int = 100, **headers: str) -> None:
        path.write_bytes(DATA[:size])
        self.body, self.start, self.whole = b"", {}, False
        self.file = os.open(path, os.O_RDONLY)
        self.path = path
        pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        self.scope = {"type": "http", "method": method, "headers": pairs}
        self.left = anyio.Event()

    def run(self, reply: OpenFile | None = None) -> "Sent":
        headers = {"Content-Type": "x/y", "ETag": TAG, "Last-Modified": DATED}
        anyio.run(reply or OpenFile(self.file, headers, self.close), self.scope, self.receive, self.send)
        return self

    def close(self) -> None:
        os.close(self.file)

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.start = message
        else:
            self.body += message["body"]
            self.whole = not message.get("more_body", False)

    @property
    def answer(self) -> tuple[int, bytes]:
        return int(self.start["status"]), self.body


def test_a_range_is_answered_with_that_part(tmp_path: Path):
    for text, start, stop in (
        ("bytes=0-0", 0, 1), ("bytes=0-9", 0, 10), ("bytes=90-", 90, 100), ("bytes=99-99", 99, 100),
        ("bytes=-1", 99, 100), ("bytes=-1000", 0, 100), ("bytes=5-999999999999999", 5, 100),
    ):  # fmt: skip
        sent = Sent(tmp_path / "f", range=text).run()
        assert sent.answer == (206, DATA[start:stop]), text
        headers = Headers(raw=sent.start["headers"])
        assert headers["content-range"] == f"bytes {start}-{stop - 1}/100"
        assert headers["content-length"] == str(stop - start)


def test_invalid_ranges_return_the_whole_file(tmp_path: Path):
    many = "bytes=" + ",".join("0-" for _ in range(5000))
    for text in ("", "bytes", "bytes=-", "bytes=a-b", "bytes=--1", "lines=1-2", "bytes=0-1,5-6", many):
        assert Sent(tmp_path / "f", range=text).run().answer == (200, DATA), text
    assert Sent(tmp_path / "f", "HEAD", range="bytes=0-1").run().answer == (200, b"")
    for text, size in (("bytes=100-", 100), ("bytes=100-200", 100), ("bytes=-0", 100), ("bytes=0-", 0)):
        assert Sent(tmp_path / "f", size=size, range=text).run().answer == (416, b""), text


@pytest.mark.claim("http.ranges-stay-in-the-file")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.text(alphabet="bytes=-,0123456789 x", max_size=40), st.integers(0, 100))
def test_every_requested_range_lies_within_the_file(tmp_path: Path, text: str, size: int):
    status, body = Sent(tmp_path / "f", size=size, range=f"bytes={text}").run().answer
    assert status in (200, 206, 400, 416)
    assert body in DATA[:size] or status == 400


def test_range_needs_the_same_version_of_the_file(tmp_path: Path):
    for condition, same in ((TAG, True), (DATED, True), ('"other"', False), (f"W/{TAG}", False), ("", False)):
        status, _ = Sent(tmp_path / "f", range="bytes=0-1", if_range=condition).run().answer
        assert (status == 206) is same, condition


def test_file_that_changes_during_transfer_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(OpenFile, "chunk_size", 10)
    sent = Sent(tmp_path / "f")

    def check() -> None:
        if len(sent.body) >= 30:
            raise ChangedWhileSent

    sent.run(OpenFile(sent.file, {"Content-Type": "x/y"}, sent.close, check))
    assert (len(sent.body), sent.whole) == (30, False)
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(sent.file)


def test_nothing_is_read_for_a_client_that_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(OpenFile, "chunk_size", 1)
    sent = Sent(tmp_path / "f")
    real = sent.send

    async def send(message: Message) -> None:
        await real(message)
        if sent.body:
            sent.left.set()
            await anyio.lowlevel.checkpoint()

    sent.send = send  # type: ignore[method-assign]
    sent.run()
    assert 0 < len(sent.body) < len(DATA)
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(sent.file)


def judged(**headers: str) -> Any:
    return precondition(Headers({name.replace("_", "-"): value for name, value in headers.items()}), TAG)


def test_conditions_are_evaluated_in_standard_order():
    for wanted in (
        {}, {"if_none_match": '"other"'}, {"if_none_match": "abc"}, {"if_match": TAG}, {"if_match": "*"},
    ):  # fmt: skip
        assert judged(**wanted) is None, wanted
    for known in (TAG, f"W/{TAG}", f'"other", {TAG}', "*"):
        assert judged(if_none_match=known) == 304, known
    for tag in ('"other"', f"W/{TAG}", ""):
        assert judged(if_match=tag) == 412, tag
    assert judged(if_match='"other"', if_none_match=TAG) == 412
