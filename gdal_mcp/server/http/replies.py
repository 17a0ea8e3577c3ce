"""Short responses without details, for requests that are refused before they reach the protocol. Pure."""

from collections.abc import Mapping
from typing import Final

from starlette.responses import JSONResponse, Response

BUSY_SECONDS: Final = 5  # seconds until a retry; requests end within seconds, unless they are streams


def refused(status: int, error: str, text: str, headers: Mapping[str, str] | None = None) -> Response:
    body = {"error": error, "error_description": text}
    return JSONResponse(body, status, {"Cache-Control": "no-store", **(headers or {})})


def busy(status: int, text: str) -> Response:
    return refused(status, "temporarily_unavailable", text, {"Retry-After": str(BUSY_SECONDS)})
