"""The settings file, which is TOML with the names of the settings as keys, and the error for settings that cannot be
used.
"""

import difflib
import os
import stat
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

PREFIX: Final = "GDAL_MCP_"  # prefix of the variables
# settings that are paths, in any table
_PLACES: Final = frozenset(
    {
        *("workspaces", "workspaces_ro", "state_dir", "policy", "tls_cert", "tls_key", "classifiers"),
        *("ca", "service_account"),  # keys of the table `remote`
    }
)
_MOST: Final = 1 << 20  # bytes of a file; the parsing time grows faster than the size
_LINKS: Final = 40  # links that Linux follows in one path


class SettingsError(Exception):
    """The settings cannot be used. `problems` holds one sentence each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def sentence(message: str) -> str:
    """A message of pydantic as the end of our own sentence."""
    problem = message.removeprefix("Value error, ").replace("Input should", "it should")
    return f"{problem[:1].lower()}{problem[1:].rstrip('.')}."


def nearest(word: str, known: Collection[str]) -> str:
    """The known word that is most like this one."""
    return difflib.get_close_matches(word, list(known), n=1, cutoff=0.0)[0]


def no_setting(name: str, known: Collection[str], *, variable: bool = False) -> str:
    """The error for an unknown setting or variable, with the nearest known one."""
    plain = name.upper().removeprefix(PREFIX).lower()
    near = nearest(plain, known)
    shown = PREFIX + near.upper() if variable else near
    return f"There is no setting {name[:80]!r}; the nearest is {shown}."


def trusted_toml(path: Path, kind: str) -> tuple[bytes, dict[str, Any]]:
    """The bytes and values of a TOML file that the server trusts.

    Raises SettingsError, also for a file that everybody can write or replace.
    """
    try:
        data = _trusted_bytes(path, f"{kind} file {path}")
        return data, tomllib.loads(data.decode())
    except OSError as error:
        raise SettingsError(f"{kind} file {path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:  # errors of TOML and of Unicode, and too deep nesting
        raise SettingsError(f"{kind} file {path} is not TOML: {error}.") from error


def _trusted_bytes(path: Path, named: str) -> bytes:
    """The bytes of a regular file that only trusted users can write. Raises SettingsError, OSError."""
    # O_NONBLOCK, because a pipe without a writer would block the start
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise SettingsError(f"{named} is not a regular file. Name a TOML file.")
        if status.st_mode & stat.S_IWOTH:
            raise SettingsError(f"{named} can be written by everybody. Run `chmod o-w {path}`.")
        folder = path.resolve().parent
        if folder.stat().st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
            raise SettingsError(
                f"{named} can be replaced by everybody, as its folder can be written by everybody. "
                f"Run `chmod o-w {folder}`."
            )
        data = file.read(_MOST + 1)
    if len(data) > _MOST:
        raise SettingsError(f"{named} is larger than {_MOST >> 20} MiB. Name a TOML file.")
    return data


def lookups(path: Path) -> Iterator[Path]:
    """Yields every path that the kernel looks up to open an absolute path, including links. The last is the file
    itself.
    """
    at, rest, links = Path("/"), list(reversed(path.parts[1:])), 0
    yield at
    while rest and links < _LINKS:
        name = rest.pop()
        entry = at.parent if name == ".." else at / name
        yield entry
        if entry.is_symlink():
            target, links = entry.readlink(), links + 1
            rest += reversed(target.parts[1:] if target.is_absolute() else target.parts)
            at = Path("/") if target.is_absolute() else at
        else:
            at = entry


def read_toml(path: Path, known: Collection[str]) -> dict[str, Any]:
    """The values of a settings file. Raises SettingsError, also for an unknown key."""
    values = trusted_toml(path, "Settings")[1]
    if "config" in values:
        raise SettingsError(f"Settings file {path} cannot name another settings file: remove `config`.")
    unknown = [name for name in values if name not in known]
    if unknown:
        raise SettingsError(*(f"Settings file {path}: {no_setting(name, known)}" for name in unknown))
    return _resolved(values, path.parent)


def _resolved(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The table with absolute paths, also in its inner tables."""
    return {
        name: _anchored(value, folder) if name in _PLACES else _inner(value, folder)
        for name, value in table.items()
        if name != "headers"
    } | {
        name: value  # the headers of requests, whose names may equal those of settings that are paths
        for name, value in table.items()
        if name == "headers"
    }


def _inner(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_inner(part, folder) for part in value]
    return _resolved(value, folder) if isinstance(value, dict) else value


def _anchored(value: Any, folder: Path) -> Any:
    """Makes paths absolute, relative to the file's folder, because the client chooses a server's current folder."""
    if isinstance(value, list):
        return [_anchored(inner, folder) for inner in value]
    return str(folder / value) if isinstance(value, str) and value and not value.startswith("~") else value
