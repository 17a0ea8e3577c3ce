"""Every command of the program with its options. A command's modules are imported when it runs, so that help is quick."""

import argparse
import gc
import signal
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from gdal_mcp import __version__
from gdal_mcp.cli.exits import Exit, guarded, meanings
from gdal_mcp.cli.options import (
    Parser,
    Run,
    add_command,
    add_early_command,
    add_group,
    epilog,
    settings_of,
)
from gdal_mcp.cli.streams import json_object, out
from gdal_mcp.policy.identity import READ, SCOPES
from gdal_mcp.settings import Settings


def build_parser() -> argparse.ArgumentParser:
    """The program's parser, with the commands in the order of the help."""
    parser = Parser(
        prog="gdal-mcp",
        description="GDAL for AI assistants: each call runs in its own container.",
        epilog=epilog("", f"{meanings()} `gdal-mcp COMMAND --help` explains each command."),
    )
    parser.add_argument("--version", action="version", version=f"gdal-mcp {__version__}")
    commands = parser.add_subparsers(prog=parser.prog, metavar="COMMAND", required=True, title="Commands")
    for add in (_add_calls, _add_host, _add_clients, _add_decisions, _add_records):
        add(commands)
    return parser


def _imported(function: str) -> Run:
    """Runs `module.function` of this package with the settings, or a running app, and the values of its other parameters.

    For a recorded call, the state folder and the workspaces are found if they are not set.
    """

    def run(options: argparse.Namespace, settings: Settings) -> Exit:
        module, _, name = function.partition(".")
        work = getattr(import_module(f"gdal_mcp.cli.{module}"), name)
        first, *names = signature(work).parameters
        values = {name: getattr(options, name) for name in names}
        ended: Exit
        if first == "settings":
            ended = work(settings, **values)
            return ended
        from gdal_mcp.cli.finding import settings_for_call
        from gdal_mcp.server.app import running

        if "call_id" in names:
            settings = settings_for_call(settings, options.call_id)
        settings.require_workspaces()
        with running(settings) as app:
            ended = work(app, **values)
        return ended

    return run


def _add(commands: Any, name: str, function: str, text: str) -> argparse.ArgumentParser:
    return add_command(commands, name, _imported(function), text)


def _add_json(parser: Any, text: str = "print JSON") -> None:
    parser.add_argument("--json", action="store_true", dest="as_json", help=text)


def _add_calls(commands: Any) -> None:
    serve = add_early_command(commands, "serve", _serve, "serve the Model Context Protocol")
    serve.add_argument(
        "--transport", choices=["stdio", "http"], default="stdio", help="how clients connect (default: stdio)"
    )
    text = "another workspace, for clients that pass chosen folders as arguments"
    serve.add_argument("folders", nargs="*", metavar="DIR", help=text)
    call = add_command(commands, "call", _call, "run one tool and print its result as JSON")
    _add_tool_call(call)
    call.add_argument("--yes", action="store_true", dest="assume_yes", help="approve the call; for scripts")
    text = "write the picture of the result to a new PNG file"
    call.add_argument("--save", type=Path, metavar="FILE", help=text)

    run = add_command(commands, "run", _run, "check a workflow, ask once, and run it")
    run.add_argument("file", type=Path, metavar="FILE", help="the workflow, as JSON or YAML")
    text = "value of a parameter; repeatable"
    run.add_argument("--param", action="append", default=[], dest="params", metavar="NAME=VALUE", help=text)
    run.add_argument("--check", action="store_true", help="only check it; run nothing and ask nothing")
    run.add_argument("--fresh", action="store_true", help="run every step, even those that have a result")
    run.add_argument("--manifest", metavar="PATH", help="publish a record of the run there, as JSON")
    run.add_argument("--junit", type=Path, dest="report", metavar="FILE", help="write a JUnit report")
    run.add_argument("--yes", action="store_true", dest="assume_yes", help="approve the run; for scripts")

    workflow = add_group(commands, "workflow", "create workflows")
    text = "print a workflow that repeats recorded calls"
    from_calls = _add(workflow, "from-calls", "workflows.workflow_from_calls", text)
    from_calls.add_argument("call_ids", nargs="+", metavar="CALL", help="ids of calls, in order")
    from_calls.add_argument("--name", default="workflow", help="name of the workflow (default: workflow)")

    text = "list the tools of a server with these settings"
    tools = _add(commands, "tools", "calls.list_tools", text)
    _add_json(tools, "print JSON with schemas")
    tools.add_argument("--all", action="store_true", dest="every", help="list all tools")


