"""Server processes that start in a fraction of a second and die at a point that the test chooses."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.mcp.pipes import Pipes
from tests.e2e.mcp.talk import ERAS, Place, environment
from tests.forking import Forked, Forks


@dataclass(frozen=True)
class Nursery:
    """The zygote and its copies, which write errors to a log."""

    forks: Forks
    log: Path

    def program(self, *argv: str, **stop: object) -> Forked:
        """The program with these arguments. `stop` are the fields of `Stop`, `patience`, and the path of `Clock`."""
        fields = {"point": "", "armed": "", "trail": "", "dies": True, "patience": 0.0, "clock": ""}
        return self.forks.program(argv, environment(), self.log, **{**fields, **stop})

    def run(self, *argv: str, **stop: object) -> tuple[int, str]:
        """Exit code and output of a command."""
        forked = self.program(*argv, **stop)
        forked.stdin.close()
        with forked.stdout as output:
            text = output.read().decode()
        return forked.wait(), text

    @contextlib.contextmanager
    def serving(self, place: Place, *options: str, **stop: object) -> Iterator[Pipes]:
        """A server and a client that has introduced itself."""
        _, *argv = place.command(*options)[2:]
        forked = self.program(*argv, **stop)
        pipes = Pipes(forked, ERAS[0])  # type: ignore[arg-type]
        try:
            pipes.hello({"elicitation": {}})
            yield pipes
        finally:
            pipes.close()
