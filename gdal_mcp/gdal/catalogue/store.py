"""Catalogues of other GDALs than the packaged one, one file for each image, in the state folder.

    catalogue/<digest>.json    what `capture` wrote of the image with that digest
    catalogue/images.json      which digest is meant by which image setting

Invariants:
* nothing is read or written through a link, nor in a folder or file that another user owns or may write;
* a file takes its name only when it is whole and on disk;
* what is read is bounded, and is data that our own capture wrote, for another release than the packaged one.

When two processes store at the same time, the last one's choice for an image holds. Every failure is CatalogueBroken.
"""

import contextlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gdal_mcp.gdal.catalogue.errors import CatalogueBroken
from gdal_mcp.gdal.catalogue.load import GENERATOR, packaged_text

FOLDER: Final = "catalogue"
INDEX: Final = "images.json"
MAX_BYTES: Final = 8 << 20  # ten times what GDAL 3.13 needs

_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")
_VERSION: Final = re.compile(r"(\d{1,3})\.(\d{1,3})(\.\d{1,3})?[A-Za-z0-9.-]{0,32}")
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_REBUILD: Final = "Look into it, take it away, and run `gdal-mcp catalogue build`."
_PARTS: Final = ("algorithms", "steps", "drivers", "warp", "transform", "skipped")


def select(state_dir: Path, image: str | None) -> str:
    """The data for a server with this image setting: what was stored for it, else the packaged data.

    No engine is asked: whether the image is still the same is found when it is used (`drift.unfit`).
    """
    with _folder(state_dir, make=False) as folder:
        digest = _index(folder).get(image or "") if folder is not None else None
        if folder is None or digest is None:
            return packaged_text()
        text = _read(folder, _name(digest))
    if text is None:
        raise CatalogueBroken(
            f"the catalogue of {image or 'the image'} is gone. Run `gdal-mcp catalogue build`."
        )
    release_of(text)
    return text


def holds(state_dir: Path, image: str | None, digest: str) -> bool:
    """Whether there is stored data for this image setting, of this very image."""
    with _folder(state_dir, make=False) as folder:
        return folder is not None and _index(folder).get(image or "") == digest


def save(state_dir: Path, image: str | None, digest: str, text: str) -> Path:
    """Stores data for the image of this setting and digest, and returns where."""
    release_of(text)
    if len(text.encode()) > MAX_BYTES:
        raise CatalogueBroken(f"the catalogue has more than {MAX_BYTES >> 20} MiB. Use another image.")
    with _folder(state_dir, make=True) as folder:
        assert folder is not None  # it was made
        _write(folder, _name(digest), text)
        _write(folder, INDEX, _rendered({**_index(folder), image or "": digest}))
    return state_dir / FOLDER / _name(digest)


def forget(state_dir: Path, image: str | None) -> None:
    """The packaged data is right for this image setting again."""
    with _folder(state_dir, make=False) as folder:
        if folder is not None and (image or "") in (index := _index(folder)):
            del index[image or ""]
            _write(folder, INDEX, _rendered(index))


def release_of(text: str) -> tuple[int, int]:
    """GDAL's major and minor version in data. Raises CatalogueBroken for what our capture did not write."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CatalogueBroken(f"a catalogue is damaged: {error}. {_REBUILD}") from error
    lists = isinstance(document, dict) and all(isinstance(document.get(part), list) for part in _PARTS)
    version = _VERSION.fullmatch(str(document.get("gdal", ""))) if lists else None
    if version is None or document.get("generator") != GENERATOR:
        raise CatalogueBroken(f"a catalogue was not made by this version's `{GENERATOR}`. {_REBUILD}")
    return int(version[1]), int(version[2])


def _name(digest: str) -> str:
    found = _DIGEST.fullmatch(digest)
    if found is None:
        raise CatalogueBroken(f"{digest[:80]!r} is no digest of an image. {_REBUILD}")
    return f"{found[1]}.json"


def _index(folder: int) -> dict[str, str]:
    text = _read(folder, INDEX)
    try:
        index = json.loads(text) if text is not None else {}
    except (ValueError, RecursionError) as error:
        raise CatalogueBroken(f"{FOLDER}/{INDEX} is damaged: {error}. {_REBUILD}") from error
    if not isinstance(index, dict) or not all(isinstance(digest, str) for digest in index.values()):
        raise CatalogueBroken(f"{FOLDER}/{INDEX} is damaged. {_REBUILD}")
    return index


def _rendered(index: Mapping[str, Any]) -> str:
    return json.dumps(index, indent=1, sort_keys=True) + "\n"


@contextlib.contextmanager
def _folder(state_dir: Path, *, make: bool) -> Iterator[int | None]:
    """The folder of the catalogues; None when it is not there and not to be made."""
    place = state_dir / FOLDER
    try:
        if make:
            state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                place.mkdir(mode=0o700)
        handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise CatalogueBroken(f"{place} cannot be used: {error.strerror}. {_REBUILD}") from error
    try:
        _require_own(os.fstat(handle), str(place))
        yield handle
    finally:
        os.close(handle)


def _require_own(status: os.stat_result, what: str) -> None:
    if status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
        raise CatalogueBroken(
            f"{what} belongs to user {status.st_uid} or is writable by others, so what it says cannot be relied on. {_REBUILD}"
        )


def _read(folder: int, name: str) -> str | None:
    """A whole file of ours; None when it is not there."""
    try:
        data = _content(folder, name)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CatalogueBroken(f"{FOLDER}/{name} cannot be read: {error.strerror}. {_REBUILD}") from error
    if not data or len(data) > MAX_BYTES:
        raise CatalogueBroken(f"{FOLDER}/{name} is empty, too large or no file. {_REBUILD}")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CatalogueBroken(f"{FOLDER}/{name} is damaged: {error}. {_REBUILD}") from error


def _content(folder: int, name: str) -> bytes:
    """At most one byte more than is allowed; nothing of what is no regular file."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(name, flags, dir_fd=folder)
    try:
        status = os.fstat(handle)
        _require_own(status, f"{FOLDER}/{name}")
        if not stat.S_ISREG(status.st_mode):
            return b""
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(MAX_BYTES + 1)
    finally:
        os.close(handle)


def _write(folder: int, name: str, text: str) -> None:
    partial = f".{name}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(partial, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        os.rename(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(partial, dir_fd=folder)
        raise CatalogueBroken(
            f"{FOLDER}/{name} cannot be written: {error.strerror}. Make room, or correct the state folder's permissions."
        ) from error
