"""What this machine has and shows now: its memory, and what stands where a container's mounts begin."""

from collections.abc import Mapping
from pathlib import Path

from sandbox.mounted import standing_at
from sandbox.mountinfo import mountinfo, submounts
from sandbox.template import SandboxTemplate

_MEMORY_ROW = 3  # name, number, kB


def ground(template: SandboxTemplate) -> object:
    """What a container that was started now would see at its mounts, beyond their names: a folder, or one that is covered in
    it, may have been replaced by another of the same name, and a file system mounted below it later is not in a container
    that runs.
    """
    try:
        table = mountinfo()
        places = [Path(mount.source).stat() for mount in template.mounts]
    except OSError:
        return object()  # equal to nothing: the cold way tells what is wrong
    below = [submounts(mount.source, table) for mount in template.mounts]
    covered = [standing_at(str(mask)) for mask in template.masks]
    return [(one.st_dev, one.st_ino) for one in places], below, covered


def memory() -> Mapping[str, int]:
    """Bytes by name, as the kernel says it; none where there is no such file."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    rows = (line.split() for line in lines)
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) == _MEMORY_ROW}
