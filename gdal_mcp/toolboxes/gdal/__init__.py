"""GDAL as a toolbox."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from tomllib import loads
from typing import Any


@cache
def data_of(package: str, name: str) -> Mapping[str, Any]:
    """The content of a TOML file in a package's `data/`. It is read once and must not be changed."""
    return loads(files(package).joinpath("data", name).read_text(encoding="utf-8"))
