"""What a call would write, hold and take. Pure.

Two sets of numbers: what is likely, within an order of magnitude, to be shown; and `Sure`, what the call cannot stay below
if it succeeds. Only the latter refuses anything, and it is zero wherever that is not certain: for compressed and sparse
files, for formats whose size depends on the content, for extents that only PROJ could convert.
"""

from dataclasses import dataclass, replace
from typing import Final

from gdal_mcp.gdal.environment import CACHE_SHARE
from gdal_mcp.gdal.preflight.facts import TYPE_BYTES, DatasetFacts
from gdal_mcp.gdal.preflight.grids import RULES, Grid
from gdal_mcp.gdal.preflight.request import Request
from gdal_mcp.gdal.preflight.table import Compression, Cost, Format, Table, table
from gdal_mcp.gdal.preflight.tiles import tiles

_NANO: Final = 1e-9
_MOST_BANDS: Final = (1 << 31) - 1  # GDAL counts them in a C int; a larger wish is refused by it, not here
_OVERVIEWS: Final = (2, 4, 8, 16, 32, 64, 128, 256)  # GDAL's own levels, until one fits into 256 pixels


@dataclass(frozen=True, slots=True)
class Sure:
    """The least that a call which succeeds writes and takes. Bytes, files, seconds."""

    bytes: int = 0
    files: int = 0
    memory_bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """The order of magnitude of a call. None means not known; `basis` names the rules that were used."""

    output_bytes: int | None
    output_files: int
    memory_bytes: int
    seconds: float
    basis: str
    sure: Sure = Sure()
    output: DatasetFacts | None = None  # the raster that would be made, as far as that can be said
    # part of its pixels that is certainly made; the `trust` of the request for a next step
    certain: float = 0.0

    @property
    def figures(self) -> dict[str, float | None]:
        """What a person or a model is told of it: bytes, files and seconds."""
        return {
            "output_bytes": self.output_bytes,
            "output_files": self.output_files,
            "memory_bytes": self.memory_bytes,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class _Work:
    """A request with its rows of the table."""

    request: Request
    table: Table
    cost: Cost

    @property
    def format(self) -> Format:
        return self.table.format.get(self.request.driver, Format())

    @property
    def compression(self) -> str:
        return self.request.option("COMPRESS") or self.format.compression or "NONE"

    @property
    def packing(self) -> Compression:
        return self.table.compression.get(self.compression, Compression())


def estimate(request: Request) -> Estimate | None:
    """What a call would cost; None where the table has no row for it or the sizes cannot be told."""
    known = table()
    cost = known.cost(request.path)
    if cost is None or (cost.grid and _changes(request)):
        return None
    work = _Work(request, known, cost)
    if cost.tiles:
        return _tiled(work)
    if cost.grid:
        grid = RULES[cost.grid](request)
        return _raster(work, replace(grid, sure=grid.sure * request.trust)) if grid else None
    return _read(work)


def _changes(request: Request) -> bool:
    """Whether an output that is there already is changed: how much it grows is not known."""
    return request.updates or any(request.flag(name) for name in ("update", "append"))


def _raster(work: _Work, grid: Grid) -> Estimate:
    """A call that makes one raster."""
    header = _made(work, grid)
    seconds = _pixel_seconds(work, header)
    likely = round(header.raw_bytes * work.packing.ratio * work.format.copies)
    if work.format.virtual:
        likely, seconds = min(likely, 1 << 16), 0.0
    return Estimate(
        output_bytes=likely,
        output_files=1,
        memory_bytes=_memory(work, header),
        seconds=round(work.table.general.start_seconds + seconds + _feature_seconds(work), 2),
        basis=f"{work.request.path}: size by the rule `{work.cost.grid}`",
        sure=_sure(work, grid, header),
        output=header,
        certain=grid.sure,
    )


def _sure(work: _Work, grid: Grid, header: DatasetFacts) -> Sure:
    if work.format.virtual:
        return Sure()
    sparse = work.request.option("SPARSE_OK") in ("YES", "TRUE", "ON", "1")
    written = work.format.exact and work.compression == "NONE" and not sparse
    # pixels of fewer bits than their type has
    bits = int(text) if (text := work.request.option("NBITS")).isdecimal() and len(text) < 3 else 64
    share = min(1.0, bits / (8 * TYPE_BYTES.get(header.data_type, 1)))
    held = max((one.raw_bytes // max(one.bands, 1) for one in work.request.inputs if one), default=0)
    return Sure(
        bytes=int(header.raw_bytes * grid.sure * share) if written else 0,
        files=1,
        memory_bytes=int(held * work.cost.held_input * work.request.trust),
        seconds=0.0 if sparse else _least_seconds(work, header.pixels * header.bands * grid.sure),
    )


def _least_seconds(work: _Work, values: float) -> float:
    """For so many values of the output, most of which may be empty."""
    return values * min(work.cost.pixel_ns, work.table.general.empty_ns) * _NANO / _doubt(work)


def _doubt(work: _Work) -> float:
    """What an estimate is divided by to be certain: other machines and data, and all processors at once."""
    return work.table.general.doubt * max(1.0, work.request.limits.cpus)


def _made(work: _Work, grid: Grid) -> DatasetFacts:
    """The raster that would be made."""
    request, source = work.request, work.request.input
    kind = request.text("output-data-type") or work.cost.type
    if kind == "input":
        kind = source.data_type if source and source.data_type else "Byte"
    return DatasetFacts(
        request.driver,
        "raster",
        width=grid.width,
        height=grid.height,
        bands=_bands(work),
        data_type=kind if kind in TYPE_BYTES else "Byte",
        crs=request.text("output-crs") or request.text("crs") or (source.crs if source else None),
        extent=grid.extent,
        compression=work.compression,
    )


def _bands(work: _Work) -> int:
    request = work.request
    counts = [one.bands for one in request.inputs if one and one.bands] or [1]
    if given := request.numbers("band-count", 1):
        return max(1, int(min(given[0], _MOST_BANDS)))
    match work.cost.bands:
        case "input":
            chosen = [part for text in request.arguments.get("band", ()) for part in text.split(",")]
            return max(1, len(chosen)) if chosen else counts[0]
        case "sum":
            return sum(counts)
        case "burn":
            return max(1, len(request.numbers("burn")))
        case "calc":
            return max(1, len(request.arguments.get("calc", ()))) * (
                1 if request.flag("flatten") else counts[0]
            )
        case count:
            return count


def _pixel_seconds(work: _Work, header: DatasetFacts) -> float:
    given = work.request.text("resampling") or work.cost.resampled
    factor = work.table.resampling.get(given, 1.0) if work.cost.resampled else 1.0
    computing = header.pixels * header.bands * work.cost.pixel_ns * factor
    return (computing + header.raw_bytes * work.packing.byte_ns * work.format.copies) * _NANO


def _feature_seconds(work: _Work) -> float:
    return sum(one.features or 0 for one in work.request.inputs if one) * work.cost.feature_ns * _NANO


def _memory(work: _Work, made: DatasetFacts | None) -> int:
    """GDAL itself, its block cache as far as there is data for it, and what the algorithm holds besides."""
    general, limits = work.table.general, work.request.limits
    data = sum(one.raw_bytes for one in work.request.inputs if one)
    held = 0
    if made is not None and not work.format.virtual:
        data += made.raw_bytes
        held = round(made.raw_bytes * work.cost.held)
    largest = max((one.raw_bytes // max(one.bands, 1) for one in work.request.inputs if one), default=0)
    held += largest * work.cost.held_input
    held += min(general.warp_bytes, 2 * data) if work.cost.warps else 0
    return general.base_bytes + min(limits.memory_bytes // CACHE_SHARE, data) + held


def _tiled(work: _Work) -> Estimate | None:
    made = tiles(work.request)
    if made is None:
        return None
    if work.request.trust < 1:
        made = replace(made, sure=0)
    general, request = work.table.general, work.request
    share = (made.side / 256) ** 2  # the table is about tiles of 256 pixels
    each = general.tile_ns * _NANO * share
    return (
        Estimate(
            output_bytes=round(made.count * general.tile_bytes * share),
            output_files=made.count,
            memory_bytes=_memory(work, None) + general.warp_bytes,
            seconds=round(general.start_seconds + made.count * each, 2),
            basis="raster tile: number of tiles by zoom level over the extent",
            sure=Sure(files=made.sure, seconds=made.sure * each / _doubt(work)),
        )
        if request.input
        else None
    )


def _read(work: _Work) -> Estimate | None:
    """A call that goes through its input: what it writes, if anything, depends on the content."""
    request, cost = work.request, work.cost
    known = [one for one in request.inputs if one is not None]
    if not known or len(known) != len(request.inputs):
        return None
    pixels = sum(one.pixels * one.bands for one in known)
    idle = bool(cost.needs) and not any(request.flag(name) for name in cost.needs)
    seconds = 0.0 if idle else pixels * cost.input_ns * _NANO
    features = _feature_seconds(work)
    return Estimate(
        output_bytes=_content_bytes(work, known),
        output_files=1 if request.driver else 0,
        memory_bytes=_memory(work, None),
        seconds=round(work.table.general.start_seconds + seconds + features, 2),
        basis=f"{request.path}: by the size of the input",
        sure=Sure(seconds=_least_read(work, known)),
    )


def _least_read(work: _Work, inputs: list[DatasetFacts]) -> float:
    """Seconds that reading takes at least, where every pixel of a band is looked at and nothing is known beforehand."""
    pixels = inputs[0].pixels * work.request.trust if work.cost.whole else 0
    return pixels * work.cost.input_ns * _NANO / _doubt(work)


def _content_bytes(work: _Work, inputs: list[DatasetFacts]) -> int | None:
    """Bytes of an output that follows its input; None where the content decides."""
    request, first = work.request, inputs[0]
    if work.cost.overviews:
        return round(first.disk_bytes * (1 + sum(1 / level / level for level in _levels(request))))
    if work.cost.pixel_bytes:
        return first.pixels * work.cost.pixel_bytes
    if not request.driver:
        return 0
    if first.kind != "vector":
        return None
    before = work.table.format.get(first.driver, Format()).growth
    return round(sum(one.disk_bytes for one in inputs) * work.format.growth / before)


def _levels(request: Request) -> set[float]:
    given = {one for one in request.numbers("levels") if one > 1}
    return given or set(_OVERVIEWS)
