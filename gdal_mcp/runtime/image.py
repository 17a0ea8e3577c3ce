"""A toolbox's image: finding it for the server, and pulling it onto the engine's host at set-up.

Invariants:
* `resolve` never pulls; `ensure`, which does, is called by a person's set-up and never by a call;
* a reference that a person named is used or is an error; no other image takes its place;
* an image that the toolbox cannot use is refused, as is one whose base image has changed since; a server asks a container when the image does not tell its version.

A stand-in, such as the image that `scripts/standin.py` builds from Debian's packages where the official one cannot be pulled,
is used like any other and is always named as one.
"""

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from gdal_mcp.runtime.nested import program
from gdal_mcp.toolboxes.toolbox import ImageSpec
from sandbox.engine import Images
from sandbox.errors import ImageMissing, PullFailed

STANDIN_LABEL = "io.gdal-mcp.standin"
BASE_LABEL = "io.gdal-mcp.base"  # the content id of what an image of a toolbox was built on


class ImageUnsuitable(ImageMissing):
    """The image is here, but the toolbox cannot use what is in it, or cannot tell."""


@dataclass(frozen=True, slots=True)
class Image:
    reference: str  # as a person writes it
    id: str  # content id, `sha256:...`; what containers are made from
    digest: str  # the registry's digest, `sha256:...`; the id for an image that came from no registry
    version: str  # of the library in it, such as "3.13.3"; "" when the image does not tell, and a container must be asked
    standin: bool
    base: str = ""  # the content id of the image that it was built on, where it tells


def resolve(images: Images, spec: ImageSpec, named: str | None = None) -> Image:
    """The image on the engine's host: the one a person named, else an official one, else the newest local stand-in.

    Where the toolbox builds on another image, `named` is that one. Raises ImageMissing when there is none, ImageUnsuitable
    when the toolbox cannot use it, or when it was built on another image than is in use now.
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
    official = dict.fromkeys(one.rpartition(":")[0] for one in spec.images.values())
    repositories = [one for one in (*official, spec.standin) if one]
    wanted = spec.images.get(named, named) if named else _preferred(images.names(*repositories), spec)
    found = images.find(wanted) if wanted else None
    if found is None:
        name = wanted or spec.reference
        option = f" --image {named}" if named else ""
        usual = f"`docker pull {name}` or `{shlex.join(program())} setup{option}`; in a clone, `make setup`"
        how = f"`{spec.setup}`" if spec.setup else usual
        raise ImageMissing(f"the image {name} is not on this host. Bring it with {how}.")
    standin = found.labels.get(STANDIN_LABEL) == "true"
    version = spec.version(found.labels, found.reference)
    base = found.labels.get(BASE_LABEL, "")
    return suitable(Image(found.reference, found.id, found.digest, version, standin, base), spec)


def ensure(images: Images, spec: ImageSpec, named: str | None, report: Callable[[str], None]) -> Image:
    """As `resolve`, after pulling what is missing. `report` is given lines of progress."""
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
    """The image, if its version can be used or is still to be asked. Raises ImageUnsuitable."""
    if image.version and (reason := spec.incompatible(image.reference, image.version)):
        raise ImageUnsuitable(reason)
    return image


def _preferred(tags: Iterable[str], spec: ImageSpec) -> str | None:
    """The first official image that is there, else the newest stand-in. Podman puts localhost/ in front of a name without a registry."""
    tags = list(tags)
    if official := next((one for one in spec.images.values() if one in tags), None):
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
