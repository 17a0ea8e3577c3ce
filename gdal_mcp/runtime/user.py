"""Gives up root in a container: the server becomes the owner of its workspace, with the groups of the engine's
sockets.

An image cannot know the owner of the folder that is mounted into it, nor the group that may use the engine's socket.
So our image starts as root, finds out both, and gives up root before anything else is loaded.
"""

import ctypes
import os
import pwd
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pydantic

from gdal_mcp.settings import Settings, SettingsError
from sandbox.errors import EngineUnavailable

UNPRIVILEGED: Final = (10001, 10001)  # uid and gid for folders that belong to root and are open to all users
_NO_NEW_PRIVILEGES: Final = 38  # PR_SET_NO_NEW_PRIVS of linux/prctl.h


def require_access(settings: Settings) -> None:
    """Raises SettingsError if `drop_privileges` would become a user without access.

    That is a user who cannot read this program or reach the state folder.
    """
    if settings.run_as != "owner" or os.geteuid() != 0:
        return
    place, groups, user = _chosen(settings)
    # if this process cannot become that user, `drop_privileges` explains what to do
    if user[0] == 0 or not _as_user(user, groups, lambda: True):
        return
    who = f"--run-as owner: user #{user[0]}, the owner of {place},"
    # the folders of the package, of its libraries and of Python
    for folder in (Path(__file__).parents[1], Path(pydantic.__file__).parent, Path(os.__file__).parent):
        if not _as_user(user, groups, partial(os.access, folder, os.R_OK | os.X_OK)):
            raise SettingsError(
                f"{who} cannot read {folder}, which this program needs. Install the program where every user can read it, "
                "such as below /opt, or name the workspace with --workspace-ro in place of --workspace and leave out --run-as."
            )
    above = next(parent for parent in settings.state_dir.parents if parent.is_dir())
    if not _as_user(user, groups, partial(os.access, above, os.X_OK)):
        raise SettingsError(
            f"{who} cannot reach the state folder {settings.state_dir}. Name another one: --state-dir /var/lib/gdal-mcp"
        )


def drop_privileges(settings: Settings) -> None:
    """Becomes the owner of the workspace, if the settings ask for it and this process is root.

    A workspace that belongs to root and is closed to others is served by root, as without a container. Raises
    SettingsError, which names the missing option of `docker run`.
    """
    if settings.run_as != "owner" or os.geteuid() != 0:
        return
    place, groups, user = _chosen(settings)
    try:
        _chown_state(settings.state_dir, user)
        if user[0] != 0:
            _become(user, groups)
    except OSError as error:
        options = f"--user {user[0]}:{user[1]}" + "".join(f" --group-add {group}" for group in groups)
        raise SettingsError(
            f"This container's root cannot become the owner of {place} ({error.strerror or error}). Add to docker run: "
            f"{options} -v gdal-mcp:{settings.state_dir}"
        ) from error
    if user[0] != 0:
        ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        os.environ["HOME"] = _home(
            user[0], settings.state_dir
        )  # root's home, which may contain Docker's configuration, is not readable for that user


def _home(uid: int, otherwise: Path) -> str:
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:  # the user is not in the password database, as in most containers
        return str(otherwise)


def _chosen(settings: Settings) -> tuple[Path, list[int], tuple[int, int]]:
    """The folder whose owner the process becomes, the groups of the engine's sockets, and the owner's uid and gid."""
    place = next(
        (folder for folder in (*settings.workspaces, *settings.workspaces_ro) if folder.is_dir()), None
    )
    place = place or settings.state_dir
    groups = _groups(settings.engine)
    return place, groups, _owner(place, groups, writes=place not in settings.workspaces_ro)


def _become(user: tuple[int, int], groups: list[int]) -> None:
    """Changes the groups, gid and uid of this process. Raises OSError."""
    os.setgroups(groups)
    os.setgid(user[1])
    os.setuid(user[0])


def _as_user(user: tuple[int, int], groups: list[int], test: Callable[[], bool]) -> bool:
    """The result of `test` in a child process of that user; False if this process cannot become that user."""
    if (child := os.fork()) == 0:
        passed = False
        with suppress(OSError):
            _become(user, groups)
            passed = test()
        os._exit(0 if passed else 1)
    return os.waitpid(child, 0)[1] == 0


def _groups(engine: str | None) -> list[int]:
    """The groups of the sockets on which an engine may listen."""
    from sandbox.engines.opening import sockets  # noqa: PLC0415 - takes a twentieth of the start, and only root needs it

    places: tuple[Path, ...] = ()
    with suppress(EngineUnavailable):  # the first call reports the error
        places = sockets(engine)
    groups = set()
    for path in places:
        with suppress(OSError):
            status = path.stat()
            if stat.S_ISSOCK(status.st_mode) and status.st_mode & stat.S_IWGRP:
                groups.add(status.st_gid)
    return sorted(groups)


def _owner(place: Path, groups: list[int], *, writes: bool) -> tuple[int, int]:
    """The user to become for a folder: its owner, root, or no change if every user may use it."""
    with suppress(OSError):
        status = place.stat()
        if status.st_uid != 0:
            return status.st_uid, status.st_gid
        if not _may_use(place, groups, writes=writes):
            return 0, 0
    return UNPRIVILEGED


def _may_use(place: Path, groups: list[int], *, writes: bool) -> bool:
    """True if an unprivileged user can use a folder.

    A process of that user tries it, because shares of desktop engines show and check owners in their own ways.
    """
    mode = os.R_OK | os.X_OK | (os.W_OK if writes else 0)
    return _as_user(UNPRIVILEGED, groups, partial(os.access, place, mode))


def _chown_state(folder: Path, user: tuple[int, int]) -> None:
    """Gives the state folder to a user. Its records may belong to the user of an earlier container. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    status = folder.stat()
    if any(folder.iterdir()) and not (folder / "servers").is_dir():
        raise SettingsError(
            f"{folder} holds other things than records. Name an empty folder with --state-dir."
        )
    if (status.st_uid, status.st_gid) != user:
        for path in (*folder.rglob("*"), folder):
            os.chown(path, *user, follow_symlinks=False)
    if stat.S_IMODE(status.st_mode) != stat.S_IRWXU:
        folder.chmod(stat.S_IRWXU)
