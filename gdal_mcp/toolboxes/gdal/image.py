"""GDAL's image: which one, how its version is told, and which versions can be used.

`python -m gdal_mcp.toolboxes.gdal.image` pulls what is missing and says which image is in use. It obeys GDAL_MCP_IMAGE and GDAL_MCP_ENGINE.
"""

import os
import re
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from gdal_mcp.toolboxes.base import ImageSpec
from sandbox.errors import SandboxError

if TYPE_CHECKING:
    from gdal_mcp.runtime.image import Image

_REPOSITORY: Final = "ghcr.io/osgeo/gdal"
# by the word for each in `gdal-mcp setup --image`; docs/deployment.md compares them
OFFICIAL: Final = {
    "full": f"{_REPOSITORY}:ubuntu-full-3.13.3",
    "small": f"{_REPOSITORY}:ubuntu-small-3.13.3",
}
OLDEST: Final = (3, 11)  # the first with the `gdal` program, which every tool is built on
OLDEST_SAFE: Final = (3, 13, 2)  # fixes the two ways to remote code execution of June 2026
STANDIN: Final = "gdal-mcp-standin"  # the repository of the stand-ins, and the label that tells their version
VERSION_LABEL: Final = "io.gdal-mcp.gdal-version"

# Ours first, as it says just that. The pattern keeps out Ubuntu's "24.04", which unreleased builds inherit.
_VERSION_LABELS: Final = (
    VERSION_LABEL,
    "org.opencontainers.image.version",
    "org.opencontainers.image.revision",
)
_VERSION: Final = re.compile(r"(?<![\d.])([3-9])\.(\d{1,2})(?:\.(\d{1,2}))?(?![\d])")


def parse_version(labels: Mapping[str, str], reference: str) -> str:
    """The GDAL version from an image's labels, else from its tag; "" when neither tells."""
    tag = reference.rpartition(":")[2] if ":" in reference.rpartition("/")[2] else ""
    for text in (*(labels.get(label, "") for label in _VERSION_LABELS), tag):
        if found := _VERSION.search(text):
            return found[0]
    return ""


def too_old(reference: str, version: str) -> str:
    """Why an image with that GDAL cannot be used; "" where it can."""
    if _parts(version) >= OLDEST:
        return ""
    return f"{reference} has GDAL {version}, but the `gdal` program came with 3.11. Use {OFFICIAL['full']}."


GDAL_IMAGE: Final = ImageSpec(OFFICIAL, STANDIN, parse_version, too_old)


def version_warning(image: "Image") -> str | None:
    """What to tell a person about the GDAL version, None when there is nothing."""
    if not image.version or _parts(image.version) >= OLDEST_SAFE:
        return None
    return (
        f"GDAL {image.version} in {image.reference} has published vulnerabilities that 3.13.2 fixed. "
        f"Use {OFFICIAL['full']} or newer."
    )


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def progress(line: str) -> None:
    """Prints one line of a set-up, with the minutes and seconds since `make` began where it says so."""
    passed = int(time.time() - float(os.environ.get("SETUP_STARTED") or time.time()))
    sys.stdout.write(f"[{passed // 60}:{passed % 60:02d}] {line}\n")
    sys.stdout.flush()


def main() -> int:
    # what a server does not need before its first call
    from gdal_mcp.runtime.image import ensure  # noqa: PLC0415
    from sandbox.engines.opening import open_engine  # noqa: PLC0415

    try:
        images = open_engine(os.environ.get("GDAL_MCP_ENGINE")).images
        image = ensure(images, GDAL_IMAGE, os.environ.get("GDAL_MCP_IMAGE") or None, progress)
    except SandboxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    kind = "local stand-in, not the official image" if image.standin else "pulled or built elsewhere"
    progress(f"GDAL {image.version or 'of unknown version'}: {image.reference} ({kind}), {image.id}")
    if warning := version_warning(image):
        sys.stderr.write(f"{warning}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
