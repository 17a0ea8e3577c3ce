"""How the user started this program, so that messages show a command that works in the same way."""

import re
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Final

NAME: Final = "gdal-mcp"
PACKAGE: Final = "gdal-sandbox-mcp"  # name of the package on PyPI, and of its script for `uvx`
_CITED: Final = re.compile(rf"(?<=`){NAME}(?= [a-z-])")


@cache
def command() -> tuple[str, ...]:
    """The words that start this program: its name if that is on the PATH, else the way it was started."""
    if shutil.which(NAME):
        return (NAME,)
    if "archive-v" in sys.prefix:  # an environment of `uvx`, in uv's cache
        return ("uvx", PACKAGE)
    installed = Path(sys.executable).with_name(NAME)
    return (str(installed),) if installed.is_file() else (sys.executable, "-m", "gdal_mcp")


def cite(text: str) -> str:
    """The text with each `gdal-mcp ...` replaced by the command that the user can type."""
    return text if command() == (NAME,) else _CITED.sub(lambda _found: shlex.join(command()), text)
