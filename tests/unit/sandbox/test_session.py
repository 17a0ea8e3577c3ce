"""A session receives all of stderr before a call is over, and never shows the mark at its end."""

from hypothesis import given
from hypothesis import strategies as st

from sandbox import session as session_module
from sandbox.engine import STDERR, STDOUT
from sandbox.outcome import Declined
from sandbox.protocol import HEADER, FrameReader
from sandbox.session import Session
from sandbox.template import Limits

MARK = b"0123456789abcdef"


def conversing(cap: int = 1000) -> Session:
    session = Session(Limits(stderr_bytes=cap), FrameReader(), bytearray(), lambda *_: None, MARK)
    assert session.feed([(STDOUT, HEADER.pack(b"R", 2) + b"{}")]) is None
    return session


ANSWER = [(STDOUT, HEADER.pack(b"F", 10) + b'{"code":0}')]


@given(text=st.binary(max_size=60), cap=st.integers(1, 100), pieces=st.lists(st.integers(1, 20), max_size=10))
def test_output_is_kept_up_to_its_limit(text, cap, pieces):
    session, data = conversing(cap), text + MARK
    for size in pieces:
        session.feed([(STDERR, data[:size])])
        data = data[size:]
    session.feed([(STDERR, data)])
    assert session.has_all_stderr
    assert text[:cap].startswith(session.printed_stderr)
    assert len(session.printed_stderr) >= min(len(text), cap - len(MARK))
    if len(text) + len(MARK) <= cap:
        assert session.printed_stderr == text


def test_answer_waits_for_stderr_still_under_way():
    session = conversing()
    session.feed([(STDERR, MARK)])
    assert not session.is_complete  # never complete without an answer
    session = conversing()
    session.feed(ANSWER)
    session.feed([(STDERR, b"Warning 1: late")])
    assert not session.is_complete
    session.feed([(STDERR, MARK)])
    assert session.is_complete
    assert session.printed_stderr == b"Warning 1: late"


def test_job_that_closed_stderr_is_not_awaited_long(monkeypatch):
    session = conversing()
    session.feed(ANSWER)
    monkeypatch.setattr(session_module, "MARK_SECONDS", 0.0)
    assert session.is_complete
    assert session.printed_stderr == b""


def test_interim_report_may_end_the_job():
    reports: list[object] = []
    for verdict, outcome in ((True, None), (False, Declined())):
        session = conversing()
        session.on_interim = lambda value, verdict=verdict: reports.append(value) or verdict
        assert session.feed([(STDOUT, HEADER.pack(b"I", 7) + b'{"a":1}')]) == outcome
    assert reports == [{"a": 1}, {"a": 1}]
