"""Every command of the program with its options. What a command needs is imported when it runs, so that help is quick."""

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
    Help,
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
    """The whole program, its commands in the order in which help lists them."""
    parser = argparse.ArgumentParser(
        prog="gdal-mcp",
        description="GDAL for AI assistants: each call runs in a container of its own.",
        epilog=epilog("", f"{meanings()} `gdal-mcp COMMAND --help` explains each command."),
        formatter_class=Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"gdal-mcp {__version__}")
    commands = parser.add_subparsers(prog=parser.prog, metavar="COMMAND", required=True, title="Commands")
    for add in (_add_calls, _add_host, _add_clients, _add_decisions, _add_records):
        add(commands)
    return parser


def _imported(function: str) -> Run:
    """Runs `module.function` of this folder with the settings, or a running app, and what was typed for its other parameters.

    For a recorded call the state folder and the workspaces are found where they are not named.
    """

    def run(given: argparse.Namespace, settings: Settings) -> Exit:
        module, _, name = function.partition(".")
        work = getattr(import_module(f"gdal_mcp.cli.{module}"), name)
        first, *names = signature(work).parameters
        values = {one: getattr(given, one) for one in names}
        ended: Exit
        if first == "settings":
            ended = work(settings, **values)
            return ended
        from gdal_mcp.cli.finding import of_call
        from gdal_mcp.server.app import running

        if "call_id" in names:
            settings = of_call(settings, given.call_id)
        settings.require_workspaces()
        with running(settings) as app:
            ended = work(app, **values)
        return ended

    return run


def _add(commands: Any, name: str, function: str, text: str) -> argparse.ArgumentParser:
    return add_command(commands, name, _imported(function), text)


def _add_json(parser: Any, text: str = "as JSON") -> None:
    parser.add_argument("--json", action="store_true", dest="as_json", help=text)


def _add_calls(commands: Any) -> None:
    serve = add_early_command(commands, "serve", _serve, "serve the Model Context Protocol")
    serve.add_argument(
        "--transport", choices=["stdio", "http"], default="stdio", help="how clients connect (default: stdio)"
    )
    text = "a further workspace; clients that let a person choose several folders hand them over so"
    serve.add_argument("folders", nargs="*", metavar="DIR", help=text)
    call = add_command(commands, "call", _call, "run one tool and print its structured result as JSON")
    _add_tool_call(call)
    call.add_argument("--yes", action="store_true", dest="assume_yes", help="approve the call; for scripts")
    text = "write the picture of the result, a PNG, to a new file"
    call.add_argument("--save", type=Path, metavar="FILE", help=text)

    run = add_command(commands, "run", _run, "check a workflow, ask once, and run it")
    run.add_argument("file", type=Path, metavar="FILE", help="the workflow, as JSON or YAML")
    text = "a value of a parameter; can be repeated"
    run.add_argument("--param", action="append", default=[], dest="params", metavar="NAME=VALUE", help=text)
    run.add_argument("--check", action="store_true", help="only check it; nothing is run or asked")
    run.add_argument("--fresh", action="store_true", help="run every step, also those with a result")
    run.add_argument("--manifest", metavar="PATH", help="where to publish a record of the run, as JSON")
    run.add_argument("--junit", type=Path, dest="report", metavar="FILE", help="write a JUnit report")
    run.add_argument("--yes", action="store_true", dest="assume_yes", help="approve the run; for scripts")

    workflow = add_group(commands, "workflow", "make workflows")
    text = "print a workflow that does what recorded calls did"
    made = _add(workflow, "from-calls", "workflows.workflow_from_calls", text)
    made.add_argument("call_ids", nargs="+", metavar="CALL", help="ids of calls, in their order")
    made.add_argument("--name", default="workflow", help="name of the workflow (default: workflow)")

    text = "list the tools that a server with these settings has"
    tools = _add(commands, "tools", "calls.list_tools", text)
    _add_json(tools, "with their schemas")
    tools.add_argument("--all", action="store_true", dest="every", help="every tool there is")


def _add_tool_call(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="a tool's name; `gdal-mcp tools` lists them")
    parser.add_argument(
        "arguments", metavar="JSON", help="its arguments, or - to read them from standard input"
    )


