"""All of stderr is heard before a call is over, and the mark at its end is never shown."""

from hypothesis import given
from hypothesis import strategies as st

from sandbox import conversation
from sandbox.conversation import Conversation
from sandbox.outcome import Declined
from sandbox.protocol import Final, Interim
from sandbox.template import Limits

MARK = b"0123456789abcdef"


def conversing(cap: int = 1000) -> Conversation:
    return Conversation(Limits(stderr_bytes=cap), bytearray(), lambda *_: None, MARK)


@given(text=st.binary(max_size=60), cap=st.integers(1, 100), pieces=st.lists(st.integers(1, 20), max_size=10))
def test_what_was_printed_is_kept_up_to_its_limit_however_it_arrives(
    text: bytes, cap: int, pieces: list[int]
):
    heard, data = conversing(cap), text + MARK
    for size in pieces:
        heard.hear_error(data[:size])
        data = data[size:]
    heard.hear_error(data)
    assert heard.errors_ended
    assert text[:cap].startswith(heard.errors())
    assert len(heard.errors()) >= min(len(text), cap - len(MARK))
    if len(text) + len(MARK) <= cap:
        assert heard.errors() == text


def test_an_answer_is_not_the_end_while_stderr_is_on_its_way():
    heard = conversing()
    heard.hear(Final({"code": 0}))
    heard.hear_error(b"Warning 1: late")
    assert not heard.told
    heard.hear_error(MARK)
    assert heard.told
    assert heard.errors() == b"Warning 1: late"


def test_a_job_that_closed_its_stderr_is_not_waited_for_long(monkeypatch):
    heard = conversing()
    heard.hear(Final({"code": 0}))
    monkeypatch.setattr(conversation, "MARK_SECONDS", 0.0)
    assert heard.told
    assert heard.errors() == b""


def test_without_an_answer_nothing_is_over():
    heard = conversing()
    heard.hear_error(MARK)
    assert not heard.told


def test_what_a_job_reports_before_it_works_may_end_it():
    heard, told = conversing(), []
    assert heard.hear(Interim({"a": 1})) is None
    heard.on_interim = told.append
    assert heard.hear(Interim({"a": 2})) == Declined()
    assert told == [{"a": 2}]
