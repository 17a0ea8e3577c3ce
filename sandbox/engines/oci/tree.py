"""An unpacked image: made harmless, listed, and compared with its list."""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

_THREADS: Final = 2  # a digest leaves the interpreter free, and a disk has enough with two
_DEVICES: Final = (stat.S_ISBLK, stat.S_ISCHR, stat.S_ISSOCK, stat.S_ISFIFO)
_MARKS: Final = (".dockerenv", "run/.containerenv")  # what an engine leaves in an image that it gives away

Row = dict[str, Any]


def harden(root: Path) -> None:
    """Takes out what no job needs: devices, pipes, sockets and set-user-id bits.

    Files that only root may read are removed where all files belong to the user that jobs run as.
    """
    for mark in _MARKS:
        (root / mark).unlink(missing_ok=True)
    for path, status in [*_walk(root)]:
        mode = stat.S_IMODE(status.st_mode)
        if not os.path.lexists(path):
            continue  # went with its folder
        needed = stat.S_IXOTH if stat.S_ISDIR(status.st_mode) else stat.S_IROTH
        if os.geteuid() != 0 and not stat.S_ISLNK(status.st_mode) and not mode & needed:
            shutil.rmtree(path) if stat.S_ISDIR(status.st_mode) else Path(path).unlink()
        elif any(kind(status.st_mode) for kind in _DEVICES):
            Path(path).unlink()
        elif not stat.S_ISLNK(status.st_mode):
            kept = mode & ~(stat.S_ISUID | stat.S_ISGID)
            if kept != mode:
                Path(path).chmod(kept)


def listed(root: Path) -> Iterator[Row]:
    """Every entry with the digest of its content, in a fixed order."""
    entries = sorted(_walk(root))
    with ThreadPoolExecutor(_THREADS) as threads:
        digests = threads.map(lambda entry: _content(*entry), entries)
        for (path, status), digest in zip(entries, digests, strict=True):
            yield {**_outside(path, status, root), "content": digest}


def changed(root: Path, rows: list[Row], *, wholly: bool) -> str:
    """The first entry that is not as listed; empty when all are. `wholly` compares contents, else size and time."""
    known = {row["path"]: row for row in rows}
    found = listed(root) if wholly else (_outside(path, status, root) for path, status in _walk(root))
    seen = set()
    for row in found:
        path: str = row["path"]
        seen.add(path)
        if path not in known or any(known[path][name] != value for name, value in row.items()):
            return path
    return next((path for path in known if path not in seen), "")


def content_id(rows: list[Row], labels: Mapping[str, str]) -> str:
    """Of an image that was made here: what is in it, whenever that was written, and its labels."""
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
    """What `lstat` says of an entry. Size and time of a folder depend on the file system, so they are left out."""
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
