"""Runs `gdal-mcp` in separate processes, without a second of imports each time.

`python -m tests.forking` imports what commands and servers need, and forks for each run. It receives orders over the
socket that is its standard input, one JSON object each. An order to run the program comes with the descriptors of its
streams, and the answer is the process id of the fork. An order with the process id of a fork is answered with its
exit status once it has ended.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

SECONDS = 120.0  # limit of every wait, far above any real duration
_MOST = 1 << 20  # bytes of an order; an argument of a command line may have 128 KiB


@dataclass(frozen=True)
class Forks:
    """The process that forks for each run. Its environment is `env`, and it ends when this process ends."""

    orders: socket.socket
    log: IO[bytes]

    @classmethod
    def loaded(cls, env: Mapping[str, str] | None = None, module: str = __name__) -> "Forks":
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for side in (ours, theirs):
            side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST)
        ours.settimeout(SECONDS)
        log = tempfile.TemporaryFile()
        process = subprocess.Popen(
            [sys.executable, "-m", module], stdin=theirs, stdout=log, stderr=log, env=env
        )
        theirs.close()
        for end in (log.close, lambda: process.wait(SECONDS), ours.close):
            atexit.register(end)  # the last registered function runs first
        return cls(ours, log)

    def start(self, order: Mapping[str, object], streams: Sequence[int]) -> int:
        """Starts a fork that becomes the program of this order, and returns its process id."""
        try:
            socket.send_fds(self.orders, [json.dumps(order, default=str).encode()], streams)
            return int(json.loads(self.orders.recv(_MOST)))
        except (OSError, ValueError) as error:
            raise AssertionError(f"the program was not loaded: {_text(self.log)}") from error

    def program(self, words: Sequence[str], env: Mapping[str, str], log: Path, **order: object) -> "Forked":
        """Starts `gdal-mcp` with these arguments and returns the running fork.

        Its stderr is appended to the log. `order` holds further data for the function that prepares the fork.
        """
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        with log.open("ab") as errors:
            message = {"argv": words, "env": dict(env), **order}
            pid = self.start(message, [theirs_in, theirs_out, errors.fileno()])
        os.close(theirs_in)
        os.close(theirs_out)
        return Forked(self, pid, os.fdopen(ours_in, "wb"), os.fdopen(ours_out, "rb"))

    def ended(self, pid: int) -> int:
        """Waits for the exit code, negative for a signal."""
        try:
            self.orders.send(json.dumps({"ended": pid}).encode())
            return os.waitstatus_to_exitcode(json.loads(self.orders.recv(_MOST)))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise

    def run(self, words: Sequence[str], stdin: int, env: Mapping[str, str]) -> tuple[int, str, str]:
        """The exit code, stdout and stderr of `gdal-mcp` with these arguments."""
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            pid = self.start({"argv": words, "env": dict(env)}, [stdin, stdout.fileno(), stderr.fileno()])
            return self.ended(pid), _text(stdout), _text(stderr)


@dataclass
class Forked:
    """A running fork, with the part of `subprocess.Popen` that tests need."""

    forks: Forks
    pid: int
    stdin: IO[bytes]
    stdout: IO[bytes]
    returncode: int | None = None

    def wait(self, _seconds: float | None = None) -> int:
        """The exit code, negative for a signal. The output ends before that."""
        if self.returncode is None:
            self.returncode = self.forks.ended(self.pid)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _text(written: IO[bytes]) -> str:
    written.seek(0)
    return written.read().decode()


def serve(prepare: Callable[[Mapping[str, Any]], object] = lambda _order: None) -> None:
    """Takes orders until the socket is closed. A fork is prepared with its order and ends when the program ends."""
    _load()
    gc.freeze()  # forks share the memory of loaded modules
    orders = socket.socket(fileno=os.dup(0))
    while True:
        data, descriptors, _, _ = socket.recv_fds(orders, _MOST, 3)
        if not data:
            return
        order = json.loads(data)
        if "ended" in order:
            orders.send(json.dumps(os.waitpid(order["ended"], 0)[1]).encode())
            continue
        child = os.fork()
        if child == 0:
            orders.close()
            _become(order, descriptors, prepare)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        orders.send(json.dumps(child).encode())


def _load() -> None:
    from gdal_mcp.cli import calls, doctor, replay  # noqa: F401
    from gdal_mcp.cli import main as cli  # noqa: F401
    from gdal_mcp.server import app  # noqa: F401
    from gdal_mcp.server.http import server  # noqa: F401
    from gdal_mcp.server.mcp import stdio  # noqa: F401
    from gdal_mcp.server.operations import undoing  # noqa: F401
    from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
    from sandbox.engines import discovery, docker  # noqa: F401

    packaged()


def _become(
    order: Mapping[str, Any], descriptors: list[int], prepare: Callable[[Mapping[str, Any]], object]
) -> None:
    """Turns this process into the program with these arguments, environment and streams."""
    for target, descriptor in enumerate(descriptors):
        os.dup2(descriptor, target)
        os.close(descriptor)
    old = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding=was.encoding, errors=was.errors, closefd=False)
        for number, (mode, was) in enumerate(zip("rww", old, strict=True))
    )
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv = ["gdal-mcp", *order["argv"]]
    prepare(order)
    from gdal_mcp.cli.main import main

    sys.exit(main())


if __name__ == "__main__":
    serve()
