"""How a command is declared: its name, its help, and every setting as an option of it.

Help shows the options of the command and the settings that most people need, names the others, and so fits a screen.
"""

import argparse
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final, Literal, get_args, get_origin

from gdal_mcp.commands.exits import Exit, guarded
from gdal_mcp.settings import Settings, load_settings
from gdal_mcp.settings.removed import REMOVED
from gdal_mcp.settings.web import WebSettings

Run = Callable[[argparse.Namespace, Settings], Exit]
COMMON: Final = ("workspaces", "workspaces_ro", "approval", "state_dir", "image", "engine", "config")
# those whose option has another name than the setting: one folder each time, or the opposite
_SPELLED: Final = {
    "workspaces": "--workspace",
    "workspaces_ro": "--workspace-ro",
    "preview": "--no-preview",
    "allow_sql": "--no-sql",
}


_REMOVED_OPTIONS: Final = "removed_options"  # where argparse leaves them


class _BriefUsage(argparse.HelpFormatter):
    """Usage without the settings, which would hide the error message below it."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: Any = None) -> None:
        own = [action for action in actions if action.dest not in Settings.model_fields]
        super().add_usage(usage, own, groups, prefix)


def add_command(commands: Any, name: str, run: Run, text: str) -> argparse.ArgumentParser:
    """A command whose `run` gets what was typed and the settings; the program's own failures become exit codes."""
    return add_early_command(
        commands, name, lambda given: guarded(partial(run, given, settings_of(given))), text
    )


def add_early_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], Exit], text: str
) -> argparse.ArgumentParser:
    """As `add_command`, for a command that reads the settings itself."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=f"{text[:1].upper()}{text[1:]}.",
        epilog=_OTHERS,
        formatter_class=_BriefUsage,
        allow_abbrev=False,
        parents=[_settings_options()],
    )
    parser.set_defaults(run=run)
    return parser


def add_group(commands: Any, name: str, text: str, default: Run | None = None) -> Any:
    """A command of several actions; what is returned takes them. `default` runs where none is named."""
    described = f"{text[:1].upper()}{text[1:]}."
    parents = [_settings_options()] if default is not None else []
    parser = commands.add_parser(name, help=text, description=described, allow_abbrev=False, parents=parents)
    if default is not None:
        parser.set_defaults(
            run=lambda given: guarded(partial(default, given, settings_of(given))), as_json=False
        )
    return parser.add_subparsers(required=default is None, metavar="ACTION")


def option_of(setting: str) -> str:
    return _SPELLED.get(setting, f"--{setting.replace('_', '-')}")


_REST: Final = [name for name in Settings.model_fields if name not in COMMON]
_OTHERS: Final = (
    "Others, as options, GDAL_MCP_* variables and TOML keys: "
    f"{', '.join(option_of(name)[2:] for name in _REST if name not in WebSettings.model_fields)}; "
    f"and {len(WebSettings.model_fields)} over HTTP. `gdal-mcp settings` explains all."
)


@cache
def _settings_options() -> argparse.ArgumentParser:
    """Every setting as an option; what is not given is not there at all, so that an action keeps what its group was given."""
    parser = argparse.ArgumentParser(add_help=False)
    shown = parser.add_argument_group("common settings")
    for name in (*COMMON, *_REST):
        field, option = Settings.model_fields[name], option_of(name)
        text = (field.description or "").replace("%", "%%") if name in COMMON else argparse.SUPPRESS
        if field.annotation is bool:
            action = "store_false" if field.default else "store_true"
            parser.add_argument(option, action=action, dest=name, default=argparse.SUPPRESS, help=text)
        elif name in ("workspaces", "workspaces_ro"):
            # several times, so that no folder's name needs a separator
            shown.add_argument(
                option,
                action="append",
                metavar="DIR",
                dest=name,
                default=argparse.SUPPRESS,
                help=f"{text} Repeatable.",
            )
        else:
            is_choice = get_origin(field.annotation) is Literal
            # a word that is none of these is refused with the rest of the settings, whatever they came from
            metavar = "|".join(get_args(field.annotation)) if is_choice else "VALUE"
            shown.add_argument(option, metavar=metavar, dest=name, default=argparse.SUPPRESS, help=text)
    for one in REMOVED:
        if one.option:
            parser.add_argument(
                one.option,
                action=_Removed,
                nargs=1 if one.takes_value else 0,
                dest=_REMOVED_OPTIONS,
                default=argparse.SUPPRESS,
                help=argparse.SUPPRESS,
            )
    return parser


class _Removed(argparse.Action):
    """Notes that an option was written which does nothing any more, and drops its value."""

    def __call__(self, _parser: Any, namespace: Any, _values: Any, option: str | None = None) -> None:
        setattr(namespace, self.dest, [*getattr(namespace, self.dest, ()), option])


def settings_of(given: argparse.Namespace) -> Settings:
    """The settings with what the command line says of them; logging follows them. Raises SettingsError."""
    typed = {name: value for name, value in vars(given).items() if name in Settings.model_fields}
    settings = load_settings(getattr(given, _REMOVED_OPTIONS, ()), **typed)
    if settings.run_as == "owner":
        from gdal_mcp.host.user import give_up_root  # noqa: PLC0415 - for our image alone

        give_up_root(settings)
    import structlog  # noqa: PLC0415 - neither is needed for help, and they take a while

    from gdal_mcp import logs  # noqa: PLC0415

    logs.configure(settings.log_level)
    for notice in settings.notices:
        structlog.get_logger().warning("setting_removed", notice=notice)
    return settings
