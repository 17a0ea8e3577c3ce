"""Every command of the program with its options. What a command needs is imported when it runs, so that help is quick."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdal_mcp.access.identity import READ, SCOPES
from gdal_mcp.commands.exits import Exit, guarded
from gdal_mcp.commands.options import add_command, add_early_command, add_group, settings_of
from gdal_mcp.commands.streams import json_object, out
from gdal_mcp.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdal_mcp.app import App


def add_commands(commands: Any) -> None:
    """All of them, in the order in which help lists them."""
    for add in (_add_calls, _add_host, _add_clients, _add_decisions, _add_records):
        add(commands)


def _add_calls(commands: Any) -> None:
    serve = add_early_command(commands, "serve", _serve, "serve the Model Context Protocol")
    serve.add_argument(
        "--transport", choices=["stdio", "http"], default="stdio", help="how clients connect (default: stdio)"
    )
    call = add_command(commands, "call", _call, "run one tool and print its structured result as JSON")
    _add_tool_call(call)
    call.add_argument("--yes", action="store_true", help="approve the call; for scripts")

    tools = add_command(commands, "tools", _tools, "list the tools that a server with these settings has")
    tools.add_argument("--json", action="store_true", help="with their schemas")
    tools.add_argument("--all", action="store_true", help="every tool there is")


def _add_tool_call(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="a tool's name; `gdal-mcp tools` lists them")
    parser.add_argument(
        "arguments", metavar="JSON", help="its arguments, or - to read them from standard input"
    )


def _serve(given: argparse.Namespace) -> Exit:
    from gdal_mcp.mcp.memory import no_gc

    with no_gc():
        settings = settings_of(given)
        settings.require_workspaces()
        from gdal_mcp.commands import serving

        serve = serving.over_http if given.transport == "http" else serving.over_stdio
        return guarded(lambda: serve(settings))


def _call(given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands.calls import call_once, end_on_signals

    settings.require_workspaces()
    arguments = json_object(given.arguments)
    end_on_signals()
    return _with_app(settings, lambda app: call_once(app, given.tool, arguments, assume_yes=given.yes))


def _with_app(settings: Settings, work: "Callable[[App], Exit]") -> Exit:
    from gdal_mcp.app import running

    settings.require_workspaces()
    with running(settings) as app:
        return work(app)


def _tools(given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands.calls import list_tools

    return list_tools(settings, every=given.all, as_json=given.json)


def _add_host(commands: Any) -> None:
    text = "check engine, image, isolation and workspaces, with the fix for each failure"
    doctor = add_command(commands, "doctor", _doctor, text)
    doctor.add_argument("--escape", action="store_true", help="try to get out of a container")
    doctor.add_argument("--json", action="store_true", help="as JSON")

    add_command(commands, "setup", _setup, "bring the GDAL image onto this host")
    add_command(commands, "settings", _settings, "explain every setting")

    catalogue = add_group(commands, "catalogue", "build or show what is known of a GDAL")
    build = add_command(catalogue, "build", _build, "ask the image what its GDAL can be told")
    build.add_argument(
        "--output", type=Path, metavar="FILE", help="write it there, not into the state folder"
    )
    add_command(catalogue, "show", _show, "show which catalogue a server with these settings uses")


def _doctor(given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands import doctor, escape

    show = escape.show if given.escape else doctor.show
    return show(settings, as_json=given.json)


def _setup(_given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands import catalogue

    return catalogue.setup(settings)


def _settings(_given: argparse.Namespace, _settings: Settings) -> Exit:
    from gdal_mcp.settings.table import describe

    for row in describe():
        default = f" (default: {row.default})" if row.default else ""
        out(f"{row.name}\n    {row.description}{default}")
    return Exit.DONE


def _build(given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands import catalogue

    return catalogue.build(settings, given.output)


def _show(_given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands import catalogue

    return catalogue.show(settings)


def _add_clients(commands: Any) -> None:
    tokens = add_group(commands, "token", "make, list or revoke tokens of clients")
    new = add_command(tokens, "new", _token_new, "make a token and print it, once")
    new.add_argument("name", metavar="NAME", help="whose it is; calls are recorded as token:NAME")
    new.add_argument(
        "--scope",
        action="append",
        choices=SCOPES,
        dest="scopes",
        help=f"what it may do; repeatable (default: {READ})",
    )
    new.add_argument("--days", type=float, metavar="N", help="how long it is valid (default: until revoked)")
    add_command(tokens, "list", _token_list, "list the tokens, without their secrets")
    revoke = add_command(tokens, "revoke", _token_revoke, "end a token at once")
    revoke.add_argument("name", metavar="NAME", help="the name that it was made with")

    text = "print the address of the web page on which people decide and look"
    console = add_command(commands, "console", _console, text)
    console.add_argument("--open", action="store_true", help="open it in the browser of this machine too")


def _token_new(given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands import tokens

    return tokens.new(settings, given.name, given.scopes or [READ], given.days)


def _token_list(_given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands import tokens

    return tokens.show(settings)


def _token_revoke(given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands import tokens

    return tokens.revoke(settings, given.name)


def _console(given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands import console

    return console.show(settings, opens=given.open)


def _add_decisions(commands: Any) -> None:
    approve = add_command(commands, "approve", _approve, "answer a question that waits for approval")
    approve.add_argument(
        "question",
        nargs="?",
        metavar="ID",
        help="of the question; without one, all open questions are listed",
    )
    answer = approve.add_mutually_exclusive_group()
    answer.add_argument("--yes", action="store_true", help="approve it without being asked again")
    answer.add_argument("--no", action="store_true", help="deny it")
    approve.add_argument("--json", action="store_true", help="the list as JSON")

    grants = add_group(commands, "grants", "list, make or revoke approvals given in advance")
    listing = add_command(grants, "list", _grants_list, "list grants, the valid ones first")
    listing.add_argument("--json", action="store_true", help="as JSON")
    new = add_command(grants, "new", _grants_new, "let calls of a tool write to a workspace for some time")
    new.add_argument("tool", metavar="TOOL", help="the tool's name")
    new.add_argument("folder", type=Path, metavar="FOLDER", help="the workspace")
    span = "such as 30m or 8h, 24h at most (default: 30m)"
    new.add_argument("--for", dest="span", default="30m", metavar="TIME", help=span)
    _add_principal(new, "for whom")
    revoke = add_command(grants, "revoke", _grants_revoke, "end a grant at once")
    revoke.add_argument("grant", metavar="ID", help="as listed")

    policy = add_group(commands, "policy", "explain what the policy says")
    text = "say whether a call would run, and which rule decides"
    check = add_command(policy, "check", _check, text)
    _add_tool_call(check)
    _add_principal(check, "whose call it would be")


def _add_principal(parser: argparse.ArgumentParser, whose: str) -> None:
    parser.add_argument("--principal", metavar="NAME", help=f"{whose} (default: this system's user)")


def _approve(given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands import decisions

    if given.question is None:
        return decisions.show_questions(settings, as_json=given.json)
    answer = True if given.yes else False if given.no else None
    return decisions.approve(settings, given.question, answer)


def _grants_list(given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands import decisions

    return decisions.show_grants(settings, as_json=given.json)


def _grants_new(given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands import decisions

    return decisions.grant(settings, given.tool, given.folder, given.span, given.principal)


def _grants_revoke(given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands import decisions

    return decisions.revoke(settings, given.grant)


def _check(given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands import policy_check

    return policy_check.check(given, settings)


def _add_records(commands: Any) -> None:
    audit = add_group(commands, "audit", "verify or show the audit log")
    verify = add_command(audit, "verify", _verify, "check every record of the hash chain")
    text = "a checkpoint printed earlier and kept elsewhere; the log must still contain it"
    verify.add_argument("--checkpoint", metavar="SEQ:HASH", help=text)
    tail = add_command(audit, "tail", _tail, "show the last records")
    tail.add_argument("-n", type=int, default=10, metavar="COUNT", help="how many (default: 10)")

    stats = add_command(commands, "stats", _stats, "show what calls did and took, and what runs now")
    age = "how far back, such as 30m, 24h or 7d (default: 24h)"
    stats.add_argument("--since", default="24h", metavar="AGE", help=age)
    form = stats.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--prometheus", action="store_true", help="as Prometheus text, of all that is kept")

    text = "repeat a recorded call without publishing anything, and compare the results"
    replay = add_command(commands, "replay", _replay, text)
    replay.add_argument("call", metavar="CALL", help="the call's id, as in its receipt")
    replay.add_argument("--json", action="store_true", help="as JSON")

    undo = add_command(commands, "undo", _undo, "restore what a call replaced and remove what it made")
    undo.add_argument("call", metavar="CALL", help="the call's id, as in its receipt")


def _verify(given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands import audit

    return audit.check(settings, given.checkpoint)


def _tail(given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands import audit

    return audit.show_last(settings, given.n)


def _stats(given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands import stats

    form: stats.Form = "json" if given.json else "prometheus" if given.prometheus else "text"
    return stats.show(settings, given.since, form)


def _replay(given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands.replay import replay_call

    return _with_app(settings, lambda app: replay_call(app, given.call, as_json=given.json))


def _undo(given: argparse.Namespace, settings: Settings) -> Exit:
    from gdal_mcp.commands.calls import undo_call

    return _with_app(settings, lambda app: undo_call(app, given.call))
