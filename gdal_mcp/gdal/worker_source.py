"""The program of a GDAL container, as the words of its command line. Nothing of it is ever mounted."""

from functools import cache
from importlib import resources

from sandbox.program import source, worker_command

PARTS = "gdal_mcp.gdal.inside.parts"


@cache
def gdal_command(idle_seconds: float = 120.0) -> tuple[str, ...]:
    """The command of a GDAL container that ends by itself when no job came within `idle_seconds`.

    Linux takes no word of 128 KiB, so every part of the handler is a word of its own.
    """
    return worker_command(
        source("gdal_mcp.gdal.inside", "gdal_worker.py"), *part_words(), idle_seconds=idle_seconds
    )


def part_words() -> tuple[str, ...]:
    """The parts of GDAL's worker: the name of each, a line end and its source."""
    names = sorted(
        entry.name.removesuffix(".py")
        for entry in resources.files(PARTS).iterdir()
        if entry.name.endswith(".py") and entry.name != "__init__.py"
    )
    return tuple(f"{name}\n{source(PARTS, f'{name}.py')}" for name in names)


def compare_command() -> tuple[str, ...]:
    return worker_command(source("gdal_mcp.gdal.inside", "compare_program.py"))
