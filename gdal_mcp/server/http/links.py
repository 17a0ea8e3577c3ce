"""Signed links: anyone with a link can read one file for some minutes, without a token.

Invariants:
* a link is for one file of one call with one content, and only for reading;
* a link ends at its expiry, when its creator loses the permission to make it, or with the server process, which alone
  has the key.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gdal_mcp.policy.identity import READ, Principal
from gdal_mcp.policy.tokens import TokenStore

EXPIRES: Final = "expires"
SIGNATURE: Final = "signature"
_STATIC: Final = "token:"


class Subject(NamedTuple):
    """The subject of a link: a file by call and name, its SHA-256, its owner, and the version of the owner's
    credential.
    """

    call_id: str
    name: str
    sha256: str
    principal: str
    credential_version: str


@dataclass(frozen=True, slots=True)
class CredentialStatus:
    """Checks that a principal still has read access, without the principal's token."""

    tokens: TokenStore | None  # None if the server requires no token
    clock: Callable[[], float] = time.time

    def of(self, principal: str) -> str | None:
        """A version of the credential, which changes if access is revoked and granted again; None without access.

        Raises TokensUnavailable. The expiry of an issuer's token is not known here: links of such principals end only
        by their own expiry.
        """
        if self.tokens is None or not principal.startswith(_STATIC):
            return "token of an issuer"
        name = principal.removeprefix(_STATIC)
        for token in self.tokens.all():
            ended = token.expires is not None and token.expires <= self.clock()
            if token.name == name and READ in token.scopes and not ended:
                return repr(token.created)
        return None


def expiry_and_signature(pairs: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """The expiry and the signature from the query of an address; None if it has other parameters."""
    return (pairs[0][1], pairs[1][1]) if [name for name, _ in pairs] == [EXPIRES, SIGNATURE] else None


def may_link(who: Principal, owner: str) -> bool:
    """True for the owner of a file, who alone may make links to it.

    Administrators read the files of others with their own token.
    """
    return who.id == owner and who.holds(READ)
