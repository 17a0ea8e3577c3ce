"""Server processes that start in a fraction of a second and die at a point of the test's choice."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.mcp.pipes import Pipes
from tests.mcp.talk import ERAS, Place, environment

_MOST = 64 << 10
SECONDS = 120.0


@dataclass
class Forked:
    """A server process, as far as `Pipes` needs one."""

    nursery: "Nursery"
    pid: int
    stdin: IO[bytes]
    stdout: IO[bytes]
    code: int | None = None

    def wait(self, _seconds: float | None = None) -> int:
        """Its exit code, negative for a signal. The end of its output comes first."""
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(self.nursery.ended(self.pid))
        return self.code

    def kill(self) -> None:
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, 9)


class Nursery:
    """The zygote and its copies."""

    def __init__(self, process: subprocess.Popen[bytes], orders: socket.socket, log: Path) -> None:
        self._process, self._orders, self._log = process, orders, log

    def program(self, *argv: str, **stop: object) -> Forked:
        """The program with these arguments. `stop` are the fields of `Stop`, `patience`, and the path of `Clock`."""
        fields = {"point": "", "armed": "", "trail": "", "dies": True, "patience": 0.0, "clock": ""}
        order = {"argv": argv, "env": environment(), **fields, **stop}
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        with self._log.open("ab") as errors:
            sent = [theirs_in, theirs_out, errors.fileno()]
            socket.send_fds(self._orders, [json.dumps(order, default=str).encode()], sent)
        os.close(theirs_in)
        os.close(theirs_out)
        pid = json.loads(self._orders.recv(_MOST))
        return Forked(self, pid, os.fdopen(ours_in, "wb"), os.fdopen(ours_out, "rb"))

    def ended(self, pid: int) -> int:
        self._orders.send(json.dumps({"ended": pid}).encode())
        return int(json.loads(self._orders.recv(_MOST)))

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


@contextlib.contextmanager
def nursery(log: Path) -> Iterator[Nursery]:
    """Ends with the block; so do its copies, whose input ends."""
    ours, theirs = socket.socketpair()
    ours.settimeout(SECONDS)
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.zygote"], stdin=theirs, stdout=errors, stderr=errors
        )
    theirs.close()
    try:
        yield Nursery(process, ours, log)
    finally:
        ours.close()
        process.wait(SECONDS)
