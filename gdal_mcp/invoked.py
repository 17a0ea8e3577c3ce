"""How a person runs this program: messages cite a command that works where they stand."""

import re
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Final

NAME: Final = "gdal-mcp"
PACKAGE: Final = "gdal-sandbox-mcp"  # on PyPI, and of its script for `uvx`
_CITED: Final = re.compile(rf"(?<=`){NAME}(?= [a-z-])")


@cache
def command() -> tuple[str, ...]:
    """The words before a command's name: this program if it is on the PATH, else as it was started."""
    if shutil.which(NAME):
        return (NAME,)
    if "archive-v" in sys.prefix:  # the environment of `uvx`, in uv's cache
        return ("uvx", PACKAGE)
    installed = Path(sys.executable).with_name(NAME)
    return (str(installed),) if installed.is_file() else (sys.executable, "-m", "gdal_mcp")


def cite(text: str) -> str:
    """The text with each `gdal-mcp ...` in it as a person can type it here."""
    return text if command() == (NAME,) else _CITED.sub(lambda _found: shlex.join(command()), text)
