"""A socket in front of the engine's, which a test can take away with every connection through it, as a stopped engine does."""

import contextlib
import socket
import threading
from pathlib import Path


class Forward:
    """Forwards a Unix socket at `path` to another while it is up."""

    def __init__(self, path: Path, target: Path) -> None:
        self.path, self.target = path, target
        self._open: list[socket.socket] = []
        self._listener: socket.socket | None = None

    def up(self) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        listener.listen()
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def down(self) -> None:
        assert self._listener is not None
        self.path.unlink()
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                engine = socket.socket(socket.AF_UNIX)
                engine.connect(str(self.target))
                self._open += [client, engine]
                for source, sink in ((client, engine), (engine, client)):
                    threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pass(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
