"""The output of a container, from the engine's stream to the last word: independent of the pieces, bounded, and
typed.
"""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandbox.engine import STDERR, STDOUT
from sandbox.protocol import HEADER, LONGEST, MAX_MESSAGE, QUESTION, RANGE, Final, FrameReader, ProtocolBreach
from sandbox.questions import MAX_RANGES, MAX_READ_BYTES, Op, Question
from sandbox.session import Session
from sandbox.template import Limits
from tests.fuzz.kit import anything, tries
from tests.quick import quick

pytestmark = pytest.mark.claim("content.frames-strict")
LIMITS = Limits(stdout_bytes=64, stderr_bytes=64)
MARK = b"<end>"


def frame(kind: bytes, payload: bytes) -> bytes:
    data = HEADER.pack(kind, len(payload)) + payload
    return data.replace(b"\x10", b"\x10p").replace(b"\n", b"\x10n")


def json_bytes(value: Any) -> bytes:
    return json.dumps(value).replace("1e+308", "1e999").encode()


OBJECTS = st.dictionaries(st.text(max_size=6), anything, max_size=3) | st.fixed_dictionaries(
    {"fraction": anything, "message": anything}
)
PAYLOADS = (
    OBJECTS.map(json_bytes)
    | anything.map(json_bytes)
    | st.binary(max_size=40)
    | st.sampled_from((b"[" * 5000, b'{"a":' * 5000, b"9" * 5000, b'{"n":1e999}'))
)
FRAMES = st.builds(frame, st.sampled_from((b"R", b"O", b"P", b"I", b"B", b"F", b"Q", b"X", b"\0")), PAYLOADS)
NUMBERS = st.sampled_from((0, 1, 2, 64, 65, 2**16, 2**26, 2**26 + 1, 2**32 - 1))
QUESTIONS = st.builds(
    lambda head, name, ranges, rest: (
        QUESTION.pack(head[0], head[1] & 255, len(name) + head[2], len(ranges) + head[3])
        + name
        + b"".join(RANGE.pack(offset << 20, length) for offset, length in ranges)
        + rest
    ),
    st.tuples(NUMBERS, st.integers(0, 4), st.sampled_from((0, 0, 0, 1, 99)), st.sampled_from((0, 0, 0, 1))),
    st.sampled_from((b"", b"0/a.tif", "ä".encode(), b"\xff", b"..", b"a" * 3900)),
    st.lists(st.tuples(NUMBERS, NUMBERS), max_size=66),
    st.sampled_from((b"", b"", b"", b"x", b"x" * RANGE.size)),
).map(lambda payload: frame(b"Q", payload))
GOODS = {b"R": b"{}", b"O": b"text", b"P": b'{"fraction":0.5}', b"B": b"p.png\0x", b"F": b"{}"}
GOOD = st.sampled_from([frame(kind, payload) for kind, payload in GOODS.items()])
HUGE = st.builds(
    HEADER.pack,
    st.sampled_from((b"R", b"O", b"P", b"I", b"B", b"F", b"Q")),
    st.sampled_from((0, 1, 2**20, 2**20 + 1, 2**25, 2**31, 2**32 - 1)),
)
STREAMS = st.lists(GOOD | GOOD | FRAMES | QUESTIONS | HUGE | st.binary(max_size=9), max_size=10).map(
    lambda parts: frame(b"R", b"{}") + b"".join(parts)
)
SIZES = st.lists(st.integers(1, 60), max_size=40)


def cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [piece for piece in (*pieces, data) if piece]


def read_frames(data: bytes, sizes: Sequence[int]) -> tuple[list[Any], bool]:
    """The frames, and True if the stream broke the protocol. The size in memory is checked after every piece."""
    reader, frames = FrameReader(), []
    reader.allow_requests = True
    try:
        with quick():
            for piece in cut(data, sizes):
                frames += reader.feed(piece)
                assert len(reader._buffer) <= max(LONGEST.values()) + HEADER.size
    except ProtocolBreach:
        return frames, True
    return frames, False


@tries(70)
@given(STREAMS, SIZES)
def test_frames_and_breaches_do_not_depend_on_pieces(data: bytes, sizes: list[int]):
    frames, broken = read_frames(data, [])
    assert read_frames(data, sizes) == read_frames(data, [1] * min(len(data), 3000)) == (frames, broken)
    assert sum(isinstance(message, Final) for message in frames) <= 1
    assert not any(isinstance(message, Final) for message in frames[:-1])
    for message in frames:
        if isinstance(message, Question):
            assert sum(length for _, length in message.ranges) <= MAX_READ_BYTES
            assert len(message.ranges) <= MAX_RANGES
            assert all(offset >= 0 < length for offset, length in message.ranges)
            assert (message.op is Op.READ) == bool(message.ranges)
            message.name.encode()
        json.dumps([getattr(message, "facts", None), getattr(message, "value", None)], allow_nan=False)


@tries(50)
@given(STREAMS, SIZES, st.lists(st.binary(max_size=80), max_size=6))
@example(b"", [], [b"x" * 80, b"y" * 80])
def test_what_is_kept_of_a_conversation_is_bounded(data: bytes, sizes: list[int], errors: list[bytes]):
    progress: list[tuple[float, str]] = []
    talk = Session(LIMITS, FrameReader(), bytearray(), lambda *report: progress.append(report), MARK)
    for piece in cut(data, sizes):
        if talk.feed([(STDOUT, piece)]) is not None:
            break
    for piece in (*errors, MARK[:2], MARK[2:]):
        talk.feed([(STDERR, piece)])
    assert len(talk.stdout) <= LIMITS.stdout_bytes
    assert len(talk.stderr) <= LIMITS.stderr_bytes
    assert talk.has_all_stderr
    assert b"".join(errors).startswith(talk.printed_stderr[: len(b"".join(errors))])
    assert all(len(message.encode()) <= 4 * MAX_MESSAGE for _, message in progress)
    fractions = [fraction for fraction, _ in progress]
    assert all(0 <= fraction <= 1 for fraction in fractions)
    assert fractions == sorted(set(fractions))
