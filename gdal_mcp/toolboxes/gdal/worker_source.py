"""The program of a GDAL container, as the arguments of its command line. None of it is ever mounted."""

from collections.abc import Mapping
from functools import cache
from importlib import resources

from sandbox.program import source, worker_command

PARTS = "gdal_mcp.toolboxes.gdal.inside.parts"


@cache
def gdal_command(idle_seconds: float = 120.0) -> tuple[str, ...]:
    """The command of a GDAL container that exits by itself if no job comes within `idle_seconds`.

    Linux limits each argument to 128 KiB, so every part of the handler is a separate argument.
    """
    return worker_command(
        source("gdal_mcp.toolboxes.gdal.inside", "gdal_worker.py"), *part_words(), idle_seconds=idle_seconds
    )


def command_around(
    package: str, handler: str, besides: Mapping[str, str], idle_seconds: float
) -> tuple[str, ...]:
    """The command of a container whose handler uses GDAL's worker, for another toolbox.

    `besides` maps each further module to its package.
    """
    packages = {**besides, "gdal_worker": "gdal_mcp.toolboxes.gdal.inside"}
    words = (f"{name}\n{source(place, f'{name}.py')}" for name, place in packages.items())
    return worker_command(source(package, f"{handler}.py"), *words, *part_words(), idle_seconds=idle_seconds)


def part_words() -> tuple[str, ...]:
    """The parts of GDAL's worker, each as its name, a newline and its source."""
    return tuple(f"{name}\n{source(PARTS, f'{name}.py')}" for name in modules_of(PARTS))


def modules_of(package: str) -> list[str]:
    names = (file.name for file in resources.files(package).iterdir() if file.name.endswith(".py"))
    return sorted(name.removesuffix(".py") for name in names if name != "__init__.py")
