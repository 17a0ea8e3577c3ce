"""Frames between host and worker. Pure. Everything that comes from a container is untrusted.

Invariants of a reader:
* no frame is longer than its kind allows, so that memory is bounded;
* `Ready` comes first and once, `Interim` at most once, and nothing comes after `Final`;
* a `Question` is accepted only if the job may ask;
* JSON is an object, and its numbers are finite and have at most 64 bits;
* any violation raises `ProtocolBreach`, the only exception, which the runner turns into an outcome.
"""

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn

from sandbox.parsing import parse_json
from sandbox.questions import MAX_RANGES, MAX_READ_BYTES, Answer, Op, Question

HEADER = struct.Struct(">cI")
LENGTH = struct.Struct(">I")
ESCAPE = b"\x10"  # followed by n it means a newline, followed by p itself
# the longest payload of each kind, in bytes
LONGEST = MappingProxyType(
    {b"R": 1 << 20, b"O": 1 << 20, b"P": 4 << 10, b"I": 1 << 20, b"B": 32 << 20, b"F": 8 << 20, b"Q": 4 << 10}
)
QUESTION = struct.Struct(">IBHH")  # id, op, bytes of the name, ranges; then the name, then the ranges
RANGE = struct.Struct(">QI")  # offset, length
ANSWER = struct.Struct(">IBQ")  # id, status, length; then the body
MAX_OFFSET = 1 << 62  # GDAL uses signed 64-bit numbers and adds to them
MAX_ATTACHMENTS = 16
ATTACHED_BYTES = 32 << 20  # bytes of all attachments of one conversation, which are stored until its end
MAX_DIGITS = 20  # digits of a whole number: 64 bits, with or without a sign
MAX_VALUES = 300_000  # members and elements of one frame: an answer that lists 20,000 rows has fewer
MAX_MESSAGE = 200  # characters of a progress message


class ProtocolBreach(Exception):
    """The container sent something that no worker sends."""


@dataclass(frozen=True, slots=True)
class Ready:
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Printed:
    data: bytes


@dataclass(frozen=True, slots=True)
class Progress:
    fraction: float  # 0 to 1
    message: str


@dataclass(frozen=True, slots=True)
class Interim:
    """The job's report before it begins to work. The host may end the job because of it."""

    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Attachment:
    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Final:
    value: Mapping[str, Any]


Frame = Ready | Printed | Progress | Interim | Attachment | Final | Question


def encode_job(
    request: Mapping[str, Any], deadline_seconds: float, end_mark: str = "", stay_seconds: float = 0.0
) -> bytes:
    """The message with the job, the only one that a host sends before answers.

    A worker prints `end_mark` at the end of stderr, which has no frames. After a success, it waits `stay_seconds` for
    its removal.
    """
    job = {
        "request": request,
        "deadline_seconds": deadline_seconds,
        "end_mark": end_mark,
        "stay_seconds": stay_seconds,
    }
    data = json.dumps(job, allow_nan=False).encode()
    return LENGTH.pack(len(data)) + data


def encode_answer(id_: int, answer: Answer) -> bytes:
    """The reply to a question, which a host sends after the job."""
    return ANSWER.pack(id_, answer.status, len(answer.body)) + answer.body


