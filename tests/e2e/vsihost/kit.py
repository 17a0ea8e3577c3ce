"""A host that reads files of a folder for the container, correctly or not, and counts the questions."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.questions import FIRST_BYTES, Answer, Kind, Op, Question, Status, pack_look

NOT_THERE = Answer(Status.ENOENT)


@dataclass
class Folder:
    """`/vsihost/1/...` are the contents of `root`. `spoil` may answer instead; `latency` is that of every request, in
    seconds.
    """

    root: Path
    latency: float = 0.0
    spoil: Callable[[Question], Answer | None] = lambda _question: None
    asked: list[Question] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)

    @property
    def reads(self) -> list[Question]:
        return [question for question in self.asked if question.op is Op.READ]

    @property
    def bytes_read(self) -> int:
        return sum(length for question in self.reads for _, length in question.ranges)

    def answer(self, question: Question) -> Answer:
        self.asked.append(question)
        if (spoiled := self.spoil(question)) is not None:
            return spoiled
        number, _, below = question.name.partition("/")
        path = self.root / below
        if number != "1" or ".." in below.split("/") or not path.exists():
            return NOT_THERE
        if question.op is Op.LIST:
            return Answer(Status.OK, "\n".join(sorted(entry.name for entry in path.iterdir())).encode())
        if path.is_dir():
            return Answer(Status.OK, pack_look(Kind.DIRECTORY, 0, 0))
        if self.latency:
            time.sleep(self.latency)
        with path.open("rb") as file:
            if question.op is Op.LOOK:
                return Answer(Status.OK, pack_look(Kind.FILE, path.stat().st_size, 0, file.read(FIRST_BYTES)))
            parts = []
            for offset, length in question.ranges:
                file.seek(offset)
                parts.append(file.read(length))
            return Answer(Status.OK, b"".join(parts))

    def close(self) -> None:
        self.closed.set()
