"""Small files with known values, so that a test has something to call the server with."""

from importlib.resources import files
from pathlib import Path
from typing import Final

WIDTH, HEIGHT = 24, 16
PIXEL_METRES = 30.0
ORIGIN: Final = (500_000.0, 4_649_820.0)  # easting and northing of the upper left corner
NODATA = -999
EPSG = 32633  # WGS 84 / UTM zone 33N


def write_samples(folder: Path) -> None:
    """Writes `dem.tif` and `places.geojson` to an existing folder: the same bytes every time, under 3 kB together."""
    for sample in (files(__package__) / "data").iterdir():
        (folder / sample.name).write_bytes(sample.read_bytes())


def elevation(column: int, row: int) -> int:
    """The value of a pixel of `dem.tif`, in metres; the upper left one is nodata."""
    return NODATA if (column, row) == (0, 0) else 100 + 10 * row + column
