"""Answers that come before the protocol: short, without detail, and by the book of RFC 6750 and RFC 9728. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from starlette.responses import JSONResponse, Response

from gdal_mcp.access.identity import READ

_OVER: Final = {"Connection": "close"}  # what else a stranger sends is not read
BUSY_SECONDS: Final = 5  # when to try again; requests end within seconds or are streams


def refused(status: int, error: str, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error that is no matter of tokens."""
    body = {"error": error, "error_description": text}
    return JSONResponse(body, status, {"Cache-Control": "no-store", **(headers or {})})


def busy(status: int, text: str) -> Response:
    return refused(status, "temporarily_unavailable", text, {"Retry-After": str(BUSY_SECONDS)})


def unauthorized(metadata: str, *, presented: bool) -> Response:
    """To a request without a token, or with one that is not good; which of its parts is wrong is nobody's business."""
    error = {"error": "invalid_token"} if presented else {}
    text = "the token is not good here, or not any more" if presented else "a token is needed"
    challenge = _challenge({**error, "scope": READ, **_at(metadata)})
    return refused(401, "invalid_token", text, {"WWW-Authenticate": challenge, **_OVER})


def forbidden(metadata: str, scopes: Iterable[str]) -> Response:
    """To a token that is good but may not do this. `scopes` are those that would do."""
    needed = " ".join(scopes)
    challenge = _challenge({"error": "insufficient_scope", "scope": needed, **_at(metadata)})
    return refused(
        403, "insufficient_scope", f"this needs the scopes {needed}", {"WWW-Authenticate": challenge, **_OVER}
    )


def _at(metadata: str) -> dict[str, str]:
    return {"resource_metadata": metadata} if metadata else {}


def _challenge(parts: Mapping[str, str]) -> str:
    """No part holds a quote: scopes are ours, and addresses are checked."""
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items())
