"""`gdal-mcp backup`: a consistent copy of the records in the state folder, while servers run."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from gdal_mcp.cli.exits import Exit
from gdal_mcp.cli.streams import out, say
from gdal_mcp.records.audit import copied
from gdal_mcp.records.audit_files import AuditUnavailable
from gdal_mcp.records.audit_verification import verify
from gdal_mcp.settings import Settings, SettingsError


def backup(settings: Settings, folder: Path) -> Exit:
    """Copies databases, audit log and its closed files into a new folder, and verifies the copy of the log.

    The log is copied last, so that it has every call that the registry has. Data that can be made again is left out:
    views, pictures, and what was read over the network. Raises SettingsError, AuditUnavailable.
    """
    state = settings.state
    if not state.root.is_dir():
        raise SettingsError(f"there is no state folder {state.root}; name it with --state-dir")
    _create(folder.absolute())
    try:
        names = [_database(path, folder) for path in sorted(state.root.glob("*.sqlite"))]
        names += [path.name for path in copied(state.audit, folder)]
    except (OSError, sqlite3.Error, AuditUnavailable) as error:
        shutil.rmtree(folder, ignore_errors=True)
        say(f"{folder} could not be written and was removed: {error}")
        return Exit.FAILED
    verification = verify(folder / state.audit.name)
    out(
        f"{folder}: {', '.join(names)}; audit log of {verification.records} records, ends at {verification.last}"
    )
    if not verification.ok:
        say(f"the audit log is not complete: {verification.reason}")
    return Exit.DONE if verification.ok else Exit.FAILED


def _create(folder: Path) -> None:
    """Creates the folder, but not the folders above it: a missing one may be a disk that is not mounted."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        raise SettingsError(f"{folder} exists; name a new folder") from None
    except FileNotFoundError:
        missing = next(above for above in reversed(folder.parents) if not above.exists())
        raise SettingsError(
            f"{folder} was not created, because there is no folder {missing}. If it is on another disk, mount the disk; else create "
            f"{missing}. Then run the command again."
        ) from None
    except OSError as error:
        raise SettingsError(f"{folder} cannot be created: {error.strerror}; name another folder") from error


def _database(path: Path, folder: Path) -> str:
    """Copies a database with SQLite's backup, in a state between two transactions."""
    copy = folder / path.name
    copy.touch(mode=0o600)
    with (
        closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
    return path.name
