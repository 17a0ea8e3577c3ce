"""`gdal-mcp token`: makes, lists and revokes static tokens."""

import argparse
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from gdal_mcp.access.identity import READ, SCOPES
from gdal_mcp.access.tokens import Token, TokenRefused, TokenStore
from gdal_mcp.settings import Settings, SettingsError

OK, FAILED = 0, 1
FILE: Final = "tokens.sqlite"
Say = Callable[[str], None]


def add_actions(
    actions: Any, command: Callable[..., argparse.ArgumentParser], run: Callable[..., int]
) -> None:
    """The actions of `gdal-mcp token`; `run` is called with the parsed arguments."""
    new = command(actions, "new", run, "make a token and print it, once")
    new.add_argument("name", metavar="NAME", help="whose it is; calls are recorded as token:NAME")
    new.add_argument(
        "--scope",
        action="append",
        choices=SCOPES,
        dest="scopes",
        help=f"what it may do; repeatable (default: {READ})",
    )
    new.add_argument(
        "--days", type=float, metavar="N", help="how long it holds (default: until it is revoked)"
    )
    new.set_defaults(action=_new)
    command(actions, "list", run, "list the tokens, without their secrets").set_defaults(action=_list)
    revoke = command(actions, "revoke", run, "end a token at once")
    revoke.add_argument("name", metavar="NAME", help="the name that it was made with")
    revoke.set_defaults(action=_revoke)


def act(arguments: argparse.Namespace, settings: Settings, write: Say, say: Say) -> int:
    """Does what the command says. Raises SettingsError, TokensUnavailable, AuditUnavailable."""
    code: int = arguments.action(arguments, settings, write, say)
    return code


def store(settings: Settings) -> TokenStore:
    return TokenStore(settings.state_dir / FILE)


def _new(arguments: argparse.Namespace, settings: Settings, write: Say, say: Say) -> int:
    scopes = tuple(dict.fromkeys(arguments.scopes or (READ,)))
    try:
        text = store(settings).new(arguments.name, scopes, arguments.days)
    except TokenRefused as error:
        raise SettingsError(str(error)) from error
    _record_or_take_back(settings, arguments.name, scopes)
    write(text)
    say("this is the only time that the token is shown. Clients send it as `Authorization: Bearer TOKEN`.")
    return OK


def _record_or_take_back(settings: Settings, name: str, scopes: tuple[str, ...]) -> None:
    """No record, no token."""
    try:
        _record(settings, "token.made", name, scopes)
    except BaseException:
        store(settings).revoke(name)
        raise


def _list(_arguments: argparse.Namespace, settings: Settings, write: Say, _say: Say) -> int:
    for token in store(settings).all():
        write(f"{token.name:<24} {' '.join(token.scopes):<46} made {_day(token.created)}, {_until(token)}")
    return OK


def _revoke(arguments: argparse.Namespace, settings: Settings, _write: Say, say: Say) -> int:
    if not store(settings).revoke(arguments.name):
        say(f"there is no token {arguments.name[:80]!r}; `gdal-mcp token list` shows them.")
        return FAILED
    _record(settings, "token.revoked", arguments.name, ())
    return OK


def _record(settings: Settings, what: str, name: str, scopes: tuple[str, ...]) -> None:
    from gdal_mcp.ledger.audit import AuditLog  # noqa: PLC0415 - the parser of every command is made from this file

    event: dict[str, Any] = {"type": what, "subject": f"token:{name}", "outcome": "OK"}
    AuditLog(settings.state_dir / "audit.jsonl").append(
        {**event, "scopes": list(scopes)} if scopes else event
    )


def _until(token: Token) -> str:
    if token.expires is None:
        return "holds until it is revoked"
    return f"{'ended' if token.expires <= time.time() else 'holds until'} {_day(token.expires)}"


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
