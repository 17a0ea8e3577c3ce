"""What is mounted below a folder, from the kernel's own table."""

import re
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

from sandbox.errors import IsolationRefused


def mountinfo() -> str:
    """The table of this process. Raises OSError where /proc is not mounted."""
    return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")


def submounts(root: str | PurePath, table: str) -> tuple[str, ...]:
    """The mount points strictly below `root`, from the text of /proc/self/mountinfo, sorted, without repeats.

    They are the mounts of the process that read the text; the engine's may differ in another mount namespace.
    Raises IsolationRefused for a text that is not mountinfo.
    """
    top = PurePosixPath(root)
    points = {_mount_point(line) for line in table.split("\n") if line}  # other line ends occur in names
    if not points:
        raise IsolationRefused("mountinfo is empty, so mounts would be missed. Mount /proc where this runs.")
    return tuple(sorted(point for point in points if top in PurePosixPath(point).parents))


_MOUNTINFO_FIELDS: Final = 10  # at least; proc(5). The fifth is the mount point, with odd characters in octal


def _mount_point(line: str) -> str:
    fields = line.split(" ")
    if len(fields) < _MOUNTINFO_FIELDS or not fields[4].startswith("/"):
        raise IsolationRefused(
            f"this row of mountinfo cannot be read, so mounts might be missed: {line[:200]!r}"
        )
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
