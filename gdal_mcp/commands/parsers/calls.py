"""The commands that serve and make calls, as parts of the program."""

import argparse
import signal
from typing import Any

from gdal_mcp.commands.exits import Exit, guarded
from gdal_mcp.commands.options import add_command, settings_of
from gdal_mcp.commands.streams import json_object


def add_calls(commands: Any) -> None:
    serve = add_command(commands, "serve", _serve, "serve the Model Context Protocol")
    serve.add_argument(
        "--transport",
        choices=["stdio", "http"],
        default="stdio",
        help="how clients connect (default: stdio)",
    )

    call = add_command(commands, "call", _call, "run one tool and print its structured result as JSON")
    call.add_argument("tool", metavar="TOOL", help="a tool's name; `gdal-mcp tools` lists them")
    call.add_argument(
        "arguments", metavar="JSON", help="the tool's arguments, or - to read them from standard input"
    )
    call.add_argument("--yes", action="store_true", help="approve the call; for scripts")

    tools = add_command(commands, "tools", _tools, "list the tools that a server with these settings has")
    tools.add_argument("--json", action="store_true", help="with their schemas")
    tools.add_argument("--all", action="store_true", help="every tool there is")


def _serve(given: argparse.Namespace) -> Exit:
    from gdal_mcp.mcp.process import starting

    with starting():
        settings = settings_of(given)
        settings.require_workspaces()
        from gdal_mcp.commands import serving

        serve = serving.over_http if given.transport == "http" else serving.over_stdio
        return guarded(lambda: serve(settings))


def _call(given: argparse.Namespace) -> Exit:
    from gdal_mcp.app import running
    from gdal_mcp.commands.calling import call_once

    settings = settings_of(given)
    settings.require_workspaces()
    arguments = json_object(given.arguments)
    # A terminated call ends as an interrupted one does: its container is stopped and removed. A shell that starts us in the
    # background of a script has SIGINT ignored, so both have a handler.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))

    def call() -> Exit:
        with running(settings) as app:
            return call_once(app, given.tool, arguments, assume_yes=given.yes)

    return guarded(call)


def _tools(given: argparse.Namespace) -> Exit:
    from gdal_mcp.commands import tools

    settings = settings_of(given)
    return guarded(lambda: tools.show(settings, every=given.all, as_json=given.json))
