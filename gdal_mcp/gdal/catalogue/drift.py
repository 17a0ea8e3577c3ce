"""Whether a catalogue fits a GDAL, and how much of it another GDAL says otherwise. Pure."""

from difflib import unified_diff
from typing import Final

from gdal_mcp.gdal.catalogue.model import Catalogue

_COMMANDS: Final = '"algorithms":[\n'
_DRIVERS: Final = '"drivers":[\n'


def differences(older: str, newer: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What two texts that `capture` wrote say differently: the lines of commands, then those of drivers and options.

    Commands are what the server builds command lines from. Drivers and options differ between builds of one version.
    """
    commands, drivers = zip(_halves(older), _halves(newer), strict=True)
    return _changed(*commands), _changed(*drivers)


def _halves(text: str) -> tuple[list[str], list[str]]:
    commands, _, drivers = text.partition(_COMMANDS)[2].partition(_DRIVERS)
    return [one.rstrip(",") for one in commands.splitlines()], [
        one.rstrip(",") for one in drivers.splitlines()
    ]


def _changed(older: list[str], newer: list[str]) -> tuple[str, ...]:
    changes = list(unified_diff(older, newer, n=0, lineterm=""))[2:]  # without the names of two files
    return tuple(one for one in changes if not one.startswith("@@"))


def unfit(catalogue: Catalogue, gdal_version: str) -> str | None:
    """Why no call may run on a GDAL of this version with this catalogue, and what to do; None when it fits.

    A catalogue fits every GDAL of its minor release.
    """
    if tuple(gdal_version.split(".")[:2]) == tuple(catalogue.gdal_version.split(".")[:2]):
        return None
    return (
        f"the image has GDAL {gdal_version}, but the catalogue in use describes GDAL {catalogue.gdal_version}: arguments may mean "
        "something else there. Run `gdal-mcp setup` with the same image and start the server again, or use an image with GDAL "
        f"{catalogue.release[0]}.{catalogue.release[1]}."
    )
