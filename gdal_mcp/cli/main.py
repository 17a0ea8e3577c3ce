"""The `gdal-mcp` program: its commands, and the exit code that each ends with."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gdal_mcp.cli.exits import Exit
from gdal_mcp.cli.parsers import build_parser
from gdal_mcp.cli.streams import say
from gdal_mcp.invoked import cite, typed
from gdal_mcp.settings import SettingsError

_NEXT: Final = """\
gdal-mcp gives AI assistants the tools of GDAL. Each call runs in its own container.

To start, with ~/maps as the folder that an assistant may use:

  # get the GDAL image
  gdal-mcp setup
  # check that calls can run here
  gdal-mcp doctor --workspace ~/maps
  # add it to a client; `gdal-mcp clients` lists them
  gdal-mcp clients install claude-desktop --workspace ~/maps
  # try a call here
  gdal-mcp call list_workspace '{}' --workspace ~/maps

`gdal-mcp --help` lists all commands.
"""


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    parser = build_parser()
    if not words:
        sys.stderr.write(cite(_NEXT.replace("\n  gdal-mcp ", f"\n  {typed('gdal-mcp ')}")))
        return Exit.USAGE
    arguments = parser.parse_args(words)
    if sys.stdin is None:  # closed by the program that started this one: nothing to read, and nobody to ask
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - as long as the process
    try:
        return int(arguments.run(arguments))
    except SettingsError as error:
        for problem in error.problems:
            say(problem)
        return Exit.USAGE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # otherwise the interpreter fails on the rest of the buffer when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.UNREAD


if __name__ == "__main__":
    sys.exit(main())
