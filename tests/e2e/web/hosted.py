"""A real server process over HTTP, and the SDK's own client of it."""

import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from gdal_mcp.policy.identity import READ, WRITE
from gdal_mcp.policy.tokens import TokenStore
from tests.e2e.mcp.talk import ERAS, Person, Place, Talk, environment, program
from tests.forking import Forked

PORT = ("--transport", "http", "--port", "0")
SECONDS = 60  # limit of waiting, far longer than anything takes


@dataclass(frozen=True)
class Hosted:
    """A running server. `url` is the address of the protocol."""

    place: Place
    process: Forked
    url: str
    log: Path

    @property
    def base(self) -> str:
        return self.url.removesuffix("/mcp")

    @property
    def host(self) -> str:
        return self.base.partition("://")[2]

    def token(self, name: str, *scopes: str) -> str:
        """A new static token, with the scopes read and write by default."""
        return new_token(self.place, name, *scopes)

    def request(
        self, method: str, path: str = "/mcp", *, token: str | None = None, **options: Any
    ) -> httpx2.Response:
        """Sends one plain request; `headers`, `content` and `json` as in the HTTP client."""
        headers = {**(bearer(token) if token else {}), **options.pop("headers", {})}
        with httpx2.Client(timeout=SECONDS, trust_env=False) as client:
            return client.request(method, self.base + path, headers=headers, **options)

    def connected(self) -> socket.socket:
        host, _, port = self.host.partition(":")
        return socket.create_connection((host, int(port)), SECONDS)

    def end(self, how: int = signal.SIGTERM) -> int:
        """Ends the server with a signal and returns its exit code."""
        self.process.send_signal(how)
        return self.process.wait()

    @contextmanager
    def talking(self, token: str, era: str = ERAS[1], person: Person | None = None) -> Iterator[Talk]:
        """The SDK's client, with this token."""
        with start_blocking_portal() as portal:
            http = httpx2.AsyncClient(headers=bearer(token), timeout=SECONDS, trust_env=False)
            with portal.wrap_async_context_manager(http):
                client = Client(
                    streamable_http_client(self.url, http_client=http), mode=era, elicitation_callback=person
                )
                with portal.wrap_async_context_manager(client):
                    yield Talk(portal, client, person or Person(), self.log)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def new_token(place: Place, name: str, *scopes: str) -> str:
    return TokenStore(place.state / "tokens.sqlite").new(name, scopes or (READ, WRITE), None)


@contextmanager
def hosting(place: Place, log: Path, *options: str, env: Mapping[str, str] | None = None) -> Iterator[Hosted]:
    """A server on a free port, which is ended with the block. It has a token, because it needs one to start."""
    if not (place.state / "tokens.sqlite").exists() and "--no-auth" not in options:
        new_token(place, "first")
    words = place.command(*PORT, *options)[3:]
    process = program().program(words, {**environment(), **(env or {})}, log)
    process.stdin.close()
    try:
        url = process.stdout.readline().decode().strip()
        assert url, log.read_text()
        yield Hosted(place, process, url, log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        process.stdout.close()
