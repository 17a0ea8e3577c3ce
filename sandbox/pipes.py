"""Named pipes in a workspace, which lead out of a container: a read-only mount stops neither reading nor writing them.

A job that opens one could take a message that a program of the host sent to another program. The kernel has nothing that closes
pipes alone for reading: no mount option, no system call filter that sees what a path leads to, no right of Landlock's. So those
that are there when a host is set up are covered by /dev/null in every container. Known limits: one that is made later stays
open until the next set-up, and so does what lies in a folder that was not looked at. For writing the worker closes all of them
where the kernel has Landlock (`fence` in `worker.py`).
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from sandbox.workspace import RESERVED

MOST_ENTRIES: Final = 200_000  # some seconds on a cold disk; more than that is not looked at


class Pipes(NamedTuple):
    """What was found below a folder. Not `complete`: it holds more entries than were looked at, or folders that are closed."""

    paths: tuple[str, ...]
    complete: bool


def named_pipes(root: Path, most: int = MOST_ENTRIES) -> Pipes:
    """Follows no link, and leaves out the server's own folder, which no container sees."""
    found, looked, closed = [], 0, False
    waiting = [str(root)]
    while waiting and looked < most:
        folder = waiting.pop()
        try:
            entries = list(_entries(folder))
        except OSError:
            closed = True
            continue
        looked += len(entries)
        for one in entries:
            if one.is_dir(follow_symlinks=False):
                if one.path != str(root / RESERVED):
                    waiting.append(one.path)
            elif not one.is_file(follow_symlinks=False) and not one.is_symlink():
                with suppress(OSError):  # it is gone
                    if stat.S_ISFIFO(one.stat(follow_symlinks=False).st_mode):
                        found.append(one.path)
    return Pipes(tuple(sorted(found)), not waiting and not closed)


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as inside:
        yield from inside
