"""The program in a process of its own each time, without a second of imports each time.

`python -m tests.forking` loads what most commands need and is then copied for each run: it takes orders over
the socket that is its standard input, one JSON object with the descriptors of the copy's streams, and answers
with the copy's process id and, once it has ended, with how.
"""

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

SECONDS = 120.0  # a bound on waiting, far above what anything takes
_MOST = 1 << 20  # bytes of an order; a word of a command line may have 128 KiB


@dataclass(frozen=True)
class Forks:
    """The process that is copied. It has nothing but `env` around it, and ends when this process does."""

    orders: socket.socket
    log: IO[bytes]

    @classmethod
    def loaded(cls, env: Mapping[str, str]) -> "Forks":
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for one in (ours, theirs):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST)
        ours.settimeout(SECONDS)
        log = tempfile.TemporaryFile()
        command = [sys.executable, "-m", __name__]
        process = subprocess.Popen(command, stdin=theirs, stdout=log, stderr=log, env=env)
        theirs.close()
        for end in (log.close, lambda: process.wait(SECONDS), ours.close):
            atexit.register(end)  # the last is done first
        return cls(ours, log)

    def run(self, words: tuple[str, ...], stdin: int, env: Mapping[str, str]) -> tuple[int, str, str]:
        """Exit code, output and errors of `gdal-mcp` with these words."""
        order = json.dumps({"argv": words, "env": dict(env)}).encode()
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            sent = [stdin, stdout.fileno(), stderr.fileno()]
            try:
                socket.send_fds(self.orders, [order], sent)
                pid = json.loads(self.orders.recv(_MOST))
            except (OSError, ValueError) as error:
                raise AssertionError(f"the program was not loaded: {_text(self.log)}") from error
            try:
                code = os.waitstatus_to_exitcode(json.loads(self.orders.recv(_MOST)))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise
            return code, _text(stdout), _text(stderr)


def _text(written: IO[bytes]) -> str:
    written.seek(0)
    return written.read().decode()


def _serve() -> None:
    orders = socket.socket(fileno=os.dup(0))
    while True:
        data, descriptors, _, _ = socket.recv_fds(orders, _MOST, 3)
        if not data:
            return
        child = os.fork()
        if child == 0:
            orders.close()
            _become(json.loads(data), descriptors)
            return
        for one in descriptors:
            os.close(one)
        orders.send(json.dumps(child).encode())
        orders.send(json.dumps(os.waitpid(child, 0)[1]).encode())


def _load() -> None:
    from gdal_mcp import (
        app,  # noqa: F401
        cli,  # noqa: F401
    )
    from gdal_mcp.commands import calls, doctor, replay  # noqa: F401
    from gdal_mcp.gdal.catalogue.load import packaged

    packaged()


def _become(order: Mapping[str, object], descriptors: list[int]) -> None:
    """The program with these words and streams; it ends as the program ends."""
    for target, one in enumerate(descriptors):
        os.dup2(one, target)
        os.close(one)
    old = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding=was.encoding, errors=was.errors, closefd=False)
        for number, (mode, was) in enumerate(zip("rww", old, strict=True))
    )
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv = ["gdal-mcp", *order["argv"]]
    from gdal_mcp.cli import main

    sys.exit(main())


if __name__ == "__main__":
    _load()
    gc.freeze()  # what is loaded stays in memory that the copies share
    _serve()
