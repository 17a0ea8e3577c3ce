"""Login tokens: whoever can read this user's files can make one. It opens one session, once, within a minute.

Invariants:
* a token is made with the secret of one server and opens nothing else;
* it is taken once, and not after its time, however long the server remembers it.
"""

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from typing import Final

SECONDS: Final = 60  # from the command that made it to the browser that shows it
_TOKEN: Final = re.compile(r"(\d{10})\.([A-Za-z0-9_-]{22})\.([0-9a-f]{64})", re.ASCII)


def new_login_token(secret: str, now: float) -> str:
    """A new token; `now` in seconds since the epoch."""
    body = f"{int(now) + SECONDS:010d}.{secrets.token_urlsafe(16)}"
    return f"{body}.{_proof(secret, body)}"


class LoginTokens:
    """Accepts the tokens of one server. For one event loop."""

    def __init__(self, secret: str, clock: Callable[[], float] = time.time) -> None:
        self._secret = secret
        self._clock = clock
        self._taken: dict[str, int] = {}  # until when each would have been good

    def take(self, text: str) -> bool:
        """Whether a token is valid. It is used up by this."""
        parts = _TOKEN.fullmatch(text)
        if parts is None:
            return False
        ends, nonce, proof = int(parts[1]), parts[2], parts[3]
        now = self._clock()
        if not hmac.compare_digest(proof, _proof(self._secret, f"{parts[1]}.{nonce}")):
            return False
        if not now < ends <= now + SECONDS + 1 or nonce in self._taken:
            return False
        self._taken = {one: until for one, until in self._taken.items() if until > now}
        self._taken[nonce] = ends
        return True


def _proof(secret: str, body: str) -> str:
    return hmac.new(secret.encode(), body.encode(), hashlib.sha256).hexdigest()
