"""A toolbox's image: finding it for the server, and pulling it to the engine's host at set-up.

Invariants:
* `resolve` never pulls; `ensure`, which does, is called by a person's set-up and never by a call;
* a reference that a person named is used or is an error; no other image takes its place;
* an image that the toolbox cannot use is refused, as is one whose base image has changed since; a server asks a
  container if the image's labels do not have the version.

A stand-in, such as the image that `scripts/standin.py` builds from Debian's packages if the official one cannot be
pulled, is used like any other and is always reported as one.
"""

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from gdal_mcp.runtime.nested import program
from gdal_mcp.toolboxes.toolbox import ImageSpec
from sandbox.engine import Images
from sandbox.errors import ImageMissing, PullFailed

STANDIN_LABEL = "io.gdal-mcp.standin"
BASE_LABEL = "io.gdal-mcp.base"  # label with the id of the image that a toolbox's image was built on


class ImageUnsuitable(ImageMissing):
    """The image exists, but the toolbox cannot use its library, or its version is unknown."""


@dataclass(frozen=True, slots=True)
class Image:
    reference: str  # the reference as a person writes it
    id: str  # image id, `sha256:...`; containers are created from it
    digest: str  # the registry's digest, `sha256:...`; the image id for an image that was not pulled
    # version of the library, such as "3.13.3"; "" if the labels do not have it and a container must be asked
    version: str
    standin: bool
    base: str = ""  # id of the image that it was built on, if known


def resolve(images: Images, spec: ImageSpec, named: str | None = None) -> Image:
    """The image on the engine's host: the named one, else an official one, else the newest local stand-in.

    If the toolbox builds on another image, `named` is that one. Raises ImageMissing if there is none; ImageUnsuitable
    if the toolbox cannot use it, or if it was built on another image than the current one.
    """
    if spec.base is not None:
        under = resolve(images, spec.base, named)
        image = resolve(images, replace(spec, base=None))
        if image.base != under.id:
            raise ImageUnsuitable(
                f"{image.reference} was built on another image than {under.reference}, which is in use. "
                f"Build it anew with `{spec.setup}`."
            )
        return image
    official = dict.fromkeys(reference.rpartition(":")[0] for reference in spec.images.values())
    repositories = [repository for repository in (*official, spec.standin) if repository]
    wanted = spec.images.get(named, named) if named else _preferred(images.names(*repositories), spec)
    details = images.find(wanted) if wanted else None
    if details is None:
        name = wanted or spec.reference
        option = f" --image {named}" if named else ""
        usual = f"`docker pull {name}` or `{shlex.join(program())} setup{option}`; in a clone, `make setup`"
        how = f"`{spec.setup}`" if spec.setup else usual
        raise ImageMissing(f"the image {name} is not on this host. Get it with {how}.")
    standin = details.labels.get(STANDIN_LABEL) == "true"
    version = spec.version(details.labels, details.reference)
    base = details.labels.get(BASE_LABEL, "")
    return suitable(Image(details.reference, details.id, details.digest, version, standin, base), spec)


def ensure(images: Images, spec: ImageSpec, named: str | None, report: Callable[[str], None]) -> Image:
    """Like `resolve`, after pulling a missing image. `report` gets lines of progress."""
    try:
        return resolve(images, spec, named)
    except ImageUnsuitable:
        raise
    except ImageMissing:
        wanted = spec.images.get(named, named) if named else spec.reference
        report(f"pulling {wanted}, which is not here yet")
    try:
        images.pull(wanted, report)
    except PullFailed as error:
        raise ImageMissing(
            f"{wanted} cannot be pulled: {error}. Check the name and the network, or load the image from a file. "
            "In a clone of the project `make setup` builds a stand-in when no image is named."
        ) from error
    return resolve(images, spec, named)


def suitable(image: Image, spec: ImageSpec) -> Image:
    """The image, if its version can be used or is still unknown. Raises ImageUnsuitable."""
    if image.version and (reason := spec.incompatible(image.reference, image.version)):
        raise ImageUnsuitable(reason)
    return image


def _preferred(tags: Iterable[str], spec: ImageSpec) -> str | None:
    """The first official image that exists, else the newest stand-in. Podman puts localhost/ in front of a name
    without a registry.
    """
    tags = list(tags)
    if official := next((reference for reference in spec.images.values() if reference in tags), None):
        return official
    standins = [
        tag for tag in tags if spec.standin and tag.removeprefix("localhost/").startswith(f"{spec.standin}:")
    ]
    versions = {tag: version for tag in standins if (version := spec.version({}, tag))}
    return max(
        versions,
        key=lambda tag: [int(part) for part in versions[tag].split(".") if part.isdigit()],
        default=None,
    )
