"""Requests of a container to read data, and the answers: values. Pure.

A container without a network names a source that the host gave a name to, and nothing else: what lies behind the name, and
whether it is read at all, is the answerer's to know.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

MAX_RANGES: Final = 64  # of one question
MAX_READ_BYTES: Final = 8 << 20  # of all ranges of one question; our worker asks for half as many
MAX_IN_FLIGHT: Final = 64  # questions of one job that wait for their answer
FIRST_BYTES: Final = 64 << 10  # of a file, that come with the answer to a look
_LOOKED: Final = struct.Struct(">BQQ")


class Op(IntEnum):
    """The kind of a request."""

    LOOK = 1
    READ = 2
    LIST = 3


class Status(IntEnum):
    """Status of an answer, as on the wire. A failed read ends the job instead."""

    OK = 0
    ENOENT = 1
    EIO = 2


class Kind(IntEnum):
    """What a name refers to."""

    FILE = 1
    DIRECTORY = 2


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a worker; untrusted. `ranges` are (offset, length) in bytes, for READ alone."""

    id: int
    op: Op
    name: str  # below /vsihost/
    ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` of a LOOK is `looked`; of a READ the bytes of its ranges in order; of a LIST the names in that folder, one a line.

    With EIO and ENOENT it is empty.
    """

    status: Status
    body: bytes = b""


class Answerer(Protocol):
    """Reads for one job. `answer` is called in threads of the session, several at once, and must not raise."""

    def answer(self, question: Question) -> Answer: ...

    def close(self) -> None:
        """Ends reads under way as soon as possible; no more requests come."""


def looked(kind: Kind, size: int, mtime: int, first: bytes = b"") -> bytes:
    """The body of an answer to LOOK: kind, size in bytes, modification in seconds since 1970, and how the file begins."""
    return _LOOKED.pack(kind, size, mtime) + first[:FIRST_BYTES]
