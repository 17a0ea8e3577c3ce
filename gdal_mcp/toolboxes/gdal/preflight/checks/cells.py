"""Likely mistakes with formats that store one raster of a fixed shape, place or CRS. Pure."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from gdal_mcp.toolboxes.gdal.preflight.call import AlgorithmCall, Finding, make_finding, same_crs
from gdal_mcp.toolboxes.gdal.preflight.estimate import estimate
from gdal_mcp.toolboxes.gdal.preflight.facts import DatasetFacts

# formats of cells of one degree, and the numbers of rows that their drivers write
_ROWS: Final = {"DTED": (121, 1201, 3601), "SRTMHGT": (1201, 3601, 7201)}
_WGS84: Final = frozenset({*_ROWS, "GTX"})  # formats that store no CRS and are always read as EPSG:4326
_USUAL_ROWS: Final = 1201
_EXAMPLE: Final = (8, 47)  # longitude and latitude of a cell for rasters that are not in degrees


def wgs84_only(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds rasters in another CRS than that of their new format."""
    raster = _written(call) if call.driver in _WGS84 else None
    if raster is not None and raster.crs and not same_crs(raster.crs, "EPSG:4326"):
        words = {"driver": call.driver, "crs": raster.crs}
        yield make_finding("read_as_wgs84", words, refuses=raster.degrees is False)


def degree_cells(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds rasters that are not the cell of one degree that their new format stores, or whose name is wrong."""
    raster = _written(call) if call.driver in _ROWS else None
    if raster is None:
        return
    corner = _corner(raster)
    if raster.degrees is False or (corner and not _is_cell(raster, corner, _ROWS[call.driver])):
        yield _no_cell(call.driver, corner if corner and raster.degrees else _EXAMPLE)
    elif corner and call.driver == "SRTMHGT" and call.output:
        name = f"{'NS'[corner[1] < 0]}{abs(corner[1]):02d}{'EW'[corner[0] < 0]}{abs(corner[0]):03d}.hgt"
        if call.output.rpartition("/")[2].lower() != name.lower():
            yield make_finding("other_tile_name", {"name": name}, refuses=True)


def _no_cell(driver: str, corner: tuple[int, int]) -> Finding:
    (west, south), half = corner, 0.5 / (_USUAL_ROWS - 1)
    box = (west - half, south - half, west + 1 + half, south + 1 + half)
    words = {"driver": driver, "rows": ", ".join(map(str, _ROWS[driver])), "size": _USUAL_ROWS}
    words["box"] = ",".join(f"{side:.14g}" for side in box)
    return make_finding("no_degree_cell", words, refuses=True)


def _written(call: AlgorithmCall) -> DatasetFacts | None:
    """The raster that the call writes, if its size and extent are certain, or if it is certainly not in degrees."""
    estimated = estimate(call)
    if estimated is None or estimated.output is None:
        return None
    certain = estimated.certain == 1 or estimated.output.degrees is False
    return estimated.output if certain else None


def _corner(raster: DatasetFacts) -> tuple[int, int] | None:
    """Longitude and latitude of the south-west corner of the cell in which a raster lies; None if unknown."""
    size = raster.pixel_size
    if raster.extent is None or size is None:
        return None
    west, south, _, _ = raster.extent
    # half a pixel inside: the outer pixels of a cell are centred on whole degrees
    return math.floor(west + size[0]), math.floor(south + size[1])


def _is_cell(raster: DatasetFacts, corner: tuple[int, int], rows: Sequence[int]) -> bool:
    """True if the outer pixels are within a pixel of whole degrees, one degree apart."""
    size, extent = raster.pixel_size, raster.extent
    if size is None or extent is None or raster.height not in rows:
        return False
    gaps = ((extent[side] - corner[side % 2] - side // 2, size[side % 2]) for side in range(4))
    return all(abs(gap) <= pixel for gap, pixel in gaps)


CHECKS: Final = (degree_cells, wgs84_only)
