"""Times as people type them, such as 30m or 24h. Pure."""

import re
from typing import Final

from gdal_mcp.settings import SettingsError

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION: Final = re.compile(r"(\d{1,9})([smhd])", re.ASCII)


def seconds_of(text: str, option: str) -> float:
    """Seconds of a text such as `90s`, `30m`, `24h` or `7d`. Raises SettingsError, which names the option."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise SettingsError(f"{option} cannot be {text[:40]!r}: it looks like 90s, 30m, 24h or 7d.")
    return int(found[1]) * _UNITS[found[2]]
