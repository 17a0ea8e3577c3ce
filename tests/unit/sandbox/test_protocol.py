"""The reader of a container's output: correct however the data is split, and any violation is a breach."""

import json
import sys
import tempfile
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandbox import outcome, protocol, worker
from sandbox.protocol import (
    ANSWER,
    ATTACHED_BYTES,
    HEADER,
    LENGTH,
    LONGEST,
    MAX_ATTACHMENTS,
    MAX_MESSAGE,
    QUESTION,
    RANGE,
    Attachment,
    Final,
    FrameReader,
    Interim,
    Printed,
    Progress,
    ProtocolBreach,
    Ready,
    encode_answer,
    encode_job,
)
from sandbox.questions import MAX_RANGES, MAX_READ_BYTES, Answer, Op, Question, Status


def frame(kind, payload=b""):
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    with (
        tempfile.TemporaryFile() as file
    ):  # made by a worker's own code, which otherwise runs only in containers
        worker.FrameWriter(file.fileno()).send(kind, data)
        file.seek(0)
        return file.read()


READY, FINAL = frame(b"R", {}), frame(b"F", {"code": 0})


def read(data, sizes=None):
    """The frames in `data`, fed in pieces of `sizes`, then the rest."""
    reader, frames = FrameReader(), []
    for size in sizes or ():
        frames += reader.feed(data[:size])
        data = data[size:]
    return frames + list(reader.feed(data))


def breaches(data):
    with pytest.raises(ProtocolBreach):
        read(data)


@given(st.binary(max_size=60).map(lambda data: data.replace(b"x", b"\n").replace(b"y", b"\x10")), st.data())
def test_line_ends_arrive_though_none_is_written(payload, draw):
    sent = frame(b"O", payload)
    assert b"\n" not in sent
    assert len(sent) <= 2 * (HEADER.size + len(payload))  # which bounds the size of what a node stores
    sizes = draw.draw(st.lists(st.integers(1, 9), max_size=20))
    assert read(READY + sent, [len(READY), *sizes])[1:] == [Printed(payload)]


def test_a_whole_conversation():
    data = (
        frame(b"R", {"pid": 1})
        + frame(b"O", b"printed\0\xff")
        + frame(b"I", {"inputs": []})
        + frame(b"P", {"fraction": 0.5, "message": "half"})
        + frame(b"B", b"preview.png\0\x89PNG\0")
        + frame(b"F", {"code": 0, "list": [1, 2.5, None, True, "ä"]})
    )
    assert read(data) == [
        Ready({"pid": 1}),
        Printed(b"printed\0\xff"),
        Interim({"inputs": []}),
        Progress(0.5, "half"),
        Attachment("preview.png", b"\x89PNG\0"),
        Final({"code": 0, "list": [1, 2.5, None, True, "ä"]}),
    ]


@pytest.mark.claim("content.frames-strict")
def test_frames_out_of_order_or_unknown_are_breaches(subtests):
    for data in (
        *(FINAL, frame(b"O", b"early"), frame(b"P", {"fraction": 0}), frame(b"B", b"a\0b")),
        *(READY + READY, READY + FINAL + READY, READY + FINAL + FINAL, READY + FINAL + frame(b"O", b"late")),
        *(READY + FINAL + frame(b"O"), READY + frame(b"X"), frame(b"X"), READY + frame(b"r", {})),
        *(frame(b"I", {}), READY + frame(b"I", {}) * 2, READY + FINAL + frame(b"I", {})),
    ):
        with subtests.test(data=data):
            breaches(data)


def test_frame_without_plain_json_object_is_a_breach(subtests):
    for payload in (
        b"", b"[]", b"1", b"null", b"{", b"{}{}", b"\xff{}", b'{"a":NaN}', b'{"a":Infinity}', b'{"a":[-Infinity]}',
        b'{"a":1e999}', b'{"a":-1e999}', b'{"a":%s}' % (b"9" * 21), b'{"a":' * 9000, b"[" * 4000,
    ):  # fmt: skip
        for kind in (b"R", b"P", b"I", b"F"):
            with subtests.test(payload=payload, kind=kind):
                breaches((b"" if kind == b"R" else READY) + frame(kind, payload))


def question_frame(number, op, name, ranges=(), rest=b""):
    packed = b"".join(RANGE.pack(*pair) for pair in ranges)
    return frame(b"Q", QUESTION.pack(number, op, len(name), len(ranges)) + name + packed + rest)


def read_answered(data):
    reader = FrameReader()
    reader.allow_requests = True
    return list(reader.feed(READY + data))[1:]