class FrameReader:
    """Splits a byte stream into frames and checks their order. `allow_requests` is True if the job may ask questions."""

    def __init__(self) -> None:
        self.allow_requests = False
        self._buffer = bytearray()
        self._pending = b""
        self._ready = False
        self._interim = False
        self._final = False
        self._attachments = 0
        self._attached = 0  # bytes

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that `data` completes. Raises ProtocolBreach."""
        data = self._pending + data
        # an escape is incomplete without its second byte
        self._pending = data[-1:] if data.endswith(ESCAPE) else b""
        complete = data[: len(data) - len(self._pending)]
        self._buffer += complete.replace(ESCAPE + b"n", b"\n").replace(ESCAPE + b"p", ESCAPE)
        while len(self._buffer) >= HEADER.size:
            kind, length = HEADER.unpack_from(self._buffer)
            if length > LONGEST.get(kind, -1):
                raise ProtocolBreach(f"a frame of kind {kind!r} and {length} bytes")
            end = HEADER.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[HEADER.size : end])
            del self._buffer[:end]
            yield self._frame(kind, payload)

    def _frame(self, kind: bytes, payload: bytes) -> Frame:
        if self._final:
            raise ProtocolBreach("a frame after the final one")
        if (kind == b"R") == self._ready or (kind == b"I" and self._interim):
            raise ProtocolBreach("frames out of order")
        if kind == b"Q" and not self.allow_requests:
            raise ProtocolBreach("a question that nobody answers")
        self._interim |= kind == b"I"
        self._ready = True
        frame = _decode(kind, payload)
        self._final = isinstance(frame, Final)
        if isinstance(frame, Attachment):
            self._attachments += 1
            self._attached += len(frame.data)
            if self._attachments > MAX_ATTACHMENTS or self._attached > ATTACHED_BYTES:
                raise ProtocolBreach("too many attachments")
        return frame


def _decode(kind: bytes, payload: bytes) -> Frame:
    match kind:
        case b"R":
            return Ready(_object(payload))
        case b"O":
            return Printed(payload)
        case b"P":
            return _progress(_object(payload))
        case b"I":
            return Interim(_object(payload))
        case b"B":
            name, _, data = payload.partition(b"\0")
            return Attachment(name.decode("ascii", "replace")[:64], data)
        case b"F":
            return Final(_object(payload))
        case b"Q":
            return _question(payload)
        case _:
            raise ProtocolBreach(f"a frame of unknown kind {kind!r}")


def _progress(value: Mapping[str, Any]) -> Progress:
    fraction, message = value.get("fraction"), value.get("message", "")
    if not isinstance(fraction, int | float) or isinstance(fraction, bool) or not isinstance(message, str):
        raise ProtocolBreach("a progress frame without a number")
    text = message[:MAX_MESSAGE].encode(errors="replace").decode()  # JSON can hold what UTF-8 cannot
    return Progress(min(max(float(fraction), 0.0), 1.0), text)


def _question(payload: bytes) -> Question:
    """Parses a question strictly: one that is a byte longer or shorter than its header says is a breach."""
    try:
        id_, op, letters, count = QUESTION.unpack_from(payload)
        start = QUESTION.size + letters
        name = payload[QUESTION.size : start].decode()
        ranges = tuple(RANGE.iter_unpack(payload[start:]))
        question = Question(id_, Op(op), name, ranges)
    except (struct.error, ValueError) as error:  # UnicodeDecodeError is a ValueError
        raise ProtocolBreach("a question that cannot be read") from error
    sound = len(payload) >= start and count == len(ranges) and (question.op is Op.READ) == bool(ranges)
    if not sound or count > MAX_RANGES or sum(length for _, length in ranges) > MAX_READ_BYTES:
        raise ProtocolBreach("a question with other ranges than a worker asks for")
    if any(not length or offset > MAX_OFFSET for offset, length in ranges):
        raise ProtocolBreach("a question for an empty range, or beyond every file")
    return question


def _object(payload: bytes) -> Mapping[str, Any]:
    try:
        value = parse_json(
            payload,
            MAX_VALUES,
            parse_constant=_refuse,
            parse_float=_float,
            parse_int=lambda text: int(text) if len(text) <= MAX_DIGITS else _refuse(text),
        )
    except (ValueError, RecursionError) as error:
        raise ProtocolBreach("a frame that is not JSON") from error
    if not isinstance(value, dict):
        raise ProtocolBreach("a frame that is not a JSON object")
    return value


def _refuse(text: str) -> NoReturn:
    raise ProtocolBreach(f"a frame with the number {text[:20]}")


def _float(text: str) -> float:
    number = float(text)
    # JSON permits 1e999, which Python reads as infinity
    return number if math.isfinite(number) else _refuse(text)
