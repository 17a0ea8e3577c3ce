"""Files that a command writes outside the workspaces, such as the JUnit report of a run.

Invariants:
* a file is replaced only if it is an earlier file of the same kind, so a typing error in an option cannot destroy
  another file;
* it is replaced atomically, and a link at its path is not followed.
"""

import os
import stat
from pathlib import Path
from typing import Final

from gdal_mcp.settings import SettingsError
from gdal_mcp.settings.state import put_private

_READABLE: Final = 0o644  # readable by the CI system, which may run as another user


def require_replaceable(path: Path, start: bytes, option: str) -> None:
    """Raises SettingsError unless the path is free, or its file is empty or starts with these bytes."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise SettingsError(
            f"{option} {path}: the folder {folder} does not exist; make it, or name another file"
        )
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        raise SettingsError(f"{option} {path}: {error.strerror}; name another file") from error
    try:
        regular = stat.S_ISREG(os.fstat(file).st_mode)
        if not regular or os.read(file, len(start)) not in (b"", start):
            raise SettingsError(
                f"{option} {path}: a file of another kind is there and is not replaced; name another file"
            )
    finally:
        os.close(file)


def write_report(path: Path, text: str) -> None:
    """Writes or replaces a file. Raises OSError."""
    put_private(path.absolute(), text.encode(), _READABLE)
