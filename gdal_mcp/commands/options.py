"""The settings as options of every command."""

import argparse

from gdal_mcp.settings import Settings, load_settings

_SPECIAL = frozenset({"workspaces", "workspaces_ro", "approval", "preview", "config"})


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Every setting as an option; what is not given stays None."""
    options = parser.add_argument_group("settings (also GDAL_MCP_* variables and a TOML file)")
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
    options.add_argument(
        "--approval",
        choices=["writes", "always", "never"],
        help="which calls need a person's yes (default: writes)",
    )
    options.add_argument("--config", metavar="FILE", help="TOML file with settings")
    options.add_argument(
        "--no-preview", action="store_false", dest="preview", default=None, help="no pictures of outputs"
    )
    for field, info in Settings.model_fields.items():
        if info.annotation is bool and info.default is False:
            options.add_argument(
                f"--{field.replace('_', '-')}",
                action="store_true",
                dest=field,
                default=None,
                help=info.description,
            )
        elif field not in _SPECIAL:
            options.add_argument(
                f"--{field.replace('_', '-')}", metavar="VALUE", dest=field, help=info.description
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
