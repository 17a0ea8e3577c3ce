"""A keyed hash of the secret parts of addresses, so that an approval covers parts that are never shown.

The key is random, one for each state folder, and never leaves it. A reader of a record therefore cannot test guesses.
"""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.remote.address import Address
from gdal_mcp.settings.state import put_private

_KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Seal:
    path: Path  # the key, created on first use

    def __call__(self, addresses: Sequence[Address]) -> str:
        """HMAC-SHA256, in hex, of the secret parts of the addresses; "" if there are none. Raises ToolError."""
        if not any(address.secret for address in addresses):
            return ""
        parts = [[str(address), address.secret] for address in addresses]
        return hmac.new(self._key(), json.dumps(parts).encode(), hashlib.sha256).hexdigest()

    def _key(self) -> bytes:
        try:
            if not self.path.exists():
                self._make()
            key = self.path.read_bytes()
        except OSError as error:
            raise _unusable(self.path, error.strerror or str(error)) from error
        if len(key) != _KEY_BYTES:
            raise _unusable(self.path, f"it does not hold {_KEY_BYTES} bytes")
        return key

    def _make(self) -> None:
        """Creates the key. If two servers start together, one of them creates it and both use it."""
        new = self.path.with_name(f".{secrets.token_hex(8)}")
        put_private(new, secrets.token_bytes(_KEY_BYTES))
        try:
            with suppress(FileExistsError):
                os.link(new, self.path)
        finally:
            new.unlink()


def _unusable(path: Path, why: str) -> ToolError:
    return ToolError(
        Code.INTERNAL,
        Stage.APPROVAL,
        f"the key {path.name} of the state folder cannot be used: {why}.",
        "Give this user the file, or remove it: pending approvals of remote data will be requested again.",
    )
