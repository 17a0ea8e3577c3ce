"""What images other than the stand-in of the packaged release say of their GDAL: one private file for each image setting.

    catalogue/<SHA-256 of the setting>    a line with the image's digest, then the data as `capture` wrote it

What is read back is a regular file of this user that nobody else may write, bounded, and data that our own capture wrote. Every failure is
CatalogueBroken.
"""

import hashlib
import json
import os
import re
import stat
from pathlib import Path
from typing import Final

from gdal_mcp.gdal.catalogue.errors import CatalogueBroken
from gdal_mcp.gdal.catalogue.load import GENERATOR, packaged_text
from gdal_mcp.state import put_private

FOLDER: Final = "catalogue"
MAX_BYTES: Final = 8 << 20  # ten times what GDAL 3.13 needs

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_VERSION: Final = re.compile(r"\d{1,3}\.\d{1,3}(\.\d{1,3})?[A-Za-z0-9.-]{0,32}")
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_PARTS: Final = ("algorithms", "steps", "drivers", "warp", "transform", "skipped")


def select(state_dir: Path, image: str | None) -> str:
    """The data for a server with this image setting: what was stored for it, else the packaged data.

    No engine is asked: whether the image is still the same is found when it is used (`drift.unfit`).
    """
    stored = _read(_place(state_dir, image))
    return packaged_text() if stored is None else stored[1]


def holds(state_dir: Path, image: str | None, digest: str) -> bool:
    """Whether there is stored data for this image setting, of this very image."""
    stored = _read(_place(state_dir, image))
    return stored is not None and stored[0] == digest


def save(state_dir: Path, image: str | None, digest: str, text: str) -> Path:
    """Stores data for the image of this setting and digest, and returns where."""
    data = f"{digest}\n{text}".encode()
    place = _place(state_dir, image)
    _checked(data, place)
    try:
        put_private(place, data)
    except OSError as error:
        raise CatalogueBroken(
            f"{place} cannot be written: {error.strerror}. Make room, or correct the state folder's permissions."
        ) from error
    return place


def forget(state_dir: Path, image: str | None) -> None:
    """Removes what was stored for this image setting, so that the packaged data is used again."""
    _place(state_dir, image).unlink(missing_ok=True)


def _place(state_dir: Path, image: str | None) -> Path:
    return state_dir / FOLDER / hashlib.sha256((image or "").encode()).hexdigest()


def _read(place: Path) -> tuple[str, str] | None:
    """Digest and data; None where there is no file."""
    try:
        status = place.lstat()
        if (
            status.st_uid != os.geteuid()
            or status.st_mode & _OTHERS_WRITE
            or not stat.S_ISREG(status.st_mode)
        ):
            raise _unusable(place, "it is no file of this user's alone")
        with place.open("rb") as file:
            return _checked(file.read(MAX_BYTES + 1), place)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(place, error.strerror or "it cannot be opened") from error


def _checked(data: bytes, place: Path) -> tuple[str, str]:
    """Digest and data. Raises CatalogueBroken for what our capture did not write."""
    if len(data) > MAX_BYTES:
        raise _unusable(place, f"it has more than {MAX_BYTES >> 20} MiB")
    try:
        digest, _, text = data.decode().partition("\n")
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unusable(place, f"it is damaged: {error}") from error
    ours = (
        _DIGEST.fullmatch(digest)
        and isinstance(document, dict)
        and document.get("generator") == GENERATOR
        and _VERSION.fullmatch(str(document.get("gdal")))
        and all(isinstance(document.get(part), list) for part in _PARTS)
    )
    if not ours:
        raise _unusable(place, f"it was not made by this version's `{GENERATOR}`")
    return digest, text


def _unusable(place: Path, why: str) -> CatalogueBroken:
    return CatalogueBroken(
        f"the catalogue {place} cannot be used: {why}. Remove it and run `gdal-mcp catalogue build`."
    )
