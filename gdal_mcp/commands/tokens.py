"""`gdal-mcp token`: makes, lists and revokes static tokens."""

import argparse
import time
from datetime import UTC, datetime
from typing import Any

from gdal_mcp.access.identity import READ
from gdal_mcp.access.tokens import Token, TokenRefused, TokenStore
from gdal_mcp.commands.exits import Exit
from gdal_mcp.commands.streams import out, say
from gdal_mcp.ledger.audit import AuditLog
from gdal_mcp.settings import Settings, SettingsError


def store(settings: Settings) -> TokenStore:
    return TokenStore(settings.state.tokens)


def new(given: argparse.Namespace, settings: Settings) -> Exit:
    """Makes a token and prints it, once. Raises SettingsError, TokensUnavailable, AuditUnavailable."""
    scopes = tuple(dict.fromkeys(given.scopes or (READ,)))
    try:
        text = store(settings).new(given.name, scopes, given.days)
    except TokenRefused as error:
        raise SettingsError(str(error)) from error
    _record_or_take_back(settings, given.name, scopes)
    out(text)
    say("this is the only time that the token is shown. Clients send it as `Authorization: Bearer TOKEN`.")
    return Exit.DONE


def _record_or_take_back(settings: Settings, name: str, scopes: tuple[str, ...]) -> None:
    """No record, no token."""
    try:
        _record(settings, "token.made", name, scopes)
    except BaseException:
        store(settings).revoke(name)
        raise


def listed(_given: argparse.Namespace, settings: Settings) -> Exit:
    """Prints the tokens without their secrets. Raises TokensUnavailable."""
    tokens = store(settings).all()
    for token in tokens:
        out(f"{token.name:<24} {' '.join(token.scopes):<46} made {_day(token.created)}, {_until(token)}")
    if not tokens:
        say("there is no token; `gdal-mcp token new NAME` makes one.")
    return Exit.DONE


def revoke(given: argparse.Namespace, settings: Settings) -> Exit:
    """Ends a token at once. Raises TokensUnavailable, AuditUnavailable."""
    if not store(settings).revoke(given.name):
        say(f"there is no token {given.name[:80]!r}; `gdal-mcp token list` shows them.")
        return Exit.FAILED
    _record(settings, "token.revoked", given.name, ())
    return Exit.DONE


def _record(settings: Settings, what: str, name: str, scopes: tuple[str, ...]) -> None:
    event: dict[str, Any] = {"type": what, "subject": f"token:{name}", "outcome": "OK"}
    AuditLog(settings.state.audit).append({**event, "scopes": list(scopes)} if scopes else event)


def _until(token: Token) -> str:
    if token.expires is None:
        return "holds until it is revoked"
    return f"{'ended' if token.expires <= time.time() else 'holds until'} {_day(token.expires)}"


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