def _serve(given: argparse.Namespace) -> Exit:
    gc.disable()  # until the parts are made: there is no garbage yet, and each collection would scan all that was imported
    if given.folders:
        given.workspaces = [*getattr(given, "workspaces", []), *given.folders]
    from gdal_mcp.cli import serving

    if given.transport == "http":
        return guarded(lambda: serving.over_http(settings_of(given)))
    return guarded(lambda: serving.over_stdio(settings_of(given)), serving.unready)


def _call(given: argparse.Namespace, settings: Settings) -> Exit:
    settings.require_workspaces()
    given.arguments = json_object(given.arguments)
    from gdal_mcp.cli.calls import with_tool

    settings, given.tool = with_tool(settings, given.tool)
    _end_by_signals()
    return _imported("calls.call_once")(given, settings)


def _run(given: argparse.Namespace, settings: Settings) -> Exit:
    settings.require_workspaces()
    _end_by_signals()
    return _imported("workflows.run_workflow")(given, settings)


def _end_by_signals() -> None:
    """SIGINT and SIGTERM interrupt a call: its container is stopped and removed.

    SIGINT too, as a shell has it ignored by what it starts in the background of a script, and asyncio then leaves it so.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))


def _add_host(commands: Any) -> None:
    text = "check engine, image, isolation and workspaces"
    doctor = _add(commands, "doctor", "doctor.show", text)
    text = "show every row, also those of each property that is in order"
    doctor.add_argument("--all", action="store_true", dest="every", help=text)
    doctor.add_argument("--escape", action="store_true", help="try to get out of a container")
    text = "print what is found as JSON to send to others, without names and secrets"
    doctor.add_argument("--report", action="store_true", dest="send", help=text)
    _add_json(doctor)

    text = "bring the image of a toolbox onto this host"
    setup = _add(commands, "setup", "catalogue.setup", text)
    text = "whose image (default: gdal)"
    setup.add_argument("--toolbox", choices=["gdal", "python", "augment"], default="gdal", help=text)
    explain = add_command(commands, "settings", _settings, "explain every setting, or those named")
    explain.add_argument("names", nargs="*", metavar="NAME", help="a setting, such as memory")

    catalogue = add_group(commands, "catalogue", "rebuild the description of an image's GDAL")
    text = "ask the image what its GDAL can be told"
    build = _add(catalogue, "build", "catalogue.build", text)
    text = "write it there, not into the state folder"
    build.add_argument("--output", type=Path, metavar="FILE", help=text)
    text = "report what an image's GDAL has that is new, gone or changed, and serve what is not"
    refresh = _add(catalogue, "refresh", "catalogue.refresh", text)
    text = "also write all that the image says there, for a review"
    refresh.add_argument("--output", type=Path, metavar="FILE", help=text)


def _settings(given: argparse.Namespace, _settings: Settings) -> Exit:
    from gdal_mcp.settings.fields import describe
    from gdal_mcp.settings.file import SettingsError, no_setting

    wanted = {name.removeprefix("--").replace("-", "_").lower() for name in given.names}
    if unknown := sorted(wanted - set(Settings.model_fields)):
        raise SettingsError(*(no_setting(name, Settings.model_fields) for name in unknown))
    for row in (one for one in describe() if not wanted or one.name in wanted):
        default = f" (default: {row.default})" if row.default else ""
        out(f"{row.name}\n    {row.description}{default}")
    return Exit.DONE


def _add_clients(commands: Any) -> None:
    tokens = add_group(commands, "token", "make, list or revoke tokens of clients")
    new = _add(tokens, "new", "tokens.new", "make a token and print it, once")
    new.add_argument("name", metavar="NAME", help="whose it is; calls are recorded as token:NAME")
    text = f"what it may do, of {', '.join(SCOPES)}; repeatable (default: {READ})"
    new.add_argument("--scope", action="append", choices=SCOPES, metavar="SCOPE", dest="scopes", help=text)
    new.add_argument("--days", type=float, metavar="N", help="how long it is valid (default: until revoked)")
    _add(tokens, "list", "tokens.show", "list the tokens, without their secrets")
    revoke = _add(tokens, "revoke", "tokens.revoke", "end a token at once")
    revoke.add_argument("name", metavar="NAME", help="the name that it was made with")

    text = "print the address of the web page for approvals and records"
    console = _add(commands, "console", "console.show", text)
    text = "open it in the browser of this machine too"
    console.add_argument("--open", action="store_true", dest="opens", help=text)

    text = "print the entry that a client starts this server with"
    clients = add_group(commands, "clients", text, default=_imported("clients.show"))
    install = _add(
        clients, "install", "clients.install", "write the entry into a client's file, after asking"
    )
    install.add_argument("client", metavar="NAME", help="as `gdal-mcp clients` prints it")
    text = "write it without asking"
    install.add_argument("--yes", action="store_true", dest="assume_yes", help=text)


def _add_decisions(commands: Any) -> None:
    approve = _add(commands, "approve", "decisions.approve", "answer a question that waits for approval")
    text = "of the question; without one, all open questions are listed"
    approve.add_argument("question", nargs="?", metavar="ID", help=text)
    answer = approve.add_mutually_exclusive_group()
    text = "approve it without being asked again"
    answer.add_argument("--yes", action="store_const", const=True, dest="answer", help=text)
    answer.add_argument("--no", action="store_const", const=False, dest="answer", help="deny it")
    _add_json(approve, "the list as JSON")

    run = _imported("decisions.show_grants")
    text = "list, make or revoke approvals given in advance"
    grants = add_group(commands, "grants", text, default=run)
    _add_json(add_command(grants, "list", run, "list grants, the valid ones first"))
    new = _add(grants, "new", "decisions.grant", "let calls of a tool write to a workspace for some time")
    new.add_argument("tool", metavar="TOOL", help="the tool's name")
    new.add_argument("folder", type=Path, metavar="FOLDER", help="the workspace")
    span = "such as 30m or 8h, 24h at most (default: 30m)"
    new.add_argument("--for", dest="span", default="30m", metavar="TIME", help=span)
    reads = "remote host, or folder of one, to read; repeatable"
    new.add_argument("--reads", action="append", default=[], metavar="PLACE", help=reads)
    new.add_argument("--principal", metavar="NAME", help="for whom (default: this system's user)")
    revoke = _add(grants, "revoke", "decisions.revoke", "end a grant at once")
    revoke.add_argument("grant_id", metavar="ID", help="as listed")

    policy = add_group(commands, "policy", "explain what the policy says")
    check = _add(
        policy, "check", "policy_check.check", "say whether a call would run, and which rule decides"
    )
    _add_tool_call(check)
    text = "whose call it would be (default: this system's user)"
    check.add_argument("--principal", metavar="NAME", help=text)


def _add_records(commands: Any) -> None:
    audit = add_group(commands, "audit", "verify, show or rotate the audit log")
    verify = _add(audit, "verify", "audit.check", "check every record of the hash chain")
    text = "a checkpoint printed earlier and kept elsewhere; the log must still contain it"
    verify.add_argument("--checkpoint", metavar="SEQ:HASH", help=text)
    text = "close the file of the log, for an archive, and go on in a new one"
    _add(audit, "rotate", "audit.rotate", text)
    tail = _add(audit, "tail", "audit.show_last", "show the last records")
    _add_json(tail, "each record whole, as a line of JSON")
    text = "how many (default: 10)"
    tail.add_argument("-n", type=int, default=10, metavar="COUNT", dest="count", help=text)

    text = "copy the records to a new folder, while servers run"
    _add(commands, "backup", "backup.backup", text).add_argument(
        "folder", type=Path, metavar="FOLDER", help="a new folder"
    )

    text = "repeat a recorded call, publish nothing, compare the results"
    replay = _add(commands, "replay", "replay.replay_call", text)
    replay.add_argument("call_id", metavar="CALL", help="the call's id, as in its receipt")
    _add_json(replay)

    text = "undo a call, or list the calls that can be undone"
    undo = add_command(commands, "undo", _undo, text)
    text = "the call's id, as in its receipt; without one, the calls that can be undone are listed"
    undo.add_argument("call_id", metavar="CALL", nargs="?", help=text)
    _add_json(undo, "the list as JSON")


def _undo(given: argparse.Namespace, settings: Settings) -> Exit:
    return _imported("calls.undo_call" if given.call_id else "calls.show_undoable")(given, settings)
