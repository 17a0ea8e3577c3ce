"""The bundle of one container: the runtime's configuration, our labels and the mount points.

A runtime creates missing mount points in the root file system, which all containers share. So the root of a container
is an overlay of its own empty mount points over the unpacked image, read-only and without an upper layer. The overlay
is mounted in a mount namespace that only one of our threads and the runtime's processes are in. It never appears in
the host's mount table, and it disappears with the container, even if processes are killed.

A user who is not root may mount only in a user namespace, which a process with threads cannot enter. For such users,
unshare(1) and mount(8) mount the overlay, and then execute the runtime.
"""

import contextlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

from sandbox.engines.oci.config import ROOTFS
from sandbox.engines.oci.kernel import PARENT, ControlGroup
from sandbox.errors import EngineUnavailable
from sandbox.portable import call

_CLONE_NEWNS: Final = 0x00020000
_RDONLY, _NOSUID, _NODEV, _REC, _PRIVATE = 0x1, 0x2, 0x4, 0x4000, 0x40000
_LABELS, _GROUP, _PID, _LOG, _POINTS, _CONFIG = "labels.json", "group", "pid", "log", "points", "config.json"
# arguments: the log, the overlay's layers, the path of the root, then a command, whose stderr is the container's
_AS_USER: Final = """exec 3>&2 2>>"$1"
exec unshare --map-root-user --mount --propagation private sh -c '
mount -n -t overlay -o "ro,nosuid,nodev,$2" overlay "$3" && shift 3 && exec "$@" 2>&3 3>&-' sh "$@"
"""
_TMP_PREFIX: Final = "new-"
_TMP_SECONDS: Final = 3600.0  # seconds; far longer than writing a bundle takes


class Bundle:
    """The folder of a container on disk. It exists, with its labels, as long as any part of the container exists."""

    def __init__(self, containers: Path, container: str) -> None:
        self.folder = containers / container
        self.log = self.folder / _LOG

    def write(self, labels: Mapping[str, str], config: Mapping[str, Any]) -> None:
        # written under a temporary name, so that an incomplete bundle is never visible
        fresh = self.folder.with_name(_TMP_PREFIX + self.folder.name)
        fresh.mkdir(mode=0o700)
        (fresh / _LABELS).write_text(json.dumps(dict(labels)), encoding="utf-8")
        (fresh / _GROUP).write_text(config["linux"]["cgroupsPath"], encoding="utf-8")
        (fresh / _CONFIG).write_text(json.dumps(config), encoding="utf-8")
        (fresh / ROOTFS).mkdir()
        fresh.rename(self.folder)

    def create_argv(self, container: str) -> list[str]:
        return ["create", "--bundle", str(self.folder), "--pid-file", str(self.folder / _PID), container]

    @property
    def pid(self) -> int | None:
        """The pid of the container's first process, which may have ended."""
        try:
            return int((self.folder / _PID).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    @property
    def labels(self) -> Mapping[str, str]:
        try:
            stored = json.loads((self.folder / _LABELS).read_bytes())
            return {name: str(value) for name, value in stored.items()}
        except (OSError, ValueError, AttributeError):  # removed meanwhile, or damaged
            return {}

    @property
    def group(self) -> ControlGroup:
        """The container's control group, below the one that was delegated to the server that created it."""
        try:
            return ControlGroup((self.folder / _GROUP).read_text(encoding="utf-8"))
        except OSError:  # the bundle was removed meanwhile
            return ControlGroup(f"/{PARENT}/{self.folder.name}")

    def with_root(
        self,
        image: Path,
        targets: Iterable[tuple[PurePosixPath, bool]],
        work: Callable[[Sequence[str]], None],
    ) -> None:
        """Calls `work` while the root is mounted: the image with mount points for `targets`.

        `targets` maps each path to True if it is a file. Without root, `work` gets a command prefix that mounts the
        root. Raises EngineUnavailable, and errors of `work`.
        """
        points = self.folder / _POINTS
        points.mkdir()
        try:
            for target, is_file in targets:
                _make_point(points, image, target, is_file=is_file)
            layers, root = f"lowerdir={points}:{image}", self.folder / ROOTFS
            if os.geteuid() == 0:
                _in_own_mounts(layers, root, partial(work, ()))
            else:
                work(("sh", "-c", _AS_USER, "sh", str(self.log), layers, str(root)))
        except OSError as error:
            raise EngineUnavailable(f"the root of a container could not be mounted: {error}") from error

    def close(self) -> None:
        """Removes the files that a runtime needs, so that no runtime can work on the bundle any more."""
        (self.folder / _CONFIG).unlink(missing_ok=True)

    def remove(self) -> None:
        """Removes the bundle. Renames it first, so that it keeps its labels until it disappears. Raises OSError."""
        gone = self.folder.with_name(_TMP_PREFIX + self.folder.name)
        with contextlib.suppress(FileNotFoundError):
            # rmdir never deletes contents, and nothing is mounted on it in this namespace
            (self.folder / ROOTFS).rmdir()
        with contextlib.suppress(FileNotFoundError):  # another server removed it first
            self.folder.rename(gone)
            shutil.rmtree(gone)


def sweep(containers: Path) -> None:
    """Removes incomplete bundles, whose server was killed while it wrote or removed them."""
    for folder in containers.glob(f"{_TMP_PREFIX}*"):
        with contextlib.suppress(OSError):  # renamed meanwhile
            if time.time() - folder.stat().st_mtime > _TMP_SECONDS:
                shutil.rmtree(folder)


def bundles(containers: Path) -> list[str]:
    """The ids of all containers with remains on this host."""
    return [name for name in os.listdir(containers) if not name.startswith(_TMP_PREFIX)]  # noqa: PTH208 - names alone


def _make_point(points: Path, image: Path, target: PurePosixPath, *, is_file: bool) -> None:
    """Creates a mount point. A folder gets the mode and owner of the image's folder.

    An overlay shows the mode and owner of the upper folder.
    """
    place, below = points, image
    for number, part in enumerate(target.parts[1:], 2):
        place, below = place / part, below / part
        if place.exists():
            continue
        if is_file and number == len(target.parts):
            place.touch(0o644)
            return
        place.mkdir()
        place.chmod(0o755)
        with contextlib.suppress(OSError):
            status = below.lstat()
            if stat.S_ISDIR(status.st_mode):
                os.chown(place, status.st_uid, status.st_gid)
                place.chmod(stat.S_IMODE(status.st_mode))


def _in_own_mounts(layers: str, root: Path, work: Callable[[], None]) -> None:
    """Runs `work` with an overlay mounted at `root`, in a separate thread.

    A thread can have its own mount namespace, which processes that it starts inherit.
    """

    def run() -> None:
        call("unshare", _CLONE_NEWNS)
        call("mount", None, b"/", None, _REC | _PRIVATE, None)  # mounts do not propagate to the host
        call("mount", b"overlay", bytes(root), b"overlay", _RDONLY | _NOSUID | _NODEV, layers.encode())
        work()

    with ThreadPoolExecutor(1, "mounts") as own:
        own.submit(run).result()
