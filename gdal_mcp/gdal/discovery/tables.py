"""Reads this package's data."""

import tomllib
from importlib.resources import files
from typing import Any


def read(name: str) -> dict[str, Any]:
    """One of the TOML files in `data/`."""
    text = files("gdal_mcp.gdal.discovery").joinpath("data", name).read_text(encoding="utf-8")
    return tomllib.loads(text)
