"""`gdal-mcp sbom`: the list of what is installed and of what is in the image, for people and their scanners."""

from typing import TYPE_CHECKING, Final

from gdal_mcp.commands.exits import Exit
from gdal_mcp.commands.streams import out, say
from gdal_mcp.settings import Settings

if TYPE_CHECKING:
    from gdal_mcp.commands.cyclonedx import ImageParts

# Prints the system's name and its own list of packages. What an image holds besides comes with GDAL.
_PROGRAM: Final = """
import pathlib, platform
print(platform.freedesktop_os_release().get("ID", "linux"))
for place in ("/var/lib/dpkg/status", "/lib/apk/db/installed"):
    if pathlib.Path(place).exists():
        print(pathlib.Path(place).read_text(errors="replace"))
"""


def show(settings: Settings, *, with_image: bool) -> Exit:
    """Prints the document. Raises SandboxError where the engine or the image is not there."""
    try:
        from gdal_mcp.commands.cyclonedx import document  # noqa: PLC0415 - needs an extra
    except ModuleNotFoundError as error:
        say(
            f"{error.name} is not installed, which writes the document. Run: pip install 'gdal-sandbox-mcp[sbom]'"
        )
        return Exit.FAILED
    out(document(_image(settings) if with_image else None))
    return Exit.DONE


def _image(settings: Settings) -> "ImageParts":
    """The image in use, and what a container of it says of its packages."""
    from gdal_mcp.commands.cyclonedx import ImageParts, system_packages  # noqa: PLC0415
    from gdal_mcp.gdal.catalogue.capture import output_of  # noqa: PLC0415
    from gdal_mcp.host.image import resolve  # noqa: PLC0415
    from sandbox.engines.opening import open_engine  # noqa: PLC0415

    engine = open_engine(settings.engine)
    image = resolve(engine.images, settings.image)
    said = output_of(engine, image.id, _PROGRAM, "").decode(errors="replace")
    system, _, listing = said.partition("\n")
    return ImageParts(
        image.reference, image.id, image.digest, image.gdal_version, system, system_packages(listing)
    )
