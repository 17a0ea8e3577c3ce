"""Signed addresses: whoever has one may read one file for some minutes, without a token.

Invariants:
* a link is for one file of one call with one content, and only for reading;
* it holds no longer than it says, never after its maker lost the right that it was made with, and never after the server
  that made it: the key is in that process alone;
* a signature is compared in constant time, and before anything else about the link is looked at.
"""

import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gdal_mcp.access.identity import READ, Principal
from gdal_mcp.access.tokens import TokenStore

EXPIRES: Final = "expires"
SIGNATURE: Final = "signature"
_STATIC: Final = "token:"
_TIME: Final = re.compile(r"[1-9]\d{0,11}", re.ASCII)  # seconds since 1970
_KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Subject:
    """What a link is for: a file by call and name, its SHA-256, and whose it is with the standing they had then."""

    call_id: str
    name: str
    sha256: str
    principal: str
    standing: str


@dataclass(frozen=True, slots=True)
class CredentialStatus:
    """Whether a principal may still read here, told without a token of theirs."""

    tokens: TokenStore | None  # None where nobody needs a token
    clock: Callable[[], float] = time.time

    def of(self, principal: str) -> str | None:
        """A text that differs once the right was lost and given anew; None without one. Raises TokensUnavailable.

        The end of a token of an issuer is not known here: links of such principals end by their own time.
        """
        if self.tokens is None or not principal.startswith(_STATIC):
            return "signed elsewhere"
        name = principal.removeprefix(_STATIC)
        for token in self.tokens.all():
            ended = token.expires is not None and token.expires <= self.clock()
            if token.name == name and READ in token.scopes and not ended:
                return repr(token.created)
        return None


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs and checks with a key of its own."""

    clock: Callable[[], float] = time.time
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(_KEY_BYTES), repr=False)

    def sign(self, subject: Subject, seconds: float) -> tuple[int, str]:
        """When the link ends, in seconds since 1970, and its signature."""
        expires = int(self.clock() + seconds)
        return expires, self._signature(subject, expires)

    def good(self, subject: Subject, expires: str, signature: str) -> bool:
        """Whether this process signed exactly that, and it has not ended."""
        end = int(expires) if _TIME.fullmatch(expires) else 0
        signed = hmac.compare_digest(
            self._signature(subject, end).encode(), signature.encode("utf-8", "replace")
        )
        return signed and self.clock() < end

    def _signature(self, subject: Subject, expires: int) -> str:
        """Of JSON, in which no two subjects read alike."""
        parts = [subject.call_id, subject.name, subject.sha256, subject.principal, subject.standing, expires]
        return hmac.new(self._key, json.dumps(parts).encode(), hashlib.sha256).hexdigest()


def given(pairs: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """End and signature among the parameters of an address, which has no others; None for one that is no link."""
    return (pairs[0][1], pairs[1][1]) if [name for name, _ in pairs] == [EXPIRES, SIGNATURE] else None


def may_link(who: Principal, owner: str) -> bool:
    """A link is its maker's to give away: those who may read everybody's files have their own token for it."""
    return who.id == owner and who.holds(READ)