_RANGES = st.lists(st.tuples(st.integers(0, 2**62), st.integers(1, MAX_READ_BYTES // MAX_RANGES)), min_size=1)


@given(st.integers(0, 2**32 - 1), st.text(max_size=300), _RANGES)
def test_a_question_is_what_was_asked(number, name, ranges):
    ranges, name = tuple(ranges[:MAX_RANGES]), name.encode(errors="ignore")
    for op, given_ranges in ((Op.LOOK, ()), (Op.READ, ranges), (Op.LIST, ())):
        question = Question(number, op, name.decode(), given_ranges)
        assert read_answered(question_frame(number, op, name, given_ranges)) == [question]


@pytest.mark.claim("content.questions-strict")
def test_unknown_question_is_a_breach(subtests):
    span, name = (0, 1), b"0/a.tif"
    for data in (
        *(question_frame(1, op, name) for op in (0, 4, 255)),
        *(
            question_frame(1, Op.READ, name),
            question_frame(1, Op.LOOK, name, [span]),
            question_frame(1, Op.LIST, name, [span]),
        ),
        *(
            question_frame(1, Op.READ, name, [span] * (MAX_RANGES + 1)),
            question_frame(1, Op.READ, name, [(0, 0)]),
        ),
        *(
            question_frame(1, Op.READ, name, [(0, MAX_READ_BYTES), span]),
            question_frame(1, Op.READ, name, [(2**63, 1)]),
        ),
        *(
            question_frame(1, Op.LOOK, b"\xff"),
            question_frame(1, Op.LOOK, name, rest=b"x"),
            question_frame(1, Op.LOOK, b"a" * 4096),
        ),
        *(
            frame(b"Q"),
            frame(b"Q", QUESTION.pack(1, 1, 9, 0) + b"short"),
            FINAL + question_frame(1, Op.LOOK, name),
        ),
    ):
        with subtests.test(data=data[:40]), pytest.raises(ProtocolBreach):
            read_answered(data)
    breaches(READY + question_frame(1, Op.LOOK, name))  # of a job that has no answerer


def test_progress_is_bounded_and_needs_a_number():
    data = READY + frame(b"P", {"fraction": -3, "message": "x" * 500}) + frame(b"P", {"fraction": 7})
    _, low, high = read(data)
    assert (low.fraction, len(low.message), high.fraction) == (0.0, MAX_MESSAGE, 1.0)
    for fraction in ["true", "null", '"1"', "[]", "1e400", "9" * 400]:
        breaches(READY + frame(b"P", b'{"fraction":%s}' % fraction.encode()))


def test_every_number_of_64_bits_is_read():
    for number in [2**64 - 1, -(2**63), 1.7976931348623157e308, 5e-324, 0, -0.0]:
        assert read(frame(b"R", {"a": number})) == [Ready({"a": number})]


@pytest.mark.claim("content.frames-strict")
def test_oversized_frame_is_a_breach_before_it_arrives():
    for kind in [b"R", b"O", b"P", b"B", b"F", b"X"]:
        start = b"" if kind == b"R" else READY
        for length in (LONGEST.get(kind, 0) + 1, 2**32 - 1):
            breaches(start + HEADER.pack(kind, length))


def test_the_longest_frame_is_read():
    for kind in [b"O", b"B"]:
        payload = b"a\0" + bytes(LONGEST[kind] - 2)
        assert len(read(READY + frame(kind, payload))[1].data) >= LONGEST[kind] - 2


@pytest.mark.claim("content.frames-strict")
def test_memory_stays_below_the_longest_frame():
    reader, chunk = FrameReader(), b"x" * (1 << 20)
    list(reader.feed(READY + HEADER.pack(b"B", LONGEST[b"B"])))
    for _ in range(LONGEST[b"B"] // len(chunk) - 1):
        assert list(reader.feed(chunk)) == []
    assert sys.getsizeof(reader._buffer) < 2 * LONGEST[b"B"]
    assert len(list(reader.feed(chunk))) == 1
    assert len(reader._buffer) == 0


def test_frame_of_very_many_values_is_a_breach():
    message = frame(b"F", b'{"code":0,"a":[' + b"[]," * 2_000_000 + b"0]}")
    tracemalloc.start()
    try:
        breaches(READY + message)
        assert tracemalloc.get_traced_memory()[1] < 10 * len(message)
    finally:
        tracemalloc.stop()


def test_attachments_are_counted_even_under_one_name():
    attachment = frame(b"B", b"a\0b")
    assert len(read(READY + attachment * MAX_ATTACHMENTS)) == 1 + MAX_ATTACHMENTS
    breaches(READY + attachment * (MAX_ATTACHMENTS + 1))


@pytest.mark.claim("sandbox.attachments-bounded-together")
def test_attachments_are_bounded_in_total():
    half = frame(b"B", b"a\0" + bytes(ATTACHED_BYTES // 2))
    reader = FrameReader()
    assert len(list(reader.feed(READY + half + half))) == 3
    with pytest.raises(ProtocolBreach):
        list(reader.feed(frame(b"B", b"b\0x")))


@example(b"x" * 65 + b"\0data")
@given(st.binary(max_size=100))
def test_an_attachment_has_a_short_name_of_text(payload):
    (_, attachment) = read(READY + frame(b"B", payload))
    assert len(attachment.name) <= 64
    attachment.name.encode()


def test_jobs_and_answers_have_their_frame_format():
    data = encode_job({"argv": ["ä", "\n"], "n": 1}, 2.5)
    assert LENGTH.unpack(data[: LENGTH.size]) == (len(data) - LENGTH.size,)
    rest = {"deadline_seconds": 2.5, "end_mark": "", "stay_seconds": 0.0}
    assert json.loads(data[LENGTH.size :]) == {"request": {"argv": ["ä", "\n"], "n": 1}, **rest}
    data = encode_answer(7, Answer(Status.EIO, b"why"))
    assert (ANSWER.unpack_from(data), data[ANSWER.size :]) == ((7, 2, 3), b"why")


def test_worker_and_host_share_structures_and_exit_codes():
    for name in ("HEADER", "LENGTH", "QUESTION", "RANGE", "ANSWER"):
        assert getattr(worker, name).format == getattr(protocol, name).format
    assert (worker.EXIT_ORPHANED, worker.EXIT_DEADLINE) == (outcome._ORPHANED, outcome._WORKER_DEADLINE)
    assert worker.EXIT_FILE_LIMIT == outcome._SIGXFSZ
