"""Declares commands: their names, their help, and every setting as an option.

Help shows the options of the command, examples, and for `serve` and `call` the common settings. It fits on a screen.
"""

import argparse
import difflib
import json
import shutil
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any, Final, Literal, NoReturn, get_args, get_origin

from gdal_mcp.cli.examples import EXAMPLES
from gdal_mcp.cli.exits import Exit, guarded
from gdal_mcp.invoked import cite, typed
from gdal_mcp.settings import Settings, load_settings

Run = Callable[[argparse.Namespace, Settings], Exit]
COMMON: Final = ("workspaces", "workspaces_ro", "approval", "state_dir", "image", "engine", "config")
SHOW_SETTINGS: Final = frozenset({"serve", "call"})
# settings whose option has another name, because it takes one folder each time, or means the opposite
_OPTION_NAMES: Final = {
    "workspaces": "--workspace",
    "workspaces_ro": "--workspace-ro",
    "preview": "--no-preview",
    "allow_sql": "--no-sql",
}
# what help calls the value of a common setting
_VALUES: Final = {"state_dir": "DIR", "image": "IMAGE", "engine": "ADDRESS", "config": "FILE"}
_HEADINGS: Final = {"positional arguments": "Arguments", "options": "Options"}
_WIDTH: Final = 100


class Help(argparse.RawDescriptionHelpFormatter):
    """Formats help like docker's: one line of usage, what the command does, its options, examples."""

    def __init__(self, prog: str) -> None:
        columns = shutil.get_terminal_size((_WIDTH, 40)).columns
        super().__init__(prog, max_help_position=28, width=max(60, min(columns, _WIDTH)) - 2)

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        """Shows `[OPTIONS]` instead of a list of options."""
        del prefix
        words = [_word(action) for action in actions if not action.option_strings]
        super().add_usage(usage or " ".join(["%(prog)s [OPTIONS]", *words]), actions, groups, "Usage: ")

    def _format_action(self, action: argparse.Action) -> str:
        """Lists commands directly below their heading, without a line for the placeholder COMMAND."""
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - argparse shows it no other way
            return "".join(map(super()._format_action, action._get_subactions()))  # noqa: SLF001
        return super()._format_action(action)

    def start_section(self, heading: str | None) -> None:
        super().start_section(_HEADINGS.get(heading or "", heading))


class Parser(argparse.ArgumentParser):
    """A parser that refuses unknown words in one line, with the nearest known word, and says where help is."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(formatter_class=Help, allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        self.exit(Exit.USAGE, cite(f"gdal-mcp: {message}\nRun `{self.prog} --help`.\n"))

    def parse_known_args(  # type: ignore[override]  # argparse has an overload for each type of namespace
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuses unknown words of this command, which argparse itself would leave to the program as a whole."""
        known, rest = super().parse_known_args(args, namespace)
        if rest and rest[0].startswith("-"):
            option = rest[0].partition("=")[0]
            self.error(f"`{self.prog}` has no option {option}{_nearest(option, self._option_string_actions)}")
        if rest:
            self.error(f"`{self.prog}` takes no further argument {rest[0]!r}")
        return known, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:  # noqa: SLF001 - no public name
            known = [*action.choices, *self._option_string_actions]
            if " " in self.prog:
                hint = _nearest(value, known) or f"; use {', '.join(action.choices)}"
            else:
                hint = _nearest_or_tool(value, known)
            self.error(f"there is no command {value!r}{hint}")
        super()._check_value(action, value)


def _nearest_or_tool(word: str, known: Sequence[str]) -> str:
    """The command, option or tool that a word is most like. A tool can be meant by one word of its name, such as `clip`."""
    # imported for a mistake, and not for help
    from gdal_mcp.server.toolboxes import toolboxes  # noqa: PLC0415
    from gdal_mcp.toolboxes.gdal.catalogue.errors import CatalogueBroken  # noqa: PLC0415

    try:
        tools = toolboxes(Settings.model_construct()).tools
    except CatalogueBroken:
        tools = {}
    meant = [name for name in tools if word == name or word in name.split("_")]
    meant = sorted(meant, key=lambda name: name != word) or difflib.get_close_matches(
        word, [*known, *tools], n=1
    )
    if not meant:
        return "; run a tool with `gdal-mcp call TOOL JSON`"
    if meant[0] not in tools:
        return f"; the nearest is {meant[0]}"
    arguments = json.dumps(dict.fromkeys(tools[meant[0]].input_schema.get("required", ()), "..."))
    others = f" (similar tools: {', '.join(meant[1:4])})" if meant[1:] else ""
    return f"; run the tool {meant[0]} with `gdal-mcp call {meant[0]} '{arguments}'`{others}"


def _nearest(word: str, known: Iterable[str]) -> str:
    return "".join(f"; the nearest is {near}" for near in difflib.get_close_matches(word, list(known), n=1))


