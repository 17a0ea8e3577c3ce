"""A Unix socket between a client and the real engine that can stop answering or hang up at a chosen request."""

import contextlib
import socket
import threading
from pathlib import Path


class EngineProxy:
    """Forwards everything until `trouble` is set.

    After that, requests that contain `only` meet "silence" or "hang up", on new and existing connections. `met` is
    set after the first of them.
    """

    def __init__(self, path: Path, engine: str) -> None:
        self.address = f"unix://{path}"
        self.trouble, self.only, self.met = "", b"", threading.Event()
        self._engine, self._open, self._threads = engine, [], []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        self._begin(self._accept)

    def meet(self, trouble: str, only: bytes = b"") -> None:
        self.met.clear()
        self.only, self.trouble = only, trouble

    def restore(self) -> None:
        self.trouble = ""

    def cut(self) -> None:
        """Closes every open connection; new connections are accepted."""
        for connection in list(self._open):
            _end(connection)

    def close(self) -> None:
        """Closes every connection and waits for every thread."""
        _end(self._listening)
        self.cut()
        for thread in self._threads:
            thread.join()
        for closable in (self._listening, *self._open):
            closable.close()

    def _begin(self, target, *arguments) -> None:
        self._threads.append(threading.Thread(target=target, args=arguments))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client = self._listening.accept()[0]
                engine = socket.socket(socket.AF_UNIX)
                self._open += [client, engine]
                engine.connect(self._engine)
                self._begin(self._forward, client, engine, True)
                self._begin(self._forward, engine, client, False)

    def _forward(self, source: socket.socket, target: socket.socket, asking: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if asking and self.trouble and self.only in data:
                    self.met.set()
                    if self.trouble == "silence":
                        continue  # the client waits for an answer to a request that never reaches the engine
                    _end(target)
                    break
                target.sendall(data)
        _end(target if asking else source)
        _end(source if asking else target)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
