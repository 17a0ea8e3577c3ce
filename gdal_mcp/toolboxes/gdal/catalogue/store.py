"""Stores the captured catalogues of images, in one private file for each image setting.

    catalogue/<SHA-256 of the setting>    a line with the image's digest, then the data in the format of `capture`

The stand-in image of the packaged release needs no file. The data is validated when it is loaded
(`load.catalogue_of`), like the packaged data.
"""

import hashlib
from pathlib import Path
from typing import Final

from gdal_mcp.settings.state import put_private
from gdal_mcp.toolboxes.gdal.catalogue.errors import CatalogueBroken
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged_text

FOLDER: Final = "catalogue"


def select(state_dir: Path, image: str | None) -> str:
    """The catalogue data for an image setting: the stored data, else the packaged data. Raises CatalogueBroken.

    The engine is not queried: a changed image is detected when it is used (`Catalogue.incompatible`).
    """
    stored = _read(_place(state_dir, image))
    return packaged_text() if stored is None else stored[1]


def holds(state_dir: Path, image: str | None, digest: str) -> bool:
    """True if the data stored for this setting is that of the image with this digest. Raises CatalogueBroken."""
    stored = _read(_place(state_dir, image))
    return stored is not None and stored[0] == digest


def image_of(state_dir: Path, image: str | None) -> str:
    """The digest of the image whose data is stored for this setting; "" if there is none. Raises CatalogueBroken."""
    stored = _read(_place(state_dir, image))
    return stored[0] if stored is not None else ""


def save(state_dir: Path, image: str | None, digest: str, text: str) -> Path:
    """Stores the data of the image with this setting and digest, and returns the path. Raises CatalogueBroken."""
    place = _place(state_dir, image)
    try:
        put_private(place, f"{digest}\n{text}".encode())
    except OSError as error:
        raise CatalogueBroken(
            f"{place} cannot be written: {error.strerror}. Make room, or correct the state folder's permissions."
        ) from error
    return place


def forget(state_dir: Path, image: str | None) -> None:
    """Removes the data stored for this image setting, so that the packaged data is used again."""
    _place(state_dir, image).unlink(missing_ok=True)


def _place(state_dir: Path, image: str | None) -> Path:
    return state_dir / FOLDER / hashlib.sha256((image or "").encode()).hexdigest()


def _read(place: Path) -> tuple[str, str] | None:
    """The stored digest and data; None if there is no file. Raises CatalogueBroken."""
    try:
        digest, _, text = place.read_text(encoding="utf-8").partition("\n")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError) as error:
        raise CatalogueBroken(
            f"the catalogue {place} cannot be read: {error}. Remove it and run `gdal-mcp setup`."
        ) from error
    return digest, text
