"""An engine's API, as far as discovery and the image need it, on a real Unix socket, so that the real SDK is used."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from urllib.parse import parse_qs, unquote, urlsplit

from tests.serving import Handler, serving

VERSION = {"Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12"}


class SocketEngine(ThreadingMixIn, UnixStreamServer):
    """Has the images in `images` (reference -> inspect body) and can pull those in `registry`.

    `requests` has every requested path. `reach_status` is the answer to questions about the registry, `pull_events`
    replaces the stream of a pull, `trouble` is "hangs up" or the text of an internal error.
    """

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.images: dict[str, dict] = {}
        self.registry: dict[str, dict] = {}
        self.reach_status = 200
        self.pull_events: list[dict] | None = None
        self.trouble = ""
        self.requests: list[str] = []
        super().__init__(str(path), _Handler)

    def listed(self) -> list[dict]:
        return [{"Id": body["Id"], "RepoTags": [reference]} for reference, body in self.images.items()]

    def pulled(self, reference: str) -> list[dict]:
        if self.pull_events is not None:
            return self.pull_events
        if reference not in self.registry:
            return [{"error": f"manifest for {reference} not found"}]
        self.images[reference] = self.registry[reference]
        return [
            {"status": "Downloading", "id": "a", "progressDetail": {"current": 5, "total": 10}},
            {"status": "Pull complete", "id": "a"},
        ]


class _Handler(Handler):
    server: SocketEngine

    def respond(self) -> None:
        path = self._path()
        engine = self.server
        if self.command == "POST":
            self._pull()
        elif engine.trouble:
            self._misbehave(engine.trouble)
        elif path == "/version":
            self._answer(200, VERSION)
        elif path == "/info":
            self._answer(200, {"Architecture": "x86_64", "SecurityOptions": ["name=seccomp"]})
        elif path == "/images/json":
            self._answer(200, engine.listed())
        elif path.startswith("/distribution/"):
            self._answer(engine.reach_status, {"message": "the registry's own words"})
        else:
            reference = path.removeprefix("/images/").removesuffix("/json")
            image = engine.images.get(reference)
            self._answer(200 if image else 404, image or {"message": f"No such image: {reference}"})

    def _misbehave(self, way: str) -> None:
        if way == "hangs up":
            self.close_connection = True
        else:
            self._answer(500, {"message": way})

    def _pull(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        name, tag = query["fromImage"][0], query["tag"][0]
        reference = f"{name}@{tag}" if tag.startswith("sha256:") else f"{name}:{tag}"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")  # by which the SDK recognises a stream
        self.end_headers()
        for event in self.server.pulled(reference):
            line = json.dumps(event).encode() + b"\r\n"
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def _path(self) -> str:
        path = unquote(urlsplit(self.path).path)
        _, _, rest = path.split("/", 2) if path.startswith("/v1.") else ("", "", path.lstrip("/"))
        self.server.requests.append(f"/{rest}")
        return f"/{rest}"

    def _answer(self, status: int, body: object) -> None:
        self.answer(status, json.dumps(body).encode(), Content_Type="application/json")


@contextmanager
def socket_engine(path: Path) -> Iterator[SocketEngine]:
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = SocketEngine(path)
    with serving(engine):
        yield engine
