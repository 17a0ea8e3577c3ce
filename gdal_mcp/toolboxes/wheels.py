"""The contents of toolbox images: the GDAL image with pinned wheels. `runtime/wheels.py` builds them."""

import hashlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import as_file, files
from pathlib import Path

from gdal_mcp.toolboxes.gdal.image import GDAL_IMAGE
from gdal_mcp.toolboxes.toolbox import ImageSpec

_LOCK, _DOCKERFILE = "requirements.txt", "Dockerfile"


@dataclass(frozen=True)
class WheelImage:
    """The image of one toolbox, from the lock and the Dockerfile in the folder `data` of its package."""

    toolbox: str

    def _text(self, name: str) -> str:
        return files(f"gdal_mcp.toolboxes.{self.toolbox}").joinpath("data", name).read_text(encoding="utf-8")

    @property
    def dockerfile(self) -> str:
        return self._text(_DOCKERFILE)

    def lock(self) -> AbstractContextManager[Path]:
        """The path of the lock file."""
        return as_file(files(f"gdal_mcp.toolboxes.{self.toolbox}").joinpath("data", _LOCK))

    @cached_property
    def locked(self) -> Mapping[str, str]:
        """The version of each package in the image."""
        pins = (line.partition(" ")[0] for line in self._text(_LOCK).splitlines() if line[:1].isalpha())
        return {name: version for name, _, version in (pin.partition("==") for pin in pins)}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that the image is built from, except GDAL's image. Its first digits are the image's
        tag.
        """
        return hashlib.sha256("\0".join(map(self._text, (_LOCK, _DOCKERFILE))).encode()).hexdigest()

    @property
    def label(self) -> str:
        """The image's label with the version of its interpreter."""
        return f"io.gdal-mcp.{self.toolbox}"

    @cached_property
    def spec(self) -> ImageSpec:
        return ImageSpec(
            images={self.toolbox: f"gdal-mcp-{self.toolbox}:{self.digest[:12]}"},
            version=lambda labels, _reference: labels.get(self.label, ""),
            setup=f"gdal-mcp setup --toolbox {self.toolbox}",
            base=GDAL_IMAGE,
        )
