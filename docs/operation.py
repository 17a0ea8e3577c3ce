"""What a person runs and reads: settings, commands, error codes."""

import argparse
from collections.abc import Iterator, Mapping

from docs.page import Drift, complete, sentence, table
from gdal_mcp import cli
from gdal_mcp.commands.exits import meanings
from gdal_mcp.errors import Code, Stage
from gdal_mcp.settings import Settings
from gdal_mcp.settings.table import describe

MEANINGS: Mapping[Code, str] = {
    Code.PATH_NOT_ALLOWED: "a path lies outside the workspaces, is reserved, or is reached through a link that leaves them",
    Code.NOT_FOUND: "there is no such tool, or nothing at an allowed path",
    Code.INVALID_ARGUMENT: "an argument does not fit the input schema, or GDAL has no such option or value",
    Code.NETWORK_BLOCKED: "the argument would need a network, which no call has",
    Code.DENIED: "a person said no, none has said yes yet (`requiresConfirmation` tells how), or the policy or the token forbids it",
    Code.APPROVAL_EXPIRED: "the yes came too late, was used already, or was for another plan",
    Code.RATE_LIMITED: "this principal has used what the policy gives it for now",
    Code.BUSY: "too many calls are waiting",
    Code.TIMEOUT: "the call reached its time limit and its container was removed, or was certain to reach it and never began",
    Code.MEMORY_LIMIT: "GDAL reached its memory limit, or was certain to",
    Code.DISK_LIMIT: "the output reached a limit of size or count, or was certain to, or staging could not be used",
    Code.OUTPUT_LIMIT: "GDAL printed more than is read",
    Code.GDAL_ERROR: "GDAL reported an error or crashed; its own words are under `untrusted`",
    Code.OUTPUT_REJECTED: "what was left in staging may not be published, so nothing was",
    Code.ENGINE_UNAVAILABLE: "the engine or the image is not there, or does not isolate as asked",
    Code.CANCELLED: "the client, or a person in the console, cancelled; the container was removed",
    Code.INTERNAL: "a fault of the server, or a call that could not be recorded",
}


def settings() -> Iterator[str]:
    rows = [
        (f"`{row.name}`", row.type, f"`{row.default}`" if row.default else "", row.description)
        for row in describe()
    ]
    yield from table(("setting", "type", "default", "what it does"), rows)
    yield ""
    yield (
        "The names are those of the TOML file. The variable is `GDAL_MCP_` and the name in capitals, such as "
        "`GDAL_MCP_TIMEOUT_SECONDS`; lists of folders are separated as in `PATH`, lists of names by commas. The option is the name with dashes, such as "
        "`--timeout-seconds`, but `--workspace` and `--workspace-ro` name one folder each and are repeatable, and "
        "those that are true or false take no value: `--read-only` turns one on, `--no-preview` turns `preview` off."
    )


def errors() -> Iterator[str]:
    complete("error code", set(Code), set(MEANINGS))
    yield from table(("code", "what happened"), ((f"`{code}`", MEANINGS[code]) for code in Code))
    yield ""
    yield f"Stages, in order: {', '.join(f'`{stage}`' for stage in Stage)}."


def commands() -> Iterator[str]:
    yield from table(("command", "what it does"), _commands(cli.build_parser(), "gdal-mcp"))
    yield ""
    yield f"{meanings()} Commands that use the settings take each of them as an option."


def _commands(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, str]]:
    """One row for each command at the end of a branch."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to ask what a parser knows
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for word, below in action.choices.items():
                yield from _commands(below, f"{name} {word}")
            return
    words = [_usage(action) for action in parser._actions if _is_own(action)]  # noqa: SLF001
    yield f"`{' '.join([name, *words])}`", sentence(parser.description or _help_of(name))


def _help_of(name: str) -> str:
    """What the parser above says of a command that has no description of its own."""
    word = name.split()[1]
    for action in cli.build_parser()._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return next(str(one.help) for one in action._choices_actions if one.dest == word)  # noqa: SLF001
    raise Drift(f"`{name}` has no help text")


def _is_own(action: argparse.Action) -> bool:
    return action.dest != "help" and action.dest not in Settings.model_fields


def _usage(action: argparse.Action) -> str:
    shown = str(action.metavar or action.dest.upper())
    if not action.option_strings:
        return f"[{shown}]" if action.nargs == "?" else shown
    if action.choices:
        shown = "|".join(map(str, action.choices))
    return f"[{action.option_strings[-1]}{'' if action.nargs == 0 else f' {shown}'}]"
