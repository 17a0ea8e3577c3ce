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
from typing import Any

import docker
import docker.errors
import requests.exceptions

from gdal_mcp.host import pulling as registry_pull
from sandbox.engines import discovery
from sandbox.errors import EngineUnavailable, ImageMissing, SandboxError

OFFICIAL = "ghcr.io/osgeo/gdal:ubuntu-small-3.13.3"
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
    environment: tuple[str, ...]  # names the image itself sets


def resolve(client: docker.DockerClient, reference: str | None = None) -> Image:
    """The image on this host: the one named, else the official one, else the newest local stand-in.

    Raises ImageMissing when there is none, ImageUnsuitable when its GDAL cannot be used.
    """
    try:
        found = reference or _preferred(client.api.images(filters={"reference": [OFFICIAL, STANDIN]}))
        inspected = client.api.inspect_image(found) if found else None  # type: ignore[no-untyped-call]
    except docker.errors.ImageNotFound:
        inspected = None
    except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
        raise EngineUnavailable(f"the engine did not say which images it has: {error}") from error
    if not found or inspected is None:
        raise ImageMissing(
            f"the image {reference or OFFICIAL} is not on this host. "
            "Run `make setup` or `gdal-mcp setup` to bring it."
        )
    return suitable(_image(found, inspected))


def ensure(client: docker.DockerClient, reference: str | None, report: Callable[[str], None]) -> Image:
    """As `resolve`, after pulling what is missing. `report` is given lines of progress."""
    try:
        return resolve(client, reference)
    except ImageUnsuitable:
        raise
    except ImageMissing:
        wanted = reference or OFFICIAL
        report(f"{wanted} is not here yet; pulling it")
    try:
        registry_pull.pull(client, wanted, report)
    except registry_pull.PullFailed as error:
        raise ImageMissing(
            f"{wanted} cannot be pulled: {error}. Check the name and the network, or load the image from a file. "
            "In a clone of the project `make setup` builds a stand-in when no image is named."
        ) from error
    return resolve(client, reference)


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


def _preferred(listed: Iterable[Mapping[str, Any]]) -> str | None:
    tags = [tag for image in listed for tag in image.get("RepoTags") or ()]
    if OFFICIAL in tags:
        return OFFICIAL
    ours = {tag: parse_version({}, tag) for tag in tags if _is_standin_name(tag)}
    newest = max((_parts(version) for version in ours.values() if version), default=None)
    return next((tag for tag, version in ours.items() if version and _parts(version) == newest), None)


def _is_standin_name(tag: str) -> bool:
    return tag.removeprefix("localhost/").startswith(f"{STANDIN}:")  # Podman puts localhost/ first


def _image(reference: str, inspected: Mapping[str, Any]) -> Image:
    config = inspected.get("Config") or {}
    labels = config.get("Labels") or {}
    version = parse_version(labels, reference) or ""
    names = tuple(sorted(entry.partition("=")[0] for entry in config.get("Env") or ()))
    content = _sha256(inspected["Id"])
    digest = _digest(reference, inspected.get("RepoDigests") or ()) or content
    return Image(reference, content, digest, version, labels.get(STANDIN_LABEL) == "true", names)


def _sha256(content: str) -> str:
    return content if content.startswith("sha256:") else f"sha256:{content}"  # Podman leaves it out


def _digest(reference: str, digests: Iterable[str]) -> str | None:
    """The digest under which the repository of `reference` knows the image."""
    repository = registry_pull.split(reference)[0]
    known = dict(one.split("@", 1) for one in digests)
    return known.get(repository)


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
    reference = os.environ.get("GDAL_MCP_IMAGE") or None
    try:
        client = discovery.connect()
        image = ensure(client, reference, _say) if arguments == ["ensure"] else resolve(client, reference)
    except SandboxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    _say(_describe(image))
    if warning := version_warning(image):
        sys.stderr.write(f"{warning}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
