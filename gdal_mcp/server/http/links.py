"""Signed links: anyone with a link can read one file for some minutes, without a token.

Invariants:
* a link is for one file of one call with one content, and only for reading;
* it ends at its expiry, when its creator loses the permission to make it, or with the server process, which alone has
  the key.
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
    """What a link is for: a file by call and name, its SHA-256, its owner, and the owner's credential status then."""

    call_id: str
    name: str
    sha256: str
    principal: str
    credential_version: str


@dataclass(frozen=True, slots=True)
class CredentialStatus:
    """Whether a principal still has read access, checked without its token."""

    tokens: TokenStore | None  # None where nobody needs a token
    clock: Callable[[], float] = time.time

    def of(self, principal: str) -> str | None:
        """A version of the credential, which changes if the right is revoked and granted again; None without the right. Raises TokensUnavailable.

        The expiry of an issuer's token is not known here: links of such principals end only by their own expiry.
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
    """Expiry and signature from the parameters of an address, which must have no others; else None."""
    return (pairs[0][1], pairs[1][1]) if [name for name, _ in pairs] == [EXPIRES, SIGNATURE] else None


def may_link(who: Principal, owner: str) -> bool:
    """Only the owner of a file may make a link to it: administrators read others' files with their own token."""
    return who.id == owner and who.holds(READ)
