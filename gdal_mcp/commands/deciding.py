"""The commands by which a person decides, as parts of the program. What they do is loaded when one of them runs."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gdal_mcp.commands.options import settings_of

Command = Callable[..., argparse.ArgumentParser]
Guarded = Callable[[Callable[[], int]], int]


def add_decisions(commands: Any, command: Command, guarded: Guarded) -> None:
    """`command` makes a command with all settings as options, `guarded` turns our failures into sentences."""

    def run(name: str) -> Callable[[argparse.Namespace], int]:
        def one(given: argparse.Namespace) -> int:
            from gdal_mcp.commands import decisions as decisions_command  # noqa: PLC0415 - see above

            settings = settings_of(given)
            return guarded(lambda: int(getattr(decisions_command, name)(given, settings)))

        return one

    _approve(commands, command, run("approve"))
    _grants(commands, command, run)
    policy = commands.add_parser("policy", help="explain what the policy says", allow_abbrev=False)
    actions = policy.add_subparsers(metavar="ACTION", required=True)
    check = command(actions, "check", run("check"), "say whether a call would run, and which rule decides")
    check.add_argument("tool", metavar="TOOL", help="a tool's name")
    check.add_argument(
        "arguments", metavar="JSON", help="the tool's arguments, or - to read them from standard input"
    )
    _add_principal(check, "whose call it would be")


def _approve(commands: Any, command: Command, run: Callable[[argparse.Namespace], int]) -> None:
    parser = command(commands, "approve", run, "decide what waits for a person's yes")
    parser.add_argument(
        "question", nargs="?", metavar="ID", help="of the question; without one, all that wait are listed"
    )
    answer = parser.add_mutually_exclusive_group()
    answer.add_argument("--yes", action="store_true", help="approve it without being asked again")
    answer.add_argument("--no", action="store_true", help="deny it")
    parser.add_argument("--json", action="store_true", help="the list as JSON")


def _grants(
    commands: Any, command: Command, run: Callable[[str], Callable[[argparse.Namespace], int]]
) -> None:
    group = commands.add_parser(
        "grants", help="list, make or revoke a yes given beforehand", allow_abbrev=False
    )
    actions = group.add_subparsers(metavar="ACTION", required=True)
    listing = command(actions, "list", run("grants"), "list grants, those that hold first")
    listing.add_argument("--json", action="store_true", help="as JSON")
    made = command(actions, "new", run("grant"), "let calls of a tool write to a workspace for some time")
    made.add_argument("tool", metavar="TOOL", help="the tool's name")
    made.add_argument("folder", type=Path, metavar="FOLDER", help="the workspace")
    made.add_argument(
        "--for",
        dest="span",
        default="30m",
        metavar="TIME",
        help="such as 30m or 8h, 24h at most (default: 30m)",
    )
    _add_principal(made, "for whom")
    revoked = command(actions, "revoke", run("revoke"), "end a grant at once")
    revoked.add_argument("grant", metavar="ID", help="as listed")


def _add_principal(parser: argparse.ArgumentParser, whose: str) -> None:
    parser.add_argument(
        "--principal", metavar="NAME", help=f"{whose}; the user of this system when not given"
    )
