"""Helpers that the tests of files over HTTP share."""

from base64 import b64encode
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import httpx2

from tests.e2e.cli.conftest import gdal_mcp
from tests.e2e.mcp.talk import Place
from tests.e2e.web.hosted import SECONDS, Hosted, bearer

SECRET = (
    # a valid dataset, so that only the rules prevent its upload
    b"ID,X,Y\nnobody may read this over http,1,2\n"
)


@dataclass(frozen=True)
class Sender:
    """A user with or without a token, and the user's file transfers."""

    hosted: Hosted
    token: str | None = None

    @cached_property
    def _client(self) -> httpx2.Client:
        """One HTTP client for all requests, because creating one takes longer than most requests."""
        headers = bearer(self.token) if self.token else {}
        return httpx2.Client(timeout=SECONDS, trust_env=False, headers=headers, base_url=self.hosted.base)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        return self._client.request(method, path, **options)

    def put(self, name: str, data: Any, **headers: str) -> httpx2.Response:
        """Uploads a file to a name in the first workspace; the name is put into the address unchanged."""
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return self.ask("PUT", f"/uploads/0/{name}", content=data, headers=named)

    def published(self, name: str, data: bytes) -> str:
        """Uploads a file that must be accepted; returns the path at which it is served."""
        reply = self.put(quote(name), data)
        assert reply.status_code in (200, 201), reply.text
        return reply.headers["location"]

    def link(self, path: str, seconds: float | None = None) -> str:
        """The path and query of a new link."""
        query = f"?seconds={seconds}" if seconds is not None else ""
        reply = self.ask("POST", f"{path}{query}")
        assert reply.status_code == 201, reply.text
        return reply.json()["url"].removeprefix(self.hosted.base)


def csv(*rows: str) -> bytes:
    """A small dataset."""
    return "\n".join(["name,x,y", *(f"{row},1,2" for row in rows), ""]).encode()


def digest_field(data: bytes) -> str:
    return f"sha-256=:{b64encode(sha256(data).digest()).decode()}:"


def undo(place: Place, path: str) -> None:
    """Undoes the call that made the served file, in a separate process."""
    done = gdal_mcp("undo", path.split("/")[2], *place.options)
    assert done.code == 0, done.stderr


def arriving(place: Place) -> list[str]:
    """The files of uploads in progress."""
    return [name for name in place.staged if name.startswith("upload-")]


def tree(place: Place) -> dict[str, bytes | None]:
    """Everything in a workspace, with the contents of files, and the files of uploads in progress."""
    contents: dict[str, bytes | None] = dict.fromkeys(arriving(place))
    for path in sorted(place.workspace.rglob("*")):
        relative = path.relative_to(place.workspace)
        if relative.parts[0] != ".gdal-mcp":
            contents[str(relative)] = path.read_bytes() if path.is_file() and not path.is_symlink() else None
    return contents


def outside(place: Place) -> Path:
    """A file beside the workspace that no user may read."""
    path = place.workspace.parent / "outside.csv"
    path.write_bytes(SECRET)
    return path
