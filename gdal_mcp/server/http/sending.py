"""Sends an open file as a response, either completely or one range of it."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

import anyio
import structlog
from starlette.datastructures import Headers
from starlette.responses import FileResponse
from starlette.types import Message, Receive, Scope, Send

from gdal_mcp.server.http.serving import WRITE_SECONDS

_log = structlog.get_logger()

# no file size has more digits
_ONE_RANGE: Final = re.compile(r"bytes=(\d{1,18}-\d{0,18}|-\d{1,18})", re.ASCII)


def disposition(kind: str, name: str) -> str:
    """The Content-Disposition header for a file name, which cannot add other headers (RFC 6266).

    `kind` is attachment or inline.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name, flags=re.ASCII)
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='', errors='replace')}"


class ChangedWhileSent(Exception):
    """The file changed while it was being sent."""


class OpenFile(FileResponse):
    """Sends a file by the descriptor of our own code, whatever is at its path now.

    If the file changes during the transfer, or the client reads nothing for a minute, the response is cut off before
    its declared length, which clients report as a failure. `headers` must have Content-Type, and also ETag and
    Last-Modified for resumable downloads.
    """

    chunk_size = 1 << 20

    def __init__(
        self,
        file: int,
        headers: Mapping[str, str],
        close: Callable[[], object],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`check` raises ChangedWhileSent; `close` is always called at the end."""
        self._close = close
        self._check = check
        super().__init__(f"/dev/fd/{file}", headers=headers, stat_result=os.fstat(file))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def checked(message: Message) -> None:
            self._check()  # after each piece was read, and before it is sent
            with anyio.fail_after(WRITE_SECONDS):
                await send(message)

        ranges = Headers(scope=scope).getlist("range")
        single = scope["method"] == "GET" and len(ranges) == 1 and _ONE_RANGE.fullmatch(ranges[0].strip())
        if ranges and not single:  # any other Range header gets the whole file, as RFC 9110 permits
            scope = {**scope, "headers": [pair for pair in scope["headers"] if pair[0] != b"range"]}
        try:
            await super().__call__(scope, receive, checked)
        # the incomplete reply closes the connection
        except (ChangedWhileSent, TimeoutError, OSError) as error:
            _log.warning("file_cut_off", reason=str(error) or "the client did not read it")
        finally:
            self._close()
