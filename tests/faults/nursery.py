"""Server processes that start in a fraction of a second and die at a point of the test's choice."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.forking import Forks
from tests.mcp.pipes import Pipes
from tests.mcp.talk import ERAS, Place, environment


@dataclass
class Forked:
    """A server process, as far as `Pipes` needs one."""

    forks: Forks
    pid: int
    stdin: IO[bytes]
    stdout: IO[bytes]
    code: int | None = None

    def wait(self, _seconds: float | None = None) -> int:
        """Its exit code, negative for a signal. The end of its output comes first."""
        if self.code is None:
            self.code = self.forks.ended(self.pid)
        return self.code

    def kill(self) -> None:
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, 9)


@dataclass(frozen=True)
class Nursery:
    """The zygote and its copies, whose errors go to a log."""

    forks: Forks
    log: Path

    def program(self, *argv: str, **stop: object) -> Forked:
        """The program with these arguments. `stop` are the fields of `Stop`, `patience`, and the path of `Clock`."""
        fields = {"point": "", "armed": "", "trail": "", "dies": True, "patience": 0.0, "clock": ""}
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        with self.log.open("ab") as errors:
            order = {"argv": argv, "env": environment(), **fields, **stop}
            pid = self.forks.start(order, [theirs_in, theirs_out, errors.fileno()])
        os.close(theirs_in)
        os.close(theirs_out)
        return Forked(self.forks, pid, os.fdopen(ours_in, "wb"), os.fdopen(ours_out, "rb"))

    def run(self, *argv: str, **stop: object) -> tuple[int, str]:
        """Exit code and output of a command."""
        forked = self.program(*argv, **stop)
        forked.stdin.close()
        with forked.stdout as output:
            text = output.read().decode()
        return forked.wait(), text

    @contextlib.contextmanager
    def serving(self, place: Place, *options: str, **stop: object) -> Iterator[Pipes]:
        """A server and a client that has said hello."""
        _, *argv = place.command(*options)[2:]
        forked = self.program(*argv, **stop)
        pipes = Pipes(forked, ERAS[0])  # type: ignore[arg-type]
        try:
            pipes.hello({"elicitation": {}})
            yield pipes
        finally:
            pipes.close()
