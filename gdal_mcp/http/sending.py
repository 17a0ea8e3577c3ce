"""An open file as an answer: whole, or one range of it."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Final

import anyio
import structlog
from starlette.datastructures import Headers
from starlette.responses import FileResponse
from starlette.types import Message, Receive, Scope, Send

from gdal_mcp.http.serving import TAKE_SECONDS

_log = structlog.get_logger()

_ONE_RANGE: Final = re.compile(
    r"bytes=(\d{1,18}-\d{0,18}|-\d{1,18})", re.ASCII
)  # no file has a size of more digits


class ChangedWhileSent(Exception):
    """What is sent is not any more what it was."""


class OpenFile(FileResponse):
    """Sends a file that our own code opened, by its descriptor, so that what stands at its path does not matter.

    An answer that is changed meanwhile, or not taken for a minute, is cut off before its length, which clients take for a
    failure. `headers` must hold Content-Type, and ETag and Last-Modified if clients are to continue a download.
    """

    chunk_size = 1 << 20

    def __init__(
        self,
        file: int,
        headers: Mapping[str, str],
        close: Callable[[], object],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`check` raises ChangedWhileSent; `close` is called at the end, however it comes."""
        self._close = close
        self._check = check
        super().__init__(f"/proc/self/fd/{file}", headers=headers, stat_result=os.fstat(file))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def checked(message: Message) -> None:
            self._check()  # after it was read, before it goes out
            with anyio.fail_after(TAKE_SECONDS):
                await send(message)

        try:
            await super().__call__(_with_one_range(scope), receive, checked)
        except (ChangedWhileSent, TimeoutError, OSError) as error:  # without its end the connection is closed
            _log.warning("file_cut_off", reason=str(error) or "not taken")
        finally:
            self._close()


def _with_one_range(scope: Scope) -> Scope:
    """Without a Range that is not the one range of a GET: the whole file answers it, as RFC 9110 permits."""
    given = Headers(scope=scope).getlist("range")
    if not given or (scope["method"] == "GET" and len(given) == 1 and _ONE_RANGE.fullmatch(given[0].strip())):
        return scope
    return {**scope, "headers": [pair for pair in scope["headers"] if pair[0] != b"range"]}
