"""An API server of a cluster with the parts that our engine uses: its Pods are a dictionary."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.certificates import self_signed


class ApiHandler(BaseHTTPRequestHandler):
    """Lists, reads and deletes the Pods in `server.pods`. A subclass creates them."""

    protocol_version = "HTTP/1.1"

    def answer(self, value: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def admitted(self) -> bool:
        """True if the request may be answered; otherwise it was refused."""
        return True

    def do_GET(self) -> None:
        if not self.admitted():
            return
        name = self.path.partition("/pods/")[2].partition("?")[0]
        if self.path == "/version":
            self.answer({"major": "1", "minor": "30", "gitVersion": "v1.30.0"})
        elif "watch=1" in self.path:
            self.answer({"type": "ERROR"})
        elif not name:
            self.answer({"metadata": {"resourceVersion": "1"}, "items": [*self.server.pods.values()]})
        else:
            self.answer(self.server.pods.get(name, {}), 200 if name in self.server.pods else 404)

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.admitted():
            self.server.pods.pop(self.path.rpartition("/")[2], None)
            self.answer({})

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@contextmanager
def serve(folder: Path, handler: type[ApiHandler]) -> Iterator[ThreadingHTTPServer]:
    """A server on loopback with TLS; `trust` is the SSL context of its clients."""
    _, both = self_signed(folder, "127.0.0.1")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(both)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.pods = {}
    server.trust = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
