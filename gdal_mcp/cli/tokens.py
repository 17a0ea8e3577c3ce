"""`gdal-mcp token`: creates, lists and revokes static tokens."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

from gdal_mcp.cli.exits import Exit
from gdal_mcp.cli.streams import out, say
from gdal_mcp.policy.identity import READ
from gdal_mcp.policy.tokens import TokenRefused, TokenStore
from gdal_mcp.records.audit import AuditLog
from gdal_mcp.settings import Settings, SettingsError


def new(settings: Settings, name: str, scopes: Sequence[str] | None, days: float | None) -> Exit:
    """Creates a token and prints it once. Raises SettingsError, TokensUnavailable, AuditUnavailable."""
    store, scopes = TokenStore(settings.state.tokens), tuple(dict.fromkeys(scopes or (READ,)))
    try:
        text = store.new(name, scopes, days)
    except TokenRefused as error:
        raise SettingsError(str(error)) from error
    with ExitStack() as unrecorded:
        unrecorded.callback(store.revoke, name)  # a token must not exist if it is not in the audit log
        _record(settings, "token.made", name, scopes)
        unrecorded.pop_all()
    out(text)
    say("this token is shown only once. Clients send it as `Authorization: Bearer TOKEN`.")
    return Exit.DONE


def show(settings: Settings) -> Exit:
    """Prints the tokens without their secrets. Raises TokensUnavailable."""
    tokens = TokenStore(settings.state.tokens).all()
    for token in tokens:
        until = "valid until it is revoked"
        if token.expires is not None:
            until = f"{'expired' if token.expires <= time.time() else 'valid until'} {_minute(token.expires)}"
        out(f"{token.name:<24} {' '.join(token.scopes):<46} created {_minute(token.created)}, {until}")
    if not tokens:
        say("there are no tokens; `gdal-mcp token new NAME` creates one.")
    return Exit.DONE


def revoke(settings: Settings, name: str) -> Exit:
    """Revokes a token at once. Raises TokensUnavailable, AuditUnavailable."""
    if not TokenStore(settings.state.tokens).revoke(name):
        say(f"token {name[:80]!r} does not exist; `gdal-mcp token list` lists tokens.")
        return Exit.FAILED
    _record(settings, "token.revoked", name, ())
    return Exit.DONE


def _record(settings: Settings, what: str, name: str, scopes: Sequence[str]) -> None:
    event: dict[str, Any] = {"type": what, "subject": f"token:{name}", "outcome": "OK"}
    AuditLog(settings.state.audit).append({**event, "scopes": list(scopes)} if scopes else event)


def _minute(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
