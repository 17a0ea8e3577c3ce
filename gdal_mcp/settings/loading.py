"""Reads the settings from everywhere they may be, and explains what is wrong."""

import os
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from gdal_mcp.settings.errors import PREFIX, SettingsError, no_setting
from gdal_mcp.settings.fields import Settings


def load_settings(**explicit: Any) -> Settings:
    """The settings, with explicit values above all others; None means not given.

    Raises SettingsError with every problem found.
    """
    given = {name: value for name, value in explicit.items() if value is not None}
    known = {name: value for name, value in given.items() if name in Settings.model_fields}
    problems = [no_setting(name, Settings.model_fields) for name in given if name not in known]
    problems += [
        no_setting(name, Settings.model_fields, variable=True) for name in os.environ if _is_stray(name)
    ]
    try:
        settings = Settings(**known)
    except ValidationError as error:
        rows = error.errors(include_url=False, include_context=False)
        raise SettingsError(*problems, *(_sentence(row, known) for row in rows)) from error
    except SettingsError as error:
        raise SettingsError(*problems, *error.problems) from error
    if problems:
        raise SettingsError(*problems)
    return settings


def _is_stray(variable: str) -> bool:
    upper = variable.upper()
    return upper.startswith(PREFIX) and upper.removeprefix(PREFIX).lower() not in Settings.model_fields


def _sentence(row: Mapping[str, Any], explicit: Mapping[str, Any]) -> str:
    problem = row["msg"].removeprefix("Value error, ")
    if not row["loc"]:
        return f"{problem[:1].upper()}{problem[1:]}."
    name = str(row["loc"][0])
    variable = PREFIX + name.upper()
    shown = variable if name not in explicit and os.environ.get(variable) else name
    return f"{shown} cannot be {repr(row['input'])[:80]}: {problem[:1].lower()}{problem[1:]}."
