"""Output and input of commands: results on stdout, messages on stderr, durations and JSON from arguments."""

import json
import re
import sys
from typing import Any, Final

from gdal_mcp.invoked import cite
from gdal_mcp.settings import SettingsError
from gdal_mcp.toolboxes.untrusted import shown_text

_LIKE: Final = """Arguments look like '{"path": "dem.tif"}', in single quotes for a shell."""
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def out(text: str) -> None:
    """Prints one line of the result at once. Raises BrokenPipeError if the reader is gone, as after `| head`."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def out_json(value: object) -> None:
    """Prints a result for programs, in ASCII, so that text from files cannot control a terminal."""
    out(json.dumps(value, indent=2))


def out_either(value: object, text: str, *, as_json: bool) -> None:
    """Prints a result as JSON or as text."""
    if as_json:
        out_json(value)
    else:
        out(text)


def say(text: str) -> None:
    sys.stderr.write(f"gdal-mcp: {cite(text)}\n")


def confirm(question: str, words: str) -> bool:
    """Asks at the terminal; anything but yes is no. Raises SettingsError, which names the options `words`, without a terminal."""
    if not sys.stdin.isatty():
        raise SettingsError(f"there is no terminal to ask at; use {words}")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def show_status(text: str = "") -> None:
    """Shows a status line at a terminal, in place of the last one. Does nothing without a terminal. Control
    characters are removed.
    """
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{shown_text(text, 66)}")
        sys.stderr.flush()


def json_object(text: str) -> dict[str, Any]:
    """A call's arguments; `-` reads them from standard input. Raises SettingsError."""
    try:
        values = json.loads(sys.stdin.read() if text == "-" else text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"the arguments are not JSON: {error}. {_LIKE}") from error
    if not isinstance(values, dict):
        raise SettingsError(f"the arguments are not a JSON object. {_LIKE}")
    return values


def seconds_of(text: str, option: str) -> float:
    """Seconds of a duration such as `90s`, `30m`, `24h` or `7d`. Raises SettingsError with the option's name."""
    match = re.fullmatch(r"(\d{1,9})([smhd])", text, re.ASCII)
    if match is None:
        raise SettingsError(f"{option} cannot be {text[:40]!r}: use a duration such as 90s, 30m, 24h or 7d.")
    return int(match[1]) * _UNITS[match[2]]
