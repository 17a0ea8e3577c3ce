"""Static tokens: secrets that a small team without an issuer gives to its clients.

A token is `gdalmcp_ID_SECRET`. The id finds its row, the secret proves it.

Invariants:
* the secret is shown once, when it is made, and stored nowhere: the file has its SHA-256. It has 256 random bits, so
  it cannot be guessed from its digest. A slow hash, which passwords need, would only let strangers keep this server
  busy;
* if others than its owner can write the file, no token is valid;
* changes apply from the next request on, in every process: nothing is cached in memory;
* no two tokens have the same name at once, because the name identifies the principal.
"""

import hashlib
import hmac
import re
import secrets
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gdal_mcp.policy.identity import SCOPES, Principal
from gdal_mcp.settings.state import make_private

PREFIX: Final = "gdalmcp_"  # distinctive, so that scanners for leaked secrets can recognize it
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?", re.ASCII)
_TOKEN: Final = re.compile(rf"{PREFIX}([0-9a-f]{{16}})_([A-Za-z0-9_-]{{43}})", re.ASCII)
_BUSY_SECONDS: Final = 5.0
_DAY: Final = 86_400.0  # seconds
_TABLE: Final = """CREATE TABLE IF NOT EXISTS tokens (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, digest BLOB NOT NULL, scopes TEXT NOT NULL,
    created REAL NOT NULL, expires REAL)"""


class TokensUnavailable(Exception):
    """The tokens cannot be read or written; the message says what to do."""


class TokenRefused(Exception):
    """A token cannot be made as requested; the message says why."""


@dataclass(frozen=True, slots=True)
class Token:
    """The stored part of a token. Times are seconds since 1970; without an expiry it is valid until revoked."""

    name: str
    scopes: tuple[str, ...]
    created: float
    expires: float | None

    def principal(self) -> Principal:
        return Principal(f"token:{self.name}", frozenset(self.scopes))


@dataclass(frozen=True)
class TokenStore:
    path: Path
    clock: Callable[[], float] = time.time

    def new(self, name: str, scopes: tuple[str, ...], days: float | None) -> str:
        """Makes a token and returns its text, the only copy. Raises TokenRefused, TokensUnavailable."""
        if not _NAME.fullmatch(name):
            raise TokenRefused(
                f"{name[:80]!r} is not a valid token name: up to 64 lowercase letters, digits, dots, dashes and underscores, "
                "with a letter or digit at both ends."
            )
        unknown = sorted(set(scopes) - set(SCOPES))
        if unknown or not scopes:
            raise TokenRefused(
                f"a token has scopes of {', '.join(SCOPES)}; not {', '.join(unknown) or 'none'}."
            )
        if days is not None and not 0 < days <= 36_500:  # a century: a longer time is a mistake
            raise TokenRefused("a token is valid for more than zero days and less than a century.")
        token_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)  # bytes
        now = self.clock()
        row = (token_id, name, _digest(secret), " ".join(scopes), now, now + days * _DAY if days else None)
        with self._writing() as db:
            db.execute("DELETE FROM tokens WHERE name = ? AND expires <= ?", (name, now))
            try:
                db.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?)", row)
            except sqlite3.IntegrityError:
                raise TokenRefused(
                    f"there already is a token {name!r}. Revoke it first, or choose another name."
                ) from None
        return f"{PREFIX}{token_id}_{secret}"

    def revoke(self, name: str) -> bool:
        """Deletes a token. True if it existed. Raises TokensUnavailable."""
        with self._writing() as db:
            return db.execute("DELETE FROM tokens WHERE name = ?", (name,)).rowcount > 0

    def all(self) -> tuple[Token, ...]:
        """All tokens by name, including expired ones. Raises TokensUnavailable."""
        with self._reading() as db:
            rows = db.execute("SELECT name, scopes, created, expires FROM tokens ORDER BY name") if db else ()
            return tuple(Token(name, tuple(scopes.split()), *times) for name, scopes, *times in rows)

    def find(self, text: str) -> Token | None:
        """The token of this text, if it is valid now. Raises TokensUnavailable."""
        parts = _TOKEN.fullmatch(text)
        if parts is None:
            return None
        query = "SELECT digest, name, scopes, created, expires FROM tokens WHERE id = ?"
        with self._reading() as db:
            row = db.execute(query, (parts[1],)).fetchone() if db else None
        if row is None or not hmac.compare_digest(row[0], _digest(parts[2])):
            return None
        _, name, scopes, created, expires = row
        valid = expires is None or self.clock() < expires
        return Token(name, tuple(scopes.split()), created, expires) if valid else None

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """A read-only connection. None if no token was ever made."""
        with self._explained():
            try:
                _require_private(self.path)
            except FileNotFoundError:
                yield None
                return
            with closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", _BUSY_SECONDS, uri=True)) as db:
                yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._explained():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_private(self.path)
            _require_private(self.path)
            with closing(sqlite3.connect(self.path, _BUSY_SECONDS)) as db, db:
                db.execute(_TABLE)
                yield db

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise TokensUnavailable(
                f"the tokens in {self.path} cannot be used: {error}. Check that the disk works and this user can write the file."
            ) from error


def _require_private(path: Path) -> None:
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode) or mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise TokensUnavailable(
            f"others could have written {path}, so none of its tokens is accepted. Find out who did, run chmod 600 on it, and "
            "make new tokens."
        )


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("ascii")).digest()
