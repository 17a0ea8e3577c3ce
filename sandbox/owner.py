"""Finds out which servers of this host are running. Each holds a lock that the kernel releases when the process ends."""

import contextlib
import fcntl
import os
import secrets
from pathlib import Path


def is_free(lock: Path) -> bool:
    """True if a lock file exists and no process holds its lock."""
    try:
        file = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:  # a shared lock, so that two checks at the same time do not take each other for the owner
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(file)
    return True


class Owner:
    """This process, as one of the servers that share a folder on this host. `id` is used in labels."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder = folder
        self.id = secrets.token_hex(8)
        self._path = folder / f"{self.id}.lock"
        # True if `close` leaves the lock file, so that the next server counts us as dead and removes our leftovers
        self.leaves_lock = False
        # gets its name only after it is locked, so that no process finds it unlocked
        unnamed = folder / f"{self.id}.new"
        self._file = os.open(unnamed, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unnamed.rename(self._path)

    def is_dead(self, owner: str) -> bool:
        """True only if its lock file is in our folder and nobody holds the lock. Unknown owners count as alive."""
        return owner != self.id and owner.isalnum() and is_free(self.folder / f"{owner}.lock")

    def is_alive(self, owner: str) -> bool:
        """True if a server whose records are in the same folder is running. Without a lock file it has ended."""
        return owner == self.id or ((self.folder / f"{owner}.lock").exists() and not self.is_dead(owner))

    def delete_lock(self, owner: str) -> None:
        """Removes the lock file of a dead owner, after all its leftovers were removed."""
        if self.is_dead(owner):
            with contextlib.suppress(OSError):
                (self.folder / f"{owner}.lock").unlink()

    def dead(self) -> tuple[str, ...]:
        """All owners that are dead and whose lock files still exist."""
        names = (path.stem for path in self.folder.glob("*.lock"))
        return tuple(name for name in names if self.is_dead(name))

    def close(self) -> None:
        if not self.leaves_lock:
            with contextlib.suppress(OSError):
                self._path.unlink()
        os.close(self._file)
