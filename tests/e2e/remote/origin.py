"""A real web server with TLS and its own authority: files by range, and every kind of misbehaviour.

A path is /MODE/file. `asked` contains the requests with their headers.
"""

import contextlib
import http.server
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import serving
from tests.certificates import self_signed

NAMES = "data.test other.test xn--exmple-cua.test private.test a.wild.test b.wild.test localhost".split()


@dataclass
class Asked:
    method: str
    host: str
    path: str
    headers: dict[str, str]
    body: bytes = b""


@dataclass
class Origin:
    port: int
    files: dict[str, bytes] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    # functions that answer instead of the modes below, by path
    special: dict[str, Callable[["Handler"], None]] = field(default_factory=dict)
    latency: float = 0.0
    sent: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    released: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str, host: str = "data.test") -> str:
        return f"https://{host}:{self.port}{path}"

    def paths(self) -> list[str]:
        return [request.path for request in self.asked]


class Handler(serving.Handler):
    disable_nagle_algorithm = True
    origin: Origin

    def respond(self) -> None:
        origin = self.origin
        length = int(self.headers.get("Content-Length") or 0)
        with origin.lock:
            headers = {key.lower(): value for key, value in self.headers.items()}
            origin.asked.append(
                Asked(self.command, headers.get("host", ""), self.path, headers, self.rfile.read(length))
            )
        if origin.latency:
            origin.released.wait(origin.latency)
        path = self.path.partition("?")[0]
        if path in origin.special:
            return origin.special[path](self)
        _, mode, name = path.split("/", 2)
        return self.behave(mode, origin.files.get(name))

    def behave(self, mode: str, data: bytes | None) -> None:
        """Answers as the mode requires, or with the status that the mode is."""
        if mode.isdecimal():
            return self.answer(int(mode), b"secret inside")
        return getattr(self, f"mode_{mode}")(data)

    def range(self, size: int) -> tuple[int, int]:
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"])
        assert match is not None
        return int(match[1]), min(int(match[2]) + 1, size)

    def etag(self) -> str:
        return self.origin.etags.get(self.path.split("/", 2)[2].partition("?")[0], '"v1"')

    def part(self, data: bytes, start: int, end: int, total: int, **more: str) -> None:
        headers = {"Content_Range": f"bytes {start}-{end - 1}/{total}", "ETag": self.etag(), **more}
        self.answer(206, data, **headers)

    def mode_ok(self, data: bytes | None) -> None:
        if data is None:
            return self.answer(404)
        if self.headers.get("If-Match") not in (None, self.etag()):
            return self.answer(412)
        if self.headers.get("If-None-Match") == self.etag():
            self.send_response(304)
            self.send_header("ETag", self.etag())
            return self.end_headers()
        if "Range" not in self.headers:
            return self.answer(200, data)
        if not data:
            return self.answer(416, Content_Range="bytes */0")
        start, end = self.range(len(data))
        with self.origin.lock:
            self.origin.sent += end - start
        return self.part(data[start:end], start, end, len(data))

    def requested_part(self, data: bytes) -> tuple[int, int, str]:
        """The start and the end of the requested range, and its correct Content-Range."""
        start, end = self.range(len(data))
        return start, end, f"bytes {start}-{end - 1}/{len(data)}"

    mode_okay = mode_ok  # a folder whose name begins like that of another

    def mode_changing(self, data: bytes) -> None:
        """Another ETag in each answer, and If-Match is ignored."""
        start, end, named = self.requested_part(data)
        self.answer(206, data[start:end], Content_Range=named, ETag=f'"{start}"')

    def mode_silent(self, data: bytes) -> None:
        """Other bytes for the same range in each answer, with an unchanged weak ETag."""
        start, end, named = self.requested_part(data)
        fill = bytes([len(self.origin.asked) % 256]) * (end - start)
        self.answer(206, fill, Content_Range=named, ETag='W/"same"')

    def mode_longer(self, data: bytes) -> None:
        start, end, _ = self.requested_part(data)
        self.part(data[start:end] + b"more", start, end, len(data))

    def mode_shorter(self, data: bytes) -> None:
        start, end, _ = self.requested_part(data)
        self.part(data[start : end - 1], start, end, len(data))

    def mode_elsewhere(self, data: bytes) -> None:
        start, end, _ = self.requested_part(data)
        self.part(data[start:end], start + 1, end + 1, len(data) + 1)

    def mode_gzip(self, data: bytes) -> None:
        start, end, _ = self.requested_part(data)
        self.part(data[start:end], start, end, len(data), Content_Encoding="gzip")

    def mode_whole(self, data: bytes) -> None:
        self.answer(200, data, ETag=self.etag())

    def begin(self, *headers: tuple[str, str]) -> None:
        self.send_response(206)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True

    def mode_cut(self, data: bytes) -> None:
        start, end, named = self.requested_part(data)
        self.begin(("Content-Range", named), ("Content-Length", str(end - start)))
        self.wfile.write(data[start : start + 10])

    def mode_twice(self, data: bytes) -> None:
        start, end, named = self.requested_part(data)
        both = (("Content-Range", named), ("Content-Range", named.replace(f" {start}-", f" {start + 1}-")))
        self.begin(*both, ("Content-Length", str(end - start)))
        self.wfile.write(data[start:end])

    def mode_chunked(self, data: bytes) -> None:
        """Endless chunks."""
        self.begin(("Content-Range", self.requested_part(data)[2]), ("Transfer-Encoding", "chunked"))
        with contextlib.suppress(OSError):
            while not self.origin.released.is_set():
                self.wfile.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
                with self.origin.lock:
                    self.origin.sent += 4096

    def mode_dripping(self, data: bytes) -> None:
        """Sends a byte now and then, without end, and is never silent for long."""
        start, end, named = self.requested_part(data)
        self.begin(("Content-Range", named), ("Content-Length", str(end - start)))
        self.drip(b"x")

    def mode_drippingheaders(self, _data: bytes) -> None:
        self.wfile.write(b"HTTP/1.1 206 Partial Content\r\nX-Slow: ")
        self.drip(b"x")

    def drip(self, byte: bytes) -> None:
        with contextlib.suppress(OSError):
            while not self.origin.released.wait(0.05):
                self.wfile.write(byte)
        self.close_connection = True

    def mode_hugeheaders(self, _data: bytes) -> None:
        self.wfile.write(
            b"HTTP/1.1 206 Partial Content\r\n"
            + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 900) for n in range(500))
        )
        self.close_connection = True

    def mode_stalling(self, _data: bytes) -> None:
        self.origin.released.wait(60)
        self.close_connection = True

    def mode_reset(self, _data: bytes) -> None:
        self.close_connection = True
        self.connection.close()

    def mode_429twice(self, data: bytes) -> None:
        """Two answers that the server is busy, then the correct one."""
        if sum(request.path == self.path for request in self.origin.asked) % 3:
            return self.answer(429)
        return self.mode_ok(data)


def to(location: str, status: int = 302) -> Callable[[Handler], None]:
    return lambda handler: handler.answer(status, Location=location)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, handler: type[Handler], context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._context = context

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Makes the handshake in the connection's own thread."""
        with contextlib.suppress(OSError), self._context.wrap_socket(request, server_side=True) as wrapped:
            super().finish_request(wrapped, client_address)


@contextmanager
def origin(folder: Path) -> Iterator[Origin]:
    """A running server; its authority is `ca.pem` in the folder."""
    handler = type("OwnHandler", (Handler,), {})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(folder, *NAMES)[1])
    server = _Server(handler, context)
    handler.origin = running = Origin(server.server_address[1])
    with serving.serving(server):
        yield running
        running.released.set()
