"""What commands print and read: results on stdout, messages for the person on stderr, durations and JSON as typed."""

import json
import re
import sys
from typing import Any, Final

from gdal_mcp.invoked import cite
from gdal_mcp.settings import SettingsError
from gdal_mcp.untrusted import shown_text

_LIKE: Final = """Arguments look like '{"path": "dem.tif"}', in single quotes for a shell."""
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def out(text: str) -> None:
    """Prints one line of the result at once. Raises BrokenPipeError when nobody reads any more, as after `| head`."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def out_json(value: object) -> None:
    """Prints a result for programs, in ASCII, so that text from files cannot control a terminal."""
    out(json.dumps(value, indent=2))


def out_either(value: object, text: str, *, as_json: bool) -> None:
    """Prints a result for programs, or its text for people."""
    if as_json:
        out_json(value)
    else:
        out(text)


def say(text: str) -> None:
    sys.stderr.write(f"gdal-mcp: {cite(text)}\n")


def agreed(question: str, words: str) -> bool:
    """The answer of the person at the terminal; anything but yes is no. Raises SettingsError, which names other `words`, without one."""
    if not sys.stdin.isatty():
        raise SettingsError(f"there is no terminal to ask at; say {words}")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def show_status(text: str = "") -> None:
    """What is going on, in one line of a terminal that is written anew; elsewhere nothing. Of the text only what is visible."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{shown_text(text, 66)}")
        sys.stderr.flush()


def json_object(given: str) -> dict[str, Any]:
    """A call's arguments, read from standard input when given as `-`. Raises SettingsError."""
    try:
        values = json.loads(sys.stdin.read() if given == "-" else given)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"JSON: the text is not JSON: {error}. {_LIKE}") from error
    if not isinstance(values, dict):
        raise SettingsError(f"JSON: the text is not a JSON object. {_LIKE}")
    return values


def seconds_of(text: str, option: str) -> float:
    """Seconds of a duration such as `90s`, `30m`, `24h` or `7d`. Raises SettingsError, which names the option."""
    found = re.fullmatch(r"(\d{1,9})([smhd])", text, re.ASCII)
    if found is None:
        raise SettingsError(f"{option} cannot be {text[:40]!r}: it looks like 90s, 30m, 24h or 7d.")
    return int(found[1]) * _UNITS[found[2]]
