"""What the program prints and reads: results on stdout, everything for the person beside it on stderr."""

import json
import sys
from typing import Any

from gdal_mcp.settings import SettingsError


class Unread(Exception):
    """Nobody reads stdout any more, as after `| head`."""


def out(text: str) -> None:
    """One result, and the end of its line, at once. Raises Unread."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise Unread from error


def out_json(value: object) -> None:
    """One result for programs, in ASCII, so that no text of a file's reaches a terminal as it is. Raises Unread."""
    out(json.dumps(value, indent=2))


def say(text: str) -> None:
    """One sentence for the person."""
    sys.stderr.write(f"gdal-mcp: {text}\n")


def json_object(given: str) -> dict[str, Any]:
    """The arguments of a call, `-` being those on standard input. Raises SettingsError."""
    try:
        values = json.loads(sys.stdin.read() if given == "-" else given)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"the arguments are not JSON: {error}") from error
    if not isinstance(values, dict):
        raise SettingsError('the arguments are a JSON object, such as \'{"path": "dem.tif"}\'')
    return values
