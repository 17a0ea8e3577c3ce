"""How a command is declared: its name, its help, and every setting as an option of it."""

import argparse
import difflib
from collections.abc import Callable
from typing import Any, Final, Literal, NoReturn, get_args, get_origin

from pydantic.fields import FieldInfo

from gdal_mcp.settings import Settings, load_settings
from gdal_mcp.settings.web import WebSettings

Run = Callable[[argparse.Namespace], int]
_SPECIAL: Final = frozenset({"workspaces", "workspaces_ro", "preview", "config"})


class _Brief(argparse.HelpFormatter):
    """Usage without the settings: with all of them it would fill the screen and hide the error below it."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: Any = None) -> None:
        own = [action for action in actions if action.dest not in Settings.model_fields]
        super().add_usage(usage, own, groups, prefix)


def add_command(commands: Any, name: str, run: Run, text: str) -> argparse.ArgumentParser:
    """A command with all settings as options; `run` gets what was typed and returns the exit code."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=f"{text[:1].upper()}{text[1:]}.",
        formatter_class=_Brief,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, parser=parser)
    _add_settings(parser)
    return parser


def add_group(commands: Any, name: str, text: str) -> Any:
    """A command of several actions; what is returned takes them."""
    parser = commands.add_parser(
        name, help=text, description=f"{text[:1].upper()}{text[1:]}.", allow_abbrev=False
    )
    return parser.add_subparsers(required=True)


def refuse(given: argparse.Namespace, word: str) -> NoReturn:
    """Ends the program over a word that its command does not take, with the nearest option if it looks like one."""
    parser: argparse.ArgumentParser = given.parser
    if not word.startswith("-"):
        parser.error(f"there is no place for {word[:80]!r}")
    option = word.partition("=")[0]
    known = [text for action in parser._actions for text in action.option_strings]  # noqa: SLF001 - argparse has no other way to ask
    nearest = difflib.get_close_matches(option, known, n=1, cutoff=0.0)[0]
    parser.error(f"there is no option {option[:80]!r}; the nearest is {nearest}")


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """Every setting as an option; what is not given stays None."""
    every = parser.add_argument_group("settings (also GDAL_MCP_* variables and a TOML file)")
    _add_special(every)
    http = parser.add_argument_group("settings of a server over HTTP")
    for field, info in Settings.model_fields.items():
        options = http if field in WebSettings.model_fields else every
        option = f"--{field.replace('_', '-')}"
        if info.annotation is bool and info.default is False:
            options.add_argument(
                option, action="store_true", dest=field, default=None, help=_help(info.description)
            )
        elif field not in _SPECIAL:
            options.add_argument(option, metavar=_metavar(info), dest=field, help=_help(info.description))


def _help(text: str | None) -> str:
    return (text or "").replace("%", "%%")  # argparse would fill it in


def _metavar(info: FieldInfo) -> str:
    """The words that the setting knows. Others are refused with the rest of the settings, whatever they came from."""
    return "|".join(get_args(info.annotation)) if get_origin(info.annotation) is Literal else "VALUE"


def _add_special(options: Any) -> None:
    """Those that are typed otherwise than they are named."""
    options.add_argument(
        "--workspace",
        action="append",
        metavar="DIR",
        dest="workspaces",
        help="a folder calls may read and write; repeatable",
    )
    options.add_argument(
        "--workspace-ro",
        action="append",
        metavar="DIR",
        dest="workspaces_ro",
        help="a folder calls may only read; repeatable",
    )
    options.add_argument("--config", metavar="FILE", help="TOML file with settings")
    options.add_argument(
        "--no-preview", action="store_false", dest="preview", default=None, help="no pictures of outputs"
    )


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The settings with what the command line says of them; the log is set up as they want. Raises SettingsError."""
    given = {
        name: value
        for name, value in vars(arguments).items()
        if name in Settings.model_fields and value is not None
    }
    settings = load_settings(**given)
    from gdal_mcp import logs  # noqa: PLC0415 - not needed for help, and takes a while

    logs.configure(settings.log_level, settings.log_format)
    return settings
