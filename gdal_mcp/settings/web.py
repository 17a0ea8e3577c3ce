"""The settings of a server that is reached over HTTP. Every other server ignores them."""

from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, model_validator
from pydantic_settings import BaseSettings

from gdal_mcp.settings.types import DAY, Names, Place, size

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


def _bare_address(value: object) -> object:
    """A URL without the slashes at its end, so that a path can be appended with one slash. Raises ValueError."""
    if not isinstance(value, str) or not value:
        return value
    url = urlsplit(value)
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
        raise ValueError("it must be an address such as https://gdal.example.org, without a query")
    if url.username is not None:
        raise ValueError("it must not contain a user or a password")
    return value.rstrip("/")


Address = Annotated[str, BeforeValidator(_bare_address)]


class WebSettings(BaseSettings):
    """The settings of `serve --transport http`."""

    host: str = Field("127.0.0.1", min_length=1, description="Address that the HTTP server listens on.")
    port: int = Field(8000, ge=0, le=65_535, description="Port of the HTTP server. 0 is any free port.")
    public_url: Address = Field(
        "",
        description="Address by which clients reach the server, without /mcp. From host and port if not set.",
    )
    tls_cert: Place | None = Field(None, description="Certificate chain for HTTPS, as PEM.")
    tls_key: Place | None = Field(None, description="Private key for HTTPS, as PEM.")
    behind_proxy: bool = Field(
        default=False,
        description="Whether a proxy terminates TLS, so that plain HTTP is allowed on addresses other than loopback.",
    )
    no_auth: bool = Field(
        default=False,
        description="Whether HTTP on loopback needs no token: everybody who can reach the port acts as the server's user.",
    )
    issuers: Names = Field(
        (),
        description="Issuers of OAuth tokens, by https address. The address of the issuer's keys, and typ=JWT, may follow after a space.",
    )
    http_hosts: Names = Field(
        (), description="Other accepted values of the Host header, such as gdal.internal:8000."
    )
    http_origins: Names = Field(
        (), description="Web pages that may call the server from a browser, such as https://app.example.org."
    )
    body_size: Annotated[int, size(64 << 10, 64 << 20)] = Field(
        4 << 20, description="Greatest size of the body of one MCP request."
    )
    http_requests: int = Field(
        256, ge=4, le=10_000, description="HTTP requests at the same time, including open streams."
    )
    http_requests_each: int = Field(
        64, ge=1, le=10_000, description="HTTP requests of one principal at the same time."
    )
    http_silent_each: int = Field(
        64,  # a browser opens 6, and several programs of one machine share an address
        ge=1,
        le=10_000,
        description="Connections without a request, of one IPv4 address or IPv6 /64 network. Raise it for many users behind one NAT.",
    )
    http_sessions: int = Field(
        200,
        ge=1,
        le=10_000,
        description="Sessions at the same time, of clients older than protocol 2026-07-28.",
    )
    http_sessions_each: int = Field(
        50, ge=1, le=10_000, description="Sessions of one principal at the same time."
    )
    http_idle_seconds: float = Field(
        1800.0, ge=5, le=DAY, description="Seconds that a session without a request is kept."
    )
    link_seconds: float = Field(
        300.0,
        ge=1,
        le=3600,
        description="Seconds that a link to a file is valid, unless the caller asks for another time.",
    )
    tiles: bool = Field(
        default=False, description="Whether map tiles of published rasters are served at /tiles."
    )
    upload_size: Annotated[int, size(most=1 << 40)] = Field(
        1 << 30, description="Greatest size of an uploaded file. 0 refuses uploads."
    )
    upload_seconds: float = Field(
        3600.0, ge=1, le=DAY, description="Seconds that the upload of one file may take."
    )
    uploads_each: int = Field(2, ge=1, le=100, description="Uploads of one principal at the same time.")

    @property
    def loopback(self) -> bool:
        """True if only this machine can reach the server."""
        return self.host in LOOPBACK

    @model_validator(mode="after")
    def _check_pair(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key belong together; set both or none")
        return self
