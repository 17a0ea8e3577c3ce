"""Signatures with an expiry, for links to files and for links that sign in.

Invariants:
* only a holder of the key makes a signature that verifies, for exactly these parts and this expiry;
* the signature is compared in constant time, before anything else is checked.
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

_TIME: Final = re.compile(r"[1-9]\d{0,11}", re.ASCII)  # seconds since 1970


@dataclass(frozen=True, slots=True)
class Signer:
    """Makes and verifies signatures. Without a key, it generates one that ends with the process."""

    clock: Callable[[], float] = time.time
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def sign(self, parts: Sequence[str], seconds: float) -> tuple[int, str]:
        """The expiry in seconds since 1970, and the signature."""
        expires = int(self.clock() + seconds)
        return expires, self._signature(parts, expires)

    def verify(self, parts: Sequence[str], expires: str, signature: str) -> bool:
        """True if the key's holder signed exactly these parts and they have not expired."""
        end = int(expires) if _TIME.fullmatch(expires) else 0
        expected = self._signature(parts, end).encode()
        return hmac.compare_digest(expected, signature.encode("utf-8", "replace")) and self.clock() < end

    def _signature(self, parts: Sequence[str], expires: int) -> str:
        """Signs JSON, in which different lists of parts have different texts."""
        text = json.dumps([*parts, expires])
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()
