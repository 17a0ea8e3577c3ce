"""Options, variables and keys that were removed, and that the next minor version still accepts.

Invariants:
* a removed setting does not stop the server; it causes a warning in the log and in `doctor`, because a client would
  only show "disconnected";
* a setting is listed here only if ignoring its value does not weaken the server;
* a row is deleted in the version that it names (`tests/unit/settings/test_removed_settings.py`).
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Removed:
    """A removed option, variable or key.

    `setting` is the name of the variable and of the key in the file; "" if only the option was removed.
    """

    option: str  # with its dashes, "" for a setting without one
    setting: str
    takes_value: bool
    until: tuple[int, int]  # the first version that refuses it
    instead: str  # what to do, as a sentence

    def notice(self, written: str) -> str:
        """The warning for a setting that is written as `written`."""
        version = ".".join(map(str, self.until))
        return f"{written} was removed and has no effect; it is an error from version {version} on. {self.instead}"


REMOVED: Final = (
    Removed(
        "--allow-sql",
        "",
        takes_value=False,
        until=(0, 2),
        instead="SQL is on by default: leave it out; --no-sql turns SQL off.",
    ),
)


def notices(
    options: Collection[str], variables: Collection[str], keys: Collection[str], prefix: str
) -> Iterator[str]:
    """A sentence for each removed setting among options, names of variables, and keys of the settings file."""
    for removed in REMOVED:
        if removed.option in options:
            yield removed.notice(removed.option)
        if removed.setting and prefix + removed.setting.upper() in {name.upper() for name in variables}:
            yield removed.notice(prefix + removed.setting.upper())
        if removed.setting and removed.setting in keys:
            yield removed.notice(f"`{removed.setting}` in the settings file")


def is_removed(setting: str) -> bool:
    """True for a removed setting, which is accepted but not read."""
    return any(removed.setting == setting for removed in REMOVED if removed.setting)
