"""What is wrong with the settings, in sentences. Pure."""

import difflib
from collections.abc import Iterable
from typing import Final

PREFIX: Final = "GDAL_MCP_"  # of the variables


class SettingsError(Exception):
    """The settings cannot be used. `problems` holds one sentence each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def no_setting(name: str, known: Iterable[str], *, variable: bool = False) -> str:
    """That no setting or variable has that name, and the nearest of those there are."""
    plain = name.upper().removeprefix(PREFIX).lower()
    nearest = difflib.get_close_matches(plain, list(known), n=1, cutoff=0.0)[0]
    shown = PREFIX + nearest.upper() if variable else nearest
    return f"There is no setting {name[:80]!r}; the nearest is {shown}."
