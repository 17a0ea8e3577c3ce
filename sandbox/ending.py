"""The end of a container as the kernel tells it, some twenty milliseconds before its engine does.

A container's first process is the init of its process namespace: the kernel kills and awaits everything else in there before
that one counts as ended. So its descriptor says, for certain, that nothing of the container runs any more. How it ended only
the engine knows.
"""

import os
from contextlib import suppress
from pathlib import Path

_ID_LENGTH = 64  # hexadecimal digits; a shorter text could be part of another one's


class Ending:
    """Readable once every process of the container is gone."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def ending_of(container: str, process: int | None) -> Ending | None:
    """Of a running container with the engine's id and first process; None where this host does not show that process.

    An engine in a virtual machine or another process namespace counts differently; so the process must say itself that it
    is this container's, after it is held, as numbers are given again.
    """
    if not process or not hasattr(os, "pidfd_open"):
        return None
    try:
        ending = Ending(os.pidfd_open(process))
    except OSError:
        return None
    with suppress(OSError):
        groups = Path(f"/proc/{process}/cgroup").read_text(encoding="ascii", errors="replace")
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace")
        pids = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
        if len(container) >= _ID_LENGTH and container in groups and len(pids) > 1 and pids[-1] == "1":
            return ending
    ending.close()
    return None
