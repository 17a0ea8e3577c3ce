"""The GDAL image: finding it for the server, and pulling it onto the engine's host at set-up.

Invariants:
* `resolve` never pulls; `ensure`, which does, is called by a person's set-up and never by a call;
* a reference that a person named is used or is an error; no other image takes its place;
* an image whose GDAL is too old is refused; a server asks a container when the image does not tell its version.

`python -m gdal_mcp.host.image ensure` pulls what is missing, `show` says which image is in use. Both obey
GDAL_MCP_IMAGE. A stand-in, the image that `scripts/standin.py` builds from Debian's packages where the official one
cannot be pulled, is used like any other and is always named as one.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sandbox.engine import ImageInfo, Images
from sandbox.errors import ImageMissing, PullFailed, SandboxError

REPOSITORY = "ghcr.io/osgeo/gdal"
OFFICIAL = f"{REPOSITORY}:ubuntu-small-3.13.3"
OLDEST = (3, 11)  # the first with the `gdal` program, which every tool is built on
OLDEST_SAFE = (3, 13, 2)  # fixes the two ways to remote code execution of June 2026

STANDIN = "gdal-mcp-standin"  # the repository of the stand-ins, and the labels that they carry
STANDIN_LABEL = "io.gdal-mcp.standin"
VERSION_LABEL = "io.gdal-mcp.gdal-version"

# Ours first, as it says just that. The pattern keeps out Ubuntu's "24.04", which unreleased builds inherit.
_VERSION_LABELS = (
    VERSION_LABEL,
    "org.opencontainers.image.version",
    "org.opencontainers.image.revision",
)
_VERSION = re.compile(r"(?<![\d.])([3-9])\.(\d{1,2})(?:\.(\d{1,2}))?(?![\d])")


class ImageUnsuitable(ImageMissing):
    """The image is here but its GDAL is too old, or its version cannot be told."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image on the engine's host."""

    reference: str  # as a person writes it
    id: str  # content id, `sha256:...`; what containers are made from
    digest: str  # the registry's digest, `sha256:...`; the id for an image that came from no registry
    gdal_version: str  # "3.13.3"; "" when neither a label nor the tag tells, and a container must be asked
    standin: bool


def resolve(images: Images, reference: str | None = None) -> Image:
    """The image on the engine's host: the one named, else the official one, else the newest local stand-in.

    Raises ImageMissing when there is none, ImageUnsuitable when its GDAL cannot be used.
    """
    wanted = reference or _preferred(images.names(REPOSITORY, STANDIN))
    found = images.find(wanted) if wanted else None
    if found is None:
        raise ImageMissing(
            f"the image {reference or OFFICIAL} is not on this host. "
            "Run `make setup` or `gdal-mcp setup` to bring it."
        )
    return suitable(_image(found))


def ensure(images: Images, reference: str | None, report: Callable[[str], None]) -> Image:
    """As `resolve`, after pulling what is missing. `report` is given lines of progress."""
    try:
        return resolve(images, reference)
    except ImageUnsuitable:
        raise
    except ImageMissing:
        wanted = reference or OFFICIAL
        report(f"{wanted} is not here yet; pulling it")
    try:
        images.pull(wanted, report)
    except PullFailed as error:
        raise ImageMissing(
            f"{wanted} cannot be pulled: {error}. Check the name and the network, or load the image from a file. "
            "In a clone of the project `make setup` builds a stand-in when no image is named."
        ) from error
    return resolve(images, reference)


def version_warning(image: Image) -> str | None:
    """What to tell a person about the GDAL version, None when there is nothing."""
    if not image.gdal_version or _parts(image.gdal_version) >= OLDEST_SAFE:
        return None
    return (
        f"GDAL {image.gdal_version} in {image.reference} has published vulnerabilities that 3.13.2 fixed. "
        f"Use {OFFICIAL} or newer."
    )


def parse_version(labels: Mapping[str, str], reference: str) -> str | None:
    """The GDAL version from an image's labels, else from its tag. None when neither tells."""
    tag = reference.rpartition(":")[2] if ":" in reference.rpartition("/")[2] else ""
    for text in (*(labels.get(label, "") for label in _VERSION_LABELS), tag):
        if found := _VERSION.search(text):
            return found[0]
    return None


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _preferred(tags: Iterable[str]) -> str | None:
    """The official image, else the newest stand-in. Podman puts localhost/ in front of a name without a registry."""
    tags = list(tags)
    if OFFICIAL in tags:
        return OFFICIAL
    standins = [tag for tag in tags if tag.removeprefix("localhost/").startswith(f"{STANDIN}:")]
    versions = {tag: _parts(version) for tag in standins if (version := parse_version({}, tag))}
    return max(versions, key=versions.__getitem__, default=None)


def _image(found: ImageInfo) -> Image:
    version = parse_version(found.labels, found.reference) or ""
    return Image(found.reference, found.id, found.digest, version, found.labels.get(STANDIN_LABEL) == "true")


def suitable(image: Image) -> Image:
    """The image, if its GDAL is new enough or its version is still to be asked. Raises ImageUnsuitable."""
    if image.gdal_version and _parts(image.gdal_version) < OLDEST:
        raise ImageUnsuitable(
            f"{image.reference} has GDAL {image.gdal_version}, but the `gdal` program came with 3.11. "
            f"Use {OFFICIAL}."
        )
    return image


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _describe(image: Image) -> str:
    kind = "local stand-in, not the official image" if image.standin else "pulled or built elsewhere"
    return f"{image.reference}: GDAL {image.gdal_version or 'of unknown version'} ({kind})\n  id     {image.id}\n  digest {image.digest}"


def main(arguments: list[str]) -> int:
    if arguments not in (["ensure"], ["show"]):
        sys.stderr.write("usage: python -m gdal_mcp.host.image ensure|show\n")
        return 2
    from sandbox.engines.opening import open_engine  # noqa: PLC0415 - with the engine's client library, which takes its time

    reference = os.environ.get("GDAL_MCP_IMAGE") or None
    try:
        images = open_engine().images
        image = ensure(images, reference, _say) if arguments == ["ensure"] else resolve(images, reference)
    except SandboxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    _say(_describe(image))
    if warning := version_warning(image):
        sys.stderr.write(f"{warning}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
