"""The settings of a server that is reached over HTTP. Every other server ignores them."""

from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, model_validator
from pydantic_settings import BaseSettings

from gdal_mcp.settings.types import DAY, Names, Place, Size

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


def _bare_address(value: object) -> object:
    """A URL without the slashes at its end, so that what is added to it has one. Raises ValueError."""
    if not isinstance(value, str) or not value:
        return value
    found = urlsplit(value)
    if found.scheme not in ("http", "https") or not found.hostname or found.query or found.fragment:
        raise ValueError("it is an address such as https://gdal.example.org, without a query")
    if found.username is not None:
        raise ValueError("no user or password belongs into it")
    return value.rstrip("/")


Address = Annotated[str, BeforeValidator(_bare_address)]


class WebSettings(BaseSettings):
    """What `serve --transport http` goes by."""

    host: str = Field("127.0.0.1", min_length=1, description="Address that HTTP is served on.")
    port: int = Field(8000, ge=0, le=65_535, description="Port of HTTP; 0 is any free one.")
    public_url: Address = Field(
        "",
        description="Address by which clients reach the server, without /mcp; found from host and port when not set.",
    )
    tls_cert: Place | None = Field(None, description="Certificate chain of HTTPS, as PEM.")
    tls_key: Place | None = Field(None, description="Private key of HTTPS, as PEM.")
    behind_proxy: bool = Field(
        default=False,
        description="Whether a proxy in front ends TLS, so that plain HTTP may be served on other addresses than loopback.",
    )
    no_auth: bool = Field(
        default=False,
        description="Whether HTTP on loopback needs no token: whoever reaches the port is the user who runs the server.",
    )
    issuers: Names = Field(
        (),
        description="Issuers of OAuth tokens, by their https addresses; the address of its keys may follow after a space, and typ=JWT.",
    )
    http_hosts: Names = Field(
        (), description="Further values of the Host header that are answered, such as gdal.internal:8000."
    )
    http_origins: Names = Field(
        (), description="Web pages that may call the server from a browser, such as https://app.example.org."
    )
    body_size: Size = Field(
        4 << 20, ge=64 << 10, le=64 << 20, description="Longest body of one request of the protocol."
    )
    http_requests: int = Field(
        256, ge=4, le=10_000, description="HTTP requests at once, streams that stay open included."
    )
    http_requests_each: int = Field(
        64, ge=1, le=10_000, description="HTTP requests at once of one principal."
    )
    http_sessions: int = Field(
        200, ge=1, le=10_000, description="Sessions at once, of clients older than protocol 2026-07-28."
    )
    http_sessions_each: int = Field(50, ge=1, le=10_000, description="Sessions at once of one principal.")
    http_idle_seconds: float = Field(
        1800.0, ge=5, le=DAY, description="How long a session without a request is kept."
    )
    link_seconds: float = Field(
        300.0,
        ge=1,
        le=3600,
        description="How long a link to one file holds, unless less or more is asked for.",
    )
    upload_size: Size = Field(
        1 << 30, ge=0, le=1 << 40, description="Largest file that is taken over HTTP; 0 takes none."
    )
    upload_seconds: float = Field(
        3600.0, ge=1, le=DAY, description="Longest time that one file may take to arrive."
    )
    uploads_each: int = Field(2, ge=1, le=100, description="Files of one principal that arrive at once.")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host in LOOPBACK

    @model_validator(mode="after")
    def _whole_pair(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key belong together; set both or none")
        return self
