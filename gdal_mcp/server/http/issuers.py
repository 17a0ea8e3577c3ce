"""The public keys of token issuers, fetched on demand by PyJWT's client.

Invariants:
* addresses are fetched over https, or from this machine; redirects are not followed, and replies are bounded in time, bytes, values and levels;
* an issuer gets at most one request per PAUSE_SECONDS, whatever keys the tokens of strangers name;
* a key that the issuer withdrew is accepted for an hour at most, and only while the issuer does not answer.
"""

import time
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2
import jwt
import structlog
from anyio import from_thread

from gdal_mcp.server.http.auth import Unavailable
from gdal_mcp.settings import SettingsError
from gdal_mcp.settings.web import LOOPBACK
from sandbox.parsing import parse_json

_log = structlog.get_logger()

FRESH_SECONDS: Final = 300.0  # seconds that fetched keys are used without a new request
# further seconds that keys are used if the issuer does not answer
CACHE_SECONDS: Final = 3600.0 - FRESH_SECONDS
PAUSE_SECONDS: Final = 10.0  # seconds between two requests to one issuer
_FETCH_SECONDS: Final = 5.0
_MAX_BYTES: Final = 256 << 10  # bytes of a document; a key has about one thousand
_MAX_VALUES: Final = 10_000  # members and elements; a key has about ten
_THREADS: Final = 2  # threads that wait for issuers, a separate limit so that other work has threads
ALGORITHMS: Final = frozenset({"RS256", "PS256", "ES256", "EdDSA"})


PLAIN: Final = "typ=JWT"  # the word after an issuer in the settings


class FetchFailed(Exception):
    """A document could not be fetched; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """An issuer whose tokens are accepted. Without `jwks`, its metadata has the address of its keys.

    If `plain`, tokens are accepted whose header has the type `JWT` or no type, which some issuers use for access
    tokens.
    """

    name: str
    jwks: str = ""
    plain: bool = False

    @classmethod
    def parsed(cls, text: str) -> "Issuer":
        """Parses a setting: the issuer's address, then optionally the address of its keys, and `typ=JWT`.

        Raises SettingsError.
        """
        name, *words = text.split(" ")
        jwks = " ".join(word for word in words if word != PLAIN)
        issuer = cls(name, jwks.strip(), PLAIN in words)
        for url in filter(None, (issuer.name, issuer.jwks)):
            if not _is_safe(url):
                raise SettingsError(
                    f"the issuer address {url[:200]!r} does not begin with https://, or has more than a path."
                )
        return issuer


class SigningKeys(jwt.PyJWKClient):
    """The keys of one issuer. PyJWT's client caches and selects them; our own code fetches them."""

    def __init__(self, issuer: Issuer) -> None:
        uri = issuer.jwks or issuer.name
        super().__init__(uri, lifespan=FRESH_SECONDS, cooldown_duration=PAUSE_SECONDS)
        self.issuer = issuer
        self._last: Any = None
        self._last_answer = self._last_request = float("-inf")
        self._threads = anyio.CapacityLimiter(_THREADS)

    async def find(self, algorithm: str, kid: object) -> jwt.PyJWK | None:
        """The key with this id, or the only key if the token names none; None if it is not for this algorithm.

        Raises Unavailable.
        """

        def look() -> jwt.PyJWK:
            if isinstance(kid, str):
                return self.get_signing_key(kid)
            (key,) = self.get_jwk_set().keys
            return key

        if kid is not None and not isinstance(kid, str):
            return None
        try:
            key = await anyio.to_thread.run_sync(look, limiter=self._threads)
        except jwt.PyJWKClientConnectionError as error:
            raise Unavailable(self.issuer.name) from error
        # there is no such key, or the document is not a key set
        except (jwt.PyJWTError, ValueError, TypeError):
            return None
        return None if key.algorithm_name != algorithm or key.Algorithm.check_key_length(key.key) else key

    def fetch_data(self) -> Any:
        """The issuer's key set, or the last known one if it does not answer. Raises PyJWKClientConnectionError."""
        now = time.monotonic()
        if now - self._last_request >= PAUSE_SECONDS:
            self._last_request = now
            try:
                self._last, self._last_answer = from_thread.run(fetched, self._address()), now
            except FetchFailed as error:
                _log.warning("issuer_unavailable", issuer=self.issuer.name, reason=str(error))
        if now - self._last_answer >= CACHE_SECONDS:
            raise jwt.PyJWKClientConnectionError(self.issuer.name)
        return self._last

    def _address(self) -> str:
        if self.issuer.jwks:
            return self.issuer.jwks
        parts = urlsplit(self.issuer.name)
        root, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
        # the addresses of RFC 8414 and of OpenID Connect
        for known in ("/.well-known/oauth-authorization-server{}", "{}/.well-known/openid-configuration"):
            url = root + known.format(path)
            try:
                document = from_thread.run(fetched, url)
            except FetchFailed as error:
                _log.info("issuer_not_described", url=url, reason=str(error))
                continue
            if isinstance(document, dict) and document.get("issuer") == self.issuer.name:
                return str(document.get("jwks_uri"))
        raise FetchFailed("it has no metadata by RFC 8414 or OpenID Connect; name the address of its keys")


async def fetched(url: str) -> Any:
    """The JSON document at an address. Raises FetchFailed."""
    if not _is_safe(url):
        raise FetchFailed(f"{url[:200]!r} is not an https address")
    body = bytearray()
    try:
        with anyio.fail_after(_FETCH_SECONDS):
            async with (
                httpx2.AsyncClient(timeout=_FETCH_SECONDS) as client,
                client.stream("GET", url) as answer,
            ):
                if answer.status_code != httpx2.codes.OK:
                    raise FetchFailed(f"{url} answers {answer.status_code}")
                async for part in answer.aiter_bytes():
                    body += part
                    if len(body) > _MAX_BYTES:
                        raise FetchFailed(f"{url} is longer than {_MAX_BYTES >> 10} KiB")
        return parse_json(bytes(body), _MAX_VALUES)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, RecursionError) as error:
        raise FetchFailed(f"{url} cannot be read: {type(error).__name__}") from error


def _is_safe(url: str) -> bool:
    """True for https, and for plain HTTP on this machine, where nobody can intercept it."""
    try:
        parts = urlsplit(url)
        plain = parts.scheme == "http" and parts.hostname in LOOPBACK
    except ValueError:
        return False
    complete = bool(parts.hostname) and parts.username is None and not parts.fragment and url.isprintable()
    return complete and '"' not in url and (parts.scheme == "https" or plain)
