"""Requests of a container to read data, and the answers, as values. Pure.

A container without a network can only request sources that have a name from the host. The answerer decides what a
name refers to, and whether it is read.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

MAX_RANGES: Final = 64  # ranges of one question
MAX_READ_BYTES: Final = 8 << 20  # bytes of all ranges of one question; our worker requests half as many
MAX_IN_FLIGHT: Final = 64  # unanswered questions of one job
FIRST_BYTES: Final = 64 << 10  # bytes from the start of a file, sent with the answer to LOOK
_LOOK: Final = struct.Struct(">BQQ")


class Op(IntEnum):
    """The kind of a request."""

    LOOK = 1
    READ = 2
    LIST = 3


class Status(IntEnum):
    """Status of an answer, as transferred. A failed read ends the job instead."""

    OK = 0
    ENOENT = 1
    EIO = 2


class Kind(IntEnum):
    """The kind of thing that a name refers to."""

    FILE = 1
    DIRECTORY = 2


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a worker; untrusted. `ranges` are (offset, length) in bytes, only for READ."""

    id: int
    op: Op
    name: str  # below /vsihost/
    ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question.

    The body of a LOOK is made by `pack_look`. The body of a READ is the bytes of the ranges in order. The body of a
    LIST is the names in that folder, one per line. With EIO and ENOENT, the body is empty.
    """

    status: Status
    body: bytes = b""


class Answerer(Protocol):
    """Reads for one job. `answer` is called in several threads of the session at once and must not raise."""

    def answer(self, question: Question) -> Answer: ...

    def close(self) -> None:
        """Ends reads in progress as soon as possible. No more requests follow."""


def pack_look(kind: Kind, size: int, mtime: int, first: bytes = b"") -> bytes:
    """The body of an answer to LOOK: kind, size in bytes, modification time in seconds since 1970, and the file's
    first bytes.
    """
    return _LOOK.pack(kind, size, mtime) + first[:FIRST_BYTES]
