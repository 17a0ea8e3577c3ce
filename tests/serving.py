"""A web server of a test's own, by the standard library's, at work while a block lasts."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from socketserver import BaseServer
from threading import Thread
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """Hands each request to `respond`, and writes no log."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.respond()

    do_HEAD = do_POST = do_GET  # noqa: N815 - the library's own words

    def respond(self) -> None:
        raise NotImplementedError

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """A whole answer, of which HEAD gets no body; a name's `_` stands for `-`."""
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def serving(server: BaseServer) -> Iterator[None]:
    """Closes it at the end."""
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    with server:
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