def _word(action: argparse.Action) -> str:
    if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - argparse shows it no other way
        return "COMMAND" if action.required else "[COMMAND]"
    name = str(action.metavar or action.dest)
    return {"*": f"[{name}...]", "?": f"[{name}]"}.get(str(action.nargs), name)


def epilog(path: str, *more: str) -> str:
    """The end of a command's help: its examples, and where settings are explained."""
    lines = ["Examples:", *(f"  {typed(example)}" for example in EXAMPLES[path])]
    columns = max(60, min(shutil.get_terminal_size((_WIDTH, 40)).columns, _WIDTH)) - 2
    for text in more:
        lines += ["", *textwrap.wrap(cite(text), columns, break_on_hyphens=False)]
    return "\n".join(lines)


def add_command(commands: Any, name: str, run: Run, text: str) -> argparse.ArgumentParser:
    """A command whose `run` gets the parsed arguments and the settings; the program's own failures become exit codes."""
    return add_early_command(
        commands, name, lambda options: guarded(partial(run, options, settings_of(options))), text
    )


def add_early_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], Exit], text: str
) -> argparse.ArgumentParser:
    """Like `add_command`, for a command that reads the settings itself."""
    path = _path(commands, name)
    shown = path in SHOW_SETTINGS
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=f"{text[:1].upper()}{text[1:]}.",
        epilog=epilog(path, _EXPLAINED if shown else _ALL),
        parents=[_settings_options(shown=shown)],
    )
    parser.set_defaults(run=run)
    return parser


def add_group(commands: Any, name: str, text: str, default: Run | None = None) -> Any:
    """A command with subcommands, which are added to the returned value. `default` runs without a subcommand."""
    described = f"{text[:1].upper()}{text[1:]}."
    parents = [_settings_options(shown=False)] if default is not None else []
    parser = commands.add_parser(
        name,
        help=text,
        description=described,
        epilog=epilog(name, *([_ALL] if parents else [])),
        parents=parents,
    )
    if default is not None:
        parser.set_defaults(
            run=lambda options: guarded(partial(default, options, settings_of(options))), as_json=False
        )
    return parser.add_subparsers(
        prog=parser.prog, required=default is None, metavar="COMMAND", title="Commands"
    )


def _path(commands: Any, name: str) -> str:
    """The words of a command after the program's name."""
    return f"{commands._prog_prefix} {name}".partition(" ")[2]  # noqa: SLF001 - argparse shows it no other way


def option_of(setting: str) -> str:
    return _OPTION_NAMES.get(setting, f"--{setting.replace('_', '-')}")


_REST: Final = [name for name in Settings.model_fields if name not in COMMON]
_EXPLAINED: Final = (
    "Every setting is an option, a GDAL_MCP_* variable and a TOML key; `gdal-mcp settings` explains them."
)
_ALL: Final = f"Settings: {', '.join(map(option_of, COMMON))} and others. {_EXPLAINED}"


@cache
def _settings_options(*, shown: bool) -> argparse.ArgumentParser:
    """Every setting as an option. An option that is not used leaves no attribute, so that a subcommand keeps the value of its group.

    Help has the common settings if `shown`.
    """
    parser = argparse.ArgumentParser(add_help=False)
    group = parser.add_argument_group("Common settings")
    for name in (*COMMON, *_REST):
        field, option = Settings.model_fields[name], option_of(name)
        text = (field.description or "").replace("%", "%%")
        text = text if shown and name in COMMON else argparse.SUPPRESS
        if field.annotation is bool:
            action = "store_false" if field.default else "store_true"
            parser.add_argument(option, action=action, dest=name, default=argparse.SUPPRESS, help=text)
        elif name in ("workspaces", "workspaces_ro"):
            # repeated, so that a folder's name cannot clash with a separator
            repeatable = text if text is argparse.SUPPRESS else f"{text} Repeatable."
            group.add_argument(
                option,
                action="append",
                metavar="DIR",
                dest=name,
                default=argparse.SUPPRESS,
                help=repeatable,
            )
        else:
            is_choice = get_origin(field.annotation) is Literal
            # an invalid choice is refused with the other settings, whatever their source
            metavar = "|".join(get_args(field.annotation)) if is_choice else _VALUES.get(name, "VALUE")
            group.add_argument(option, metavar=metavar, dest=name, default=argparse.SUPPRESS, help=text)
    return parser


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings with the values of the command line. Configures logging. Raises SettingsError."""
    typed = {name: value for name, value in vars(options).items() if name in Settings.model_fields}
    settings = load_settings(option_of, **typed)
    if settings.run_as == "owner":
        from gdal_mcp.runtime.user import drop_privileges, require_access  # noqa: PLC0415 - for root alone

        require_access(settings)
        drop_privileges(settings)
    from gdal_mcp import logs  # noqa: PLC0415 - not needed for help, and it takes a while

    logs.configure(settings.log_level)
    return settings
