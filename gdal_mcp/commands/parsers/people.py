"""The commands by which a person lets clients in and decides, as parts of the program."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gdal_mcp.access.identity import READ, SCOPES
from gdal_mcp.commands.exits import Exit, guarded
from gdal_mcp.commands.options import add_command, add_group, settings_of
from gdal_mcp.settings import Settings

Action = Callable[[argparse.Namespace, Settings], Exit]


def add_people(commands: Any) -> None:
    _add_token(commands)
    _add_approve(commands)
    _add_grants(commands)
    policy = add_group(commands, "policy", "explain what the policy says")
    check = add_command(policy, "check", _check, "say whether a call would run, and which rule decides")
    check.add_argument("tool", metavar="TOOL", help="a tool's name")
    check.add_argument(
        "arguments", metavar="JSON", help="the tool's arguments, or - to read them from standard input"
    )
    _add_principal(check, "whose call it would be")
    console = add_command(
        commands, "console", _console, "print the address of the web page on which people decide and look"
    )
    console.add_argument("--open", action="store_true", help="open it in the browser of this machine too")


def _add_token(commands: Any) -> None:
    actions = add_group(commands, "token", "make, list or revoke tokens of clients")
    new = add_command(actions, "new", _token_new, "make a token and print it, once")
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
    add_command(actions, "list", _token_list, "list the tokens, without their secrets")
    revoke = add_command(actions, "revoke", _token_revoke, "end a token at once")
    revoke.add_argument("name", metavar="NAME", help="the name that it was made with")


def _add_approve(commands: Any) -> None:
    approve = add_command(commands, "approve", _approve, "decide what waits for a person's yes")
    approve.add_argument(
        "question", nargs="?", metavar="ID", help="of the question; without one, all that wait are listed"
    )
    answer = approve.add_mutually_exclusive_group()
    answer.add_argument("--yes", action="store_true", help="approve it without being asked again")
    answer.add_argument("--no", action="store_true", help="deny it")
    approve.add_argument("--json", action="store_true", help="the list as JSON")


def _add_grants(commands: Any) -> None:
    actions = add_group(commands, "grants", "list, make or revoke a yes given beforehand")
    listing = add_command(actions, "list", _grants_list, "list grants, those that hold first")
    listing.add_argument("--json", action="store_true", help="as JSON")
    new = add_command(actions, "new", _grants_new, "let calls of a tool write to a workspace for some time")
    new.add_argument("tool", metavar="TOOL", help="the tool's name")
    new.add_argument("folder", type=Path, metavar="FOLDER", help="the workspace")
    new.add_argument(
        "--for",
        dest="span",
        default="30m",
        metavar="TIME",
        help="such as 30m or 8h, 24h at most (default: 30m)",
    )
    _add_principal(new, "for whom")
    revoke = add_command(actions, "revoke", _grants_revoke, "end a grant at once")
    revoke.add_argument("grant", metavar="ID", help="as listed")


def _add_principal(parser: argparse.ArgumentParser, whose: str) -> None:
    parser.add_argument(
        "--principal", metavar="NAME", help=f"{whose}; the user of this system when not given"
    )


def _done(action: Action, given: argparse.Namespace) -> Exit:
    settings = settings_of(given)
    return guarded(lambda: action(given, settings))


def _token_new(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import tokens

    return _done(tokens.new, given)


def _token_list(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import tokens

    return _done(tokens.listed, given)


def _token_revoke(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import tokens

    return _done(tokens.revoke, given)


def _approve(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import decisions

    return _done(decisions.approve, given)


def _grants_list(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import decisions

    return _done(decisions.grants, given)


def _grants_new(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import decisions

    return _done(decisions.grant, given)


def _grants_revoke(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import decisions

    return _done(decisions.revoke, given)


def _check(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import policy_check

    return _done(policy_check.check, given)


def _console(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import console

    settings = settings_of(given)
    return guarded(lambda: console.show(settings, opens=given.open))
