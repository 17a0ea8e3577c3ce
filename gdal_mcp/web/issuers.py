"""The public keys of issuers of tokens, fetched when they are needed.

Invariants:
* an address is fetched over https, or from this machine; it redirects nowhere, and its answer is bounded in time and size;
* an issuer is asked at most once in some seconds, whatever keys strangers' tokens name;
* a key that the issuer withdrew is good for an hour at the longest, and only while the issuer does not answer.
"""

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import httpx2
import jwt
import structlog

from gdal_mcp.http.bearer import Unavailable
from gdal_mcp.settings import SettingsError
from gdal_mcp.settings.web import LOOPBACK

_log = structlog.get_logger()

FRESH_SECONDS: Final = 300.0  # how long fetched keys are used without a question
KEPT_SECONDS: Final = 3600.0  # and while the issuer does not answer
PAUSE_SECONDS: Final = 10.0  # between two questions to one issuer
_FETCH_SECONDS: Final = 5.0
_MOST_BYTES: Final = 256 << 10  # a key has about one thousand
_KINDS: Final[Mapping[str, Mapping[str, str]]] = {  # what a key of each algorithm is
    "RS256": {"kty": "RSA"},
    "PS256": {"kty": "RSA"},
    "ES256": {"kty": "EC", "crv": "P-256"},
    "EdDSA": {"kty": "OKP", "crv": "Ed25519"},
}
ALGORITHMS: Final = frozenset(_KINDS)

Fetch = Callable[[str], Awaitable[Any]]


class FetchFailed(Exception):
    """A document could not be had; the message says why."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """Whose tokens are good. Without `jwks` the address of its keys is found by its own description."""

    name: str
    jwks: str = ""

    @classmethod
    def parsed(cls, text: str) -> "Issuer":
        """From a setting: its address, and after a space that of its keys. Raises SettingsError."""
        name, _, jwks = text.partition(" ")
        made = cls(name, jwks.strip())
        for url in filter(None, (made.name, made.jwks)):
            if not _safe(url):
                raise SettingsError(
                    f"the issuer address {url[:200]!r} does not begin with https://, or has more than a path."
                )
        return made

    def descriptions(self) -> Iterator[str]:
        """Where it may describe itself, by RFC 8414 and by OpenID Connect."""
        parts = urlsplit(self.name)
        root, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
        yield f"{root}/.well-known/oauth-authorization-server{path}"
        yield f"{root}{path}/.well-known/openid-configuration"


class Keys:
    """The keys of one issuer. For one event loop."""

    def __init__(
        self, issuer: Issuer, fetch: Fetch | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.issuer = issuer
        self._fetch = fetch or fetched
        self._clock = clock
        self._lock = anyio.Lock()
        self._keys: tuple[Mapping[str, Any], ...] = ()
        self._had = self._asked = float("-inf")

    async def find(self, algorithm: str, name: object) -> jwt.PyJWK | None:
        """The key with this name for this algorithm, or the only one when a token names none. Raises Unavailable."""
        if self._age() < FRESH_SECONDS and (found := self._chosen(algorithm, name)):
            return found
        async with self._lock:
            if self._clock() - self._asked >= PAUSE_SECONDS:
                await self._ask()
        if self._age() >= KEPT_SECONDS:
            raise Unavailable(self.issuer.name)
        return self._chosen(algorithm, name)

    def _age(self) -> float:
        return self._clock() - self._had

    async def _ask(self) -> None:
        """What cannot be had leaves the keys as they are."""
        self._asked = self._clock()
        try:
            document = await self._fetch(await self._place())
        except FetchFailed as error:
            _log.warning("issuer_unavailable", issuer=self.issuer.name, reason=str(error))
            return
        rows = document.get("keys") if isinstance(document, dict) else None
        self._keys = tuple(row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else ()
        self._had = self._clock()

    async def _place(self) -> str:
        """The address of the keys. Raises FetchFailed."""
        if self.issuer.jwks:
            return self.issuer.jwks
        for url in self.issuer.descriptions():
            try:
                document = await self._fetch(url)
            except FetchFailed as error:
                _log.info("issuer_not_described", url=url, reason=str(error))
                continue
            if isinstance(document, dict) and document.get("issuer") == self.issuer.name:
                return str(document.get("jwks_uri"))
        raise FetchFailed(
            "it does not describe itself by RFC 8414 or OpenID Connect; name the address of its keys"
        )

    def _chosen(self, algorithm: str, name: object) -> jwt.PyJWK | None:
        fitting = [row for row in self._keys if _fits(row, algorithm)]
        if name is None:
            return _made(fitting, algorithm) if len(fitting) == 1 else None
        return _made((row for row in fitting if row.get("kid") == name), algorithm)


def _fits(row: Mapping[str, Any], algorithm: str) -> bool:
    """Whether a key is for signatures by this algorithm. A shared secret never is."""
    kind = _KINDS[algorithm]
    return (
        all(row.get(part) == value for part, value in kind.items())
        and row.get("alg", algorithm) == algorithm
        and row.get("use", "sig") == "sig"
    )


def _made(rows: Iterable[Mapping[str, Any]], algorithm: str) -> jwt.PyJWK | None:
    for row in rows:
        try:
            key = jwt.PyJWK(dict(row), algorithm)
        except (jwt.PyJWTError, ValueError, TypeError):  # the issuer's own mistake
            continue
        too_short = key.Algorithm.check_key_length(key.key)  # in words
        if not too_short:
            return key
    return None


async def fetched(url: str) -> Any:
    """The JSON document at an address. Raises FetchFailed."""
    if not _safe(url):
        raise FetchFailed(f"{url[:200]!r} is not fetched: it is no https address")
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
                    if len(body) > _MOST_BYTES:
                        raise FetchFailed(f"{url} is longer than {_MOST_BYTES} bytes")
        return json.loads(bytes(body))
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, RecursionError) as error:
        raise FetchFailed(f"{url} cannot be read: {type(error).__name__}") from error


def _safe(url: str) -> bool:
    """https, or plain from this machine, where nobody is in between."""
    try:
        parts = urlsplit(url)
        plain = parts.scheme == "http" and parts.hostname in LOOPBACK
    except ValueError:
        return False
    whole = bool(parts.hostname) and parts.username is None and not parts.fragment and url.isprintable()
    return whole and '"' not in url and (parts.scheme == "https" or plain)
