"""Tables of the program: its settings, error codes and commands."""

import argparse
from collections.abc import Iterator

from docs.tables.markdown import Lines, Parts, sentence, table, words
from gdal_mcp.cli.exits import meanings
from gdal_mcp.cli.parsers import build_parser
from gdal_mcp.errors import Code, Stage
from gdal_mcp.settings import Settings
from gdal_mcp.settings.reference import describe


def _settings() -> Lines:
    rows = [
        (f"`{row.name}`", row.type, f"`{row.default}`" if row.default else "", row.description)
        for row in describe()
    ]
    yield from table(("setting", "type", "default", "what it does"), rows)
    yield ""
    yield (
        "The names are those of the TOML file. The variable is `GDAL_MCP_` and the name in capitals, such as "
        "`GDAL_MCP_TIMEOUT_SECONDS`; lists of folders are separated as in `PATH`, lists of names by commas. The option is the name "
        "with dashes, such as `--timeout-seconds`, but `--workspace` and `--workspace-ro` name one folder each and are repeatable, "
        "and those that are true or false take no value: `--read-only` turns one on, `--no-preview` turns `preview` off."
    )


def _errors() -> Lines:
    sentences = words("errors", Code)
    yield from table(("code", "what happened"), ((f"`{code}`", sentences[code]) for code in Code))
    yield ""
    yield f"Stages, in order: {', '.join(f'`{stage}`' for stage in Stage)}."


def _cli() -> Lines:
    yield from table(("command", "what it does"), _commands(build_parser(), "gdal-mcp"))
    yield ""
    yield f"{meanings()} Commands that use the settings take each of them as an option."


def _commands(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, str]]:
    """One row for each command that can be run. argparse has no public API for the commands of a parser."""
    actions = parser._actions  # noqa: SLF001
    group = next((action for action in actions if isinstance(action, argparse._SubParsersAction)), None)  # noqa: SLF001
    if group is None or not group.required:
        own = [
            action
            for action in actions
            if action is not group
            and action.dest not in {"help", *Settings.model_fields}
            and action.help is not argparse.SUPPRESS
        ]
        yield f"`{' '.join([name, *map(_usage, own)])}`", sentence(parser.description or "")
    for word, below in group.choices.items() if group else ():
        yield from _commands(below, f"{name} {word}")


def _usage(action: argparse.Action) -> str:
    shown = str(action.metavar or action.dest.upper())
    if not action.option_strings:
        return {"?": f"[{shown}]", "*": f"[{shown} ...]"}.get(str(action.nargs), shown)
    if action.choices:
        shown = "|".join(map(str, action.choices))
    return f"[{action.option_strings[-1]}{'' if action.nargs == 0 else f' {shown}'}]"


PARTS: Parts = {
    "settings": _settings,
    "errors": _errors,
    "cli": _cli,
}
