"""The table of settings in the documentation: name, type, default, variable and description of each."""

from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from gdal_mcp.settings.fields import Settings
from gdal_mcp.settings.file import (
    PREFIX,
)
from gdal_mcp.settings.types import (
    Place,
    parse_size,
    size_text,
)
from gdal_mcp.settings.web import WebSettings


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as the documentation shows it."""

    name: str
    type: str
    default: str
    env: str
    description: str


def describe() -> tuple[SettingRow, ...]:
    """Every setting, those of HTTP last, for the table in the documentation. The same on every host."""
    fields = sorted(Settings.model_fields.items(), key=lambda row: row[0] in WebSettings.model_fields)
    return tuple(
        SettingRow(
            name, _type_text(field), _default_text(field), PREFIX + name.upper(), field.description or ""
        )
        for name, field in fields
    )


def _type_text(field: FieldInfo) -> str:
    if any(getattr(getattr(mark, "func", None), "func", None) is parse_size for mark in field.metadata):
        return "size"
    annotation = field.annotation
    if get_origin(annotation) is Literal:
        return " or ".join(get_args(annotation))
    if get_origin(annotation) is tuple:
        return "folders" if get_args(annotation)[0] == Place else "names"
    plain: Any = next((part for part in get_args(annotation) if part is not NoneType), annotation)
    plain = get_args(plain)[0] if get_args(plain) else plain  # the type inside an Annotated
    return {bool: "true or false", float: "number", int: "whole number", Path: "path"}.get(plain, "text")


def _default_text(field: FieldInfo) -> str:
    if isinstance(field.json_schema_extra, dict):
        return str(field.json_schema_extra["shown"])
    value = field.default
    if _type_text(field) == "size":
        return size_text(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
