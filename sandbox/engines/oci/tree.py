"""Hardens an unpacked image, lists its files, and compares them with the list."""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

_THREADS: Final = 2  # digests release the interpreter's lock, and two threads saturate a disk
_DEVICES: Final = (stat.S_ISBLK, stat.S_ISCHR, stat.S_ISSOCK, stat.S_ISFIFO)
_MARKS: Final = (".dockerenv", "run/.containerenv")  # files that an engine leaves in an image that it exports

Row = dict[str, Any]


def harden(root: Path) -> None:
    """Removes what no job needs: devices, pipes, sockets and set-user-id bits.

    If all files belong to the user that jobs run as, files that only root may read are removed.
    """
    for mark in _MARKS:
        (root / mark).unlink(missing_ok=True)
    for path, status in [*_walk(root)]:
        mode = stat.S_IMODE(status.st_mode)
        if not os.path.lexists(path):
            continue  # already removed with its folder
        needed = stat.S_IXOTH if stat.S_ISDIR(status.st_mode) else stat.S_IROTH
        if os.geteuid() != 0 and not stat.S_ISLNK(status.st_mode) and not mode & needed:
            shutil.rmtree(path) if stat.S_ISDIR(status.st_mode) else Path(path).unlink()
        elif any(kind(status.st_mode) for kind in _DEVICES):
            Path(path).unlink()
        elif not stat.S_ISLNK(status.st_mode):
            safe_mode = mode & ~(stat.S_ISUID | stat.S_ISGID)
            if safe_mode != mode:
                Path(path).chmod(safe_mode)


def listed(root: Path) -> Iterator[Row]:
    """All entries with the digests of their contents, in a fixed order."""
    entries = sorted(_walk(root))
    with ThreadPoolExecutor(_THREADS) as threads:
        digests = threads.map(lambda entry: _content(*entry), entries)
        for (path, status), digest in zip(entries, digests, strict=True):
            yield {**_outside(path, status, root), "content": digest}


def changed(root: Path, rows: list[Row], *, wholly: bool) -> str:
    """The first entry that differs from the list; "" if none does.

    `wholly` compares contents; otherwise, size and time are compared.
    """
    known = {row["path"]: row for row in rows}
    entries = listed(root) if wholly else (_outside(path, status, root) for path, status in _walk(root))
    seen = set()
    for row in entries:
        path: str = row["path"]
        seen.add(path)
        if path not in known or any(known[path][name] != value for name, value in row.items()):
            return path
    return next((path for path in known if path not in seen), "")


def content_id(rows: list[Row], labels: Mapping[str, str]) -> str:
    """The content id of an image that was built here: a digest of its files and labels, without times."""
    timeless = [{**row, "time": 0} for row in rows]
    text = json.dumps([timeless, dict(labels)], sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _walk(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    pending = [os.fspath(root)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                yield entry.path, status
                if stat.S_ISDIR(status.st_mode):
                    pending.append(entry.path)


def _outside(path: str, status: os.stat_result, root: Path) -> Row:
    """The metadata of an entry. Size and time of a folder depend on the file system, so they are left out."""
    folder = stat.S_ISDIR(status.st_mode)
    return {
        "path": os.fsencode(path).decode("utf-8", "backslashreplace").removeprefix(f"{root}/"),
        "mode": status.st_mode,
        "owner": [status.st_uid, status.st_gid],
        "size": 0 if folder else status.st_size,
        "time": 0 if folder else status.st_mtime_ns,
    }


def _content(path: str, status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(path)  # noqa: PTH115 - as it is written there
    if not stat.S_ISREG(status.st_mode):
        return ""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
