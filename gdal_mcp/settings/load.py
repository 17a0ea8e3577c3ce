"""Reads the settings from options, environment and file, and explains every error with the name that was used."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gdal_mcp.settings.fields import Settings
from gdal_mcp.settings.file import (
    PREFIX,
    SettingsError,
    nearest,
    no_setting,
    sentence,
)
from gdal_mcp.settings.remote import REMOTE_KEYS


def load_settings(option_of: Callable[[str], str] = str, /, **explicit: Any) -> Settings:
    """The settings; explicit values win, None means not set.

    `option_of` is how errors name an explicit setting. Raises SettingsError with every problem.
    """
    values = {name: value for name, value in explicit.items() if value is not None}
    known = {name: value for name, value in values.items() if name in Settings.model_fields}
    problems = [no_setting(name, Settings.model_fields) for name in values if name not in known]
    for variable in os.environ:
        prefix, name = variable[: len(PREFIX)].upper(), variable[len(PREFIX) :].lower()
        if prefix == PREFIX and name not in Settings.model_fields:
            problems.append(no_setting(variable, Settings.model_fields, variable=True))
    try:
        settings = Settings(**known)
    except ValidationError as error:
        rows = error.errors(include_url=False, include_context=False)
        file = known.get("config") or os.environ.get(f"{PREFIX}CONFIG")
        explicit_names = {name: option_of(name) for name in known}
        raise SettingsError(*problems, *(_sentence(row, explicit_names, file) for row in rows)) from error
    except SettingsError as error:
        raise SettingsError(*problems, *error.problems) from error
    if problems:
        raise SettingsError(*problems)
    return settings


def _sentence(row: Mapping[str, Any], explicit: Mapping[str, str], file: object) -> str:
    """The error for one setting, with the name under which it was set: an option, a variable, or a key of the file."""
    problem = sentence(row["msg"])
    if not row["loc"]:
        return f"{problem[:1].upper()}{problem[1:]}"
    name = str(row["loc"][0])
    source = _source(name, explicit, file)
    if len(row["loc"]) > 1 and name == "remote":  # the value is not shown, because it may be a secret
        key = ".".join(map(str, row["loc"]))
        if row["type"] == "extra_forbidden":
            problem = f"there is no such key; the nearest is {nearest(str(row['loc'][-1]), REMOTE_KEYS)}."
        return f"{source.removesuffix(name)}{key}: {problem}"
    return f"{source} cannot be {repr(row['input'])[:80]}: {problem}"


def _source(name: str, explicit: Mapping[str, str], file: object) -> str:
    """The setting as the user wrote it: an option or argument, a variable, or a key of the settings file."""
    variable = PREFIX + name.upper()
    if name in explicit:
        return explicit[name]
    if not (os.environ.get(variable) or file):
        return name
    return variable if os.environ.get(variable) else f"Settings file {Path(str(file)).absolute()}: {name}"
