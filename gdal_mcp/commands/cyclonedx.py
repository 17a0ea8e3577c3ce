"""What is installed, as a CycloneDX document. Pure but for the metadata of installed packages.

Invariants:
* the same packages and the same image give the same bytes: no time and no serial number is in the document;
* of the installed packages those are listed that the server needs here, by their own metadata, and no others.

Needs the extra `sbom` of this package. https://cyclonedx.org/docs/1.6/json/
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any, Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGE: Final = "gdal-sandbox-mcp"
_SCHEMA: Final = SchemaVersion.V1_6


@dataclass(frozen=True, slots=True)
class SystemPackage:
    """A package of the image's operating system."""

    name: str
    version: str
    architecture: str


@dataclass(frozen=True, slots=True)
class ImageParts:
    """The GDAL image: how a person names it, its digests, its GDAL, and what its system says is installed."""

    reference: str
    id: str
    digest: str
    gdal_version: str
    system: str  # "debian", "ubuntu", "alpine": the word of its os-release
    packages: tuple[SystemPackage, ...]


def document(image: ImageParts | None, package: str = PACKAGE) -> str:
    """The document as JSON text. Raises PackageNotFoundError when `package` is not installed."""
    bom = Bom()
    needed = _needed(package)
    components = {name: _library(found) for name, (found, _) in needed.items()}
    root = components.pop(canonicalize_name(package))
    root.type = ComponentType.APPLICATION
    bom.metadata.component = root
    bom.components.update(components.values())
    for name, (_, below) in needed.items():
        own = root if name == canonicalize_name(package) else components[name]
        bom.register_dependency(own, [components[one] for one in below if one in components])
    if image is not None:
        _add_image(bom, root, image)
    return _text(bom)


def _needed(package: str) -> dict[str, tuple[Distribution, tuple[str, ...]]]:
    """Every installed package that `package` needs on this Python, itself included, and what each needs itself."""
    found: dict[str, tuple[Distribution, tuple[str, ...]]] = {}
    asked: set[tuple[str, str]] = set()
    waiting = [Requirement(package)]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        extras = {"", *wanted.extras}
        if all((name, extra) in asked for extra in extras):
            continue
        asked.update((name, extra) for extra in extras)
        installed = distribution(name)
        below = tuple(_required(installed, extras))
        names = tuple(sorted({*(found[name][1] if name in found else ()), *_installed(below)}))
        found[name] = (installed, names)
        waiting += [one for one in below if canonicalize_name(one.name) in names]
    return found


def _required(installed: Distribution, extras: Iterable[str]) -> Iterator[Requirement]:
    """What its metadata asks for here, with these extras."""
    for text in installed.requires or ():
        one = Requirement(text)
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras):
            yield one


def _installed(wanted: Iterable[Requirement]) -> Iterator[str]:
    for one in wanted:
        try:
            distribution(one.name)
        except PackageNotFoundError:
            continue  # a package of another platform, that its metadata did not mark as such
        yield canonicalize_name(one.name)


def _library(installed: Distribution) -> Component:
    name = canonicalize_name(installed.metadata["Name"])
    said = next(iter(installed.metadata.get_all("License-Expression") or ()), "")
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=installed.version,
        bom_ref=f"pypi:{name}@{installed.version}",
        purl=PackageURL("pypi", None, name, installed.version),
        licenses=[LicenseFactory().make_from_string(said)] if said else (),
    )


def _add_image(bom: Bom, root: Component, image: ImageParts) -> None:
    container = Component(
        type=ComponentType.CONTAINER,
        name=image.reference,
        version=image.digest,
        bom_ref=f"image:{image.id}",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=image.id.removeprefix("sha256:"))],
        properties=[Property(name="gdal-mcp:digest", value=image.digest)],
    )
    gdal = Component(
        type=ComponentType.LIBRARY,
        name="gdal",
        version=image.gdal_version,
        bom_ref=f"gdal@{image.gdal_version}",
        purl=PackageURL("github", "OSGeo", "gdal", f"v{image.gdal_version}"),
    )
    inside = [gdal, *(_system(image.system, one) for one in image.packages)]
    bom.components.update([container, *inside])
    bom.register_dependency(root, [container])
    bom.register_dependency(container, inside)


def _system(system: str, package: SystemPackage) -> Component:
    kind = "apk" if system == "alpine" else "deb"
    where = {"arch": package.architecture}
    return Component(
        type=ComponentType.LIBRARY,
        name=package.name,
        version=package.version,
        bom_ref=f"{kind}:{package.name}@{package.version}:{package.architecture}",
        purl=PackageURL(kind, system, package.name, package.version, where),
    )


def _text(bom: Bom) -> str:
    said: dict[str, Any] = json.loads(make_outputter(bom, OutputFormat.JSON, _SCHEMA).output_as_string())
    del said["serialNumber"], said["metadata"]["timestamp"]  # both are optional, and differ each time
    return json.dumps(said, indent=2, sort_keys=True)


def system_packages(listing: str) -> tuple[SystemPackage, ...]:
    """The installed packages of a status file of dpkg or of an installed file of apk; empty where it is neither."""
    rows = (_fields(block) for block in listing.split("\n\n"))
    found = {one for row in rows if (one := _system_package(row)) is not None}
    return tuple(sorted(found, key=lambda one: (one.name, one.version, one.architecture)))


def _fields(block: str) -> dict[str, str]:
    """The fields of one paragraph; lines that go on with the one before are left out."""
    pairs = (line.partition(":") for line in block.split("\n") if line and not line[0].isspace())
    return {name: value.strip() for name, _, value in pairs}


def _system_package(row: Mapping[str, str]) -> SystemPackage | None:
    if "Package" in row and row.get("Status", "").endswith(" installed"):
        names = ("Package", "Version", "Architecture")
    elif "P" in row and "V" in row:
        names = ("P", "V", "A")
    else:
        return None
    return SystemPackage(*(row.get(name, "") for name in names))
