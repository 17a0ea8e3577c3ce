"""Verifies tokens that issuers signed (JWT, RFC 9068), for this server as an OAuth 2.1 resource server.

Invariants:
* a token is checked only with keys of the issuer that it names, and only for the listed algorithms;
* a valid token has the type of access tokens, names this server as its audience, its issuer and a subject, and has
  not expired;
* a token gives no scope that this server does not know.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt
import structlog

from gdal_mcp.policy.identity import SCOPES, Principal
from gdal_mcp.server.http.issuers import ALGORITHMS, SigningKeys

_log = structlog.get_logger()

LEEWAY_SECONDS: Final = 30  # seconds by which clocks may differ
_MAX_SUBJECT: Final = 255  # characters; the limit of OpenID Connect
# exceptions of the library for malformed tokens
_MALFORMED: Final = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True, eq=False)
class SignedTokens:
    """Verifies the tokens of several issuers, for one resource."""

    issuers: Mapping[str, SigningKeys]
    resource: str

    async def verify(self, text: str) -> Principal | None:
        """The owner of a token; None if it is invalid. Raises Unavailable if its issuer's keys are not available."""
        try:
            unproven = jwt.decode_complete(text, options={"verify_signature": False})
            header, issuer = unproven["header"], unproven["payload"].get("iss")
            algorithm = header.get("alg")
        except _MALFORMED:
            return None
        keys = self.issuers.get(issuer) if isinstance(issuer, str) else None
        if keys is None or not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            return None
        if not _is_access_token(header.get("typ"), plain=keys.issuer.plain):
            _log.info("token_type_refused", issuer=keys.issuer.name, typ=str(header.get("typ"))[:40])
            return None
        key = await keys.find(algorithm, header.get("kid"))
        if key is None:
            return None
        try:
            claims = jwt.decode(
                text,
                key,
                algorithms=[algorithm],
                audience=self.resource,
                issuer=issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iat", "aud", "iss", "sub"]},
            )
        except _MALFORMED:
            return None
        subject = claims["sub"]
        if not 0 < len(subject) <= _MAX_SUBJECT or not subject.isprintable():
            return None
        return Principal(f"oauth:{claims['iss']}#{subject}", _scopes(claims))


def _is_access_token(kind: Any, *, plain: bool) -> bool:
    """True if a token has the type of access tokens (RFC 9068, section 4). ID tokens of an issuer have another type."""
    if plain and (kind is None or kind == "JWT"):
        return True
    return isinstance(kind, str) and kind.lower().removeprefix("application/") == "at+jwt"


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """The scopes in `scope`, a text, or in `scp`, a text or a list; issuers use either claim."""
    claim = claims.get("scope", claims.get("scp", ""))
    names = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return frozenset(name for name in names if isinstance(name, str)) & frozenset(SCOPES)
