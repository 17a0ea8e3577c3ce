"""The commands about what calls left behind, as parts of the program."""

import argparse
from typing import TYPE_CHECKING, Any

from gdal_mcp.commands.exits import Exit, guarded
from gdal_mcp.commands.options import add_command, add_group, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdal_mcp.app import App


def add_records(commands: Any) -> None:
    audit = add_group(commands, "audit", "verify or show the audit log")
    verify = add_command(audit, "verify", _verify, "check every record of the hash chain")
    verify.add_argument(
        "--checkpoint",
        metavar="SEQ:HASH",
        help="a checkpoint printed earlier and kept elsewhere; the log must still hold it",
    )
    tail = add_command(audit, "tail", _tail, "show the last records")
    tail.add_argument("-n", type=int, default=10, metavar="COUNT", help="how many (default: 10)")

    replay = add_command(
        commands,
        "replay",
        _replay,
        "make a recorded call again, publish nothing, and say whether it gives the same",
    )
    replay.add_argument("call", metavar="CALL", help="the call's id, as in its receipt")
    replay.add_argument("--json", action="store_true", help="as JSON")

    _add_stats(commands)

    undo = add_command(commands, "undo", _undo, "restore what a call replaced and take away what it made")
    undo.add_argument("call", metavar="CALL", help="the call's id, as in its receipt")


def _add_stats(commands: Any) -> None:
    stats = add_command(commands, "stats", _stats, "show what calls did and took, and what runs now")
    stats.add_argument(
        "--since",
        default="24h",
        metavar="AGE",
        help="how far back, such as 30m, 24h or 7d (default: 24h)",
    )
    form = stats.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--prometheus", action="store_true", help="as Prometheus text, of all that is kept")


def _verify(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import audit

    settings = settings_of(given)
    return guarded(lambda: audit.check(settings, given.checkpoint))


def _tail(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import audit

    settings = settings_of(given)
    return guarded(lambda: audit.show_last(settings, given.n))


def _stats(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import stats

    settings = settings_of(given)
    form: stats.Form = "json" if given.json else "prometheus" if given.prometheus else "text"
    return guarded(lambda: stats.show(settings, given.since, form))


def _replay(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands.replay import replay_call

    return _with_app(given, lambda app: replay_call(app, given.call, as_json=given.json))


def _undo(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands.calling import undo_call

    return _with_app(given, lambda app: undo_call(app, given.call))


def _with_app(given: argparse.Namespace, work: "Callable[[App], Exit]") -> Exit:
    from gdal_mcp.app import running

    settings = settings_of(given)
    settings.require_workspaces()

    def run() -> Exit:
        with running(settings) as app:
            return work(app)

    return guarded(run)