def _add_tool_call(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="name of the tool; `gdal-mcp tools` lists them")
    parser.add_argument(
        "arguments", metavar="JSON", help="arguments of the tool, or - to read them from standard input"
    )


def _serve(options: argparse.Namespace) -> Exit:
    gc.disable()  # until start-up is done: there is no garbage yet, and each collection would scan all imported modules
    if options.folders:
        options.workspaces = [*getattr(options, "workspaces", []), *options.folders]
    from gdal_mcp.cli import serving

    if options.transport == "http":
        return guarded(lambda: serving.over_http(settings_of(options)))
    return guarded(lambda: serving.over_stdio(settings_of(options)), serving.report_not_ready)


def _call(options: argparse.Namespace, settings: Settings) -> Exit:
    settings.require_workspaces()
    options.arguments = json_object(options.arguments)
    from gdal_mcp.cli.calls import with_tool

    settings, options.tool = with_tool(settings, options.tool)
    _end_by_signals()
    return _imported("calls.call_once")(options, settings)


def _run(options: argparse.Namespace, settings: Settings) -> Exit:
    settings.require_workspaces()
    _end_by_signals()
    return _imported("workflows.run_workflow")(options, settings)


def _end_by_signals() -> None:
    """Makes SIGINT and SIGTERM interrupt a call, so that its container is stopped and removed.

    SIGINT is set too: shells make background commands of scripts ignore it, and asyncio does not change that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))


def _add_host(commands: Any) -> None:
    text = "check engine, image, isolation and workspaces"
    doctor = _add(commands, "doctor", "doctor.show", text)
    text = "show every row, including those without a problem"
    doctor.add_argument("--all", action="store_true", dest="every", help=text)
    doctor.add_argument("--escape", action="store_true", help="try to escape from a container")
    text = "print a report without names and secrets, to send to others"
    doctor.add_argument("--report", action="store_true", dest="send", help=text)
    _add_json(doctor)

    text = "get the image of a toolbox"
    setup = _add(commands, "setup", "catalogue.setup", text)
    text = "toolbox whose image to get (default: gdal)"
    setup.add_argument("--toolbox", choices=["gdal", "python", "augment"], default="gdal", help=text)
    explain = add_command(commands, "settings", _settings, "explain every setting, or those named")
    explain.add_argument("names", nargs="*", metavar="NAME", help="name of a setting, such as memory")

    catalogue = add_group(commands, "catalogue", "rebuild the catalogue of an image's GDAL")
    text = "ask the image for its algorithms and formats"
    build = _add(catalogue, "build", "catalogue.build", text)
    text = "write to this file instead of the state folder"
    build.add_argument("--output", type=Path, metavar="FILE", help=text)
    text = "report what differs in an image's GDAL, and serve the rest"
    refresh = _add(catalogue, "refresh", "catalogue.refresh", text)
    text = "also write all that the image says there, for a review"
    refresh.add_argument("--output", type=Path, metavar="FILE", help=text)


def _settings(options: argparse.Namespace, _settings: Settings) -> Exit:
    from gdal_mcp.settings.file import SettingsError, no_setting
    from gdal_mcp.settings.reference import describe

    wanted = {name.removeprefix("--").replace("-", "_").lower() for name in options.names}
    if unknown := sorted(wanted - set(Settings.model_fields)):
        raise SettingsError(*(no_setting(name, Settings.model_fields) for name in unknown))
    for row in (setting for setting in describe() if not wanted or setting.name in wanted):
        default = f" (default: {row.default})" if row.default else ""
        out(f"{row.name}\n    {row.description}{default}")
    return Exit.DONE


def _add_clients(commands: Any) -> None:
    tokens = add_group(commands, "token", "create, list or revoke tokens for clients")
    new = _add(tokens, "new", "tokens.new", "create a token and print it once")
    new.add_argument(
        "name", metavar="NAME", help="name of the token's user; calls are recorded as token:NAME"
    )
    text = f"permission: {', '.join(SCOPES)}; repeatable (default: {READ})"
    new.add_argument("--scope", action="append", choices=SCOPES, metavar="SCOPE", dest="scopes", help=text)
    new.add_argument("--days", type=float, metavar="N", help="days until it expires (default: never)")
    _add(tokens, "list", "tokens.show", "list the tokens, without their secrets")
    revoke = _add(tokens, "revoke", "tokens.revoke", "revoke a token at once")
    revoke.add_argument("name", metavar="NAME", help="name of the token's user")

    text = "print the address of the console, the web page for people"
    console = _add(commands, "console", "console.show", text)
    text = "also open it in a browser"
    console.add_argument("--open", action="store_true", dest="opens", help=text)

    text = "print the configuration for a client, or install it"
    clients = add_group(commands, "clients", text, default=_imported("clients.show"))
    install = _add(
        clients,
        "install",
        "clients.install",
        "write the entry to a client's configuration file, after asking",
    )
    install.add_argument("client", metavar="NAME", help="name of the client, as `gdal-mcp clients` prints it")
    text = "write without asking"
    install.add_argument("--yes", action="store_true", dest="assume_yes", help=text)


def _add_decisions(commands: Any) -> None:
    approve = _add(commands, "approve", "decisions.approve", "list open questions, or answer one")
    text = "id of the question; without it, open questions are listed"
    approve.add_argument("question", nargs="?", metavar="ID", help=text)
    answer = approve.add_mutually_exclusive_group()
    text = "approve without asking again"
    answer.add_argument("--yes", action="store_const", const=True, dest="answer", help=text)
    answer.add_argument("--no", action="store_const", const=False, dest="answer", help="deny")
    _add_json(approve, "print the list as JSON")

    run = _imported("decisions.show_grants")
    text = "list, create or revoke approvals given in advance"
    grants = add_group(commands, "grants", text, default=run)
    _add_json(add_command(grants, "list", run, "list grants, valid ones first"))
    new = _add(grants, "new", "decisions.grant", "approve calls of a tool in a workspace for some time")
    new.add_argument("tool", metavar="TOOL", help="name of the tool")
    new.add_argument("folder", type=Path, metavar="FOLDER", help="workspace")
    span = "such as 30m or 8h, at most 24h (default: 30m)"
    new.add_argument("--for", dest="span", default="30m", metavar="TIME", help=span)
    reads = "remote host or folder that calls may read; repeatable"
    new.add_argument("--reads", action="append", default=[], metavar="PLACE", help=reads)
    new.add_argument("--principal", metavar="NAME", help="who may use it (default: the current user)")
    revoke = _add(grants, "revoke", "decisions.revoke", "revoke a grant at once")
    revoke.add_argument("grant_id", metavar="ID", help="id of the grant, as listed")

    policy = add_group(commands, "policy", "explain decisions of the policy")
    check = _add(
        policy, "check", "policy_check.check", "show whether a call would run, and which rule decides"
    )
    _add_tool_call(check)
    text = "who makes the call (default: the current user)"
    check.add_argument("--principal", metavar="NAME", help=text)


def _add_records(commands: Any) -> None:
    audit = add_group(commands, "audit", "verify, show or rotate the audit log")
    verify = _add(audit, "verify", "audit.check", "verify every record of the hash chain")
    text = "checkpoint from an earlier run; the log must still contain it"
    verify.add_argument("--checkpoint", metavar="SEQ:HASH", help=text)
    text = "close the current log file and continue in a new one"
    _add(audit, "rotate", "audit.rotate", text)
    tail = _add(audit, "tail", "audit.show_last", "show the last records")
    _add_json(tail, "print each record as a line of JSON")
    text = "number of records (default: 10)"
    tail.add_argument("-n", type=int, default=10, metavar="COUNT", dest="count", help=text)

    text = "copy the records to a new folder; servers may be running"
    _add(commands, "backup", "backup.backup", text).add_argument(
        "folder", type=Path, metavar="FOLDER", help="new folder"
    )

    text = "repeat a recorded call and compare the results"
    replay = _add(commands, "replay", "replay.replay_call", text)
    replay.add_argument("call_id", metavar="CALL", help="id of the call, as in its receipt")
    _add_json(replay)

    text = "undo a call, or list calls that can be undone"
    undo = add_command(commands, "undo", _undo, text)
    text = "id of the call, as in its receipt; without it, calls that can be undone are listed"
    undo.add_argument("call_id", metavar="CALL", nargs="?", help=text)
    _add_json(undo, "print the list as JSON")


def _undo(options: argparse.Namespace, settings: Settings) -> Exit:
    return _imported("calls.undo_call" if options.call_id else "calls.show_undoable")(options, settings)
