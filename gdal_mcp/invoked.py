"""How the user started this program, so that messages show a command that works in the same way."""

import json
import re
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Final

NAME: Final = "gdal-mcp"
PACKAGE: Final = "gdal-sandbox-mcp"  # name of the package on PyPI, and of its script for `uvx`
_CITED: Final = re.compile(rf"(?<=`){NAME}(?= [A-Za-z-])")


def in_uvx() -> bool:
    """True in an environment of `uvx`, which is in uv's cache and may be removed from it."""
    return "archive-v" in sys.prefix


def uvx_source() -> str:
    """The source of the package as `uvx --from` takes it; "" if it is the published package."""
    from importlib.metadata import distribution  # noqa: PLC0415 - it takes a while, and most starts do not need it

    origin = json.loads(distribution(PACKAGE).read_text("direct_url.json") or "{}")
    if vcs := origin.get("vcs_info"):
        return f"{vcs['vcs']}+{origin['url']}@{vcs['commit_id']}"
    return str(origin.get("url", ""))


@cache
def command() -> tuple[str, ...]:
    """The words that start this program: its name if that is on the user's PATH, else the way it was started."""
    found = shutil.which(NAME)
    if in_uvx() and (found is None or Path(found).is_relative_to(sys.prefix)):
        # `uvx` puts its environment on the PATH of this process, and not on that of the user
        source = uvx_source()
        return ("uvx", "--from", source, PACKAGE) if source else ("uvx", PACKAGE)
    if found:
        return (NAME,)
    installed = Path(sys.executable).with_name(NAME)
    return (str(installed),) if installed.is_file() else (sys.executable, "-m", "gdal_mcp")


def typed(line: str) -> str:
    """A command line that starts with the program's name, as the user can type it."""
    return f"{shlex.join(command())}{line.removeprefix(NAME)}"


def cite(text: str) -> str:
    """The text with each `gdal-mcp ...` replaced by the command that the user can type."""
    return text if command() == (NAME,) else _CITED.sub(lambda _found: shlex.join(command()), text)
