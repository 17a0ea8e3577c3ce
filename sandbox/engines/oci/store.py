"""The images of an engine without a daemon. Each is unpacked once, in a folder named after its content id.

A list of its files is stored with it. The list detects accidents, not attacks: an attacker who can write root's files
controls the host anyway.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from sandbox.engine import ImageInfo
from sandbox.engines.images import split
from sandbox.engines.oci.config import ROOTFS
from sandbox.engines.oci.tree import changed, content_id, harden, listed
from sandbox.errors import EngineUnavailable, ImageMissing

_ABOUT, _LIST = "image.json", "list.jsonl"
TMP_PREFIX: Final = "new-"  # prefix of folders that are being created
LAYOUT: Final = (
    "layout"  # beside the root: the image as downloaded from its registry, for other engines on this machine
)
# seconds after an image has lost its last name, in which a server may still create containers from it
UNUSED_SECONDS: Final = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class ImageMetadata:
    """The metadata of one image."""

    id: str  # content id, `sha256:...`
    digest: str  # digest in the registry, or the content id
    names: tuple[str, ...]
    labels: Mapping[str, str]
    source: str  # origin, as text for people
    list_digest: str  # SHA-256 of the list of its files
    named_until: float = 0.0  # time at which it lost its last name, in seconds since the epoch


Fetch = Callable[["ImageStore", str, Callable[[str], None]], None]


class ImageStore:
    """The `Images` below one folder, which is next to the folder `containers`."""

    def __init__(self, root: Path, fetch: Fetch) -> None:
        """`fetch` downloads an image into a store, as for `Images.pull`."""
        self.root, self.folder, self._fetch = root, root / "images", fetch
        # ids of images that this process has already compared with their lists
        self._looked_at: set[str] = set()

    def find(self, reference: str) -> ImageInfo | None:
        """Finds an image by reference. Raises ImageMissing if its files have changed since it was unpacked."""
        stored = self._stored(reference)
        if stored is None:
            return None
        if stored.id not in self._looked_at:
            self._compare(stored, wholly=False)
            self._looked_at.add(stored.id)
        return ImageInfo(reference, stored.id, stored.digest, stored.labels)

    def names(self, *repositories: str) -> tuple[str, ...]:
        names = (name for stored in self._all() for name in stored.names)
        return tuple(name for name in names if split(name)[0] in repositories)

    def check(self, image: str) -> None:
        if (stored := self._stored(image)) is not None:
            self._compare(stored, wholly=True)

    def rootfs(self, image: str) -> Path:
        """The folder of an image's root file system. Raises ImageMissing."""
        if image not in self._looked_at and self.find(image) is None:
            raise ImageMissing(f"image {image} is not in {self.folder}.")
        place = self._place(image) / ROOTFS
        if not place.is_dir():
            self._looked_at.discard(image)
            raise ImageMissing(f"image {image} is not in {self.folder} any more.")
        return place

    def layout(self, reference: str) -> tuple[str, Path] | None:
        """The content id of an image and its OCI layout; None if it did not come from a registry.

        Raises EngineUnavailable without a store.
        """
        stored = self._stored(reference)
        if stored is None:
            return None
        layout = self._place(stored.id) / LAYOUT
        return (stored.id, layout) if layout.is_dir() else None

    def pull(self, reference: str, report: Callable[[str], None]) -> None:
        self._fetch(self, reference, report)

    def add(self, unpack: Callable[[Path], Mapping[str, Any]]) -> ImageInfo:
        """Adds or replaces an image. `unpack` fills a folder and returns fields of `ImageMetadata`.

        Without an id, the id is computed from the content. The image appears only when it is complete, and takes its
        names from other images. Raises the errors of `unpack`, and EngineUnavailable.
        """
        try:
            with self._locked(), tempfile.TemporaryDirectory(prefix=TMP_PREFIX, dir=self.folder) as temporary:
                fresh = Path(temporary) / "image"
                (fresh / ROOTFS).mkdir(parents=True)
                about = dict(unpack(fresh / ROOTFS))
                (fresh / ROOTFS).chmod(0o755)
                harden(fresh / ROOTFS)
                rows = list(listed(fresh / ROOTFS))
                text = b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)
                list_digest = hashlib.sha256(text).hexdigest()
                about.setdefault("id", content_id(rows, about["labels"]))
                about.setdefault("digest", about["id"])
                stored = ImageMetadata(
                    **{**about, "names": tuple(about["names"]), "list_digest": list_digest}
                )
                (fresh / _LIST).write_bytes(text)
                self._describe(fresh, stored)
                os.sync()  # after a crash, a name that exists then always means a complete image
                self._replace(fresh, stored)
                self._collect()
        except OSError as error:
            raise EngineUnavailable(f"an image could not be stored in {self.folder}: {error}") from error
        return ImageInfo(stored.names[0], stored.id, stored.digest, stored.labels)

    def _replace(self, fresh: Path, stored: ImageMetadata) -> None:
        place = self._place(stored.id)
        # a damaged image, or the same one; it is moved away, because running containers have its files open
        if place.exists():
            place.rename(fresh.with_name("old"))
        fresh.rename(place)
        self._looked_at.discard(stored.id)
        for other in self._all():
            if other.id != stored.id and set(other.names) & set(stored.names):
                names = tuple(name for name in other.names if name not in stored.names)
                self._describe(self._place(other.id), replace(other, names=names, named_until=time.time()))

    def _collect(self) -> None:
        """Removes incomplete images, and images that lost their last name long ago and have no containers."""
        used = b""
        for config in (self.root / "containers").glob("*/config.json"):
            with contextlib.suppress(FileNotFoundError):  # the container ended meanwhile
                used += config.read_bytes()
        for stored in self._all():
            is_old = not stored.names and time.time() - stored.named_until > UNUSED_SECONDS
            if is_old and stored.id.encode() not in used:
                shutil.rmtree(self._place(stored.id), ignore_errors=True)
        for left in self.folder.glob(f"{TMP_PREFIX}*/image"):
            if time.time() - left.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(left.parent, ignore_errors=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.root / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _place(self, image: str) -> Path:
        return self.folder / image.replace(":", "-")

    def _stored(self, reference: str) -> ImageMetadata | None:
        plain = "@" not in reference and not reference.startswith("sha256:")
        # names are stored with a tag; the default is latest
        wanted = ":".join(split(reference)) if plain else reference
        return next((stored for stored in self._all() if wanted == stored.id or wanted in stored.names), None)

    def _all(self) -> list[ImageMetadata]:
        try:
            places = sorted(self.folder.iterdir())
        except OSError as error:
            raise EngineUnavailable(f"there is no {self.folder}. Run `gdal-mcp setup`.") from error
        images = []
        for place in places:
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):  # incomplete or damaged
                about = json.loads((place / _ABOUT).read_bytes())
                images.append(ImageMetadata(**{**about, "names": tuple(about["names"])}))
        return images

    @staticmethod
    def _describe(place: Path, stored: ImageMetadata) -> None:
        fresh = place / f"{_ABOUT}.new"
        fresh.write_text(json.dumps(asdict(stored), indent=1), encoding="utf-8")
        fresh.replace(place / _ABOUT)

    def _compare(self, stored: ImageMetadata, *, wholly: bool) -> None:
        place = self._place(stored.id)
        try:
            text = (place / _LIST).read_bytes()
            if hashlib.sha256(text).hexdigest() != stored.list_digest:
                different = _LIST
            else:
                rows = [json.loads(line) for line in text.splitlines()]
                different = changed(place / ROOTFS, rows, wholly=wholly)
        except (OSError, ValueError) as error:
            different = str(error)
        if different:
            self._looked_at.discard(stored.id)
            raise ImageMissing(
                f"the files of image {stored.id} in {place} are not those that were unpacked: {different}. "
                "Run `gdal-mcp setup` to fetch it anew."
            )
