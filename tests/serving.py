"""A web server for tests that runs while a block is executed."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from socketserver import BaseServer
from threading import Thread
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """Passes each request to `respond`, and writes no log."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.respond()

    do_HEAD = do_POST = do_GET  # noqa: N815 - the library's own words

    def respond(self) -> None:
        raise NotImplementedError

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Sends a complete response, without its body for HEAD. `_` in the name of a header stands for `-`."""
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def serving(server: BaseServer) -> Iterator[None]:
    """Runs the server in a thread and closes it at the end."""
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    with server:
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
