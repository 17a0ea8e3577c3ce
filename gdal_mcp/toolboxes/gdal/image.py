"""GDAL's images: their references, how their version is determined, and which versions can be used. Pure."""

import re
from collections.abc import Mapping
from typing import Final

from gdal_mcp.toolboxes.toolbox import ImageSpec

_REPOSITORY: Final = "ghcr.io/osgeo/gdal"
# images by the value of `gdal-mcp setup --image`; docs/deployment.md compares them
OFFICIAL: Final = {
    "full": f"{_REPOSITORY}:ubuntu-full-3.13.3",
    "small": f"{_REPOSITORY}:ubuntu-small-3.13.3",
}
OLDEST: Final = (3, 11)  # the first release with the `gdal` program, which all tools use
OLDEST_SAFE: Final = (3, 13, 2)  # fixes the two remote code execution vulnerabilities of June 2026
# repository of the stand-in images, whose GDAL version is in the next label
STANDIN: Final = "gdal-mcp-standin"
VERSION_LABEL: Final = "io.gdal-mcp.gdal-version"

# Our label is first because it contains only the version. The pattern excludes Ubuntu's "24.04", which unreleased
# builds inherit.
_VERSION_LABELS: Final = (
    VERSION_LABEL,
    "org.opencontainers.image.version",
    "org.opencontainers.image.revision",
)
_VERSION: Final = re.compile(r"(?<![\d.])([3-9])\.(\d{1,2})(?:\.(\d{1,2}))?(?![\d])")


def parse_version(labels: Mapping[str, str], reference: str) -> str:
    """The GDAL version from an image's labels, else from its tag; "" if neither contains it."""
    tag = reference.rpartition(":")[2] if ":" in reference.rpartition("/")[2] else ""
    for text in (*(labels.get(label, "") for label in _VERSION_LABELS), tag):
        if match := _VERSION.search(text):
            return match[0]
    return ""


def too_old(reference: str, version: str) -> str:
    """The reason why an image with this GDAL version cannot be used; "" if it can."""
    if _parts(version) >= OLDEST:
        return ""
    return f"{reference} has GDAL {version}, but the `gdal` program came with 3.11. Use {OFFICIAL['full']}."


GDAL_IMAGE: Final = ImageSpec(OFFICIAL, STANDIN, parse_version, too_old)


def version_warning(reference: str, version: str) -> str | None:
    """A warning about the GDAL version of an image; None if there is none."""
    if not version or _parts(version) >= OLDEST_SAFE:
        return None
    return (
        f"GDAL {version} in {reference} has published vulnerabilities that 3.13.2 fixed. "
        f"Use {OFFICIAL['full']} or newer."
    )


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
