"""Where a server listens and by which names it is reached. Pure."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from gdal_mcp.settings import Settings, SettingsError

MCP_PATH: Final = "/mcp"
_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


def require_safe(settings: Settings, *, tokens: bool) -> None:
    """Raises SettingsError for a server that strangers could use, or listen to. `tokens` says whether any was made."""
    problems = [*_in_the_clear(settings), *_unknown_callers(settings, tokens=tokens)]
    if problems:
        raise SettingsError(*problems)


def _in_the_clear(settings: Settings) -> Iterator[str]:
    if not (settings.loopback or settings.tls_cert or settings.behind_proxy):
        yield (
            f"Tokens and data would cross the network in the clear on {settings.host}. Set --tls-cert and --tls-key, or "
            "--behind-proxy when a proxy in front ends TLS, or leave --host at 127.0.0.1."
        )
    if not settings.loopback and not settings.public_url:
        yield (
            f"By which address clients reach {settings.host} cannot be told, and tokens are bound to it. Set --public-url, "
            "such as https://gdal.example.org."
        )


def _unknown_callers(settings: Settings, *, tokens: bool) -> Iterator[str]:
    if settings.no_auth:
        if not settings.loopback or settings.behind_proxy or settings.public_url or settings.issuers:
            yield (
                "--no-auth is for loopback alone: not with another --host, --public-url, --behind-proxy or --issuers. "
                "Leave it out."
            )
    elif not settings.issuers and not tokens:
        yield (
            "Nobody could be told from a stranger: there is no issuer and no token. Make one with `gdal-mcp token new NAME`, "
            "or set --issuers; on a machine of your own, --no-auth serves whoever reaches the port."
        )


def base_url(settings: Settings, port: int) -> str:
    """How clients reach the server, without a path of ours."""
    if settings.public_url:
        return settings.public_url
    scheme = "https" if settings.tls_cert else "http"
    return f"{scheme}://{bracketed(settings.host)}:{port}"


def resource(settings: Settings, port: int) -> str:
    """What tokens are issued for: the address of the protocol."""
    return base_url(settings, port) + MCP_PATH


def hosts(settings: Settings, port: int) -> tuple[str, ...]:
    """Values of the Host header that are answered. A page elsewhere whose name is pointed here has another."""
    found = [urlsplit(base_url(settings, port)).netloc, *settings.http_hosts]
    if settings.loopback:
        found += [f"{name}:{port}" for name in _LOOPBACK_NAMES]
    return tuple(dict.fromkeys(found))


def origins(settings: Settings, port: int) -> tuple[str, ...]:
    """Pages that may call: our own, and those that are named."""
    own = urlsplit(base_url(settings, port))
    found = [f"{own.scheme}://{own.netloc}", *settings.http_origins]
    if settings.loopback:
        found += [f"{own.scheme}://{name}:{port}" for name in _LOOPBACK_NAMES]
    return tuple(dict.fromkeys(found))


def bracketed(host: str) -> str:
    """A host as it stands in an address."""
    return f"[{host}]" if ":" in host else host
