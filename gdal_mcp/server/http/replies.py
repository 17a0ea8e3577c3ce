"""Short answers without detail, for what is refused before the protocol. Pure."""

from collections.abc import Mapping
from typing import Final

from starlette.responses import JSONResponse, Response

BUSY_SECONDS: Final = 5  # when to try again; requests end within seconds or are streams


def refused(status: int, error: str, text: str, headers: Mapping[str, str] | None = None) -> Response:
    body = {"error": error, "error_description": text}
    return JSONResponse(body, status, {"Cache-Control": "no-store", **(headers or {})})


def busy(status: int, text: str) -> Response:
    return refused(status, "temporarily_unavailable", text, {"Retry-After": str(BUSY_SECONDS)})
