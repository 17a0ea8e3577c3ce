"""The `gdal-mcp` program: its commands, and the exit code that each ends with."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gdal_mcp import __version__
from gdal_mcp.commands.exits import Exit, meanings
from gdal_mcp.commands.parsers import add_commands
from gdal_mcp.commands.streams import say
from gdal_mcp.settings import SettingsError


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    parser = build_parser()
    if not words:
        parser.print_help(sys.stderr)
        return Exit.USAGE
    arguments = parser.parse_args(words)
    if sys.stdin is None:  # closed by whoever started this process: nothing to read, and nobody to ask
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
        # so that the interpreter does not fail on the rest of the buffer when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.UNREAD


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gdal-mcp",
        description="GDAL for language models: each call runs in a container of its own.",
        epilog=f"{meanings()} `gdal-mcp COMMAND --help` explains each.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"gdal-mcp {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    add_commands(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
