"""Estimates what a call would write, and finds the limit that it is certain to break. Pure.

There are two sets of numbers: the likely size of the output, for display, correct within an order of magnitude; and
`LowerBounds`, for a call that succeeds. Only the lower bounds can refuse a call. They are zero wherever
nothing is certain: for compressed and sparse files, for formats whose size depends on the content, for unknown
extents. Times and memory have no likely value, because they vary with the machine and the data by about a factor of
ten.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, Literal

from gdal_mcp.toolboxes.gdal import data_of
from gdal_mcp.toolboxes.gdal.preflight.algorithms import ONE_BAND, SAME_BANDS
from gdal_mcp.toolboxes.gdal.preflight.call import AlgorithmCall
from gdal_mcp.toolboxes.gdal.preflight.facts import TYPE_BYTES, DatasetFacts
from gdal_mcp.toolboxes.gdal.preflight.sizes import Size, output_size
from sandbox.template import Limits

_NANO: Final = 1e-9
_MAX_BANDS: Final = (1 << 31) - 1  # GDAL counts bands in a C int, and refuses larger numbers itself
# LZW output bytes per byte of random data, the worst case; other methods need fewer
_INCOMPRESSIBLE: Final = 1.4
_OVERVIEWS: Final = 4 / 3  # size of a raster with all overview levels, relative to the raster
_WORLD: Final = 2 * math.pi * 6378137.0  # metres; side of the Web Mercator square
_DEEPEST: Final = 30  # zoom level
_GRID_SIDE: Final = 256  # pixels; default of `vector grid`
# formats that store any number of bands; "" is memory
_KEEP_BANDS: Final = frozenset({"", "GTiff", "VRT", "MEM"})
_ADD_OR_DROP_BANDS: Final = frozenset({"add-alpha", "exclude", "mask", "band-count"})
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


@dataclass(frozen=True, slots=True)
class Cost:
    """The row of an algorithm in `cost.toml`, which documents the keys."""

    size: Literal["", "input", "all", "grid"] = ""
    type: str = "input"
    bands: int | Literal["input", "sum", "burn", "calc"] = "input"
    pixel_ns: float = 10.0
    whole_ns: float = 0.0
    held_input: int = 0


@dataclass(frozen=True, slots=True)
class CostTable:
    """The content of `cost.toml`."""

    general: Mapping[str, float]
    compression: Mapping[str, float]
    format: Mapping[str, Mapping[str, Any]]
    algorithm: Mapping[str, Cost]

    def cost(self, path: str) -> Cost | None:
        """The row of an algorithm, else of its group; None if there is neither."""
        words = path.split()
        names = (" ".join(words[:count]) for count in range(len(words), 0, -1))
        return next((self.algorithm[name] for name in names if name in self.algorithm), None)


@cache
def table() -> CostTable:
    data = data_of("gdal_mcp.toolboxes.gdal.preflight", "cost.toml")
    return CostTable(**{**data, "algorithm": {name: Cost(**row) for name, row in data["algorithm"].items()}})


@dataclass(frozen=True, slots=True)
class LowerBounds:
    """Lower bounds of what a successful call writes and uses, in bytes, files and seconds."""

    bytes: int = 0
    files: int = 0
    memory_bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """The order of magnitude of a call. None means unknown; `basis` names the rule that was used."""

    output_bytes: int | None
    output_files: int
    basis: str
    least: LowerBounds = field(default_factory=LowerBounds)
    output: DatasetFacts | None = None  # the predicted raster
    # share of its pixels that is certainly made; `AlgorithmCall.certain` of the next step
    certain: float = 0.0
    # upper bounds in bytes if nothing compresses: of the largest file, and of the output folder with temporary files; 0
    # if they are not estimated
    most_file_bytes: int = 0
    most_bytes: int = 0

    @property
    def figures(self) -> dict[str, int | None]:
        """The estimated number of bytes and files, for the answer."""
        return {"output_bytes": self.output_bytes, "output_files": self.output_files}


def estimate(call: AlgorithmCall) -> Estimate | None:
    """The estimate for a call; None if the table has no row for it or the sizes are unknown."""
    if call.path == "raster tile":
        return _tiles(call)
    cost = table().cost(call.path)
    if cost is None:
        return None
    if not cost.size:
        return _content(call, cost)
    if call.updates or call.flag("update") or call.flag("append"):
        return None  # it is unknown how much an existing output grows
    size = output_size(call, joins=cost.size == "all")
    if size is None and cost.size == "grid":
        size = Size(_GRID_SIDE, _GRID_SIDE)
    return _raster(call, cost, replace(size, certain=size.certain * call.certain)) if size else None


def output_raster(call: AlgorithmCall) -> DatasetFacts | None:
    """The raster that a call would make; None if it cannot be predicted."""
    estimated = estimate(call)
    return estimated.output if estimated else None


def _raster(call: AlgorithmCall, cost: Cost, size: Size) -> Estimate:
    """The estimate for a call that makes one raster."""
    form, output = table().format.get(call.driver, {}), _output(call, cost, size)
    copies = form.get("copies", 1.0)
    likely_bytes = round(output.raw_bytes * table().compression.get(output.compression, 0.5) * copies)
    virtual, sparse = bool(form.get("virtual")), call.switched_on("SPARSE_OK")
    least, largest = LowerBounds(), 0.0
    if not virtual:
        largest = output.raw_bytes * copies * (1.0 if output.compression == "NONE" else _INCOMPRESSIBLE)
        uncompressed = form.get("exact") and output.compression == "NONE"
        # NBITS stores fewer bits than the type has
        exact = uncompressed and not sparse and not call.option("NBITS")
        nanos = output.pixels * output.bands * size.certain * cost.pixel_ns
        bands = [dataset.raw_bytes // max(dataset.bands, 1) for dataset in call.inputs if dataset]
        least = LowerBounds(
            bytes=int(output.raw_bytes * size.certain) if exact else 0,
            files=1,
            memory_bytes=int(max(bands, default=0) * cost.held_input * call.certain),
            seconds=0.0 if sparse else _certain_seconds(call, nanos),
        )
    return Estimate(
        output_bytes=min(likely_bytes, 1 << 16) if virtual else likely_bytes,
        output_files=1,
        basis=f"{call.path}: by its arguments and the size of the input",
        least=least,
        output=output,
        certain=size.certain,
        most_file_bytes=int(largest),
        most_bytes=int(max(largest, output.raw_bytes * form.get("peak", 0.0))) if largest else 0,
    )


def _output(call: AlgorithmCall, cost: Cost, size: Size) -> DatasetFacts:
    """The raster that the call would make."""
    source, form = call.input, table().format.get(call.driver, {})
    unchanged = source.data_type if source else ""
    kind = call.text("output-data-type") or (unchanged if cost.type == "input" else cost.type)
    if (types := form.get("types")) and kind not in types:
        kind = types[0]  # the driver of the format also stores the first of its types then
    return DatasetFacts(
        call.driver,
        "raster",
        width=size.width,
        height=size.height,
        bands=_bands(call, cost),
        bands_estimated=not _bands_are_known(call),
        data_type=kind if kind in TYPE_BYTES else "",
        crs=call.text("output-crs") or call.text("crs") or (source.crs if source else None),
        degrees=call.target_degrees,
        extent=size.extent,
        crs_extents=source.crs_extents if source and size.extent == source.extent else {},
        compression=call.option("COMPRESS") or form.get("compression") or "NONE",
    )


def _bands(call: AlgorithmCall, cost: Cost) -> int:
    counts = [dataset.bands for dataset in call.inputs if dataset and dataset.bands] or [1]
    if numbers := call.numbers("band-count", 1):
        return max(1, int(min(numbers[0], _MAX_BANDS)))
    match "sum" if call.flag("separate") else cost.bands:
        case "input":
            return len(call.texts("band")) or counts[0]
        case "sum":
            return sum(counts)
        case "burn":
            return max(1, len(call.numbers("burn")))
        case "calc":
            return max(1, len(call.arguments.get("calc", ()))) * (1 if call.flag("flatten") else counts[0])
        case count:
            return count


def _bands_are_known(call: AlgorithmCall) -> bool:
    """True if the number of bands follows from the arguments and the inputs."""
    if call.driver not in _KEEP_BANDS or any(call.arguments.get(name) for name in _ADD_OR_DROP_BANDS):
        return False
    if call.path in ONE_BAND | {"raster color-map"}:
        return True
    inputs = [
        None if dataset is None or dataset.bands_estimated else dataset.bands for dataset in call.inputs
    ]
    if call.path == "raster calc":  # a formula may refer to single bands
        return bool(inputs) and all(count == 1 for count in inputs)
    return call.path in SAME_BANDS and bool(inputs) and None not in inputs


def _content(call: AlgorithmCall, cost: Cost) -> Estimate | None:
    """The estimate for a call that reads its whole input. The size of its output, if any, depends on the content."""
    known = [dataset for dataset in call.inputs if dataset is not None]
    if not known or len(known) != len(call.inputs):
        return None
    first, written, form = known[0], None, table().format
    if call.path == "raster overview add":
        written = round(first.disk_bytes * _OVERVIEWS)
    elif not call.driver:
        written = 0
    elif first.kind == "vector":
        before, after = (form.get(driver, {}).get("growth", 1.5) for driver in (first.driver, call.driver))
        written = int(sum(dataset.disk_bytes for dataset in known) * after / before)
    return Estimate(
        output_bytes=written,
        output_files=1 if call.driver else 0,
        basis=f"{call.path}: by the size of the input",
        least=LowerBounds(seconds=_certain_seconds(call, first.pixels * call.certain * cost.whole_ns)),
    )


def _tiles(call: AlgorithmCall) -> Estimate | None:
    """The estimate for `raster tile`.

    GDAL makes every tile that touches the box of the data, including blank ones unless an argument excludes them.
    """
    facts, general = call.input, table().general
    box = facts.extent_in("EPSG:3857") if facts and facts.pixels else None
    if facts is None or box is None or call.text("tiling-scheme") not in ("", "WebMercatorQuad"):
        return None
    side = int((call.numbers("tile-size", 1) or (256,))[0])
    times = _WORLD / max(side, 1) * facts.width / (box[2] - box[0]) if box[2] > box[0] else 0.0
    # zoom level whose pixel size is nearest to that of the data
    fitting = round(math.log2(times)) if 0 < times < math.inf else 0
    deepest = int((call.numbers("max-zoom", 1) or (fitting,))[0])
    # without min-zoom GDAL makes only the deepest level
    first = int((call.numbers("min-zoom", 1) or (deepest,))[0])
    count = 0
    for level in range(max(first, 0), min(max(deepest, 0), _DEEPEST) + 1):
        tiles, each = 1 << level, _WORLD / (1 << level)
        indices = [
            min(max(math.floor((min(max(x, -_WORLD), _WORLD) + _WORLD / 2) / each), 0), tiles - 1)
            for x in box
        ]
        count += (indices[2] - indices[0] + 1) * (indices[3] - indices[1] + 1)
    narrowing = ("min-x", "max-x", "min-y", "max-y", "skip-blank", "resume")
    partial = any(call.arguments.get(name) for name in narrowing)
    # a level chosen by GDAL may be the next lower one, with a quarter of the tiles
    certain = 0 if partial or call.certain < 1 else count // (2 if "max-zoom" in call.arguments else 8)
    share = (side / 256) ** 2
    return Estimate(
        output_bytes=round(count * general["tile_bytes"] * share),
        output_files=count,
        basis="raster tile: number of tiles by zoom level over the extent",
        least=LowerBounds(
            files=certain, seconds=_certain_seconds(call, certain * general["tile_ns"] * share)
        ),
    )


def _certain_seconds(call: AlgorithmCall, nanos: float) -> float:
    """The lower bound of an estimated time in seconds: for faster machines and easier data, with all CPUs in use."""
    return nanos * _NANO / table().general["doubt"] / max(1.0, call.limits.cpus)


@dataclass(frozen=True, slots=True)
class LimitViolation:
    """A limit, and the least number of bytes, files or seconds that the call needs."""

    what: Literal["output bytes", "bytes of one file", "files", "memory bytes", "seconds"]
    number: float
    limit: float
    setting: str  # the option of `gdal-mcp serve`

    @property
    def message(self) -> str:
        least, most = (
            size_text(number) if "bytes" in self.what else f"{number:,.0f}"
            for number in (self.number, self.limit)
        )
        return f"the call would need at least {least} ({self.what}), by a cautious estimate; the limit is {most}."

    @property
    def suggestion(self) -> str:
        return (
            "Ask for less: a coarser resolution, a smaller size or extent, fewer zoom levels. The person who runs the "
            f"server can raise the limit with {self.setting}."
        )


def size_text(number: float) -> str:
    power = min(int(math.log2(max(number, 1)) // 10), len(_UNITS) - 1)
    return f"{number / 1024**power:.{1 if power else 0}f} {_UNITS[power]}"


def violation(estimate: Estimate, limits: Limits) -> LimitViolation | None:
    """The first limit that a call is certain to break; None if it may stay within all limits."""
    least = estimate.least
    candidates = (
        LimitViolation("files", least.files, limits.staging_files, "--staging-files"),
        LimitViolation("bytes of one file", least.bytes, limits.file_bytes, "--file-size"),
        LimitViolation("output bytes", least.bytes, limits.staging_bytes, "--staging-size"),
        LimitViolation("memory bytes", least.memory_bytes, limits.memory_bytes, "--memory"),
        LimitViolation("seconds", least.seconds, limits.wall_seconds, "--timeout-seconds"),
    )
    return next((candidate for candidate in candidates if candidate.number > candidate.limit), None)


def uncertain_space(estimate: Estimate, limits: Limits) -> tuple[int, int, str] | None:
    """The bytes that a call may need, the limit that they exceed, and the setting of that limit.

    None if the call stays within its limits even if nothing compresses.
    """
    candidates = (
        (estimate.most_file_bytes, limits.file_bytes, "--file-size"),
        (estimate.most_bytes, limits.staging_bytes, "--staging-size"),
    )
    return next((candidate for candidate in candidates if candidate[0] > candidate[1]), None)
