"""Finds named pipes in a workspace, because a read-only mount does not prevent reading or writing them.

Through a pipe, a job could take a message that one program of the host sent to another. The kernel cannot close pipes
for reading: there is no mount option, no system call filter that sees the target of a path, and no Landlock right. So
pipes that exist when a host is set up are covered by /dev/null in every container. Known limits: a pipe that is
created later stays open until the next set-up, and so does one in a folder that was not searched. For writing, the
worker closes all pipes if the kernel has Landlock (`fence` in `worker.py`).
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from sandbox.workspace import RESERVED

MOST_ENTRIES: Final = 200_000  # entries searched: some seconds on a cold disk


class Pipes(NamedTuple):
    """The named pipes below a folder. `complete` is False if there were too many entries or folders that could not be
    read.
    """

    paths: tuple[str, ...]
    complete: bool


def named_pipes(root: Path, most: int = MOST_ENTRIES) -> Pipes:
    """The named pipes in a folder and below it, found without following links.

    Skips the server's own folder, which containers never see.
    """
    paths, looked, closed = [], 0, False
    waiting = [str(root)]
    while waiting and looked < most:
        folder = waiting.pop()
        try:
            entries = list(_entries(folder))
        except OSError:
            closed = True
            continue
        looked += len(entries)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.path != str(root / RESERVED):
                    waiting.append(entry.path)
            elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                with suppress(OSError):  # removed in the meantime
                    if stat.S_ISFIFO(entry.stat(follow_symlinks=False).st_mode):
                        paths.append(entry.path)
    return Pipes(tuple(sorted(paths)), not waiting and not closed)


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as inside:
        yield from inside
