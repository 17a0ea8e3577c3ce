"""The `gdal-mcp` program. Exit codes: 0 done, 1 the call failed, 2 the command was wrong, 3 the engine or host is not ready."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gdal_mcp import __version__
from gdal_mcp.commands.console import add_console
from gdal_mcp.commands.deciding import add_decisions
from gdal_mcp.commands.options import add_settings, settings_of
from gdal_mcp.commands.sbom import add_sbom
from gdal_mcp.commands.tokens import add_actions as add_token_actions
from gdal_mcp.settings import Settings, SettingsError

OK, FAILED, USAGE, ENGINE = 0, 1, 2, 3


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if sys.stdin is None:  # closed by whoever started us: nothing to read, and nobody to ask
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - as long as the process
    try:
        return int(arguments.run(arguments))
    except SettingsError as error:
        for problem in error.problems:
            _say(problem)
        return USAGE
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gdal-mcp",
        description="GDAL for language models, each call in a container of its own.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"gdal-mcp {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_calls(commands)
    _add_host(commands)
    add_decisions(commands, _command, _guarded)
    add_console(commands, _command, _guarded)
    add_sbom(commands, _command, _guarded)
    _add_records(commands)
    return parser


def _add_calls(commands: Any) -> None:
    """Serving and calling."""
    serve = _command(commands, "serve", _serve, "serve the Model Context Protocol")
    serve.add_argument(
        "--transport",
        choices=["stdio", "http"],
        default="stdio",
        help="how clients connect (default: stdio)",
    )

    call = _command(commands, "call", _call, "run one tool and print its structured result as JSON")
    call.add_argument("tool", metavar="TOOL", help="a tool's name; `gdal-mcp tools` lists them")
    call.add_argument(
        "arguments", metavar="JSON", help="the tool's arguments, or - to read them from standard input"
    )
    call.add_argument("--yes", action="store_true", help="approve the call; for scripts")

    tools = _command(commands, "tools", _tools, "list the tools that a server with these settings has")
    tools.add_argument("--json", action="store_true", help="with their schemas")
    tools.add_argument("--all", action="store_true", help="every tool there is")


def _add_host(commands: Any) -> None:
    """What the server runs on."""
    doctor = _command(
        commands,
        "doctor",
        _doctor,
        "check engine, image, isolation and workspaces, with the fix for each failure",
    )
    doctor.add_argument("--escape", action="store_true", help="try to get out of a container")
    doctor.add_argument("--json", action="store_true", help="as JSON")

    token = commands.add_parser("token", help="make, list or revoke tokens of clients", allow_abbrev=False)
    add_token_actions(token.add_subparsers(metavar="ACTION", required=True), _command, _token)

    _command(commands, "setup", _setup, "bring the GDAL image onto this host")

    catalogue = commands.add_parser(
        "catalogue", help="build or show what is known of a GDAL", allow_abbrev=False
    ).add_subparsers(metavar="ACTION", required=True)
    build = _command(catalogue, "build", _catalogue_build, "ask the image what its GDAL can be told")
    build.add_argument(
        "--output", type=Path, metavar="FILE", help="write it there, and not into the state folder"
    )
    _command(catalogue, "show", _catalogue_show, "show what a server with these settings goes by")


def _add_records(commands: Any) -> None:
    """What calls left behind."""
    audit = commands.add_parser(
        "audit", help="verify or show the audit log", allow_abbrev=False
    ).add_subparsers(metavar="ACTION", required=True)
    verify = _command(audit, "verify", _audit_verify, "check every record of the hash chain")
    verify.add_argument(
        "--checkpoint",
        metavar="SEQ:HASH",
        help="a checkpoint printed earlier and kept elsewhere; the log must still hold it",
    )
    tail = _command(audit, "tail", _audit_tail, "show the last records")
    tail.add_argument("-n", type=int, default=10, metavar="COUNT", help="how many (default: 10)")

    replay = _command(
        commands,
        "replay",
        _replay,
        "make a recorded call again, publish nothing, and say whether it gives the same",
    )
    replay.add_argument("call", metavar="CALL", help="the call's id, as in its receipt")
    replay.add_argument("--json", action="store_true", help="as JSON")

    stats = _command(commands, "stats", _stats, "show what calls did and took, and what runs now")
    stats.add_argument("--since", default="24h", metavar="AGE", help="how far back, such as 30m, 24h or 7d")
    form = stats.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--prometheus", action="store_true", help="as Prometheus text, of all that is kept")

    undo = _command(commands, "undo", _undo, "restore what a call replaced and take away what it made")
    undo.add_argument("call", metavar="CALL", help="the call's id, as in its receipt")


def _command(
    group: Any, name: str, run: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = group.add_parser(name, help=text, description=text, allow_abbrev=False)
    parser.set_defaults(run=run)
    add_settings(parser)
    return parser


def _serve(arguments: argparse.Namespace) -> int:
    from gdal_mcp.mcp.process import starting

    with starting():
        settings = settings_of(arguments)
        settings.require_workspaces()
        return _guarded(lambda: (_host if arguments.transport == "http" else _attend)(settings))


def _host(settings: Settings) -> int:
    """Serves over HTTP until a signal ends the process."""
    import anyio

    from gdal_mcp.app import running
    from gdal_mcp.mcp.process import stand
    from gdal_mcp.web.server import prepare, serve

    bound = prepare(settings)

    def host(app: Any) -> None:
        stand()
        anyio.run(serve, app, bound)

    return _with_app(running, settings, host)


def _attend(settings: Settings) -> int:
    """Puts the server together and serves until the client leaves."""
    from gdal_mcp.mcp.lean import lean_imports
    from gdal_mcp.mcp.process import stand

    with lean_imports():
        import anyio

        from gdal_mcp.app import running
        from gdal_mcp.mcp.stdio import serve

    def attend(app: Any) -> None:
        stand()
        anyio.run(serve, app)

    return _with_app(running, settings, attend)


def _call(arguments: argparse.Namespace) -> int:
    from gdal_mcp.app import running
    from gdal_mcp.commands.calling import call_once

    settings = settings_of(arguments)
    settings.require_workspaces()
    values = _object(arguments.arguments)
    # a terminated call ends as an interrupted one does: its container is stopped and removed
    signal.signal(signal.SIGTERM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    return _guarded(
        lambda: _with_app(
            running, settings, lambda app: call_once(app, arguments.tool, values, assume_yes=arguments.yes)
        )
    )


def _object(given: str) -> dict[str, Any]:
    """The arguments of a call, `-` being those on standard input. Raises SettingsError."""
    try:
        values = json.loads(sys.stdin.read() if given == "-" else given)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"the arguments are not JSON: {error}") from error
    if not isinstance(values, dict):
        raise SettingsError('the arguments are a JSON object, such as \'{"path": "dem.tif"}\'')
    return values


def _tools(arguments: argparse.Namespace) -> int:
    from gdal_mcp.catalogue import load, store
    from gdal_mcp.surface import surface

    settings = settings_of(arguments)
    load.use(store.select(settings.state_dir, settings.image))
    if arguments.all:
        settings = settings.model_copy(update={"toolsets": ("all",)})
    tools = surface(settings).listed
    if arguments.json:
        rows = [
            {
                "name": tool.name,
                "title": tool.title,
                "description": tool.description,
                "inputSchema": tool.input_schema,
                "outputSchema": tool.output_schema,
                "writes": tool.writes,
            }
            for tool in tools
        ]
        _print(json.dumps(rows, indent=2))
        return OK
    width = max((len(tool.name) for tool in tools), default=0)
    for tool in tools:
        _print(
            f"{tool.name:<{width}}  {'writes' if tool.writes else 'reads '}  {tool.description.split('. ')[0].rstrip('.')}."
        )
    return OK


def _doctor(arguments: argparse.Namespace) -> int:
    from gdal_mcp.commands import doctor
    from gdal_mcp.commands import escape as escape_command

    show = escape_command.show if arguments.escape else doctor.show
    return show(settings_of(arguments), _print, as_json=arguments.json)


def _token(arguments: argparse.Namespace) -> int:
    from gdal_mcp.commands import tokens as tokens_command

    settings = settings_of(arguments)
    return _guarded(lambda: tokens_command.act(arguments, settings, _print, _say))


def _setup(arguments: argparse.Namespace) -> int:
    from gdal_mcp.commands.catalogue import after_setup
    from gdal_mcp.host.image import ensure
    from sandbox.engines.discovery import connect

    settings = settings_of(arguments)

    def bring() -> int:
        image = ensure(connect(settings.engine), settings.image, _say)
        _print(f"{image.reference} {image.digest} GDAL {image.gdal_version}")
        return after_setup(settings, image, _say)

    return _guarded(bring)


def _catalogue_build(arguments: argparse.Namespace) -> int:
    from gdal_mcp.commands import catalogue as catalogue_command

    settings = settings_of(arguments)
    return _guarded(lambda: catalogue_command.build(settings, arguments.output, _print, _say))


def _catalogue_show(arguments: argparse.Namespace) -> int:
    from gdal_mcp.commands import catalogue as catalogue_command

    return catalogue_command.show(settings_of(arguments), _print, _say)


def _audit_verify(arguments: argparse.Namespace) -> int:
    from gdal_mcp.ledger.audit import verify
    from gdal_mcp.ledger.audit_record import Checkpoint

    try:
        kept = Checkpoint.parse(arguments.checkpoint) if arguments.checkpoint is not None else None
    except ValueError as error:
        raise SettingsError(f"{arguments.checkpoint[:100]!r} is no checkpoint: {error}") from error
    path = settings_of(arguments).state_dir / "audit.jsonl"

    def check() -> int:
        found = verify(path, kept)
        verdict = (
            "OK"
            if found.ok
            else f"BROKEN at record {found.first_bad}: {found.reason}"
            if found.first_bad
            else f"BROKEN: {found.reason}"
        )
        _print(f"{path}: {found.records} records, {verdict}; ends at {found.last}")
        return OK if found.ok else FAILED

    return _guarded(check)


def _audit_tail(arguments: argparse.Namespace) -> int:
    from gdal_mcp.ledger.audit import tail

    path = settings_of(arguments).state_dir / "audit.jsonl"

    def show() -> int:
        for record in tail(path, arguments.n):
            _print(json.dumps({"seq": record.seq, "time": record.time, **record.event}, ensure_ascii=True))
        return OK

    return _guarded(show)


def _replay(arguments: argparse.Namespace) -> int:
    from gdal_mcp.app import running
    from gdal_mcp.commands.replay import replay_call

    settings = settings_of(arguments)
    settings.require_workspaces()
    return _guarded(
        lambda: _with_app(
            running, settings, lambda app: replay_call(app, arguments.call, as_json=arguments.json)
        )
    )


def _undo(arguments: argparse.Namespace) -> int:
    from gdal_mcp.app import running
    from gdal_mcp.commands.calling import undo_call

    settings = settings_of(arguments)
    settings.require_workspaces()
    return _guarded(lambda: _with_app(running, settings, lambda app: undo_call(app, arguments.call)))


def _stats(arguments: argparse.Namespace) -> int:
    from gdal_mcp.commands import stats as stats_command

    settings = settings_of(arguments)
    form: stats_command.Form = "json" if arguments.json else "prometheus" if arguments.prometheus else "text"
    return _guarded(lambda: stats_command.show(settings, arguments.since, form, _print, _say))


def _with_app(running: Any, settings: Settings, work: Callable[[Any], int | None]) -> int:
    with running(settings) as app:
        return work(app) or OK


def _guarded(work: Callable[[], int]) -> int:
    """Our own failures as one plain sentence and the exit code that belongs to them."""
    from gdal_mcp.access.tokens import TokensUnavailable
    from gdal_mcp.catalogue.errors import CatalogueBroken
    from gdal_mcp.ledger.audit import AuditUnavailable
    from gdal_mcp.ledger.registry import RegistryUnavailable
    from sandbox.errors import PathRefused, SandboxError, StagingFailed

    try:
        return work()
    except PathRefused as error:
        _say(str(error))
        return USAGE
    except (
        StagingFailed,
        AuditUnavailable,
        CatalogueBroken,
        RegistryUnavailable,
        TokensUnavailable,
    ) as error:
        _say(str(error))
        return FAILED
    except SandboxError as error:
        _say(str(error))
        return ENGINE


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


def _say(text: str) -> None:
    sys.stderr.write(f"gdal-mcp: {text}\n")


if __name__ == "__main__":
    sys.exit(main())
