"""The address on which a server listens, and the names by which clients reach it. Pure."""

from typing import Final
from urllib.parse import urlsplit

from gdal_mcp.settings import Settings, SettingsError

MCP_PATH: Final = "/mcp"
_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


def require_safe(settings: Settings, *, tokens: bool) -> None:
    """Raises SettingsError for a server that strangers could use or eavesdrop on.

    `tokens` is True if the server has any static token.
    """
    problems = []
    if not (settings.loopback or settings.tls_cert or settings.behind_proxy):
        problems.append(
            f"Tokens and data would cross the network unencrypted on {settings.host}. Set --tls-cert and --tls-key, or "
            "--behind-proxy if a proxy in front terminates TLS, or leave --host at 127.0.0.1."
        )
    if not settings.loopback and not settings.public_url:
        problems.append(
            f"The address by which clients reach {settings.host} is unknown, and tokens are bound to it. Set --public-url, "
            "such as https://gdal.example.org."
        )
    exposed = not settings.loopback or settings.behind_proxy or settings.public_url or settings.issuers
    if settings.no_auth and exposed:
        problems.append(
            "--no-auth is only for loopback: not with another --host, --public-url, --behind-proxy or --issuers. "
            "Leave it out."
        )
    if not (settings.no_auth or settings.issuers or tokens):
        problems.append(
            "Nobody could sign in: there is no issuer and no token. Make a token with `gdal-mcp token new NAME`, or set "
            "--issuers; on your own machine, --no-auth serves anyone who reaches the port."
        )
    if problems:
        raise SettingsError(*problems)


def base_url(settings: Settings, port: int) -> str:
    """The address by which clients reach the server, without a path."""
    if settings.public_url:
        return settings.public_url
    scheme = "https" if settings.tls_cert else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{port}"


def resource(settings: Settings, port: int) -> str:
    """The audience of tokens: the address of the MCP endpoint."""
    return base_url(settings, port) + MCP_PATH


def hosts(settings: Settings, port: int) -> tuple[str, ...]:
    """Accepted values of the Host header.

    A page whose own name resolves to this host (DNS rebinding) sends another value.
    """
    accepted = [urlsplit(base_url(settings, port)).netloc, *settings.http_hosts]
    if settings.loopback:
        accepted += [f"{name}:{port}" for name in _LOOPBACK_NAMES]
    return tuple(dict.fromkeys(accepted))


def origins(settings: Settings, port: int) -> tuple[str, ...]:
    """Accepted values of the Origin header: the server's own pages, and those in the settings."""
    own = urlsplit(base_url(settings, port))
    accepted = [f"{own.scheme}://{own.netloc}", *settings.http_origins]
    if settings.loopback:
        accepted += [f"{own.scheme}://{name}:{port}" for name in _LOOPBACK_NAMES]
    return tuple(dict.fromkeys(accepted))
