"""Whether what a container mounts is what was looked up, and what its user may reach.

The host looks a path up without following any link. The engine opens the same path later, as root, and follows all. In
between another program may put a link there that leads anywhere. What was mounted cannot be exchanged any more, so the
container says which file or folder it sees, and gets no job unless it is the one that was looked up. The numbers are those of
this host's kernel; where a container has a kernel of its own they differ, and nothing is run.
"""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sandbox.errors import PathRefused, PathReplaced
from sandbox.template import SandboxTemplate
from sandbox.workspace import Located

READ, ENTER = 0o4, 0o1  # of a folder's mode


def refuse_replaced(template: SandboxTemplate, facts: Mapping[str, Any]) -> None:
    """Compares what the container measured. Raises PathReplaced; malformed facts are a difference, never an exception."""
    seen = _identities(facts.get("mounts"))
    told = {str(one.target): one.identity for one in template.mounts if one.identity is not None}
    if wrong := [target for target, identity in told.items() if seen.get(target) != list(identity)]:
        raise PathReplaced(
            f"{_some(wrong)} is not what it was when the call was planned, so nothing was run."
        )


def _identities(rows: object) -> Mapping[str, object]:
    known = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    return {str(row.get("target")): row.get("identity") for row in known}


def refuse_gone(template: SandboxTemplate) -> None:
    """Looks on the host, to tell why an engine could not mount something. Raises PathReplaced."""
    told = [(one.source, one.identity) for one in template.mounts if one.identity is not None]
    if wrong := [source for source, identity in told if standing_at(source) != identity]:
        raise PathReplaced(f"{_some(wrong)} was taken away or replaced, so nothing was run.")


def refuse_closed(root: Path, located: Located, user: tuple[int, int]) -> None:
    """A file that is mounted by itself is reached past its folders: what `user` could not reach through them is refused.

    `root` is what would be mounted for its workspace. Raises PathRefused.
    """
    if located.identity is None:
        return
    try:
        status = _reached(root, located, user)
    except OSError as error:
        raise PathReplaced(f"{located} was taken away or replaced, so nothing was run.") from error
    if (status.st_dev, status.st_ino) != (located.identity.device, located.identity.inode):
        raise PathReplaced(f"{located} was replaced, so nothing was run.")


def _reached(root: Path, located: Located, user: tuple[int, int]) -> os.stat_result:
    """What is at the place, seen through folders that `user` may enter. Follows no link."""
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    with ExitStack() as stack:
        opened = os.open(root, flags)
        stack.callback(os.close, opened)
        for part in located.relative.parts:
            if not may(os.fstat(opened), user, ENTER):
                raise PathRefused(f"a folder above {located.name!r} is closed to the user that calls run as.")
            opened = os.open(part, flags, dir_fd=opened)
            stack.callback(os.close, opened)
        return os.fstat(opened)


def may(status: os.stat_result, user: tuple[int, int], what: int) -> bool:
    """Whether a user (uid, gid) may do it, by the mode alone."""
    shift = 6 if status.st_uid == user[0] else 3 if status.st_gid == user[1] else 0
    return (status.st_mode >> shift) & what == what


def standing_at(path: str) -> tuple[int, int] | None:
    """Device and inode of what has that name on this host, be it a link; None when nothing can be seen there."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _some(paths: list[str]) -> str:
    return f"{paths[0]} and {len(paths) - 1} more" if len(paths) > 1 else paths[0]
